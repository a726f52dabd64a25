"""`sluiceway watch`: the selections of a topic as they change."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import Json, KafkaSettings, kafka_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console, RenderableType

    from sluiceway.cli.screen import View
    from sluiceway.schemas.records import Snapshot
    from sluiceway.topics.kafka import Config


def watch(
    url: Annotated[str, typer.Argument(help="A selections topic, kafka://host:9092/name or dir:path.", metavar="URL")],
    flow: Annotated[str | None, typer.Option(help="Only this flow's.", metavar="NAME")] = None,
    stream: Annotated[str | None, typer.Option(help="Only this stream's.", metavar="NAME")] = None,
    start: Annotated[
        str,
        typer.Option(
            help="Where to begin: current (the newest of every stream), beginning, end, an offset N, -N for the last N"
            " records of each partition, s@MILLISECONDS or an ISO-8601 time.",
            metavar="POSITION",
        ),
    ] = "current",
    once: Annotated[bool, typer.Option("--once", help="Show the newest of every stream and leave.")] = False,
    as_json: Json = False,
    kafka: KafkaSettings = None,
) -> None:
    """Show which features are selected now, and follow the changes: + has entered, - has left.

    Where the output is no terminal, a line for each snapshot; with --json the
    snapshot itself. Ctrl-C ends it.

    \b
    sluiceway watch kafka://localhost:9092/selections --flow spam
    sluiceway watch dir:sluiceway-demo/selections --start beginning
    sluiceway watch kafka://localhost:9092/selections --once --json
    """
    from sluiceway.cli.screen import Drawing, console, may_draw
    from sluiceway.client import CURRENT, latest, subscribe
    from sluiceway.errors import SettingsError

    settings = kafka_settings(kafka)
    if once and start != CURRENT:
        raise SettingsError(f"--once shows what is current: it does not go with --start {start}")
    screen = console()
    if once:
        found = latest(url, flow, stream, kafka=settings)
        if not found and (flow is not None or stream is not None):
            _refuse_absent(latest(url, kafka=settings), flow, stream)
        _show_once(screen, [found[name] for name in sorted(found)], as_json=as_json)
        return
    if flow is not None or stream is not None:
        _tell_absent(url, flow, stream, settings)
    with suppress(KeyboardInterrupt), subscribe(url, flow, stream, start, kafka=settings) as snapshots:
        if as_json:
            for snapshot in snapshots:
                print_json(snapshot)
            return
        streams = _Streams(screen, url)
        if not may_draw(screen):
            for snapshot in snapshots:
                streams.take(snapshot)
                screen.print(streams.line(snapshot), soft_wrap=True)
            return
        with Drawing(get_renderable=streams.draw, console=screen, refresh_per_second=4):
            for snapshot in snapshots:
                streams.take(snapshot)


def print_json(snapshot: Snapshot) -> None:
    """A line for programs, at once."""
    sys.stdout.write(snapshot.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
    sys.stdout.flush()


def _show_once(screen: Console, found: list[Snapshot], *, as_json: bool) -> None:
    from sluiceway.cli.screen import View, detail, overview

    if as_json:
        for snapshot in found:
            print_json(snapshot)
    elif not found:
        screen.print("There is no snapshot in it.")
    elif len(found) == 1:
        screen.print(detail(View(found[0])))
    else:
        screen.print(overview([View(snapshot) for snapshot in found]))


def _refuse_absent(known: Mapping[tuple[str, str], Snapshot], flow: str | None, stream: str | None) -> None:
    from sluiceway.errors import SettingsError

    raise SettingsError(_absent(known, flow, stream))


def _tell_absent(url: str, flow: str | None, stream: str | None, settings: Config) -> None:
    """It may come yet, so it is waited for; a name that is misspelt never does."""
    from sluiceway.cli.log import say
    from sluiceway.client import latest
    from sluiceway.errors import SluicewayError

    try:
        if not latest(url, flow, stream, kafka=settings):
            say(f"{_absent(latest(url, kafka=settings), flow, stream)}; waiting for one (Ctrl-C ends it)")
    except SluicewayError:  # following says so itself, if it cannot go on either
        return


def _absent(known: Mapping[tuple[str, str], Snapshot], flow: str | None, stream: str | None) -> str:
    """Nothing is selected by the flow or in the stream that was asked for."""
    from difflib import get_close_matches

    wanted = " ".join([*([f"flow {flow!r}"] if flow else []), *([f"stream {stream!r}"] if stream else [])])
    names = sorted({name[1] if stream else name[0] for name in known})
    near = get_close_matches(stream or flow or "", names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:5]) or 'none at all'}"
    return f"there is no snapshot of {wanted}; {hint}"


class _Streams:
    """The newest of each stream, drawn as one table or, of many streams, as a row each."""

    def __init__(self, screen: Console, url: str) -> None:
        self._screen = screen
        self._url = url
        self._views: dict[tuple[str, str], View] = {}

    def take(self, snapshot: Snapshot) -> None:
        from sluiceway.cli.screen import View

        name = (snapshot.flow, snapshot.stream)
        known = self._views.get(name)
        self._views[name] = View(snapshot) if known is None else known.next(snapshot)

    def line(self, snapshot: Snapshot) -> str:
        from sluiceway.cli.screen import line

        return line(self._views[snapshot.flow, snapshot.stream])

    def draw(self) -> RenderableType:
        from sluiceway.cli.screen import detail, overview

        views = self._views.copy()
        if not views:
            return f"waiting for a snapshot in {self._url} (Ctrl-C ends it)"
        if len(views) == 1:
            [view] = views.values()
            return detail(view, rows=max(self._screen.height - 8, 3))
        return overview([views[name] for name in sorted(views)], rows=max(self._screen.height - 5, 3))

"""`sluiceway demo`: a stream whose truth is known, a flow that finds it out, no broker."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from threading import Event

    from rich.console import Console, RenderableType

    from sluiceway.cli.screen import View
    from sluiceway.demo import DemoStream
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.settings import Settings
    from sluiceway.schemas.records import Snapshot

MARK = ".sluiceway-demo"
"""A directory that holds this file is the demo's own, to be emptied at the next."""
FEWEST, MOST = 2_000, 10_000_000


def demo(
    directory: Annotated[
        Path, typer.Option(help="Where everything goes; emptied first if a demo made it.", metavar="DIR")
    ] = Path("sluiceway-demo"),
    seed: Annotated[int, typer.Option(help="Another seed, another stream.", metavar="N", min=0)] = 7,
    instances: Annotated[
        int, typer.Option(help="How many mails; the words that matter drift half-way.", metavar="N")
    ] = 100_000,
    records: Annotated[
        bool,
        typer.Option("--records", help="Only print the mails as JSON lines, for `produce`; 0 instances = no end."),
    ] = False,
    streams: Annotated[
        int, typer.Option(help="With --records: of so many mailboxes in turn, each a stream.", metavar="N", min=1)
    ] = 1,
) -> None:
    """See features being selected, without a broker.

    Makes a stream of mails in which ten of 200 words tell spam from ham, and
    which ten drifts half-way; runs the flow on it; says what it found. With
    --records the same stream feeds a broker.

    \b
    sluiceway demo
    sluiceway demo --seed 3 --directory /tmp/demo
    sluiceway demo --records | sluiceway produce - kafka://localhost:9092/mails
    """
    from sluiceway.demo import DemoStream
    from sluiceway.errors import SettingsError

    endless = records and instances == 0
    if not endless and not FEWEST <= instances <= MOST:
        raise SettingsError(f"--instances must lie between {FEWEST:,} and {MOST:,}, not {instances:,}")
    if streams > 1 and not records:
        raise SettingsError("--streams goes with --records: the demo itself shows one stream")
    stream = DemoStream(seed) if endless else DemoStream(seed, drift_every=instances // 2)
    if records:
        _print_records(stream, None if endless else instances, streams)
    else:
        _Demo(directory, stream, instances).run()


def _print_records(stream: DemoStream, number: int | None, streams: int) -> None:
    import orjson

    out = sys.stdout.buffer
    for at, record in enumerate(stream.records(number)):
        if streams > 1:
            record["stream"] = f"{record['stream']}-{at % streams + 1}"
        out.write(orjson.dumps(record) + b"\n")
    out.flush()


class _Demo:
    def __init__(self, directory: Path, stream: DemoStream, instances: int) -> None:
        from sluiceway.cli.screen import console

        self._directory = directory
        self._stream = stream
        self._instances = instances
        self._flow = directory / "demo.toml"
        self._screen = console()

    def run(self) -> None:
        from sluiceway.flows.progress import Progress
        from sluiceway.flows.run import Outcome
        from sluiceway.flows.run import run as run_flow
        from sluiceway.flows.settings import Settings

        self._prepare()
        settings = Settings.load(self._flow)
        self._say(
            f"{self._instances:,} mails of 200 words; ten words tell spam from ham, and at mail"
            f" {self._stream.drift_every:,} five of the ten are replaced. The flow is not told which."
        )
        self._write(settings)
        progress = Progress()
        following = _Following(settings, self._stream, progress, self._screen)
        with following:
            outcome = run_flow(
                settings,
                checkpoint_seconds=0.5,
                on_compile=lambda long: self._say(f"Compiling the operator, once for this installation ({long}) ..."),
                on_start=lambda around: following.begin(),
                progress=progress,
            )
        if outcome is Outcome.STOPPED:
            self._say("Stopped, everything committed. Go on:")
            self._show(_command("run", self._flow))
            return
        self._say(f"Learnt from {progress.records:,} mails in {progress.seconds:.1f} s.")
        self._sum_up(following.snapshots)

    def _say(self, text: str) -> None:
        self._screen.print(text)

    def _show(self, command: str) -> None:
        """In one piece, however narrow the screen, so that it can be copied."""
        self._screen.print(f"  {command}", soft_wrap=True, markup=False, highlight=False)

    def _prepare(self) -> None:
        """An empty directory with the flow's file in it."""
        import shutil

        from sluiceway import flows
        from sluiceway.errors import SettingsError

        try:
            if self._directory.exists() and any(self._directory.iterdir()):
                if not (self._directory / MARK).exists():
                    raise SettingsError(f"{self._directory} is not empty and no demo's; name another with --directory")
                shutil.rmtree(self._directory)
            self._directory.mkdir(parents=True, exist_ok=True)
            (self._directory / MARK).touch()
            shutil.copyfile(Path(flows.__file__).parent / "examples" / "demo.toml", self._flow)
        except OSError as problem:
            raise SettingsError(f"{self._directory} cannot be used: {problem.strerror}") from None

    def _write(self, settings: Settings) -> None:
        import orjson
        from rich.progress import track

        from sluiceway.cli.screen import may_draw
        from sluiceway.topics.append import DirectoryAppender
        from sluiceway.topics.directory import create_directory_topic
        from sluiceway.topics.url import DirectoryTopic

        topic = settings.source
        assert isinstance(topic, DirectoryTopic)
        create_directory_topic(topic, 1)
        with DirectoryAppender(topic, 1) as writer:
            for record in track(
                self._stream.records(self._instances),
                description="Writing them",
                total=self._instances,
                console=self._screen,
                disable=not may_draw(self._screen),
                transient=True,
            ):
                writer.append(0, [orjson.dumps(record)])

    def _sum_up(self, snapshots: list[Snapshot]) -> None:
        from rich.table import Table

        from sluiceway.cli.screen import percent

        drift = self._stream.drift_every
        first, second = self._stream.relevant(0), self._stream.relevant(drift)
        before = [snapshot for snapshot in snapshots if snapshot.version <= drift]
        after = [snapshot for snapshot in snapshots if snapshot.version > drift]
        if not before or not after:
            self._say("Too few snapshots to tell how it followed the drift; try more --instances.")
        else:
            table = Table.grid(padding=(0, 2))
            table.add_column(no_wrap=True, style="bold")
            table.add_column(ratio=1)
            table.add_row("before the drift", _found(before, first, 0))
            gone, come = (" ".join(sorted(set(a) - set(b))) for a, b in ((first, second), (second, first)))
            table.add_row(f"drift at {drift:,}", f"no longer telling: {gone}\nnow telling: {come}")
            table.add_row("after the drift", _found(after, second, drift))
            calm, shaken, settled = map(percent, _errors(before, after))
            table.add_row("predictions", f"wrong {calm} before the drift, {shaken} right after it, {settled} now")
            self._screen.print()
            self._screen.print(table)
        where = self._directory
        self._screen.print()
        self._screen.print("Look at what it left, and go on from there:", style="bold")
        for command in (
            _command("watch", f"dir:{where}/selections", "--once"),
            _command("inspect", self._flow),
            _command("inspect", f"dir:{where}/selections"),
            _command("run", self._flow, "--again"),
            _command("operators", "ofs"),
        ):
            self._show(command)
        self._screen.print(f"The {len(snapshots)} snapshots are the lines of {where}/selections/part-00000.jsonl")


def _command(*arguments: str | Path) -> str:
    """To be typed as it stands: the program as this one was called, and words with blanks in quotes."""
    import shlex
    import shutil

    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        program = [sys.executable, "-m", "sluiceway"]
    elif (found := shutil.which("sluiceway")) is not None and Path(found).samefile(called):
        program = ["sluiceway"]
    else:
        program = [called]
    return shlex.join([*program, *map(str, arguments)])


def _found(snapshots: list[Snapshot], relevant: tuple[str, ...], since: int) -> str:
    """How many of the relevant features the last of these snapshots has, and when all of them were first there."""

    def hits(snapshot: Snapshot) -> int:
        return len({entry.feature for entry in snapshot.selected} & set(relevant))

    text = f"{hits(snapshots[-1])} of {len(relevant)} telling words selected"
    whole = next((snapshot.version for snapshot in snapshots if hits(snapshot) == len(relevant)), None)
    if whole is not None:
        text += f", all by mail {whole:,}"
        text += f": {whole - since:,} mails after the drift" if since else ""
    return text


def _errors(before: list[Snapshot], after: list[Snapshot]) -> list[float | None]:
    """The share of wrong predictions just before the drift, just after it, and at the end."""
    from sluiceway.cli.screen import View

    whole = before + after
    shares = [View(now, earlier).error_lately for earlier, now in pairwise(whole)]
    # shares[i] lies between the snapshots i and i + 1
    drift = len(before) - 1
    return [shares[drift - 1] if drift else None, shares[drift], shares[-1]]


class _Following:
    """Shows the flow's own output as it appears: a live table on a terminal, else a line now and then."""

    def __init__(self, settings: Settings, stream: DemoStream, progress: Progress, screen: Console) -> None:
        from contextlib import ExitStack

        from sluiceway.cli.progress import ProgressView

        self.snapshots: list[Snapshot] = []
        self._settings = settings
        self._stream = stream
        self._screen = screen
        self._bar = ProgressView(progress, in_bytes=True)
        self._view: View | None = None
        self._position = 0
        self._display = ExitStack()

    def __enter__(self) -> None: ...

    def begin(self) -> None:
        """The flow starts now."""
        from sluiceway.cli.screen import Drawing, may_draw

        if may_draw(self._screen):
            live = Drawing(get_renderable=self._draw, console=self._screen, refresh_per_second=5, transient=False)
            self._display.enter_context(live)
        else:
            import threading

            over = threading.Event()
            teller = threading.Thread(target=self._tell, args=[over], daemon=True)
            teller.start()
            self._display.callback(teller.join)
            self._display.callback(over.set)

    def __exit__(self, *error: object) -> None:
        self._display.close()
        if self._position:
            self._look()

    def _look(self) -> list[View]:
        """The snapshots that have come since."""
        from sluiceway.cli.screen import View
        from sluiceway.schemas.records import Snapshot
        from sluiceway.topics.directory_reader import DirectoryReader
        from sluiceway.topics.url import DirectoryTopic

        topic = self._settings.outputs["selections"]
        assert isinstance(topic, DirectoryTopic)
        reader = DirectoryReader(topic, 0, self._position, None)
        came = []
        while (poll := reader.poll()) is not None:
            for value in poll.values:
                snapshot = Snapshot.model_validate_json(value or b"")
                self._view = View(snapshot) if self._view is None else self._view.next(snapshot)
                self.snapshots.append(snapshot)
                came.append(self._view)
        self._position = reader.position
        reader.close()
        return came

    def _draw(self) -> RenderableType:
        from rich.console import Group

        from sluiceway.cli.screen import features, heading

        self._look()
        if self._view is None:
            return self._bar()
        now = self._view.now
        known = frozenset(self._stream.relevant(now.version - 1))
        rows = max(self._screen.height - 9, 3)
        return Group(self._bar(), "", heading(self._view), features(now, rows, known))

    def _tell(self, over: Event) -> None:
        from sluiceway.cli.screen import changes, percent

        ended, told = False, -1
        while not ended:
            ended = over.wait(0.2)
            for view in self._look():
                now = view.now
                known = self._stream.relevant(now.version - 1)
                hits = len({entry.feature for entry in now.selected} & set(known))
                if hits != told or now.version % max(self._stream.drift_every // 2, 1000) < self._settings.emit.every:
                    told = hits
                    error = percent(view.error_lately if view.error_lately is not None else view.error)
                    text = f"mail {now.version:>9,}: {hits:>2} of {len(known)} found, {error} wrong  {changes(now)}"
                    self._screen.print(text.rstrip(), no_wrap=True, overflow="ellipsis")

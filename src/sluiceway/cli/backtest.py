"""`sluiceway backtest`: a recorded window through many variants of a flow, and what each of them was worth."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from sluiceway.cli.options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from sluiceway.backtest.replay import Progress
    from sluiceway.backtest.results import Results
    from sluiceway.backtest.variants import Variant
    from sluiceway.backtest.window import Window

INTERRUPTED = 130


def backtest(
    flow: Annotated[Path, typer.Argument(help="The flow's TOML file.", metavar="FLOW")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A setting and its values; of several such options every combination is a variant.",
            metavar="NAME=VALUE,...",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Where the window begins; by default input.start.", metavar="POSITION")
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", help="Where it ends; by default input.stop, or the end.", metavar="POSITION")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--input", help="Read this file (JSON lines, CSV, svmlight, Parquet) instead of the topic."),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="With --input: the column of the label.")] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", metavar="NAME", help="Only this stream. May be repeated.", show_default=False),
    ] = None,
    label_delay: Annotated[
        str | None,
        typer.Option(help="Withhold each label for so many instances, or a time (30s, 5m, 2h, 1d).", metavar="N|TIME"),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Begin with models that have learnt: a flow's TOML file, a backup, or DIR/variants/N of a backtest.",
            metavar="PATH",
        ),
    ] = None,
    known: Annotated[
        Path | None, typer.Option(help="Features that are known to matter: names, one a line, or JSON.", metavar="FILE")
    ] = None,
    by: Annotated[str | None, typer.Option(help="The measure that variants are sorted by.", metavar="METRIC")] = None,
    window: Annotated[int, typer.Option(help="Instances that windowed measures look back.")] = 1000,
    fading: Annotated[float, typer.Option(help="What an instance counts less than the one after it.")] = 0.999,
    jobs: Annotated[int | None, typer.Option(help="Threads; by default as many as processors.", min=1)] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the results; by default backtests/FLOW-N.", metavar="DIR")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the backtest in --out.")] = False,
    as_json: Json = False,
) -> None:
    """Replay what a topic holds through many variants of FLOW, in one pass.

    Nothing live is touched: no consumer group, no topic, no state. What the
    flow would have selected, how well and how steadily, is in a table here, and
    in results.json.

    \b
    sluiceway backtest spam.toml --from -100000 --set operator.k=5,10,20
    sluiceway backtest spam.toml --set operator.name=ofs,stsd,pa-l2 --by auc
    """
    from sluiceway.backtest.results import refuse_unknown
    from sluiceway.backtest.run import Interrupted
    from sluiceway.backtest.run import backtest as replay
    from sluiceway.cli.log import say
    from sluiceway.cli.screen import console, counted
    from sluiceway.errors import SettingsError
    from sluiceway.files import Columns
    from sluiceway.flows.changes import parse_sets

    if label is not None and file is None:
        raise SettingsError("--label goes with --input: a topic's records have their label in `y`")
    if by is not None:
        refuse_unknown(by, known=known is not None)
    view = ReplayView()

    def started(replayed: Window, variants: Sequence[Variant], folder: Path) -> None:
        what = f"{counted(len(variants), 'variant')}, {counted(replayed.lanes, 'partition')}"
        say(f"{variants[0].settings.flow.name}: a backtest on {replayed.source} ({what}), kept in {folder}")
        view.begin(replayed.size)

    try:
        with _asked_to_stop() as stopping, view:
            results = replay(
                flow,
                parse_sets(given or []),
                start=start,
                stop=stop,
                input=file,
                columns=Columns(y=label, text_labels=False),
                streams=stream or (),
                label_delay=label_delay,
                state=state,
                known=known,
                window=window,
                fading=fading,
                jobs=jobs,
                out=out,
                resume=resume,
                stopping=stopping,
                tell=view.show,
                on_start=started,
                on_compile=lambda: say("compiling the operators' kernels, once for this installation ..."),
            )
    except Interrupted as stopped:
        say(f"stopped; what is done is kept: the same command with --out {stopped.folder} --resume goes on")
        raise typer.Exit(INTERRUPTED) from None
    metric = by or results.default_metric
    if as_json:
        shown = {"folder": str(results.folder), "sentence": results.sentence, "variants": results.rows(metric)}
        print(json.dumps(shown, indent=2))
        return
    screen = console()
    screen.print(table_of(results, metric, screen.width))
    console().print(results.sentence)
    say(f"all of it is in {results.folder}")


def table_of(results: Results, metric: str, width: int) -> Table:
    """Variants, the best first; as many of the measures as there is room for."""
    from sluiceway.cli.screen import plain_table

    rows = results.rows(metric)
    names = [name for name in dict.fromkeys([metric, *COLUMNS]) if any(row.get(name) is not None for row in rows)]
    heads = {name: COLUMNS.get(name, name.replace("_", " ")) for name in names}
    cells = {name: [_cell(name, row.get(name)) for row in rows] for name in names}
    room = width - LEAST_LABEL - 6
    while len(names) > 1 and sum(3 + max(map(len, [heads[name], *cells[name]])) for name in names) > room:
        names.pop()
    table = plain_table()
    table.add_column("no.", justify="right", no_wrap=True)
    table.add_column("variant", min_width=LEAST_LABEL, overflow="fold")
    for name in names:
        table.add_column(heads[name], justify="right", no_wrap=True)
    for at, row in enumerate(rows):
        table.add_row(str(row["variant"]), row["label"], *(cells[name][at] for name in names))
    return table


COLUMNS = {
    "error": "error", "auc": "AUC", "n_selected": "n", "stability": "stability", "balanced_accuracy": "balanced",
    "features_used": "used", "cost": "cost", "churn_per_1000": "churn", "kappa": "kappa", "cpu_us": "µs",
}  # fmt: skip
"""Of the table, the least needed last, and what they are called there; `results.json` and the report have all."""
LEAST_LABEL = 16


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "error":
        return f"{100 * value:.2f} %"
    if name in ("n_selected", "churn_per_1000", "cpu_us", "features_used", "cost"):
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{value:.3f}"


class ReplayView:
    """A bar with rate and time left, on a terminal's standard error."""

    def __init__(self, what: str = "replaying") -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        from sluiceway.cli.screen import console

        screen = console(stderr=True)
        self._bar = Bar(
            TextColumn(what),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[records]:,} records, {task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
            console=screen,
            transient=True,
            disable=not screen.is_terminal,
        )
        self._task = None if self._bar.disable else self._bar.add_task("", total=None, records=0, rate=0.0)
        self._began = self._next = time.monotonic()

    def begin(self, size: int) -> None:
        self._began = time.monotonic()
        if self._task is not None:
            self._bar.update(self._task, total=size)

    def show(self, progress: Progress) -> None:
        self.at(progress.done, progress.records)

    def at(self, done: int, records: int) -> None:
        now = time.monotonic()
        if self._task is None or now < self._next:
            return
        self._next = now + 0.1
        rate = records / max(now - self._began, 0.1)
        self._bar.update(self._task, completed=done, records=records, rate=rate)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()


class _asked_to_stop:
    """Ctrl-C and SIGTERM are asked for between polls, so that what is done is kept; a second one ends at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def __enter__(self) -> Callable[[], bool]:
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self._asked.is_set

    def _ask(self, *_: object) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

"""What people see of snapshots: tables that read well at 80 columns and without colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sluiceway.schemas.records import Snapshot
from sluiceway.wording import counted as counted

BAR = 16
"""Columns of the longest bar."""


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, markup=False)  # names may hold brackets


def may_draw(screen: Console) -> bool:
    """Whether it is a terminal, and this process the one that it belongs to: a job in the background draws nothing."""
    if not screen.is_terminal:
        return False
    try:
        return os.tcgetpgrp(screen.file.fileno()) == os.getpgrp()
    except (OSError, ValueError):  # it controls no processes
        return True


class Drawing(Live):
    """Stands still while the process is in the background."""

    def refresh(self) -> None:
        if may_draw(self.console):
            super().refresh()


@contextmanager
def working(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """A bar on a terminal's standard error while something takes long; what it gives is called after each step."""
    from rich.progress import Progress

    screen = console(stderr=True)
    with Progress(console=screen, transient=True, disable=not may_draw(screen)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def plain_table(title: str | None = None) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False
    )


def facts(content: Mapping[str, str]) -> Table:
    """Names and what they stand for, in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(ratio=1)
    for name, value in content.items():
        table.add_row(Text(name), Text(value))
    return table


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def shortened(text: str) -> Text:
    """On one line, cut where the column ends. (The column itself must be free to wrap: a table narrows those first.)"""
    return Text(text, no_wrap=True, overflow="ellipsis")


class BothEnds:
    """On one line, cut in the middle: names that begin alike often differ at their ends."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, cell_len(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if cell_len(self._text) <= width:
            yield Text(self._text, no_wrap=True)
            return
        tail = set_cell_size(self._text[::-1], width // 2)[::-1]
        yield Text(set_cell_size(self._text, width - width // 2 - 1) + "…" + tail, no_wrap=True)


def moment(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


@dataclass(frozen=True, slots=True)
class View:
    """The newest snapshot of a stream, beside the one before it."""

    now: Snapshot
    before: Snapshot | None = None

    @property
    def key(self) -> str:
        return f"{self.now.flow}/{self.now.stream}"

    @property
    def error(self) -> float | None:
        return self.now.metrics.get("error_rate")

    @property
    def error_lately(self) -> float | None:
        """Of the instances between the two snapshots."""
        if self.before is None:
            return None
        mistakes, earlier = self.now.metrics.get("mistakes"), self.before.metrics.get("mistakes")
        learnt = self.now.version - self.before.version
        return (mistakes - earlier) / learnt if mistakes is not None and earlier is not None and learnt > 0 else None

    def next(self, snapshot: Snapshot) -> View:
        return View(snapshot, self.now)


def changes(snapshot: Snapshot) -> str:
    """`+ entered - left`, in words."""
    return " ".join([f"+{name}" for name in snapshot.entered] + [f"-{name}" for name in snapshot.left])


def line(view: View) -> str:
    """A snapshot as one line."""
    now = view.now
    error = "" if view.error is None else f"  error {percent(view.error)}"
    if view.error_lately is not None:
        error += f" (lately {percent(view.error_lately)})"
    return f"{view.key}  version {now.version:,}  {now.n_selected} selected{error}  {changes(now)}".rstrip()


def heading(view: View) -> Text:
    now = view.now
    params = ", ".join(f"{name}={value}" for name, value in now.params.items())
    text = Text(no_wrap=False)
    text.append(view.key, style="bold")
    text.append(f"  {now.operator} ({params})\n")
    text.append(f"version {now.version:,}, seen {now.seen:,}")
    text.append(f", {moment(now.ts)}" if now.ts else "")
    text.append(f", {now.reason}\n")
    if view.error is not None:
        text.append(f"error {percent(view.error)}")
        if view.error_lately is not None:
            text.append(f", lately {percent(view.error_lately)}")
        text.append("; ")
    entered, left = len(now.entered), len(now.left)
    text.append(f"{now.n_selected:,} selected, {entered} entered (+), {left} left (-)")
    others = {name: value for name, value in now.metrics.items() if name not in ("mistakes", "error_rate")}
    if others:
        text.append("\n" + ", ".join(f"{name} {value}" for name, value in others.items()))
    return text


def features(snapshot: Snapshot, rows: int | None = None, known: frozenset[str] | None = None) -> Table:
    """The selected features, then those that have left; `known` marks the truly relevant ones with a star."""
    table = plain_table()
    table.add_column("", width=1, min_width=1)
    table.add_column("feature", min_width=12)
    table.add_column("weight", justify="right", no_wrap=True, min_width=9)
    table.add_column("", width=BAR, min_width=BAR, no_wrap=True)
    table.add_column("since", justify="right", no_wrap=True, min_width=9)
    if known is not None:
        table.add_column("relevant", no_wrap=True, min_width=8)
    entered = set(snapshot.entered)
    left = snapshot.left if rows is None else snapshot.left[: max(rows // 3, rows - len(snapshot.selected))]
    shown = snapshot.selected if rows is None else snapshot.selected[: max(rows - len(left), 1)]
    largest = max((abs(entry.weight) for entry in snapshot.selected), default=0.0)
    for entry in shown:
        new = entry.feature in entered
        cells: list[RenderableType] = [
            "+" if new else "",
            shortened(entry.feature),
            f"{entry.weight:.3f}" if 0.01 <= largest < 10_000 else f"{entry.weight:.3g}",
            _block() * round(BAR * abs(entry.weight) / largest) if largest else "",
            f"{entry.since:,}",
        ]
        if known is not None:
            cells.append("yes" if entry.feature in known else "no")
        table.add_row(*cells, style="green" if new else None)
    for name in left:
        table.add_row("-", shortened(name), "left", style="red")
    hidden = snapshot.n_selected - len(shown)
    if hidden > 0:
        table.add_row("", f"... and {hidden:,} more", style="dim")
    return table


def _block() -> str:
    real = sys.__stdout__  # a live display stands in for sys.stdout, and knows no encoding
    return "█" if real is not None and real.encoding.lower().startswith("utf") else "#"


def detail(view: View, rows: int | None = None) -> RenderableType:
    """One stream, whole."""
    return Group(heading(view), features(view.now, rows))


def overview(views: Sequence[View], rows: int | None = None) -> RenderableType:
    """Many streams, a row each; if they are all of one flow, it is said once."""
    flows = {view.now.flow for view in views}
    one = len(flows) == 1
    table = plain_table(f"flow {min(flows)}" if one else None)
    if not one:
        table.add_column("flow", min_width=9)
    table.add_column("stream", min_width=12)
    for name, width in (("version", 9), ("error", 6), ("lately", 6), ("n", 3)):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    heading = "+in -out top"
    table.add_column(heading, min_width=len(heading))
    for view in views[:rows]:
        now = view.now
        text = shortened("")
        for name in now.entered:
            text.append(f"+{name} ", style="green")
        for name in now.left:
            text.append(f"-{name} ", style="red")
        text.append(", ".join(entry.feature for entry in now.selected[:10]))
        numbers = f"{now.version:,}", percent(view.error), percent(view.error_lately), f"{now.n_selected:,}"
        names = [BothEnds(now.stream)] if one else [BothEnds(now.flow), BothEnds(now.stream)]
        table.add_row(*names, *numbers, text)
    if rows is not None and len(views) > rows:
        table.add_row(f"... and {len(views) - rows:,} more", style="dim")
    return table

"""A running flow on a terminal: how far each lane is, and how fast it goes."""

from __future__ import annotations

from collections import deque

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.progress_bar import ProgressBar
from rich.table import Table

from sluiceway.cli.screen import shortened
from sluiceway.flows.progress import LaneProgress, Progress
from sluiceway.wording import counted

LANES_SHOWN = 12
RATE_SECONDS = 5.0


class ProgressView:
    """Draws a `Progress` each time it is asked to."""

    def __init__(self, progress: Progress, *, in_bytes: bool) -> None:
        self._progress = progress
        self._in_bytes = in_bytes
        self._past: deque[tuple[float, int]] = deque([(0.0, 0)])

    def __call__(self) -> RenderableType:
        lanes = self._progress.lanes.copy()
        records = sum(lane.records for lane in lanes.values())
        bounded = bool(lanes) and all(lane.stop is not None for lane in lanes.values())
        parts: list[RenderableType] = []
        facts = f"{records:,} records, {self._rate(records):,.0f}/s, {_clock(self._progress.seconds)}"
        if bounded:
            parts.append(_bar("input", _share(list(lanes.values())), facts))
        else:
            parts.append(facts)
        if len(lanes) > 1:
            parts += [self._lane(number, lanes[number]) for number in sorted(lanes)[:LANES_SHOWN]]
            if len(lanes) > LANES_SHOWN:
                parts.append(f"... and {counted(len(lanes) - LANES_SHOWN, 'lane')} more")
        if dead := self._progress.dead_letters.sentence():
            parts.append(shortened(dead))
        if waiting := sorted(self._progress.waiting.copy().items()):
            more = f" (and {counted(len(waiting) - 1, 'lane')} more)" if len(waiting) > 1 else ""
            parts.append(f"lane {waiting[0][0]}: {waiting[0][1]}{more}")
        return Group(*parts)

    def _lane(self, number: int, lane: LaneProgress) -> RenderableType:
        shown = decimal if self._in_bytes else "{:,}".format
        if lane.stop is None:
            return f"lane {number:<3} at {shown(lane.position)}, {lane.records:,} records"
        return _bar(f"lane {number}", lane.share, f"{shown(lane.position)} of {shown(lane.stop)}")

    def _rate(self, records: int) -> float:
        """Records a second, lately."""
        now = self._progress.seconds
        self._past.append((now, records))
        while len(self._past) > 2 and now - self._past[0][0] > RATE_SECONDS:
            self._past.popleft()
        then, earlier = self._past[0]
        return (records - earlier) / (now - then) if now > then else 0.0


def _share(lanes: list[LaneProgress]) -> float:
    ahead = sum(max((lane.stop or 0) - lane.start, 0) for lane in lanes)
    done = sum(lane.position - lane.start for lane in lanes)
    return 1.0 if ahead <= 0 else min(done / ahead, 1.0)


def _bar(name: str, share: float, facts: str) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    row.add_column(width=8, no_wrap=True)
    row.add_column(width=22)
    row.add_column(width=5, justify="right")
    row.add_column(no_wrap=True)
    row.add_row(name, ProgressBar(total=1.0, completed=share, width=22), f"{100 * share:.0f} %", facts)
    return row


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

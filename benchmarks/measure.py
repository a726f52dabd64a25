"""What the benchmarks share: CPU time, results as a table and as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, str | float]


@dataclass(slots=True)
class Result:
    """One table: a title, rows of the same columns, and notes below."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, console: Console) -> None:
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        table = Table(title=self.title, title_justify="left")
        for name in columns:
            table.add_column(name, justify="left" if isinstance(self.rows[0].get(name), str) else "right")
        for row in self.rows:
            table.add_row(*(_text(row.get(name, "")) for name in columns))
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}")


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def cpu_seconds() -> float:
    """User and system time of this process, all its threads included."""
    return time.process_time()


def cpu_seconds_of(run: Callable[[], Any]) -> float:
    start = cpu_seconds()
    run()
    return cpu_seconds() - start


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

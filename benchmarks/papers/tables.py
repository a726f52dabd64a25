"""Cells of a published table beside our own: printed, measured by a plain reference program, and ours.

Agreement means: to the digit where a run has no random draws, else within 2 standard errors (s.e.) of the difference of
two means. One cell in twenty lies outside by chance; it is shown as it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from sluiceway.operators.registry import learner
from sluiceway.schemas.batch import InstanceBatch

BATCH = 1000
RUNS = 20


@dataclass(frozen=True)
class Figure:
    """A mean over 20 runs, and its deviation where it is known."""

    mean: float
    sd: float | None = None

    def text(self, digits: int) -> str:
        return f"{self.mean:.{digits}f}" + ("" if self.sd is None else f" ± {self.sd:.{digits}f}")


@dataclass(frozen=True)
class Cell:
    data: str
    method: str
    paper: Figure | None
    reference: Figure | None
    ours: Figure
    runs: int
    agreement: str
    agrees: bool


def compared(
    data: str, method: str, ours: Sequence[float], *, paper: Figure | None = None, reference: Figure | None = None
) -> Cell:
    """Of runs with random draws; with the paper's figure if there is one, else with the reference's."""
    own, other = _figure(ours), paper or reference
    assert other is not None
    assert own.sd is not None
    error = math.sqrt(own.sd**2 / len(ours) + (other.sd or own.sd) ** 2 / RUNS)
    apart = (own.mean - other.mean) / error if error > 0 else math.inf
    agrees = abs(apart) <= 2
    return Cell(data, method, paper, reference, own, len(ours), f"{'' if agrees else 'no, '}{apart:+.1f} s.e.", agrees)


def equal(data: str, method: str, ours: Sequence[float], reference: Figure) -> Cell:
    """Of runs without random draws: the means, and the deviations where there is one, to two digits."""
    own = _figure(ours)
    assert own.sd is not None
    same = abs(own.mean - reference.mean) < 0.0051
    same_sd = reference.sd is None or abs(own.sd - reference.sd) < 0.0051
    if len(ours) < RUNS:
        agreement, same = f"{len(ours)} of {RUNS} runs", True
    else:
        agreement = "exact" if same and same_sd else "mean only" if same else "no"
    return Cell(data, method, None, reference, own, len(ours), agreement, same)


def mistakes(operator: str, params: dict[str, Any], batch: InstanceBatch) -> int:
    made: Any = learner(operator)
    model = made(**params)
    wrong = 0
    for start in range(0, len(batch), BATCH):
        part = batch.slice(start, min(start + BATCH, len(batch)))
        wrong += int(np.count_nonzero(part.y * model.prequential(part) <= 0))
    return wrong


def run(
    title: str, names: Sequence[str], folder: Path | None, as_json: bool, digits: int,
    cells_of: Callable[[Path, str, Callable[[], None]], Iterator[Cell]], steps: int,
) -> int:  # fmt: skip
    """All cells of the data sets that are there; 0 if all agree."""
    there = [name for name in names if folder is not None and (folder / f"{name}.npz").is_file()]
    missing = [name for name in names if name not in there]
    if missing:
        Console(stderr=True).print(f"skipped: no {', '.join(missing)} (--data DIR or SLUICEWAY_DATA)")
    if folder is None or not there:
        return 0
    cells: list[Cell] = []
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=steps * len(there))
        for name in there:
            progress.update(task, description=name)
            cells += cells_of(folder, name, lambda: progress.update(task, advance=1))
    if as_json:
        for cell in cells:
            print(json.dumps(asdict(cell)))
    else:
        Console().print(_shown(title, cells, digits))
    return 0 if all(cell.agrees for cell in cells) else 1


def _figure(ours: Sequence[float]) -> Figure:
    values = np.asarray(ours, dtype=np.float64)
    return Figure(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0)


def _shown(title: str, cells: list[Cell], digits: int) -> Table:
    agreeing = sum(cell.agrees for cell in cells)
    table = Table(title=title, caption=f"{agreeing} of {len(cells)} cells agree")
    for heading in ("data", "method", "paper", "reference", "ours", "agreement"):
        table.add_column(heading, justify="right" if heading in ("paper", "reference", "ours") else "left")
    for at, cell in enumerate(cells):
        table.add_row(
            cell.data,
            cell.method,
            cell.paper.text(digits) if cell.paper else "",
            cell.reference.text(digits) if cell.reference else "",
            cell.ours.text(digits),
            cell.agreement,
            style=None if cell.agrees else "bold red",
            end_section=at + 1 == len(cells) or cells[at + 1].data != cell.data,
        )
    return table

"""python -m benchmarks.papers (ofs | stsd | saola | margin | etana) --data DIR: a published table beside our own.

Exits with 1 if a cell is not as expected, whatever else is shown; a data set that is not there is skipped, and said so.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.papers import etana, margin, ofs, saola
from benchmarks.papers.data import folder
from benchmarks.papers.ofs_partial import table_3, table_5
from benchmarks.papers.stsd import paper_algorithm
from benchmarks.papers.tables import RUNS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("paper", choices=["ofs", "stsd", "saola", "margin", "etana"])
    parser.add_argument("--table", choices=["2", "3", "5", "paper-algorithm"], help="of ofs (default: 2) and stsd")
    parser.add_argument("--runs", type=int, default=RUNS, help="of ofs --table 3, 5 and stsd: fewer for a first look")
    parser.add_argument("--data", type=Path, help="where the data sets are (default: $SLUICEWAY_DATA)")
    parser.add_argument("--json", action="store_true", help="a line of JSON a cell, instead of the table")
    parser.add_argument("--figure", choices=["1"], default="1", help="of margin")
    parser.add_argument("--trials", type=int, default=margin.TRIALS, help="of margin: draws of the stream")
    sets = [*etana.FILES, *etana.STREAMS]
    parser.add_argument("--only", nargs="+", choices=sets, default=[], help="of etana: these data sets")
    options = parser.parse_args()
    data = folder(options.data)
    tables = {"ofs": ("2", "3", "5"), "stsd": ("paper-algorithm",)}.get(options.paper, ())
    if options.table is not None and options.table not in tables:
        parser.error(f"{options.paper} has no table {options.table}")
    made = {"3": table_3, "5": table_5}.get(options.table, paper_algorithm if options.paper == "stsd" else None)
    if made is not None:
        return made(data, options.runs, options.json)
    if options.paper == "etana":
        return etana.main(data, options.only, options.json)
    if options.paper == "margin":
        return margin.main(data, options.trials, options.json)
    if options.paper == "saola":
        return _saola(data, options.json)
    missing = [] if data is None else [name for name in ofs.TABLE_2 if not (data / f"{name}.npz").is_file()]
    if data is None or missing:
        what = f"no {', '.join(missing)} in {data}" if missing else "no data sets (--data DIR or SLUICEWAY_DATA)"
        print(f"skipped: {what}", file=sys.stderr)
        return 0
    cells = []
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=ofs.runs(data))
        for cell in ofs.table_2(data, lambda name: progress.update(task, advance=1, description=name)):
            cells.append(cell)
    if options.json:
        for cell in cells:
            print(json.dumps(cell.row()))
    else:
        Console().print(_shown(cells))
    return 0 if all(cell.as_expected for cell in cells) else 1


def _saola(data: Path | None, as_json: bool) -> int:
    missing = [name for name in saola.PAPER if data is None or name not in saola.there(data)]
    if missing:
        print(f"skipped: no {', '.join(missing)} (--data DIR or SLUICEWAY_DATA)", file=sys.stderr)
    if data is None or len(missing) == len(saola.PAPER):
        return 0
    cells = []
    columns = (TextColumn("{task.description:>11}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=saola.runs(data))
        for cell in saola.tables(data, lambda name: progress.update(task, advance=1, description=name)):
            cells.append(cell)
            if as_json:
                print(json.dumps(cell.row()), flush=True)
    if not as_json:
        Console().print(saola.shown(cells))
    return 0 if all(cell.as_expected for cell in cells) else 1


def _shown(cells: list[ofs.Cell]) -> Table:
    table = Table(title="OFS, Table 2: mistakes, 20 runs", caption="\n".join(
        f"{data}: {reason}" for data, reason in ofs.NOT_REPRODUCIBLE.items()
    ))  # fmt: skip
    for heading in ("data", "method", "paper", "ours", "agreement"):
        table.add_column(heading, justify="right" if heading in ("paper", "ours") else "left")
    for cell in cells:
        table.add_row(
            cell.data,
            cell.method,
            f"{cell.paper_mean:.1f} ± {cell.paper_sd:.1f}",
            f"{cell.mean:.2f} ± {cell.sd:.2f}",
            cell.agreement,
            style=None if cell.as_expected else "bold red",
            end_section=cell.method == "OFS",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())

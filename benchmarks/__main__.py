"""`python -m benchmarks [NAME ...] [--json FILE]`: ratios measured in one run, as tables and JSON."""

from __future__ import annotations

import argparse
import importlib
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from benchmarks.measure import Result

BENCHMARKS = (
    "start", "decode", "shapes", "arrays", "learners", "contenders", "selectors", "joint", "flow", "watched",
    "backtest", "checkpoint", "columns", "streams.many", "streams.names", "streams.polls", "streams.commits",
    "streams.beside", "streams.million",
)  # fmt: skip


def _kept(path: Path, besides: Sequence[str]) -> list[dict[str, Any]]:
    """What earlier runs of other benchmarks have left."""
    if not path.exists():
        return []
    return [result for result in orjson.loads(path.read_bytes())["results"] if result["benchmark"] not in besides]


def _parts(name: str) -> list[str]:
    """The benchmark of that name, or the parts of one."""
    return [benchmark for benchmark in BENCHMARKS if benchmark == name or benchmark.startswith(f"{name}.")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--json", type=Path, default=Path("docs/measured.json"), help="where to keep the results")
    given = parser.parse_args()
    wanted = [part for name in given.names for part in _parts(name)] or BENCHMARKS
    unknown = [name for name in given.names if not _parts(name)]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    console = Console()
    kept = _kept(given.json, besides=wanted)
    for name in wanted:
        with console.status(f"measuring {name} ..."):
            results: list[Result] = importlib.import_module(f"benchmarks.{name}").main()
        for result in results:
            result.show(console)
            kept.append({"benchmark": name, "title": result.title, "rows": result.rows, "notes": result.notes})
    given.json.parent.mkdir(parents=True, exist_ok=True)
    about = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "python": platform.python_version()}
    given.json.write_bytes(orjson.dumps({**about, "results": kept}, option=orjson.OPT_INDENT_2))
    console.print(f"kept in {given.json}")


if __name__ == "__main__":
    main()

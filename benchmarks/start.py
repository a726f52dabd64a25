"""What a start costs: importing the client, and asking for help. Run with `python -m benchmarks start`."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.measure import Result, median

STARTS = {
    "python -c pass": ("-c", "pass"),
    "import sluiceway": ("-c", "import sluiceway"),
    "sluiceway --help": ("-m", "sluiceway", "--help"),
}
TARGETS = {"import sluiceway": 0.15, "sluiceway --help": 0.5}


def main(rounds: int = 9) -> list[Result]:
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(rounds + 1):
        for name, arguments in STARTS.items():
            times[name].append(_cpu_seconds(arguments))
    result = Result("Starts, CPU seconds of the whole process")
    for name, (_, *taken) in times.items():  # the first one compiles what was not
        target = TARGETS.get(name)
        met = "" if target is None else "yes" if median(taken) < target else "no"
        result.rows.append(
            {"what": name, "median": median(taken), "target": f"below {target}" if target else "", "met": met}
        )
    return [result]


def _cpu_seconds(arguments: tuple[str, ...]) -> float:
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system

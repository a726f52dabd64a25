"""What a start costs: importing the client, asking for help, and compiling what an operator's flow needs.

The last is measured for every operator in a process of its own with an empty cache, and again with what the first has
left in it. Run with `python -m benchmarks start`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.measure import Result, median

STARTS = {
    "python -c pass": ("-c", "pass"),
    "import sluiceway": ("-c", "import sluiceway"),
    "sluiceway --help": ("-m", "sluiceway", "--help"),
}
TARGETS = {"import sluiceway": 0.15, "sluiceway --help": 0.5}
COLD_TARGET = 12.0


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
    return [result, _cold()]


def _cold() -> Result:
    from sluiceway.operators import registry

    result = Result("First start of an operator's flow: decode, learn, predict, select, commit, restore; CPU seconds")
    for name, entry in registry.OPERATORS.items():
        with tempfile.TemporaryDirectory() as cache:
            cold, cached = (_cpu_seconds(("-m", "benchmarks.start", name), NUMBA_CACHE_DIR=cache) for _ in range(2))
        result.rows.append(
            {
                "operator": name,
                "kind": entry.kind.name,
                "nothing compiled": cold,
                "all compiled": cached,
                f"at most {COLD_TARGET:g}": "yes" if cold <= COLD_TARGET else "NO",
            }
        )
    return result


def _cpu_seconds(arguments: tuple[str, ...], **environment: str) -> float:
    before = os.times()
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def use_once(name: str) -> None:
    """Everything that a flow of this operator does, on a few records."""
    from benchmarks.streams.lane import PRESENT, MemoryLane, flow_settings, numbered, operator, stored, values
    from sluiceway.flows.select import SELECTING
    from sluiceway.operators import registry

    kind = registry.get(name).kind
    sections: dict[str, dict[str, Any]] = {"emit": {"every": 10, "on_change": True}}
    if "predictions" in kind.writes:
        sections["topics"] = {"predictions": "kafka://nowhere:9092/predictions"}
    if kind.reads == "features":
        sections = {"window": {"size": 20}}
    SELECTING.prepare(flow_settings(operator(name), **sections), None)
    given, keys = values(numbered(PRESENT), count=100), [b"one", b"other"] * 50
    lane = MemoryLane(operator(name), **sections)
    lane.process(lane.poll(keys, given))
    again = MemoryLane(operator(name), stored(lane.changes()), **sections)
    again.process(again.poll(keys, given, end=True))


if __name__ == "__main__":
    use_once(sys.argv[1])

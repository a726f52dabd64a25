"""Backtests in CPU time: many variants against one, a thousand streams against the live flow, and a report's timeline.

Run with `python -m benchmarks backtest`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from benchmarks.flow import FEATURES, instances
from benchmarks.measure import Result, cpu_seconds_of, median
from sluiceway.backtest.run import backtest
from sluiceway.flows.run import run
from sluiceway.flows.select import Selecting
from sluiceway.flows.settings import Settings
from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.url import DirectoryTopic

INSTANCES, ROUNDS, ROUNDS_OF_STREAMS = 100_000, 3, 7
SIZES = (5, 10, 20, 40, 70, 100)
GRID: dict[str, list[Any]] = {"operator.k": list(SIZES), "operator.eta": [0.05, 0.1, 0.2, 0.4]}
MOST = 4.0
TIMELINE, TIMELINE_MOST = (5_000, 2_000, 1_000), 0.5
FLOW = """
[flow]
name = "measured"
[topics]
instances = "dir:instances"
selections = "dir:live/selections"
dead_letters = "dir:live/dead-letters"
[input]
stop = "end"
[operator]
name = "ofs"
k = 100
[emit]
every = 1000
"""


def main() -> list[Result]:
    with tempfile.TemporaryDirectory() as place:
        return [_variants(Path(place) / "one"), _streams(Path(place) / "many"), *_timeline(Path(place))]


def _world(place: Path, streams: int) -> Path:
    topic = DirectoryTopic(place / "instances")
    create_directory_topic(topic, 1)
    with DirectoryAppender(topic, 1) as appender:
        for key, value, _ in islice(instances(FEATURES, streams), INSTANCES):
            appender.append(0, [orjson.dumps({"stream": key, **orjson.loads(value)})])
    file = place / "flow.toml"
    file.write_text(FLOW)
    return file


@contextmanager
def _decodings() -> Iterator[list[int]]:
    """A list that has an entry for each poll decoded, its records."""
    found: list[int] = []
    decode = Selecting.decode

    def counting(selecting: Selecting, *about: Any) -> Callable[[Any], Any]:
        inner = decode(selecting, *about)

        def counted(poll: Any) -> Any:
            found.append(len(poll.values))
            return inner(poll)

        return counted

    Selecting.decode = counting  # type: ignore[assignment, method-assign]  # so that calls are counted from outside
    try:
        yield found
    finally:
        Selecting.decode = decode  # type: ignore[method-assign]  # as it was


def _backtest(file: Path, vary: dict[str, list[Any]], tell: Callable[[Any], None] = lambda progress: None) -> float:
    out = file.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    return cpu_seconds_of(lambda: backtest(file, vary, out=out, tell=tell))


def _variants(place: Path) -> Result:
    file = _world(place, 8)
    _backtest(file, {})  # whatever is compiled or read for the first time
    costs: dict[str, list[float]] = {"one": [], "many": []}
    for _ in range(ROUNDS):
        costs["one"].append(_backtest(file, {}))
        polls: list[Any] = []
        with _decodings() as decoded:
            costs["many"].append(_backtest(file, GRID, polls.append))
    variants = len(SIZES) * len(GRID["operator.eta"])
    one, many = median(costs["one"]), median(costs["many"])
    result = Result(f"A backtest of ofs over {INSTANCES:,} instances of {FEATURES} features, everything included")
    for name, count, seconds in (("one variant", 1, one), ("a grid", variants, many)):
        result.rows.append(
            {
                "what": name, "variants": count, "CPU seconds": seconds,
                "CPU µs an instance": 1e6 * seconds / INSTANCES, "against one": seconds / one,
                f"at most {MOST:g}": "yes" if seconds <= MOST * one else "NO",
            }
        )  # fmt: skip
    times = len([records for records in decoded if records])
    result.notes.append(f"the grid: {len(polls):,} polls, {times:,} decoded, whatever the number of variants")
    return result


def _streams(place: Path) -> Result:
    file = _world(place, 1_000)

    def live() -> float:
        shutil.rmtree(place / "live", ignore_errors=True)
        return cpu_seconds_of(lambda: run(Settings.load(file)))

    costs: dict[str, list[float]] = {"the live flow": [], "a backtest": []}
    live()
    for _ in range(ROUNDS_OF_STREAMS):
        costs["the live flow"].append(live())
        costs["a backtest"].append(_backtest(file, {}))
    result = Result(f"1,000 streams, {INSTANCES:,} instances, everything included")
    for name, taken in costs.items():
        result.rows.append({"what": name, "CPU µs an instance": 1e6 * median(taken) / INSTANCES})
    ratio = median([own / flow for own, flow in zip(costs["a backtest"], costs["the live flow"], strict=True)])
    met = "met" if ratio <= 1 else "NO"
    result.notes.append(f"no slower than the live flow: {met}, {ratio:.2f} times its CPU, the median of paired rounds")
    return result


def _timeline(place: Path) -> list[Result]:
    """Where a browser answers."""
    from tests.page.pages import large, page_of
    from tests.support.browser import BrowserUnavailable, any_browser

    try:
        with any_browser() as browser:
            page, taken = page_of(place / "page.html", large(*TIMELINE)), []
            for _ in range(ROUNDS + 1):
                browser.show(page)
                browser.frame()
                taken.append(browser.run("return took") / 1000)
    except BrowserUnavailable:
        return []
    features, snapshots, selected = TIMELINE
    seconds = median(taken[1:])
    row = {"features": features, "snapshots": snapshots, "selected": selected, "seconds of script": seconds}
    met = "yes" if seconds <= TIMELINE_MOST else "NO"
    return [Result("The timeline, loaded and drawn by chromium", [{**row, f"at most {TIMELINE_MOST:g}": met}])]

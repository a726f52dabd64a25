"""What it costs to be watched: a flow on a real broker with metrics, scraped every second, and a log, against the same
without, and against one that does not even count, in CPU time. Run with `python -m benchmarks watched`.

Whole runs differ by several hundredths for reasons of their own. So whatever there is to watch a flow is also timed
where it happens, by the clock of its thread: that tells a thousandth.
"""

from __future__ import annotations

import argparse
import logging
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import islice
from typing import Any

import orjson

from benchmarks.flow import FEATURES, PARTITIONS, instances
from benchmarks.measure import Result, cpu_seconds, median
from tests.support.broker import any_broker
from tests.support.kafka import Topics, produce

SCRAPER = """
import sys, time, urllib.request
while True:
    urllib.request.urlopen(sys.argv[1] + "/metrics", timeout=10).read()
    time.sleep(1)
"""


ARMS = {
    "bare": "nothing is counted, nobody looks at the input's end",
    "off": "counted; no metrics, no log",
    "on": "metrics, scraped every second; a log",
}
SPENT = (
    "counting what polls give",
    "looking at the input's end, and whether the broker answers",
    "answering whoever scrapes",
    "the log",
)
TARGET = 0.01


def main(messages: int = 300_000, rounds: int = 5) -> list[Result]:
    times: dict[str, list[float]] = {arm: [] for arm in ARMS}
    scrapes: list[float] = []
    spent: list[Mapping[str, float]] = []
    with any_broker() as bootstrap:
        topics = Topics(bootstrap)
        try:
            names = {name: topics(name, PARTITIONS) for name in ("instances", "selections", "predictions", "dead")}
            made = islice(instances(FEATURES, 8), messages)
            produce(bootstrap, names["instances"], made, {"compression.type": "lz4"})
            for number in range(rounds):
                for arm in ARMS if number % 2 else reversed(ARMS):
                    measured = _child({"bootstrap": bootstrap, "topics": names, "arm": arm})
                    times[arm].append(measured["cpu"])
                    if arm == "on":
                        scrapes.append(measured["scrape"])
                        spent.append({what: each / measured["cpu"] for what, each in measured["spent"].items()})
        finally:
            topics.clear()
    runs = Result(f"To be watched: {messages:,} instances, {FEATURES} features, {PARTITIONS} partitions")
    for arm, what in ARMS.items():
        ratios = sorted(each / bare for each, bare in zip(times[arm], times["bare"], strict=True))
        cost = median(times[arm]) * 1e6 / messages
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        runs.rows.append(
            {"what": what, "CPU µs an instance": cost, "CPU against nothing": median(ratios), "rounds": spread}
        )
    runs.notes.append("rounds of one run each, one after the other, in turns; ratios are medians over the rounds")
    return [runs, _timed(spent, median(scrapes))]


def _timed(spent: Sequence[Mapping[str, float]], scrape: float) -> Result:
    result = Result("The same flow with metrics and a log: what watches it, timed where it happens")
    for what in SPENT:
        result.rows.append({"what": what, "share of the flow's CPU": f"{median([each[what] for each in spent]):.3%}"})
    result.notes.append(target([sum(each.values()) for each in spent]))
    result.notes.append(
        f"a scrape by itself takes {scrape * 1000:.2f} ms of CPU: {scrape:.2%} of a core at one a second,"
        f" {scrape / 30:.3%} at one in 30 s"
    )
    return result


def target(shares: Sequence[float]) -> str:
    """Whether to be watched costs less than it may."""
    cost, (least, *_, most) = median(list(shares)), sorted(shares)
    met = "met" if cost < TARGET else "NOT met"
    return f"below {TARGET:.0%} of CPU: {met}, {cost:.2%}; the rounds say {least:.2%} to {most:.2%}"


def _child(given: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.watched", orjson.dumps(given).decode()]
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=said)
    measured: dict[str, Any] = orjson.loads(done.stdout)
    return measured


def flow(given: dict[str, Any]) -> dict[str, Any]:
    from sluiceway.flows.progress import Progress
    from sluiceway.flows.run import run
    from sluiceway.flows.settings import Settings

    url, name = f"kafka://{given['bootstrap']}/", f"bench-{uuid.uuid4().hex[:8]}"
    roles = {"instances": "instances", "selections": "selections", "predictions": "predictions", "dead_letters": "dead"}
    settings = Settings.parse(
        {
            "flow": {"name": name},
            "topics": {role: url + given["topics"][topic] for role, topic in roles.items()},
            "input": {"stop": "end"},
            "operator": {"name": "ofs", "k": 10},
        }
    )
    own, progress = Topics(given["bootstrap"]), Progress()
    own.also(f"{name}.state", groups=[name, f"{name}.members"])
    began: list[float] = []
    spent = dict.fromkeys(SPENT, 0.0)
    with ExitStack() as stack:
        stack.callback(own.clear)
        if given["arm"] == "bare":
            _count_nothing()
        if given["arm"] == "on":
            _time_the_watchers(spent)
            stack.enter_context(_watched(settings, progress))
        else:
            logging.getLogger("sluiceway").setLevel(logging.CRITICAL)
        run(
            settings,
            checkpoint_seconds=2.0,
            create_topics=True,
            on_start=lambda _: _begin(began, spent),
            progress=progress,
        )
        cpu = cpu_seconds() - began[0]
        return {"cpu": cpu, "spent": dict(spent), "scrape": _scrape(name, progress)}


def _begin(began: list[float], spent: dict[str, float]) -> None:
    for what in SPENT:  # only what comes from now on
        spent[what] = 0.0
    began.append(cpu_seconds())


def _time_the_watchers(spent: dict[str, float]) -> None:
    """The seconds of CPU that they take from now on."""
    from socketserver import BaseServer, ThreadingMixIn

    from sluiceway.flows.progress import LaneCounts
    from sluiceway.flows.pulse import Pulse
    from sluiceway.flows.tally import Tally

    counting, looking, answering, logged = SPENT
    timed: dict[str, list[tuple[type[Any], str]]] = {
        counting: [(Tally, "take"), (LaneCounts, "committed")],
        looking: [(Pulse, "_look"), (Pulse, "_summarise")],
        answering: [(BaseServer, "_handle_request_noblock"), (ThreadingMixIn, "process_request_thread")],
        logged: [(logging.Logger, "_log")],
    }
    for what, functions in timed.items():
        for owner, name in functions:
            setattr(owner, name, _timer(getattr(owner, name), what, spent))


def _timer(function: Any, what: str, spent: dict[str, float]) -> Any:
    @wraps(function)
    def timed(*given: Any, **named: Any) -> Any:
        start = time.thread_time()
        try:
            return function(*given, **named)
        finally:
            spent[what] += time.thread_time() - start

    return timed


def _count_nothing() -> None:
    """As if what polls give were not counted, and nobody looked how the flow does."""
    from sluiceway.flows import lane_run, run
    from sluiceway.flows.tally import Tally

    class Uncounted(Tally):
        def take(self, output: object) -> None: ...

    class NoPulse:
        def __init__(self, *given: object) -> None: ...

        def close(self) -> None: ...

    lane_run.Tally = Uncounted  # type: ignore[attr-defined]  # patched from outside
    run.Pulse = NoPulse  # type: ignore[assignment, attr-defined]  # likewise


def _scrape(name: str, progress: Any) -> float:
    """Seconds of CPU that an answer takes."""
    from prometheus_client import generate_latest

    from sluiceway.flows.metrics import FlowCollector, registry

    shown = registry(FlowCollector(name, "ofs", "1", progress, 30.0))
    generate_latest(shown)
    start = cpu_seconds()
    for _ in range(100):
        generate_latest(shown)
    return (cpu_seconds() - start) / 100


@contextmanager
def _watched(settings: Any, progress: Any) -> Iterator[None]:
    from sluiceway.cli import log
    from sluiceway.cli.listen import listening

    log.begin(log.LogFormat.JSON)
    addresses: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            addresses.extend(re.findall(r"are at (http://\S+)", record.getMessage()))

    logger = logging.getLogger("sluiceway.listen")
    logger.addHandler(Heard())
    with listening("127.0.0.1:0", settings, progress, 30.0):
        scraper = subprocess.Popen([sys.executable, "-c", SCRAPER, addresses[0]], stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            scraper.kill()
            scraper.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("given", type=orjson.loads)
    sys.stdout.buffer.write(orjson.dumps(flow(parser.parse_args().given)))

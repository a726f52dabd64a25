"""What a running flow shows Prometheus: one list, from which the page of the documentation is made too.

Labels are bounded: the flow, its lanes, the classes of dead letters. Streams and features are never labels: there may
be a million of them, and their names may be secrets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sluiceway.flows.health import troubles, unready
from sluiceway.flows.progress import DURATIONS, LaneCounts, LaneProgress, Progress

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels after `flow`, and the number."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric: its name without the prefix and without a counter's `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    """Besides `flow`."""
    meaning: str
    samples: Callable[[Progress], Samples]


def _of_counts(value: Callable[[LaneCounts], float]) -> Callable[[Progress], Samples]:
    return lambda progress: [
        ((str(lane),), value(counts)) for lane, counts in sorted(progress.counts.copy().items())
    ]


def _of_lanes(value: Callable[[LaneProgress], float | None]) -> Callable[[Progress], Samples]:
    def samples(progress: Progress) -> Iterator[tuple[tuple[str, ...], float]]:
        for lane, shown in sorted(progress.lanes.copy().items()):
            number = value(shown)
            if number is not None:
                yield (str(lane),), number

    return samples


def _of_process(value: Callable[[Progress], float]) -> Callable[[Progress], Samples]:
    return lambda progress: [((), value(progress))]


def _outputs(name: str) -> Callable[[Progress], Samples]:
    return _of_counts(lambda counts: counts.tally.outputs[name])


def _dead_letters(progress: Progress) -> Samples:
    for lane, counts in sorted(progress.counts.copy().items()):
        for name, number in sorted(counts.tally.dead_letters.copy().items()):
            yield (str(lane), name), number


def _newest(progress: Progress) -> Samples:
    for lane, counts in sorted(progress.counts.copy().items()):
        if counts.newest and lane in progress.lanes:
            yield (str(lane),), counts.newest


def _heard(progress: Progress) -> float:
    return time.time() - (time.monotonic() - progress.heard) if progress.heard else 0.0


LANE = ("lane",)
MEASURES: tuple[Measure, ...] = (
    Measure("records", "counter", LANE, "messages read", _of_counts(lambda counts: counts.tally.records)),
    Measure(
        "instances", "counter", LANE, "instances (or feature columns) that could be used",
        _of_counts(lambda counts: counts.tally.instances),
    ),
    Measure(
        "learnt", "counter", LANE, "labelled instances that were predicted, then learnt from",
        _of_counts(lambda counts: counts.tally.learnt),
    ),
    Measure(
        "mistakes", "counter", LANE, "of these, those predicted wrongly: divided by `learnt`, the error rate",
        _of_counts(lambda counts: counts.tally.mistakes),
    ),
    Measure(
        "dead_letters", "counter", ("lane", "class"),
        "records that could not be used, by [class](operations.md#dead-letters)", _dead_letters,
    ),
    Measure("snapshots", "counter", LANE, "snapshots of selections", _outputs("selections")),
    Measure("predictions", "counter", LANE, "predictions", _outputs("predictions")),
    Measure("verdicts", "counter", LANE, "verdicts on columns", _outputs("verdicts")),
    Measure("requests", "counter", LANE, "requests for features", _outputs("requests")),
    Measure(
        "applied", "counter", LANE, "instances with selected features only (`sluiceway apply`)", _outputs("applied")
    ),
    Measure("labelled", "counter", LANE, "instances with their labels (`sluiceway join`)", _outputs("labelled")),
    Measure(
        "features_entered", "counter", LANE, "features that entered a selection, as the snapshots say: the churn",
        _of_counts(lambda counts: counts.tally.entered),
    ),
    Measure(
        "features_left", "counter", LANE, "features that left one", _of_counts(lambda counts: counts.tally.left)
    ),
    Measure(
        "lane_reopenings", "counter", LANE, "times that the lane had to be opened again, mostly for the broker's sake",
        _of_counts(lambda counts: counts.reopened),
    ),
    Measure(
        "lag", "gauge", LANE, "records of the input that are not committed yet (bytes, in a directory)",
        _of_lanes(lambda lane: lane.lag),
    ),
    Measure(
        "position", "gauge", LANE, "where the newest commit stands in the input: an offset (a byte, in a directory)",
        _of_lanes(lambda lane: lane.committed),
    ),
    Measure(
        "last_commit_timestamp_seconds", "gauge", LANE,
        "when the newest commit was made; `time()` less this is its age", _newest,
    ),
    Measure("streams", "gauge", LANE, "streams that have a state", _of_lanes(lambda lane: lane.state.streams)),
    Measure(
        "state_bytes", "gauge", LANE, "the states of all its streams as they are stored, before compression",
        _of_lanes(lambda lane: lane.state.bytes),
    ),
    Measure(
        "lanes", "gauge", (), "lanes that this process has open", _of_process(lambda progress: len(progress.lanes))
    ),
    Measure(
        "lanes_opening", "gauge", (), "lanes whose state is being restored",
        _of_process(lambda progress: len(progress.opening)),
    ),
    Measure(
        "lanes_parked", "gauge", (), "[parked lanes](operations.md#parked-lanes)",
        _of_process(lambda progress: len(progress.parked)),
    ),
    Measure(
        "answered_timestamp_seconds", "gauge", (), "when a commit or a look at the input was last answered",
        _of_process(_heard),
    ),
    Measure(
        "ready", "gauge", (), "1 when `/readyz` says yes", _of_process(lambda progress: unready(progress) is None)
    ),
)  # fmt: skip
DURATION = "commit_duration_seconds"
DURATION_MEANING = "how long commits took, of all lanes (a histogram)"
HEALTHY, HEALTHY_MEANING = "healthy", "1 when `/healthz` says yes"
INFO, INFO_MEANING = "info", "always 1; the labels name the flow's operator and this release"
PREFIX = "sluiceway_"


class FlowCollector(Collector):
    """Reads a `Progress` whenever Prometheus asks; between two scrapes it costs nothing."""

    def __init__(self, flow: str, operator: str, version: str, progress: Progress, limit: float) -> None:
        self._flow = flow
        self._about = (flow, operator, version)
        self._progress = progress
        self._limit = limit

    def collect(self) -> Iterator[Metric]:
        about = GaugeMetricFamily(PREFIX + INFO, _plain(INFO_MEANING), labels=("flow", "operator", "version"))
        about.add_metric(self._about, 1)
        yield about
        for measure in MEASURES:
            family: Any = CounterMetricFamily if measure.kind == "counter" else GaugeMetricFamily
            told = family(PREFIX + measure.name, _plain(measure.meaning), labels=("flow", *measure.labels))
            for labels, number in measure.samples(self._progress):
                told.add_metric((self._flow, *labels), number)
            yield told
        healthy = GaugeMetricFamily(PREFIX + HEALTHY, _plain(HEALTHY_MEANING), labels=("flow",))
        healthy.add_metric((self._flow,), not troubles(self._progress, self._limit))
        yield healthy
        yield self._durations()

    def _durations(self) -> Metric:
        taken = list(self._progress.counts.copy().values())
        commits = list(accumulate(map(sum, zip(*(counts.commits for counts in taken), strict=True))))
        commits = commits or [0] * (len(DURATIONS) + 1)
        family = HistogramMetricFamily(PREFIX + DURATION, _plain(DURATION_MEANING), labels=("flow",))
        bounds = [*map(str, DURATIONS), "+Inf"]
        seconds = sum(counts.commit_seconds for counts in taken)
        family.add_metric((self._flow,), list(zip(bounds, commits, strict=True)), seconds)
        return family


def _plain(text: str) -> str:
    """Without what only a page understands."""
    while "](" in text:
        before, _, rest = text.partition("[")
        shown, _, rest = rest.partition("](")
        text = before + shown + rest.partition(")")[2]
    return text.replace("`", "")


def registry(collector: FlowCollector) -> CollectorRegistry:
    """And what every process has to tell: CPU time, memory, files."""
    made = CollectorRegistry(auto_describe=False)
    made.register(collector)
    ProcessCollector(registry=made)
    return made


def documented() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, kind, labels and meaning of every metric of ours."""
    yield PREFIX + INFO, "gauge", ("flow", "operator", "version"), INFO_MEANING
    for measure in MEASURES:
        suffix = "_total" if measure.kind == "counter" else ""
        yield PREFIX + measure.name + suffix, measure.kind, ("flow", *measure.labels), measure.meaning
    yield PREFIX + HEALTHY, "gauge", ("flow",), HEALTHY_MEANING
    yield PREFIX + DURATION, "histogram", ("flow",), DURATION_MEANING

"""What befalls a flow, and when: drawn from a seed, so that the seed alone gives it again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

Weights = Mapping[str, int]

PROCESS: Weights = MappingProxyType({"kill": 4, "term": 2, "freeze": 2, "die": 5})
"""What befalls a process: kill -9, SIGTERM, SIGSTOP and SIGCONT, a death in a commit or while a lane is restored."""
NETWORK: Weights = MappingProxyType({"cut": 3, "refuse": 2, "delay": 2, "throttle": 2})
BROKER: Weights = MappingProxyType({"broker killed": 1, "broker frozen": 1})
KAFKA: Weights = MappingProxyType({**PROCESS, **NETWORK, **BROKER, "compact": 2, "join": 1})
EMBEDDED: Weights = MappingProxyType({**PROCESS, "disk full": 4})
CLUSTER: Weights = MappingProxyType({"kill": 1, "term": 1, "leader moved": 2, "broker lost": 2, "broker frozen": 1})
LAST: Weights = MappingProxyType(
    {
        "nothing": 16,
        "state topic deleted": 1,
        "input topic deleted": 1,
        "predictions topic deleted": 1,
        "partitions added": 2,
    }
)
"""How a schedule on a broker ends: some faults leave a flow no choice but to stop."""
DEATHS = {
    "kafka": ("produced", "states", "record", "in-commit", "committed", "fenced", "opened", "restore"),
    "embedded": ("synced", "in-sql", "torn", "committed", "opened", "restore"),
}
CLUSTER_EVERY = 20
FAST: Mapping[int, str] = MappingProxyType(
    {
        5: "disk full, and a restore interrupted, beside directories",
        6: "half a line left behind, processes killed beside directories",
        10: "a clock moved, a death in an SQLite transaction",
        19: "three brokers: leaders moved, a broker lost",
        62: "a process frozen, the state topic deleted",
        74: "a compacted state, partitions added",
        76: "a death when a lane is fenced, connections throttled and cut",
        102: "a restore interrupted, a broker frozen",
        120: "a clock set back",
        851: "two processes, connections refused, a broker killed",
    }
)
"""Seeds that are played with the other tests, and what each has that others have not."""


class Event(NamedTuple):
    after: float
    """Seconds since the last one was over."""
    fault: str
    seconds: float
    """How long it lasts."""
    detail: str
    """Where a process dies; by how much the clock moves."""
    dice: float
    """Whom it meets."""


@dataclass(frozen=True)
class Schedule:
    seed: int
    kind: str
    """kafka, embedded or cluster."""
    processes: int
    clock: bool
    """The processes' clock can be moved; not under a Kafka client, whose waits libfaketime takes for others."""
    events: tuple[Event, ...]
    last: str

    def __str__(self) -> str:
        told = ", ".join(f"{event.fault}{f' ({event.detail})' if event.detail else ''}" for event in self.events)
        end = "" if self.last == "nothing" else f"; {self.last}"
        return f"seed {self.seed}: {self.kind}, {self.processes} process(es){' with a clock' * self.clock}: {told}{end}"


def draw(seed: int, *, kind: str | None = None) -> Schedule:
    """One in so many is on a cluster, unless `kind` says which it is."""
    if kind is None and seed % CLUSTER_EVERY == CLUSTER_EVERY - 1:
        kind = "cluster"
    random_ = random.Random(f"faults {seed}")
    drawn = random_.choices(("kafka", "embedded"), (6, 4))[0]
    kind = kind or drawn
    clock = random_.random() < 0.25 and kind == "embedded"
    processes = 2 if kind == "cluster" or (kind == "kafka" and random_.random() < 0.3) else 1
    weights = {"kafka": KAFKA, "embedded": EMBEDDED, "cluster": CLUSTER}[kind]
    weights = {**weights, "clock": 4} if clock else dict(weights)
    if processes == 1:
        weights.pop("join", None)
    events = tuple(_event(random_, kind, weights) for _ in range(random_.randint(3, 5)))
    last = random_.choices(tuple(LAST), tuple(LAST.values()))[0] if kind == "kafka" else "nothing"
    return Schedule(seed, kind, processes, clock, events, last)


def _event(random_: random.Random, kind: str, weights: Weights) -> Event:
    [fault] = random_.choices(tuple(weights), tuple(weights.values()))
    detail = ""
    if fault == "die":
        detail = f"{random_.choice(DEATHS['embedded' if kind == 'embedded' else 'kafka'])}:{random_.randint(1, 3)}"
    elif fault == "clock":
        detail = random_.choice(("-2d", "-90s", "+40s", "+30d"))
    longest = {"freeze": 8.0, "broker frozen": 5.0}.get(fault, 2.5)
    return Event(random_.uniform(0.1, 1.2), fault, random_.uniform(0.1, longest), detail, random_.random())

"""Flows of two lanes on either kind of topic, for the commands that deal with a flow's state."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from sluiceway.flows.flow_report import flow_report
from sluiceway.flows.reach import load, reach
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.url import DirectoryTopic
from tests.support import Topics
from tests.support.flow import Done, KafkaFlow, Running, sluiceway, toml
from tests.support.kafka import produce

LANES = 2
STREAMS = 5
SECTIONS: dict[str, dict[str, Any]] = {"operator": {"name": "ofs", "k": 3}, "emit": {"every": 20}}


def instances(start: int, stop: int) -> Iterable[tuple[str, str, int]]:
    """Stream, record and lane of the instances of these numbers, always the same."""
    for number in range(start, stop):
        draw = random.Random(number)
        x = {name: round(draw.gauss(0, 1), 3) for name in draw.sample("abcdefgh", 4)}
        stream = number % STREAMS
        label = 1 if x.get("a", 0) + x.get("b", 0) > 0 else -1
        record = {"stream": f"s{stream}", "id": f"e{number}", "x": x, "y": label}
        yield f"s{stream}", json.dumps(record), stream % LANES


class AnyFlow(Protocol):
    """What tests need of a flow, wherever its topics lie."""

    name: str
    file: Path

    def feed(self, start: int, stop: int) -> None: ...

    def other(self, name: str, **sections: Mapping[str, Any]) -> AnyFlow:
        """Another flow on the same input, with outputs of its own."""

    def write(self, **sections: Mapping[str, Any]) -> None: ...

    def run(self, *more: str) -> Done: ...

    def start(self, *more: str) -> Running: ...

    def lines(self, lane: int) -> list[bytes]:
        """The snapshots, as they stand."""


def newest(flow: AnyFlow) -> dict[str, dict[str, Any]]:
    """The last snapshot of each stream, but for the flow's name."""
    found = {}
    for lane in range(LANES):
        for line in flow.lines(lane):
            snapshot = json.loads(line)
            if snapshot.pop("flow") == flow.name:
                found[snapshot["stream"]] = snapshot
    return found


def ended(flow: AnyFlow, *more: str) -> None:
    done = flow.run(*more)
    assert done.code == 0, done.stderr
    assert "the input has ended; " in done.stderr, done.stderr


def report(flow: AnyFlow) -> dict[str, Any]:
    """What `sluiceway inspect --json` says, without a process of its own: it is asked again and again."""
    return asdict(flow_report(reach(load(flow.file)), lambda: None))


def has_learnt(flow: AnyFlow) -> bool:
    """Whether all streams stand in commits."""
    reached = reach(load(flow.file))
    return reached.store is not None and flow_report(reached, lambda: None).stream_count == STREAMS


class DirectoryFlow:
    """All topics are directories."""

    def __init__(self, directory: Path, name: str = "flow", **sections: Mapping[str, Any]) -> None:
        self.directory = directory
        self.name = name
        self.file = directory / f"{name}.toml"
        self._input = DirectoryTopic(directory / "in")
        create_directory_topic(self._input, LANES)
        self.outputs = {role: f"dir:{name}-{role}" for role in ("selections", "dead_letters")}
        self._sections: dict[str, dict[str, Any]] = {name: dict(table) for name, table in SECTIONS.items()}
        self.write(**sections)

    @property
    def state(self) -> Path:
        return self.directory / f"{self.name}-selections.state"

    def feed(self, start: int, stop: int) -> None:
        for _, record, lane in instances(start, stop):
            with (self._input.path / f"part-{lane:05d}.jsonl").open("a") as file:
                file.write(record + "\n")

    def other(self, name: str, **sections: Mapping[str, Any]) -> DirectoryFlow:
        return DirectoryFlow(self.directory, name, **{**self._sections, **sections})

    def write(self, **sections: Mapping[str, Any]) -> None:
        for table, changes in sections.items():
            self._sections[table] = {**self._sections.get(table, {}), **changes}
        topics = {"instances": "dir:in", **self.outputs}
        self.file.write_text(toml({"flow": {"name": self.name}, "topics": topics, **self._sections}))

    def arguments(self, *more: str) -> tuple[str | Path, ...]:
        return ("run", self.file, "--checkpoint-every", "0.2", *more)

    def run(self, *more: str) -> Done:
        return sluiceway(*self.arguments(*more))

    def start(self, *more: str) -> Running:
        return Running(*self.arguments(*more))

    def lines(self, lane: int) -> list[bytes]:
        path = self.directory / f"{self.name}-selections" / f"part-{lane:05d}.jsonl"
        return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


class BrokerFlow(KafkaFlow):
    """All topics lie on the broker; members are not static, so a stopped one is gone at once."""

    def __init__(
        self,
        topics: Topics,
        directory: Path,
        name: str = "flow",
        configs: Mapping[str, Mapping[str, str]] | None = None,
        **sections: Mapping[str, Any],
    ) -> None:
        given = {**SECTIONS, "input": {"stop": None}, "kafka": {"group.instance.id": None}}
        super().__init__(topics, directory, partitions=LANES, configs=configs, name=name, **{**given, **sections})

    def feed(self, start: int, stop: int) -> None:
        produce(self.bootstrap, self.instances, instances(start, stop))

    def other(self, name: str, **sections: Mapping[str, Any]) -> BrokerFlow:
        made = BrokerFlow(self.topics, self.directory, name, **sections)
        made.topic["instances"] = self.instances
        made.write()
        return made

    def lines(self, lane: int) -> list[bytes]:
        return [record.value for record in self.out("selections", partition=lane) if record.value is not None]

"""Worlds for schedules: flows come by a relay, and may have an input of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.crash.compare import Out, Output
from tests.crash.harness import Flow
from tests.crash.worlds import STATIC, KafkaWorld, produce_all
from tests.support.relay import RelayedBroker

TOPIC = "sluiceway.error.topic"


class ClusterWorld(KafkaWorld):
    """Each flow has an input topic of its own, which may come to harm."""

    def __init__(self, bootstrap: str, place: Path, size: int) -> None:
        self._size = size
        super().__init__(bootstrap, place, size)
        self._first = self.input

    def flow(self, series: str, place: Path, *, member: str | None = STATIC, selections: str | None = None) -> Flow:
        if hasattr(self, "_first"):
            self.topics.reconnect()
            self.topics.clear_but(self._first)
            self.input = self.topics("instances", self.topics.count(self._first))
            self.input_url = f"kafka://{self.bootstrap}/{self.input}"
            produce_all(self.bootstrap, self.input, self._size)
        return super().flow(series, place, member=member, selections=selections)

    def read(self, flow: Flow) -> Output:
        """With dead letters as if they had come from the first input."""
        found = super().read(flow)
        return {**found, "dead_letters": _renamed(found["dead_letters"])}


def _renamed(lanes: Mapping[int, Sequence[Out]]) -> Mapping[int, Sequence[Out]]:
    return {
        lane: [
            record._replace(headers=tuple((name, b"" if name == TOPIC else value) for name, value in record.headers))
            for record in records
        ]
        for lane, records in lanes.items()
    }


class RelayedWorld(ClusterWorld):
    """Flows reach the broker by its relay; tests do not."""

    def __init__(self, broker: RelayedBroker, place: Path, size: int) -> None:
        self._relayed = broker.relayed
        super().__init__(broker.bootstrap, place, size)

    def named_flow(
        self, name: str, series: str, place: Path, member: str | None = STATIC, selections: str | None = None
    ) -> Flow:
        flow = super().named_flow(name, series, place, member, selections)
        flow.file.write_text(flow.file.read_text().replace(self.bootstrap, self._relayed))
        return flow

"""Flows of columns and of windows on the broker, with the output of a run that was not disturbed.

As in the crash series: every run reads the same input under the same name, both being in the output's bytes, and writes
to output topics and a state topic of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import KafkaException

from tests.crash.compare import Out, Output, differences
from tests.crash.harness import Child, Flow, How
from tests.support import Topics, produce, read_committed, settle
from tests.support.flow import STATE, toml

MEMBER = {"session.timeout.ms": 6000, "group.instance.id": "only"}
"""A killed run's lanes are the next one's at once."""
Sent = tuple[bytes | None, bytes | None, int]
"""Key, value, partition."""


class SelectorWorld:
    """One input topic, and any number of flows over it."""

    def __init__(
        self,
        topics: Topics,
        place: Path,
        role: str,
        sent: Iterable[Sent],
        *,
        lanes: int,
        carries: Sequence[str],
        sections: Mapping[str, Mapping[str, Any]],
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> None:
        self._topics = topics
        self._place = place
        self._role = role
        self._lanes = lanes
        self._carries = tuple(carries)
        self._sections = sections
        self._name = topics.group(f"{role}-flow")
        topics.also(groups=[f"{self._name}.members"])
        self._input = topics(role, lanes)
        produce(topics.bootstrap, self._input, sent, {"compression.type": "lz4"}, headers)
        reference = self.flow("reference")
        reference.finish()
        self.expected = self.read(reference)

    def flow(self, series: str) -> Flow:
        """A flow that has never run, though its name has: only the group that lag tools read remembers it."""
        for done in self._topics.admin.delete_consumer_groups([self._name], request_timeout=30).values():
            with contextlib.suppress(KafkaException):  # it has never been
                done.result(30)
        outputs = {carries: self._topics(carries, self._lanes) for carries in self._carries}
        state = self._topics("state", self._lanes, STATE)
        urls = {role: f"kafka://{self._topics.bootstrap}/{name}" for role, name in {**outputs, "state": state}.items()}
        urls[self._role] = f"kafka://{self._topics.bootstrap}/{self._input}"
        file = self._place / f"{series}.toml"
        content = {"flow": {"name": self._name}, "topics": urls, "input": {"stop": "end"}, **self._sections}
        file.write_text(toml({**content, "kafka": MEMBER}))
        return Flow(file, self._name, series, outputs)

    def read(self, flow: Flow) -> Output:
        settle(self._topics.bootstrap, flow.outputs.values())
        return {
            carries: {
                lane: [Out(record.key, record.value, tuple(record.headers)) for record in records]
                for lane, records in read_committed(self._topics.bootstrap, topic, timeout=60).items()
            }
            for carries, topic in flow.outputs.items()
        }

    def values(self, carries: str) -> list[dict[str, Any]]:
        """The undisturbed run's records."""
        lanes = self.expected[carries].values()
        return [orjson.loads(record.value or b"null") for records in lanes for record in records]

    def survives(self, deaths: Sequence[str | float], *, pace: int) -> int:
        """Die so often, finish, and compare; the number of records that a death made a later run read again.

        A death is a place of the runner's (`produced:2`), or so many seconds after the first commit.
        """
        flow = self.flow("killed")
        try:
            for number, death in enumerate(deaths):
                if isinstance(death, str):
                    child = flow.start(How(die=death, pace=pace, rhythm=None if "one-lane" in death else number))
                    child.ends(-9, timeout=200)
                else:
                    child = flow.start(How(pace=pace, rhythm=number))
                    child.wait_for("committed")
                    _kill_after(child, death)
            flow.finish()
        finally:
            flow.kill_all()
        wrong = differences(self.expected, self.read(flow))
        assert not wrong, "\n".join(wrong)
        return sum(child.wasted for child in flow.children)


def _kill_after(child: Child, seconds: float) -> None:
    time.sleep(seconds)
    assert child.alive, f"it ended before it was killed:\n{child.stderr}"
    child.kill()

"""Instances and what was selected for them, read as one input.

Two topics arrive in no repeatable order, so an instance is held back until nothing can change its answer: until the
selecting flow has committed its progress past it, and everything that stood in the selections' partition at that
moment has been read. Instances and selections are co-partitioned, so each lane waits for its own partition only.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import orjson
from confluent_kafka import KafkaException, TopicPartition

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.lane import RawPoll
from sluiceway.topics import kafka
from sluiceway.topics.directory_store import DirectoryStore
from sluiceway.topics.reader import Reader
from sluiceway.topics.state_topic import Follower, StateTopic
from sluiceway.topics.url import KafkaTopic

logger = logging.getLogger("sluiceway.apply")

INSTANCES = "instances"
LOOK_SECONDS = 0.2
"""Between two looks at the selecting flow's progress."""
QUESTION_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
"""How long to wait for the selecting flow before a first word about it."""

# -- how far the selecting flow is ------------------------------------------------------------------------------------


class Look(NamedTuple):
    """All snapshots made from input before `position` stand before `mark` in the selections' partition."""

    position: int
    mark: int | None
    """None = they stand before its end."""


class KafkaProgress:
    """The selecting flow's newest commit, read first, and the end of the selections' partition, asked after it.

    The end that counts is the one of all records, committed or not: a transaction's records are written before it is
    committed, but may become visible in one topic before they do in another. Reading committed records up to that end
    waits for those.
    """

    def __init__(self, state: StateTopic, selections: KafkaTopic, lane: int) -> None:
        self._lane = lane
        self._selections = TopicPartition(selections.name, lane)
        self._lost = kafka.Lost()
        self._consumer = kafka.new_consumer(
            kafka.client_config(
                selections.bootstrap,
                {**state.config, "group.id": kafka.READERS},
                enable_auto_commit=False,
                isolation_level="read_uncommitted",
            )
        )
        self._following = Follower(state, [lane])

    def __call__(self) -> Look | None:
        try:
            self._following.poll()
            commit = self._following.commits[self._lane]
            marks = self._consumer.get_watermark_offsets(self._selections, timeout=QUESTION_SECONDS)
        except KafkaException as problem:
            if problem.args[0].code() in kafka.PASSING:
                self._lost.noticed()
                if self._lost.for_good():
                    raise ReopenError("the selecting flow's progress: this client has lost every broker") from problem
                return None
            raise FlowError(f"the selecting flow's progress cannot be read: {kafka.sentence(problem)}") from problem
        self._lost.heard()
        position = None if commit is None else commit.positions.get(INSTANCES)
        return None if position is None or marks is None else Look(position, marks[1])

    def close(self) -> None:
        self._consumer.close()
        self._following.close()


class StoreProgress:
    """The selecting flow's newest commit: directory topics are synced before it."""

    def __init__(self, store: DirectoryStore, lane: int) -> None:
        self._store = store
        self._lane = lane

    def __call__(self) -> Look | None:
        commit = self._store.glance(self._lane).commit
        position = None if commit is None else commit.positions.get(INSTANCES)
        return None if position is None else Look(position, None)

    def close(self) -> None: ...


# -- instances and selections as one input ----------------------------------------------------------------------------


class Selection(NamedTuple):
    """What a snapshot selects, and from which offset of the instances on."""

    source: int
    version: int
    features: frozenset[str]


@dataclass(slots=True)
class JoinedPoll(RawPoll):
    """Instances whose selection is settled, with what has been selected since the last poll."""

    news: dict[str, list[Selection]] = field(default_factory=dict)
    """By stream, in order; may repeat what was told before."""


class Looking(Protocol):
    def __call__(self) -> Look | None: ...

    def close(self) -> None: ...


class JoinedReader:
    """One lane's instances up to where the selecting flow has come, and the snapshots that it has made by then."""

    def __init__(
        self,
        flow: str,
        lane: int,
        instances: Reader,
        selections: Reader,
        look: Looking,
        tell: Callable[[str | None], None] = lambda waiting: None,
    ) -> None:
        self.position = instances.position
        self.stop = instances.stop
        self._flow = flow
        self._lane = lane
        self._instances = instances
        self._selections = selections
        self._look = look
        self._held: RawPoll | None = None
        self._settled = -1
        """Instances before this position have their answer."""
        self._waiting: Look | None = None
        self._next_look = 0.0
        self._news: dict[str, list[Selection]] = {}
        self._tell = tell
        self._since: float | None = None
        """When the waiting began."""
        self._patience = PATIENCE_SECONDS

    def poll(self) -> JoinedPoll | None:
        if self._held is None:
            self._held = self._instances.poll()
        if self._held is None:
            return None
        if self._held.arrow:
            raise FlowError("the instances hold Arrow messages, which `sluiceway apply` does not read: only `run` does")
        if self._held.stop > self._settled:
            self._settle()
        return self._release(self._held)

    def _settle(self) -> None:
        """Go on with a look at the flow's progress: it holds once the selections have been read up to its mark."""
        if self._waiting is None:
            if time.monotonic() < self._next_look:
                return
            look = self._look()
            self._next_look = time.monotonic() + LOOK_SECONDS
            if look is None or look.position <= self._settled:
                return
            self._waiting = look
        poll = self._selections.poll()
        if poll is not None:
            self._take(poll)
        mark = self._waiting.mark
        if poll is None if mark is None else self._selections.position >= mark:
            self._settled = self._waiting.position
            self._waiting = None

    def _release(self, held: RawPoll) -> JoinedPoll | None:
        if held.stop <= self._settled:
            now, self._held = held, None
        else:
            rows = bisect_right(held.next_offsets, self._settled)
            if rows == 0:
                self._wait(held)
                return None
            now, self._held = _split(held, rows)
        self._since = None
        self._tell(None)
        news, self._news = self._news, {}
        self.position = now.stop
        return JoinedPoll(
            now.lane, now.start, now.stop, now.end, now.keys, now.values, now.offsets, now.next_offsets, news=news
        )

    def _wait(self, held: RawPoll) -> None:
        """Say what for: on a display at once, in a log when it lasts, and each time only if it lasts longer."""
        what = f"waiting for {self._flow} to pass offset {held.offsets[0] if held.offsets else held.start}"
        self._tell(what)
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since > self._patience:
            logger.warning("%s of partition %d", what, self._lane)
            self._patience *= 2

    def _take(self, poll: RawPoll) -> None:
        prefix = f"{self._flow}/".encode()
        for key, value in zip(poll.keys, poll.values, strict=True):
            if value is None or (key is not None and not key.startswith(prefix)):
                continue  # a retired stream has no instances to come, and others' snapshots are none of ours
            snapshot = orjson.loads(value)
            if snapshot["flow"] != self._flow:
                continue
            source = snapshot["source"].get("instances")
            if source is None or source["partition"] != self._lane:
                raise FlowError(
                    f"a snapshot of {self._flow}/{snapshot['stream']} in partition {self._lane} was made from"
                    f" {orjson.dumps(snapshot['source']).decode()}: not from this partition of these instances"
                )
            features = frozenset(selected["feature"] for selected in snapshot["selected"])
            known = self._news.setdefault(snapshot["stream"], [])
            if source["offset"] <= self.position:
                known.clear()  # at a start: all instances to come are after this one already
            known.append(Selection(source["offset"], snapshot["version"], features))

    def close(self) -> None:
        self._instances.close()
        self._selections.close()
        self._look.close()


def _split(poll: RawPoll, rows: int) -> tuple[RawPoll, RawPoll]:
    """The first rows, and the rest, which alone may be the end."""
    at = poll.next_offsets[rows - 1]
    keys, values, offsets, following = poll.keys, poll.values, poll.offsets, poll.next_offsets
    first = RawPoll(poll.lane, poll.start, at, False, keys[:rows], values[:rows], offsets[:rows], following[:rows])
    rest = RawPoll(poll.lane, at, poll.stop, poll.end, keys[rows:], values[rows:], offsets[rows:], following[rows:])
    return first, rest



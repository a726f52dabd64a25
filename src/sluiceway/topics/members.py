"""Which lanes a worker has: the consumer group `<flow>.members` hands them out, and takes them back.

A member subscribes to the state topic, whose partitions are the lanes, and reads nothing: it is there to be counted. So
partitions that are added to the input are not taken for lanes before the state topic has them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluiceway.errors import FlowError
from sluiceway.topics import kafka

logger = logging.getLogger("sluiceway.members")

LEAVE_SECONDS = 2.0
JOIN_AGAIN_SECONDS = 60.0
"""A member that is fenced twice within this time shares its name with another."""
SUFFIX = ".members"
SHARED = "by which the processes of a flow share its lanes"
"""What the group is for."""
DEFAULTS: kafka.Config = {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 2_000}
"""How long a killed member's lanes wait for another owner, and how often a member says that it lives. It is longer than
a cluster takes to find another coordinator for the group (8 to 15 s): a shorter session would lose all lanes then."""
REFUSED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""What a member cannot get over; all else passes, or is told by the lanes themselves."""


def forgotten_after(config: kafka.Config) -> float:
    """Seconds until a group has forgotten a static member that is away: one that comes back before gets the lanes that
    it had, and no others, since nothing is shared out anew."""
    session = {**DEFAULTS, **config}["session.timeout.ms"]
    return float(session) / 1000 + 1.0 if kafka.INSTANCE_ID in config else 0.0


class Membership(Protocol):
    """Tells a worker of the lanes it gets and loses."""

    def poll(self) -> None:
        """Must be called all the time: a member that does not is taken for dead."""

    def close(self) -> None: ...


class AllLanes:
    """Of a flow that is one process: its workers share the lanes out by number."""

    def __init__(self, lanes: Sequence[int], gained: Callable[[int], None]) -> None:
        self._lanes = lanes
        self._gained: Callable[[int], None] | None = gained

    def poll(self) -> None:
        if self._gained is not None:
            gained, self._gained = self._gained, None
            for lane in self._lanes:
                gained(lane)

    def close(self) -> None: ...


class GroupMember:
    """One worker among those that run the flow, in whatever processes."""

    def __init__(
        self,
        flow: str,
        bootstrap: str,
        config: kafka.Config,
        topic: str,
        worker: int,
        gained: Callable[[int], None],
        lost: Callable[[int, bool], None],
    ) -> None:
        """`lost` is told of a lane, and whether the group has thrown this member out rather than asked for it."""
        self._flow = flow
        self._topic = topic
        self._gained = gained
        self._lost = lost
        own = {name: value for name, value in {**DEFAULTS, **config}.items() if name in kafka.MEMBERS_OWN}
        if kafka.INSTANCE_ID in own:
            own[kafka.INSTANCE_ID] = f"{own[kafka.INSTANCE_ID]}-{worker}"
        self._config = {
            **kafka.client_config(
                bootstrap,
                config,
                group_id=flow + SUFFIX,
                enable_auto_commit=False,
                auto_offset_reset="latest",
                partition_assignment_strategy="cooperative-sticky",
                queued_max_messages_kbytes=1,
            ),
            **own,
        }
        self._held: set[int] = set()
        self._joined_again = -math.inf
        self._join()

    def _join(self) -> None:
        self._consumer = kafka.new_consumer(self._config)
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._thrown_out
        )

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.incremental_assign(places)
        if places:
            consumer.pause(places)
        for place in places:
            self._held.add(place.partition)
            self._gained(place.partition)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition], *, thrown_out: bool = False) -> None:
        for place in places:
            self._held.discard(place.partition)
            self._lost(place.partition, thrown_out)
        consumer.incremental_unassign(places)

    def _thrown_out(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._revoked(consumer, places, thrown_out=True)

    def poll(self) -> None:
        try:
            message: Message | None = self._consumer.poll(0)
        except KafkaException as problem:
            raise self._refused(problem.args[0]) from problem
        error = None if message is None else message.error()
        if error is None or not (kafka.is_fatal(error) or error.code() in REFUSED):
            return
        if not kafka.is_fatal(error) or time.monotonic() - self._joined_again < JOIN_AGAIN_SECONDS:
            raise self._refused(error)
        self._join_again(error)

    def _join_again(self, error: KafkaError) -> None:
        """As a new client. After an outage a broker answers all the questions of a static member that it had left
        waiting: the last of them fences the one before. If that was another process of this name, it happens again."""
        logger.warning("joining %s again: %s", self._flow + SUFFIX, kafka.sentence(error))
        self._joined_again = time.monotonic()
        for lane in sorted(self._held):
            self._lost(lane, True)
        self._held.clear()
        self.close()
        self._join()

    def _refused(self, error: KafkaError) -> FlowError:
        if error.code() == KafkaError.FENCED_INSTANCE_ID or "group.instance.id" in error.str():
            return FlowError(
                f"another process has taken this one's place in {self._flow + SUFFIX!r}: it has the same"
                f" group.instance.id"
            )
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return FlowError(
                f"the broker denies this client READ of the consumer group {self._flow + SUFFIX!r}, {SHARED}"
            )
        return FlowError(f"this process cannot be a member of {self._flow + SUFFIX!r}: {kafka.sentence(error)}")

    def close(self) -> None:
        """Leave the group, so that others get the lanes at once; not longer than a moment, should no broker answer."""
        leaving = threading.Thread(target=self._consumer.close, name="leave", daemon=True)
        leaving.start()
        leaving.join(LEAVE_SECONDS)

"""Which lanes a worker has: the consumer group `<flow>.members` hands them out, and takes them back.

A member subscribes to the state topic, whose partitions are the lanes, and reads nothing: it is there to be counted. So
partitions that are added to the input are not taken for lanes before the state topic has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluiceway.errors import FlowError
from sluiceway.topics import kafka

LEAVE_SECONDS = 2.0
SUFFIX = ".members"
DEFAULTS: kafka.Config = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
"""How long a killed member's lanes wait for another owner, and how often a member says that it lives."""
REFUSED = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FATAL,  # what a fenced one is told first: the reason stands in its text alone
    }
)
"""What a member cannot get over; all else passes, or is told by the lanes themselves."""


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
        lost: Callable[[int], None],
    ) -> None:
        self._flow = flow
        self._gained = gained
        self._lost = lost
        ours = {**DEFAULTS, **{name: value for name, value in config.items() if name in kafka.MEMBERSHIP}}
        if kafka.INSTANCE_ID in ours:
            ours[kafka.INSTANCE_ID] = f"{ours[kafka.INSTANCE_ID]}-{worker}"
        basic = kafka.client_config(
            bootstrap,
            config,
            group_id=flow + SUFFIX,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            partition_assignment_strategy="cooperative-sticky",
            queued_max_messages_kbytes=1,
        )
        self._consumer = kafka.new_consumer({**basic, **ours})
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.incremental_assign(places)
        if places:
            consumer.pause(places)
        for place in places:
            self._gained(place.partition)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        for place in places:
            self._lost(place.partition)
        consumer.incremental_unassign(places)

    def poll(self) -> None:
        try:
            message: Message | None = self._consumer.poll(0)
        except KafkaException as problem:
            raise self._refused(problem.args[0]) from problem
        error = None if message is None else message.error()
        if error is not None and (error.fatal() or error.code() in REFUSED):
            raise self._refused(error)

    def _refused(self, error: KafkaError) -> FlowError:
        if error.code() == KafkaError.FENCED_INSTANCE_ID or "group.instance.id" in error.str():
            return FlowError(
                f"another process has taken this one's place in {self._flow + SUFFIX!r}: it has the same"
                f" group.instance.id"
            )
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return FlowError(
                f"the broker denies this client READ of the consumer group {self._flow + SUFFIX!r}, by which the"
                f" processes of a flow share its lanes"
            )
        return FlowError(f"this process cannot be a member of {self._flow + SUFFIX!r}: {kafka.sentence(error)}")

    def close(self) -> None:
        """Leave the group, so that others get the lanes at once; not longer than a moment, should no broker answer."""
        leaving = threading.Thread(target=self._consumer.close, name="leave", daemon=True)
        leaving.start()
        leaving.join(LEAVE_SECONDS)

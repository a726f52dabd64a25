"""One lane's transactional producer: whatever it writes between two commits becomes visible together, or never."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sluiceway.errors import FlowError, ReopenError
from sluiceway.schemas.lane import LaneOutput, OutRecord, OutRecords
from sluiceway.topics import kafka

CALL_SECONDS = 25.0
"""How long a call of the client may take. A lane that waits longer is opened again, with another producer."""
BYTES_A_SECOND = 1_000_000
"""A commit of so many bytes may take a second longer."""
BATCH_BYTES = 1_000_000
RECORD_OVERHEAD = 200
"""More than a record batch of one record needs beside key, value and headers."""

FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
FINAL = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_RECORD,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""Opening the lane again would meet the same."""

_kept: list[Producer] = []
"""Destroying a fenced producer can end the process (seen twice in 500): those that failed for good are kept."""


@dataclass(frozen=True, slots=True)
class KafkaOutput:
    """Where a flow's records go."""

    flow: str
    bootstrap: str
    config: kafka.Config
    topics: Mapping[str, kafka.TopicInfo]
    """By what they carry: selections, predictions, dead_letters."""
    state: kafka.TopicInfo
    transaction_seconds: float
    """How long a transaction may stay open: well above the checkpoint interval."""

    def producer_config(self, lane: int | str) -> dict[str, object]:
        defaults: dict[str, str | int] = {
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
        limits = [info.max_message_bytes for info in (*self.topics.values(), self.state)]
        return kafka.client_config(
            self.bootstrap,
            {**defaults, **self.config},
            enable_idempotence=True,
            acks="all",
            message_max_bytes=max(*limits, 1000),
            # a topic's limit is one for whole batches: they must fit into the smallest
            batch_size=min(int(self.config.get("batch.size", BATCH_BYTES)), *limits),
            transactional_id=f"{self.flow}/{lane}",
            transaction_timeout_ms=round(self.transaction_seconds * 1000),
        )


class TransactionalWriter:
    """Fences its predecessor, then writes transactions; every call ends, with an error if it must."""

    def __init__(self, lane: int, output: KafkaOutput, name: str | None = None) -> None:
        """`name` stands in the transactional id instead of the lane's number, for one that disturbs no lane."""
        self._lane = lane
        self._output = output
        self._producer = kafka.new_producer(output.producer_config(lane if name is None else name))
        self._open_since: float | None = None
        self._broken = False
        self._size = 0

    def fence(self) -> None:
        """After this no predecessor can commit, and what it had committed can be read."""
        try:
            self._producer.init_transactions(CALL_SECONDS)
        except KafkaException as problem:
            raise self._failed(problem) from problem

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, output: LaneOutput) -> None:
        """One poll's records, to this lane's partition of every topic."""
        for carries, topic in self._output.topics.items():
            records: Sequence[OutRecord] = getattr(output, carries)
            if carries == "selections":
                records = output.selections + output.finals
            if records:
                self._write(topic, records)
        self._poll(0)

    def _write(self, topic: kafka.TopicInfo, records: Sequence[OutRecord]) -> None:
        largest = records.largest if isinstance(records, OutRecords) else max(record.size for record in records)
        if largest > topic.max_message_bytes - RECORD_OVERHEAD:
            raise FlowError(
                f"a record of {largest} bytes for topic {topic.name!r} is over its limit of"
                f" {topic.max_message_bytes}: raise the topic's max.message.bytes and start the flow again"
            )
        if isinstance(records, OutRecords):
            pairs = zip(records.keys, records.values, strict=True)
            self.put(topic.name, self._lane, [{"key": key, "value": value} for key, value in pairs])
        elif records[0].headers:  # which only dead letters have, and produce_batch() does not take
            self._begin()
            for record in records:
                self._produce(topic.name, record)
        else:
            self.put(topic.name, self._lane, [{"key": record.key, "value": record.value} for record in records])

    def put(self, topic: str, partition: int, batch: list[dict[str, Any]]) -> None:
        """Plain keys and values, within the transaction."""
        self._begin()
        deadline = time.monotonic() + CALL_SECONDS
        while batch:
            queued = self._producer.produce_batch(topic, batch, partition=partition)
            if queued == len(batch):
                return
            left = [message for message in batch if "_error" in message]
            for message in left:
                error = message.pop("_error")
                if isinstance(error, KafkaError) and error.code() != KafkaError._QUEUE_FULL:
                    raise self._failed(KafkaException(error), topic)
            if len(left) < len(batch):
                deadline = time.monotonic() + CALL_SECONDS
            batch = left
            self._make_room(deadline)

    def _produce(self, topic: str, record: OutRecord) -> None:
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                self._producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=self._lane,
                    headers=list(record.headers) or None,
                )
                return
            except BufferError:
                self._make_room(deadline)
            except KafkaException as problem:
                raise self._failed(problem, topic) from problem

    def _make_room(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise ReopenError(f"lane {self._lane}: the broker has taken no output for {CALL_SECONDS:.0f} s")
        self._poll(0.1)

    def _poll(self, seconds: float) -> None:
        """Whoever polls first is told what became of records sent before: a fenced lane may hear of it here."""
        try:
            self._producer.poll(seconds)
        except KafkaException as problem:
            raise self._failed(problem) from problem

    # -- transactions --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._open_since is None:
            try:
                self._producer.begin_transaction()
            except KafkaException as problem:
                raise self._failed(problem) from problem
            self._open_since = time.monotonic()

    def commit(self, size: int = 0) -> None:
        """`size` is roughly how many bytes may still be under way."""
        self._begin()
        try:
            self._producer.commit_transaction(CALL_SECONDS + size / BYTES_A_SECOND)
        except KafkaException as problem:
            raise self._failed(problem) from problem
        self._open_since = None

    def announce(self, topic: str, key: bytes, value: bytes) -> int:
        """A transaction of one record to this lane's partition; its offset."""
        placed: list[int] = []

        def note(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                placed.append(offset)

        self._begin()
        try:
            self._producer.produce(topic, value, key, self._lane, on_delivery=note)
            self._producer.flush(CALL_SECONDS)
        except KafkaException as problem:
            raise self._failed(problem, topic) from problem
        except SystemError as problem:
            # the client calls `note` with a fatal error raised already, which Python takes for a fault of the call
            if isinstance(problem.__cause__, KafkaException):
                raise self._failed(problem.__cause__, topic) from problem
            raise
        self.commit()
        self._poll(0)
        if not placed:
            raise ReopenError(f"lane {self._lane}: the broker does not say where it has put the open record")
        return placed[0]

    def abort(self) -> None:
        """Give up what is open, so that readers need not wait for it."""
        if self._open_since is not None:
            self._open_since = None
            try:
                self._producer.abort_transaction(CALL_SECONDS)
            except KafkaException as problem:
                raise self._failed(problem) from problem

    def close(self) -> None:
        """Nothing is flushed: an open transaction is aborted by whoever opens this lane next."""
        if self._broken:
            _kept.append(self._producer)
        else:
            self._producer.purge()

    # -- what went wrong -----------------------------------------------------------------------------------------

    def _failed(self, problem: KafkaException, topic: str | None = None) -> FlowError:
        """Whether the lane must be opened again, or opening it again would not help."""
        cause = self._cause(problem)
        error: KafkaError = cause.args[0]
        self._broken = self._broken or error.fatal() or error.code() in FENCED
        open_for = 0.0 if self._open_since is None else time.monotonic() - self._open_since
        if open_for > self._output.transaction_seconds:
            return ReopenError(
                f"lane {self._lane}: the transaction timed out: it was open for {open_for:.0f} s, the limit is"
                f" {self._output.transaction_seconds:.0f} s; nothing of it is visible"
            )
        if error.code() in FENCED:
            return ReopenError(
                f"lane {self._lane}: another process has opened this lane of {self._output.flow!r}; nothing of the"
                f" open transaction is visible"
            )
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            topics = ", ".join(self._names()) if topic is None else topic
            return FlowError(
                f"lane {self._lane}: the broker denies this client WRITE to one of its topics ({topics}); nothing of"
                f" the open transaction is visible, start the flow again when it is allowed"
            )
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return FlowError(
                f"lane {self._lane}: the broker denies this client WRITE to transactional ids that begin with"
                f" {f'{self._output.flow}/'!r}"
            )
        where = f"topic {topic!r} does not take the flow's records" if topic else "the lane's output is not committed"
        kind = FlowError if error.code() in FINAL else ReopenError
        return kind(f"lane {self._lane}: {where}: {kafka.sentence(cause)}")

    def _names(self) -> Sequence[str]:
        return [info.name for info in (*self._output.topics.values(), self._output.state)]

    def _cause(self, problem: KafkaException) -> KafkaException:
        """Once a transaction has failed, whatever meets it says only that; asked for another one, it says why."""
        if problem.args[0].code() in (KafkaError._STATE, KafkaError._FATAL):
            try:
                self._producer.begin_transaction()
            except KafkaException as cause:
                return cause
        return problem

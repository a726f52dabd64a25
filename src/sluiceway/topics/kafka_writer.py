"""Writing one lane's output to Kafka, exactly once or at least once.

Exactly once: one transactional producer a lane, one transaction an epoch. The lane's input position is committed inside
the transaction, in the consumer group named after the flow, so the broker itself knows how far the output has got. A
new producer first fences its predecessor, then asks that group: output made from earlier input is out already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from sluiceway.errors import FlowError
from sluiceway.schemas.lane import LaneOutput, OutRecord
from sluiceway.topics import kafka

WriterState = dict[str, Any]
COMMIT_SECONDS = 60.0
BATCH_BYTES = 1_000_000
RECORD_OVERHEAD = 200
"""More than a record batch of one record needs beside key, value and headers."""
POSITION = "position"
"""In a lane's state: what it has committed."""
FINAL = "final"
"""Metadata of a committed position: the final snapshots that belong to it are out too."""


@dataclass(frozen=True, slots=True)
class KafkaOutput:
    """Where a flow's records go, and how its progress is named."""

    flow: str
    bootstrap: str
    config: kafka.Config
    topics: Mapping[str, kafka.TopicInfo]
    """By what they carry: selections, predictions, dead_letters."""
    progress_topic: str
    """The topic whose partitions name the lanes in the flow's group: the input, or else an output."""
    transaction_seconds: float
    """How long a transaction may stay open: well above the checkpoint interval."""

    def producer_config(self, **ours: str | int | float | bool) -> dict[str, object]:
        defaults: dict[str, str | int] = {"linger.ms": 20, "compression.type": "lz4"}
        limits = [info.max_message_bytes for info in self.topics.values()]
        return kafka.client_config(
            self.bootstrap,
            {**defaults, **self.config},
            enable_idempotence=True,
            acks="all",
            message_max_bytes=max(*limits, 1000),
            # a topic's limit is one for whole batches: they must fit into the smallest
            batch_size=min(int(self.config.get("batch.size", BATCH_BYTES)), *limits),
            **ours,
        )


class _Producing:
    """What both ways of delivery share: handing records to a producer, refusing what the broker would refuse."""

    def __init__(self, lane: int, output: KafkaOutput) -> None:
        self._lane = lane
        self._output = output

    def _send(self, producer: Producer, output: LaneOutput, *, done: int, finals: bool) -> None:
        for carries, topic in self._output.topics.items():
            records: list[OutRecord] = getattr(output, carries)
            if records and records[0].offset < done:
                records = [record for record in records if record.offset >= done]
            if carries == "selections" and finals:
                records = records + output.finals
            if records:
                self._produce(producer, topic, records)
        producer.poll(0)

    def _produce(self, producer: Producer, topic: kafka.TopicInfo, records: list[OutRecord]) -> None:
        limit = topic.max_message_bytes - RECORD_OVERHEAD
        for record in records:
            if record.size > limit:
                raise FlowError(
                    f"a record of {record.size} bytes for topic {topic.name!r} is over its limit of"
                    f" {topic.max_message_bytes}: raise the topic's max.message.bytes and start the flow again"
                )
        if records[0].headers:  # which only dead letters have, and produce_batch() does not take
            for record in records:
                self._produce_one(producer, topic.name, record)
        else:
            self._produce_batch(
                producer, topic.name, [{"key": record.key, "value": record.value} for record in records]
            )

    def _produce_batch(self, producer: Producer, topic: str, batch: list[dict[str, object]]) -> None:
        while batch:
            queued = producer.produce_batch(topic, batch, partition=self._lane)
            if queued == len(batch):
                return
            left = [message for message in batch if "_error" in message]
            for message in left:
                error = message.pop("_error")
                if isinstance(error, KafkaError) and error.code() != KafkaError._QUEUE_FULL:
                    raise self._refused(topic, error)
            batch = left
            producer.poll(0.1)

    def _produce_one(self, producer: Producer, topic: str, record: OutRecord) -> None:
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=self._lane,
                    headers=list(record.headers) or None,
                )
                return
            except BufferError:
                producer.poll(0.1)
            except KafkaException as problem:
                raise self._refused(topic, problem) from problem

    def _refused(self, topic: str, problem: KafkaError | KafkaException) -> FlowError:
        return FlowError(f"topic {topic!r} does not take the flow's records: {kafka.sentence(problem)}")


class TransactionalLane(_Producing):
    """Exactly once."""

    def __init__(
        self, lane: int, output: KafkaOutput, starters: ThreadPoolExecutor, state: WriterState | None = None
    ) -> None:
        super().__init__(lane, output)
        self._known: int = (state or {}).get(POSITION, -1)
        self._waiting: list[LaneOutput] = []
        self._position: int | None = None
        self._final = False
        self._begun = 0.0
        self._started: Future[None] = starters.submit(self._start)

    def _start(self) -> None:
        """Fence the predecessor, then ask how far its output got."""
        self._producer = kafka.new_producer(
            self._output.producer_config(
                transactional_id=f"{self._output.flow}/{self._lane}",
                transaction_timeout_ms=round(self._output.transaction_seconds * 1000),
            )
        )
        try:
            self._producer.init_transactions(COMMIT_SECONDS)
        except KafkaException as problem:
            raise FlowError(f"lane {self._lane} cannot start its transactions: {kafka.sentence(problem)}") from problem
        group = kafka.new_consumer(
            kafka.client_config(self._output.bootstrap, self._output.config, group_id=self._output.flow)
        )
        try:
            self._group = group.consumer_group_metadata()
            place = TopicPartition(self._output.progress_topic, self._lane)
            [committed] = kafka.committed(group, [place], COMMIT_SECONDS)
        except KafkaException as problem:
            raise FlowError(f"lane {self._lane} cannot learn its progress: {kafka.sentence(problem)}") from problem
        finally:
            group.close()
        self._done = max(committed.offset, 0)
        self._done_final = committed.metadata == FINAL
        if max(committed.offset, self._known) >= 0:
            # a committed offset expires days after its last commit: a start renews it, also one that has expired
            self._position, self._final = max(committed.offset, self._known), self._done_final
            self._begin()
            self._commit()

    def write(self, output: LaneOutput) -> None:
        self._waiting.append(output)
        if self._started.done():
            self._write_waiting()

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for output in waiting:
            self._write_now(output)

    def _write_now(self, output: LaneOutput) -> None:
        self._started.result()
        if self._position is None:
            self._begin()
        finals_out = output.stop < self._done or (output.stop == self._done and self._done_final)
        self._send(self._producer, output, done=self._done, finals=not finals_out)
        self._position, self._final = output.stop, bool(output.finals)

    def _begin(self) -> None:
        self._begun = time.monotonic()
        try:
            self._producer.begin_transaction()
        except KafkaException as problem:
            raise self._failed(problem) from problem

    def commit(self) -> WriterState:
        self._started.result()
        self._write_waiting()
        if self._position is not None:
            self._commit()
        return {POSITION: self._known}

    def _commit(self) -> None:
        assert self._position is not None
        # what a predecessor got out beyond this position stays out: the broker's word never goes back
        position = max(self._position, self._done)
        final = (self._final and self._position >= self._done) or (self._done_final and self._position <= self._done)
        place = TopicPartition(
            self._output.progress_topic, self._lane, position, metadata=FINAL if final else ""
        )
        try:
            self._producer.send_offsets_to_transaction([place], self._group, COMMIT_SECONDS)
            self._producer.commit_transaction(COMMIT_SECONDS)
        except KafkaException as problem:
            raise self._failed(self._cause(problem)) from problem
        self._position, self._known = None, position

    def _refused(self, topic: str, problem: KafkaError | KafkaException) -> FlowError:
        error = problem if isinstance(problem, KafkaException) else KafkaException(problem)
        cause = self._cause(error)
        return super()._refused(topic, problem) if cause is error else self._failed(cause)

    def _cause(self, problem: KafkaException) -> KafkaException:
        """Once a transaction has failed, whatever meets it says only that; asked for another one, it says why."""
        if problem.args[0].code() == KafkaError._STATE:
            try:
                self._producer.begin_transaction()
            except KafkaException as cause:
                return cause
        return problem

    def _failed(self, problem: KafkaException) -> FlowError:
        error = problem.args[0]
        open_for = time.monotonic() - self._begun
        if open_for > self._output.transaction_seconds:
            return FlowError(
                f"lane {self._lane}: the transaction timed out: it was open for {open_for:.0f} s, the limit is"
                f" {self._output.transaction_seconds:.0f} s; nothing of it is visible, start the flow again"
            )
        if error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return FlowError(
                f"lane {self._lane}: another process has taken over the flow {self._output.flow!r};"
                f" this one stops, nothing of its open transaction is visible"
            )
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            topics = ", ".join(info.name for info in self._output.topics.values())
            return FlowError(
                f"lane {self._lane}: the broker denies this client WRITE to one of its output topics ({topics});"
                f" nothing of the open transaction is visible, start the flow again when it is allowed"
            )
        return FlowError(f"lane {self._lane}: the epoch's output could not be committed: {kafka.sentence(problem)}")

    def close(self) -> None:
        """Nothing: an open transaction is aborted by whoever starts this lane next."""


class IdempotentLane(_Producing):
    """At least once: visible at once, flushed at each checkpoint; after a crash the same records come again."""

    def __init__(self, lane: int, output: KafkaOutput) -> None:
        super().__init__(lane, output)
        self._error: KafkaError | None = None
        # delivery reports for failures alone: reports of success cost time on every record
        config = output.producer_config(delivery_report_only_error=True)
        self._producer = kafka.new_producer({**config, "on_delivery": self._note})

    def _note(self, error: KafkaError | None, message: Message) -> None:
        self._error = self._error or error

    def write(self, output: LaneOutput) -> None:
        self._send(self._producer, output, done=0, finals=True)
        self._check()

    def commit(self) -> WriterState:
        unsent = self._producer.flush(COMMIT_SECONDS)
        self._check()
        if unsent:
            raise FlowError(f"lane {self._lane}: the broker took no output for {COMMIT_SECONDS:.0f} s")
        return {}

    def _check(self) -> None:
        if self._error is not None:
            raise FlowError(f"lane {self._lane}: a record was not delivered: {kafka.sentence(self._error)}")

    def close(self) -> None:
        self._producer.purge()

"""Redriving on a broker: records and ledger in one transaction, so that each letter is sent once, whatever happens.

The ledger lies in the topic of the dead letters itself, as records with the header `sluiceway.redrive`: it lasts as
long as the letters that it is about. Another redrive of the same topic fences this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sluiceway.errors import FlowError, SettingsError
from sluiceway.schemas.encode import REDRIVEN
from sluiceway.topics import kafka
from sluiceway.topics.dead_letters import Letter, letter_of
from sluiceway.topics.feeds import Entry, read_all
from sluiceway.topics.kafka_writer import FENCED
from sluiceway.topics.redrive import Choice, Ledger, Report, chosen, partition_for
from sluiceway.topics.url import KafkaTopic

LEDGER = "sluiceway.redrive"
MARK = REDRIVEN
BATCH = 500
CALL_SECONDS = 30.0


def redrive(
    dead: KafkaTopic, to: KafkaTopic, settings: kafka.Config, choice: Choice, *, dry: bool, tick: Callable[[], None]
) -> Report:
    if dead.bootstrap != to.bootstrap:
        raise SettingsError("dead letters can be sent to a topic of the same Kafka cluster only: one transaction")
    found = kafka.describe_topics(dead.bootstrap, settings, [dead.name, to.name])
    for name, info in found.items():
        if info is None:
            raise SettingsError(f"topic {name!r} does not exist on {dead.bootstrap}")
    target = found[to.name]
    assert target is not None
    report = Report()
    if dry:
        ledger = _ledger(read_all(dead, settings))
        for _ in chosen(_letters(read_all(dead, settings)), choice, ledger, report):
            tick()
        return report
    sender = _Sender(dead, to, target.partitions, settings)
    try:
        sender.fence()
        ledger = _ledger(read_all(dead, settings))
        sender.send(chosen(_letters(read_all(dead, settings)), choice, ledger, report), tick)
    except KafkaException as problem:
        if problem.args[0].code() in FENCED | {KafkaError._PURGE_QUEUE}:  # noqa: SLF001 - what a fenced client drops
            raise FlowError(f"another redrive of {dead} has begun meanwhile: this one has ended") from None
        raise FlowError(f"{to}: {kafka.sentence(problem)}; what was not sent yet is sent when you try again") from None
    return report


def _letters(entries: Iterable[Entry]) -> Iterator[Letter]:
    return (letter for entry in entries if (letter := letter_of(entry)) is not None)


def _ledger(entries: Iterable[Entry]) -> Ledger:
    ledger = Ledger()
    for entry in entries:
        if any(name == LEDGER for name, _ in entry.headers):
            try:
                ledger.add(Ledger.load(orjson.loads(entry.value or b"")))
            except (ValueError, TypeError, KeyError, AttributeError):
                where = f"offset {entry.offset} of partition {entry.partition}"
                raise FlowError(f"what was sent again is not known: the record at {where} is damaged") from None
    return ledger


class _Sender:
    def __init__(self, dead: KafkaTopic, to: KafkaTopic, partitions: int, settings: kafka.Config) -> None:
        self._dead, self._to, self._partitions = dead, to, partitions
        config = kafka.client_config(
            to.bootstrap,
            {"linger.ms": 20, "compression.type": "lz4", **settings},
            enable_idempotence=True,
            acks="all",
            transactional_id=f"{dead.name}.redrive",
        )
        self._producer: Producer = kafka.new_producer(config)
        self._placed: list[tuple[int, int]] = []
        self._failure: KafkaError | None = None

    def fence(self) -> None:
        self._producer.init_transactions(CALL_SECONDS)

    def send(self, letters: Iterator[Letter], tick: Callable[[], None]) -> None:
        batch: list[Letter] = []
        for letter in letters:
            batch.append(letter)
            tick()
            if len(batch) >= BATCH:
                self._commit(batch)
                batch = []
        if batch:
            self._commit(batch)

    def _commit(self, batch: list[Letter]) -> None:
        ledger = Ledger()
        self._placed.clear()
        self._producer.begin_transaction()
        for letter in batch:
            ledger.note(letter)
            self._produce(letter)
        self._flush()
        for partition, offset in sorted(self._placed):
            ledger.note_place(self._to.name, partition, offset)
        self._producer.produce(
            self._dead.name, orjson.dumps(ledger.dump()), partition=0, headers=[(LEDGER, b"1")], on_delivery=self._fail
        )
        self._flush()
        self._producer.commit_transaction(CALL_SECONDS)

    def _produce(self, letter: Letter) -> None:
        headers: list[tuple[str, str | bytes | None]] = [header for header in letter.headers if header[0] != MARK]
        headers.append((MARK, f"{self._dead.name}/{letter.partition}@{letter.offset}".encode()))
        partition = partition_for(letter, letter.key, self._to.name, self._partitions)
        while True:
            try:
                self._producer.produce(
                    self._to.name, letter.value, letter.key, partition, headers=headers, on_delivery=self._note
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _flush(self) -> None:
        try:
            left = self._producer.flush(kafka.SEND_SECONDS)
        except SystemError:  # how the client says that it was fenced while it told what became of records
            left = 0
            self._failure = self._failure or KafkaError(KafkaError.PRODUCER_FENCED)
        if self._failure is not None:
            raise KafkaException(self._failure)
        if left:
            raise FlowError(f"{self._to}: {left:,} records were not taken within {kafka.SEND_SECONDS:.0f} s")

    def _note(self, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self._fail(error, message)
        else:
            self._placed.append((partition, offset))

    def _fail(self, error: KafkaError | None, message: Message) -> None:
        self._failure = self._failure or error

"""What every Kafka client of ours shares: settings, questions to a broker, positions. No engine in here."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from sluiceway.errors import FlowError, ReopenError, SettingsError, UnreachableError
from sluiceway.topics.listener import spoken
from sluiceway.topics.positions import Position

logger = logging.getLogger("sluiceway.kafka")
_Client = TypeVar("_Client")
_Answer = TypeVar("_Answer")

ANSWER_SECONDS = 15.0
"""How long a broker may take to answer a question at start-up before we say that it does not."""
LISTEN_SECONDS = 2.0
"""After which a question is asked again, and why there is no answer is listened for."""

BROKER_MAX_MESSAGE_BYTES = 1_048_588
"""A broker's own default for topics."""
RENEW_SECONDS = 10.0
"""So long a client that has lost every broker may be silent before another one takes its place."""
SEND_SECONDS = 60.0
"""How long a broker may take to acknowledge what a command has sent."""

Config = Mapping[str, str | int | float | bool]

MOVING = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
"""A group's coordinator is being found, loaded or moved: of a new broker, or after one has gone."""
LED_ELSEWHERE = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION})
"""Who leads a partition is being settled."""
PASSING = MOVING | LED_ELSEWHERE | frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
"""What librdkafka mends by itself when it reads; everything else is for us to tell. A broker that knows a client may
turn it away for a while: when its token could not be renewed in time, or is renewed twice within a second."""
DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
READERS = "sluiceway-reader"
"""The group that clients name which only read: the client wants one. It asks who leads it, which may be denied:
nothing is ever committed to it or asked of it."""
UNKNOWN = frozenset(
    {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
"""A topic that is being made, moved or deleted; whether it is gone for good, a look at the topics tells."""
PASSED_OVER = PASSING | {KafkaError.GROUP_AUTHORIZATION_FAILED}
"""By those who read without a group."""


# After an outage the default, "rebootstrap", gives brokers new handles, while a transaction's group coordinator stays
# remembered by its old one: send_offsets_to_transaction() then waits for ever (librdkafka issues 5511 and 5456).
DEFAULTS: Config = {"metadata.recovery.strategy": "none"}


INSTANCE_ID = "group.instance.id"
MEMBERS_OWN = frozenset({INSTANCE_ID, "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"})
"""Settings of members alone: two clients must not share an instance's id, and a producer warns of what it ignores."""


def client_config(bootstrap: str, user: Config, **ours: str | int | float | bool) -> dict[str, Any]:
    """librdkafka settings: the user's over our defaults, but never over what exactness depends on (`ours`)."""
    fixed = {name.replace("_", "."): value for name, value in ours.items()}
    given = {name: value for name, value in user.items() if name not in MEMBERS_OWN}
    return {"client.id": "sluiceway", **DEFAULTS, **given, **fixed, "bootstrap.servers": bootstrap}


def new_consumer(config: Mapping[str, Any], log: logging.Logger = logger) -> Consumer:
    return _client(Consumer, config, log)


def new_producer(config: Mapping[str, Any]) -> Producer:
    # without a listener the client prints what is fatal by itself: a fenced producer, which is nothing to worry about
    return _client(Producer, {"error_cb": lambda error: logger.debug("%s", error), **config})


def new_admin(bootstrap: str, user: Config) -> AdminClient:
    return _client(AdminClient, client_config(bootstrap, user))


def _client(kind: Callable[..., _Client], config: Mapping[str, Any], log: logging.Logger = logger) -> _Client:
    """Every client is made here: what librdkafka refuses can only be a setting, and it names it."""
    try:
        return kind(dict(config), logger=log)
    except (KafkaException, TypeError, ValueError) as problem:
        reason = sentence(problem) if isinstance(problem, KafkaException) else str(problem)
        raise SettingsError(f"the Kafka client does not take its settings: {reason}") from None


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What a broker says of a topic."""

    name: str
    topic_id: str
    partitions: int
    max_message_bytes: int
    readable: bool
    writable: bool


def sentence(error: KafkaError | KafkaException) -> str:
    """The broker's reason in words, whichever way the client wrapped it."""
    inner = error.args[0] if isinstance(error, KafkaException) else error
    if isinstance(inner, KafkaError):
        return f"{inner.str().rstrip('.')} ({inner.name()})"
    return str(inner)


def failed(what: str, problem: KafkaException) -> FlowError:
    """Of a question to a broker: a lane that asked again later might have an answer, or it would not."""
    error = problem.args[0]
    again = error.code() in PASSING | UNKNOWN or error.retriable()
    return (ReopenError if again else FlowError)(f"{what}: {sentence(problem)}")


class Heard:
    """Why a client has no broker, as it says in between."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error

    @property
    def hopeless(self) -> bool:
        """Whether waiting will not help."""
        return self.last is not None and self.last.code() in (KafkaError._SSL, KafkaError._AUTHENTICATION)

    def cause(self) -> str | None:
        """In words, without the client's own."""
        if self.last is None:
            return None
        text = re.sub(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)", "", self.last.str())
        text = text.partition("/bootstrap: ")[2] or text
        match self.last.code():
            case KafkaError._RESOLVE:
                return f"the host is not known ({text})"
            case KafkaError._SSL if "certificate verify failed" in text:
                return (
                    'its certificate is not trusted: "ssl.ca.location" in [kafka] names the file of the authority'
                    " that signed it, and the certificate must be for this host"
                )
            case _ if "wrong version number" in text or "PLAINTEXT broker listener" in text:
                return 'it does not speak TLS: leave "security.protocol" out, or name its TLS port'
            case KafkaError._SSL:
                return f"TLS fails ({_LIBRARYS_OWN.sub('', text)})"
            case KafkaError._AUTHENTICATION:
                return f"it does not accept this client ({text})"
        if "Connection refused" in text:
            return f"the connection is refused: nothing listens there ({text})"
        return None if "receive.message.max.bytes" in text else text  # what is read as a size is no answer of Kafka's


_LIBRARYS_OWN = re.compile(r"error:[0-9A-F]+:SSL routines:[^:]*:")


def _speaks_otherwise(bootstrap: str, heard: Heard) -> str | None:
    """The sentence for an address at which somebody speaks, but not what the client does."""
    if heard.last is not None and heard.last.code() not in (KafkaError._SSL, KafkaError._TRANSPORT):
        return None
    language = spoken(bootstrap)
    if language == "HTTP":
        return "an HTTP server answers there, which is no Kafka broker"
    if language == "TLS" and (heard.last is None or heard.last.code() != KafkaError._SSL):
        return (
            'it speaks TLS, and this client does not: "security.protocol" in [kafka] must be "SSL", or "SASL_SSL" with'
            " a user"
        )
    return None


def first_answer(
    bootstrap: str, heard: Heard, ask: Callable[[float], _Answer], serve: Callable[[float], object]
) -> _Answer:
    """The first question to a broker: asked again for some seconds, while a person is told what is waited for."""
    deadline = time.monotonic() + ANSWER_SECONDS
    told = False
    while True:
        try:
            return ask(min(LISTEN_SECONDS, ANSWER_SECONDS))
        except KafkaException as problem:
            serve(0)  # what the client has to say comes while it is served only
            otherwise = _speaks_otherwise(bootstrap, heard)
            cause = otherwise or heard.cause() or f"nothing comes back ({sentence(problem)})"
            hopeless = heard.hopeless or otherwise is not None
            if hopeless or time.monotonic() > deadline:
                within = "" if hopeless else f" within {ANSWER_SECONDS:.0f} s"
                raise UnreachableError(f"no Kafka broker answers at {bootstrap}{within}: {cause}") from problem
            if not told:
                told = True
                logger.warning("no answer from %s yet: %s; trying for %.0f s", bootstrap, cause, ANSWER_SECONDS)


def is_fatal(error: KafkaError) -> bool:
    """Whether a client can do nothing any more; one that was polled says so by its code alone."""
    return error.fatal() or error.code() == KafkaError._FATAL


def describe_topics(
    bootstrap: str, user: Config, names: Sequence[str], *, hidden: bool = False
) -> dict[str, TopicInfo | None]:
    """Ask the broker for topics by name; None for one that does not exist.

    One that this client may not even see is refused; with `hidden` it comes as one that may be neither read nor
    written.
    """
    heard = Heard()
    log = logging.Logger(logger.name)
    log.disabled = True  # until the broker answers: our own sentence says why it does not
    config = {**client_config(bootstrap, user), "error_cb": heard.note}
    admin = _client(AdminClient, config, log)
    existing = first_answer(bootstrap, heard, lambda seconds: admin.list_topics(timeout=seconds), admin.poll).topics
    log.disabled = False
    log.parent = logger
    found = {name: _describe(admin, name) if name in existing else _unlisted(admin, name) for name in names}
    for name, info in found.items():
        if info is not None and not info.partitions and not hidden:
            raise FlowError(
                f"the broker does not show this client topic {name!r}: it denies DESCRIBE, which READ and WRITE"
                f" include; or there is none"
            )
    return found


def _unlisted(admin: AdminClient, name: str) -> TopicInfo | None:
    """A broker does not list what a client may not see; asked by name, it says so, whether there is such a topic or
    not."""
    try:
        admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_SECONDS)[name].result()
    except KafkaException as problem:
        if problem.args[0].code() in DENIED:
            return TopicInfo(name, "", 0, BROKER_MAX_MESSAGE_BYTES, readable=False, writable=False)
        if problem.args[0].code() not in UNKNOWN:
            raise failed(f"the broker will not describe topic {name!r}", problem) from problem
        return None
    return _describe(admin, name)  # it has come into being meanwhile


def _describe(admin: AdminClient, name: str) -> TopicInfo:
    try:
        described = admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )[name].result()
        limit = _max_message_bytes(admin, name)
    except KafkaException as problem:
        raise FlowError(f"the broker will not describe topic {name!r}: {sentence(problem)}") from problem
    operations = described.authorized_operations
    return TopicInfo(
        name=name,
        topic_id=str(described.topic_id),
        partitions=len(described.partitions),
        max_message_bytes=limit,
        # a broker without an authorizer reports no operations at all
        readable=not operations or AclOperation.READ in operations,
        writable=not operations or AclOperation.WRITE in operations,
    )


def _max_message_bytes(admin: AdminClient, name: str) -> int:
    return int(_topic_config(admin, name).get("max.message.bytes", BROKER_MAX_MESSAGE_BYTES))


def topic_config(bootstrap: str, user: Config, name: str) -> dict[str, str]:
    """A topic's settings; none where the broker does not tell them to this client, which is no reason not to run."""
    try:
        return _topic_config(new_admin(bootstrap, user), name)
    except KafkaException as problem:
        raise FlowError(f"the broker will not describe topic {name!r}: {sentence(problem)}") from problem


def _topic_config(admin: AdminClient, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    try:
        found = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise
        return {}
    return {name: entry.value for name, entry in found.items() if entry.value is not None}


TRANSACTION_LOG = "__transaction_state"


def durability(bootstrap: str, user: Config) -> tuple[int, str | None]:
    """Replicas of the broker's own record of transactions, and how many must be in sync; -1 = the broker's default."""
    admin = new_admin(bootstrap, user)
    known = admin.list_topics(timeout=ANSWER_SECONDS).topics.get(TRANSACTION_LOG)
    if known is None or not known.partitions:
        return -1, None
    config = topic_config(bootstrap, user, TRANSACTION_LOG)
    return len(next(iter(known.partitions.values())).replicas), config.get("min.insync.replicas")


def create_topics(bootstrap: str, user: Config, topics: Iterable[NewTopic], *, pretend: bool = False) -> None:
    """Create topics and wait until they are there, or only ask whether they could be; one that has appeared meanwhile
    is fine."""
    admin = new_admin(bootstrap, user)
    wanted = list(topics)
    asked = admin.create_topics(wanted, request_timeout=ANSWER_SECONDS, validate_only=pretend)
    for name, outcome in asked.items():
        try:
            outcome.result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise FlowError(f"topic {name!r} could not be created: {sentence(problem)}") from problem
    if not pretend:
        _wait_for_leaders(admin, [topic.topic for topic in wanted])


def delete_topics(bootstrap: str, user: Config, names: Sequence[str]) -> None:
    """Delete topics and wait until they are really gone; one that is gone already is fine."""
    if not names:
        return
    admin = new_admin(bootstrap, user)
    for name, outcome in admin.delete_topics(list(names), request_timeout=ANSWER_SECONDS).items():
        try:
            outcome.result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise FlowError(f"topic {name!r} could not be deleted: {sentence(problem)}") from problem
    deadline = time.monotonic() + ANSWER_SECONDS
    while left := [name for name in names if name in admin.list_topics(timeout=ANSWER_SECONDS).topics]:
        if time.monotonic() > deadline:
            raise FlowError(f"topic {left[0]!r} was deleted, but is still there after {ANSWER_SECONDS:.0f} s")
        time.sleep(0.05)


def add_partitions(bootstrap: str, user: Config, name: str, count: int) -> None:
    """Until the topic has so many; another process may have been faster."""
    admin = new_admin(bootstrap, user)
    try:
        admin.create_partitions([NewPartitions(name, count)], request_timeout=ANSWER_SECONDS)[name].result()
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.INVALID_PARTITIONS:
            raise FlowError(f"topic {name!r} could not be given partitions: {sentence(problem)}") from problem
    _wait_for_leaders(admin, [name])


def _wait_for_leaders(admin: AdminClient, names: Sequence[str]) -> None:
    """A broker answers before it knows of the new topics itself."""
    deadline = time.monotonic() + ANSWER_SECONDS
    waiting = list(names)
    while waiting:
        told = admin.list_topics(timeout=ANSWER_SECONDS).topics
        waiting = [name for name in waiting if name not in told or not _is_led(told[name])]
        if waiting and time.monotonic() > deadline:
            raise FlowError(f"topic {waiting[0]!r} was created, but has no leader after {ANSWER_SECONDS:.0f} s")
        time.sleep(0.05 if waiting else 0)


def _is_led(topic: TopicMetadata) -> bool:
    return topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values())


class Lost(Heard):
    """Whether a client has lost every broker and been silent since.

    One that was told of no broker at all, while all were fenced, may never look for one again (librdkafka issue
    5301). Whether it will cannot be known, and another client is cheap: after some seconds one takes its place.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since: float | None = None
        self.silent = False
        """Nothing has come since; also while another client takes the place of one."""

    def on_error(self, error: KafkaError) -> None:
        self.note(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.noticed()

    def noticed(self) -> None:
        self._since = self._since or time.monotonic()
        self.silent = True

    def heard(self) -> None:
        """Something came that only a broker can send."""
        self._since = None
        self.silent = False

    def for_good(self) -> bool:
        """Asked when nothing has come; true once a loss."""
        if self._since is None or time.monotonic() - self._since < RENEW_SECONDS:
            return False
        self._since = None
        return True


def reader(bootstrap: str, user: Config, lost: Lost | None = None, log: logging.Logger = logger) -> Consumer:
    """A consumer to be assigned: sees committed records, is told the ends of partitions, commits nothing."""
    config = client_config(
        bootstrap,
        {"group.id": READERS, "fetch.wait.max.ms": 50, **user},
        auto_offset_reset="error",
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        isolation_level="read_committed",
    )
    return new_consumer(config if lost is None else {**config, "error_cb": lost.on_error}, log)


def told(messages: Iterable[Message], topic: str) -> Iterator[Message]:
    """The records, and the ends of partitions (which have an `error()`); an error that does not pass is raised."""
    for message in messages:
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            yield message
        elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # deleted, or emptied: whoever opens it again finds out
            raise ReopenError(f"topic {topic!r} does not have what was asked for: {sentence(error)}")
        elif error.code() not in PASSED_OVER:
            raise failed(f"topic {topic!r} cannot be read", KafkaException(error))


def resolve(consumer: Consumer, topic: str, partitions: int, position: Position) -> list[int]:
    """The offset that a position means in each partition, as of now."""
    marks = [watermarks(consumer, topic, partition) for partition in range(partitions)]
    match position.kind:
        case "beginning":
            return [low for low, _ in marks]
        case "end":
            return [high for _, high in marks]
        case "last":
            return [max(low, high - position.value) for low, high in marks]
        case "offset":
            return [position.value] * partitions
    wanted = [TopicPartition(topic, partition, position.value) for partition in range(partitions)]
    try:
        found = consumer.offsets_for_times(wanted, timeout=ANSWER_SECONDS)
    except KafkaException as problem:
        raise failed(f"the broker cannot look up times in topic {topic!r}", problem) from problem
    # -1 = the time lies after the last record
    return [
        partition.offset if partition.offset >= 0 else high for partition, (_, high) in zip(found, marks, strict=True)
    ]


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """First offset held and last stable offset of a partition; asked again while it has just got another leader, as
    that of a new topic has."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            marks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_SECONDS)
            break
        except KafkaException as problem:
            if problem.args[0].code() not in LED_ELSEWHERE or time.monotonic() > deadline:
                raise failed(f"the broker does not tell what topic {topic!r} holds", problem) from problem
            time.sleep(0.1)
    if marks is None:
        raise ReopenError(f"the broker does not tell what partition {partition} of topic {topic!r} holds")
    return marks


def out_of_range(topic: str, partition: int, wanted: int, low: int, high: int) -> FlowError:
    """The sentence for an offset that the broker no longer has."""
    return FlowError(
        f"topic {topic!r}, partition {partition}: the flow wants to go on at offset {wanted}, but the broker holds"
        f" {low} to {high}; restore the missing records, or begin anew: `sluiceway reset`, or another flow name"
    )


def committed(consumer: Consumer, places: list[TopicPartition], seconds: float) -> list[TopicPartition]:
    """What the consumer's group has committed; asked again while its coordinator moves, where the client gives up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return consumer.committed(places, timeout=max(deadline - time.monotonic(), 0.1))
        except KafkaException as problem:
            if problem.args[0].code() not in MOVING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)

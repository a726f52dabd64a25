"""A look at the topics before anything starts: do they exist, may they be used, do they fit together?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka.admin import NewTopic

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.memory import memory_of
from sluiceway.flows.settings import Settings
from sluiceway.topics import kafka
from sluiceway.topics.directory import create_directory_topic, partition_count
from sluiceway.topics.state_topic import DAY_MS, STATE_TOPIC
from sluiceway.topics.store import choices
from sluiceway.topics.tombstones import living
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic
from sluiceway.wording import counted

STATE = "state"
WEEK_MS = 7 * DAY_MS
HEADROOM = 65_536


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the topics are like."""

    lanes: int
    input_id: str
    """Tells a topic from another one of the same name made later."""
    outputs: dict[str, kafka.TopicInfo]
    """Output topics on Kafka, by what they carry."""
    state: kafka.TopicInfo | None
    """The state topic, if the state lies on Kafka."""
    other_ids: Mapping[str, str] = field(default_factory=dict)
    """As `input_id`, of the topics that are read beside the first one, by what they hold."""


def look_around(
    settings: Settings, *, create: bool = False, pretend: bool = False, create_directories: bool = True
) -> Surroundings:
    """Check every topic; with `create`, make missing Kafka topics, with as many partitions as the input; or `pretend`
    to, which asks the broker whether it would.

    Missing output directories are made without asking: that disturbs nobody.
    """
    found = _ask_brokers(settings)
    lanes, input_id, other_ids = inputs_of(settings, found)
    memory_of(settings.flow.memory, lanes)  # refused if it is too little
    topics = _kafka_topics(settings)
    missing = {name: topic for name, topic in topics.items() if found[name] is None}
    if missing and (create or pretend):
        if STATE in missing and found.get("selections") is not None:
            _refuse_lost_state(settings)
        _create(settings, missing, lanes, found.get(settings.source_role), pretend=pretend)
        found = found if pretend else _ask_brokers(settings)
    elif missing:
        named = ", ".join(f"{topic.name!r} ({name})" for name, topic in missing.items())
        what, them = ("is no topic", "it") if len(missing) == 1 else ("are no topics", "them")
        where = next(iter(missing.values())).bootstrap
        raise SettingsError(
            f"there {what} {named} on {where}; create {them} with as many partitions as the input ({lanes}), or"
            f" let `sluiceway {settings.verb} --create-topics` do it"
        )
    outputs = {}
    for name, output in settings.outputs.items():
        if isinstance(output, DirectoryTopic):
            count = partition_count(output)
            if count is None:
                count = lanes
                if create_directories:
                    create_directory_topic(output, lanes)
        else:
            info = found[name]
            if info is None:  # it would be made
                continue
            count, outputs[name] = info.partitions, info
            if not info.writable:
                raise FlowError(f"topic {info.name!r} ({name}) may not be written: the broker denies this client WRITE")
        if count < lanes:
            raise SettingsError(
                f"topic {output.name!r} ({name}) has {counted(count, 'partition')}, the input has {lanes}: output is"
                f" written to"
                f" the partition of its input, so it needs at least as many"
            )
    state = found.get(STATE)
    if state is not None:
        _refuse_unfit_state(settings, state, lanes)
    return Surroundings(lanes, input_id, outputs, state, other_ids)


def missing_topics(settings: Settings) -> list[str]:
    """Kafka topics that `--create-topics` would make."""
    found = _ask_brokers(settings)
    topics = _kafka_topics(settings)
    return [topic.name for name, topic in topics.items() if found[name] is None and name not in settings.inputs]


def make_state_topic(settings: Settings, lanes: int) -> kafka.TopicInfo:
    """The flow's state topic, created if it is missing and refused if it does not fit."""
    topic = settings.state
    assert isinstance(topic, KafkaTopic)
    found = kafka.describe_topics(topic.bootstrap, settings.kafka, [topic.name])[topic.name]
    if found is None:
        _create(settings, {STATE: topic}, lanes, None)
        found = kafka.describe_topics(topic.bootstrap, settings.kafka, [topic.name])[topic.name]
        assert found is not None
    _refuse_unfit_state(settings, found, lanes)
    return found


def _kafka_topics(settings: Settings) -> dict[str, KafkaTopic]:
    state = settings.state
    return settings.kafka_topics | ({STATE: state} if isinstance(state, KafkaTopic) else {})


def _refuse_unfit_state(settings: Settings, info: kafka.TopicInfo, lanes: int) -> None:
    """A state topic that forgets, or that has other partitions than the input, is none."""
    topic = settings.state
    assert isinstance(topic, KafkaTopic)
    if not (info.readable and info.writable):
        denied = " and ".join(
            right for right, given in (("READ", info.readable), ("WRITE", info.writable)) if not given
        )
        raise FlowError(
            f"the state topic {info.name!r} needs READ and WRITE: the broker denies {denied} to this client"
        )
    if info.partitions != lanes:
        raise SettingsError(
            f"the state topic {info.name!r} has {counted(info.partitions, 'partition')}, the input has {lanes}: a"
            f" lane's state"
            f" lies in the partition of its input. Were partitions added? Then keys have moved, and the models of a"
            f" stream may be split: give the flow another name, or set input.on_new_partitions = \"read\" if no key"
            f" has moved"
        )
    config = kafka.topic_config(topic.bootstrap, settings.kafka, info.name)
    policy = config.get("cleanup.policy", "compact")
    if policy != "compact":
        raise SettingsError(
            f"the state topic {info.name!r} has cleanup.policy={policy}, so it would forget states that are in use:"
            f" set cleanup.policy=compact"
        )
    keeps = int(config.get("delete.retention.ms", DAY_MS))
    if keeps < DAY_MS:
        raise SettingsError(
            f"the state topic {info.name!r} has delete.retention.ms={keeps}, so a slow restore could revive what was"
            f" removed: set it to at least {DAY_MS}"
        )


def _refuse_lost_state(settings: Settings) -> None:
    """A new state topic beside snapshots of this very flow: the old one was lost."""
    flow, topic = settings.flow.name, settings.topic(settings.topics.selections)
    assert isinstance(topic, KafkaTopic)
    if any(key.startswith(f"{flow}/") for key in living(topic, settings.kafka)):
        raise FlowError(
            f"topic {topic.name!r} holds snapshots of {flow!r}, but its state topic {settings.state.name!r} is gone:"
            f" restore it (`sluiceway restore FLOW DIR`); or {choices(flow)}"
        )


def _ask_brokers(settings: Settings) -> dict[str, kafka.TopicInfo | None]:
    topics = _kafka_topics(settings)
    outputs = {topic.bootstrap for name, topic in topics.items() if name not in settings.inputs}
    if len(outputs) > 1:
        raise SettingsError(f"the output topics lie on different Kafka clusters ({', '.join(sorted(outputs))})")
    for source in (topics[name] for name in settings.inputs if name in topics):
        if outputs and outputs != {source.bootstrap}:
            raise SettingsError(
                f"input and output lie on different Kafka clusters ({source.bootstrap} and {outputs.pop()}): no"
                f" transaction can span both"
            )
    found: dict[str, kafka.TopicInfo | None] = {}
    for bootstrap in {topic.bootstrap for topic in topics.values()}:
        names = {name: topic.name for name, topic in topics.items() if topic.bootstrap == bootstrap}
        told = kafka.describe_topics(bootstrap, settings.kafka, list(names.values()), hidden=True)
        found |= {name: told[topic] for name, topic in names.items()}
    return found


def inputs_of(
    settings: Settings, found: Mapping[str, kafka.TopicInfo | None]
) -> tuple[int, str, Mapping[str, str]]:
    """How many partitions what is read has, the id of the first topic, and those of the others by what they hold."""
    given = {name: _input(topic, found.get(name)) for name, topic in settings.inputs.items()}
    (first, (lanes, input_id)), *others = given.items()
    for name, (count, _) in others:
        if count != lanes:
            raise SettingsError(
                f"topic {settings.inputs[name].name!r} ({name}) has {counted(count, 'partition')},"
                f" {settings.inputs[first].name!r} ({first}) has {lanes}: records that belong together must lie in"
                f" partitions of the same number, so both need as many, and keys partitioned in the same way"
            )
    return lanes, input_id, {name: id_ for name, (_, id_) in others}


def _input(topic: Topic, info: kafka.TopicInfo | None) -> tuple[int, str]:
    if isinstance(topic, KafkaTopic):
        if info is None:
            raise SettingsError(f"the input topic {topic.name!r} does not exist on {topic.bootstrap}; create it first")
        if not info.readable:
            raise FlowError(f"topic {topic.name!r} may not be read: the broker denies READ to this client")
        return info.partitions, info.topic_id
    count = partition_count(topic)
    if count is None:
        raise SettingsError(f"the input topic {topic} does not exist: there is no {topic.path / '_topic.json'}")
    return count, ""


def _create(
    settings: Settings,
    missing: dict[str, KafkaTopic],
    lanes: int,
    source: kafka.TopicInfo | None,
    *,
    pretend: bool = False,
) -> None:
    # an original of the largest size must fit in together with what is added to it
    roomy = {} if source is None else {"max.message.bytes": str(source.max_message_bytes + HEADROOM)}
    configs: dict[str, dict[str, str]] = {
        "selections": {"cleanup.policy": "compact", "min.compaction.lag.ms": str(WEEK_MS)},
        "requests": {"cleanup.policy": "compact", "min.compaction.lag.ms": str(WEEK_MS)},
        "predictions": {},
        "verdicts": {},
        "dead_letters": roomy,
        "applied": roomy,
        "labelled": roomy,
        STATE: dict(STATE_TOPIC),
    }
    bootstrap = next(iter(missing.values())).bootstrap
    new = []
    for name, topic in missing.items():
        config, replication = configs[name], -1
        if name == STATE:  # it must last as long as the broker's own record of transactions
            replication, isr = kafka.durability(bootstrap, settings.kafka)
            config = config if isr is None else {**config, "min.insync.replicas": isr}
        new.append(NewTopic(topic.name, num_partitions=lanes, replication_factor=replication, config=config))
    kafka.create_topics(bootstrap, settings.kafka, new, pretend=pretend)

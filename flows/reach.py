"""A flow's state from outside, for commands that look at it, copy it or remove it. Nothing is made here, or opened."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.apply import APPLYING, ApplySettings
from sluiceway.flows.join import JOINING, JoinSettings
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.process import Store, belongs_to
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.flows.work import Work
from sluiceway.topics import groups, kafka
from sluiceway.topics.directory import partition_count, partition_path
from sluiceway.topics.directory_store import DirectoryStore
from sluiceway.topics.kafka_store import KafkaStore
from sluiceway.topics.kafka_writer import KafkaOutput
from sluiceway.topics.members import SUFFIX
from sluiceway.topics.state_records import CommitRecord
from sluiceway.topics.state_topic import StateTopic
from sluiceway.topics.store import BelongsTo
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic

TRANSACTION_SECONDS = 900.0
"""The longest that brokers allow by default: a whole state goes into one transaction."""


class Input(NamedTuple):
    """What the flow reads."""

    partitions: int
    id: str
    other_ids: Mapping[str, str]
    """Of the topics that are read beside the first one."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A flow and its state, which need not exist."""

    settings: Settings
    work: Work
    input: Input | None
    """None: the topic is not there (any more)."""
    store: Store | None
    """None: there is no state."""
    lanes: int
    """Of the store; without one, of the input."""
    belongs_to: BelongsTo
    """What its models depend on, as its file and its input are now; empty without an input."""

    @property
    def flow(self) -> str:
        return self.settings.flow.name

    @property
    def state(self) -> str:
        """What the state is called in sentences."""
        state = self.settings.state
        return f"the state topic {state.name!r}" if isinstance(state, KafkaTopic) else f"the store {state.path}"

    def commits(self) -> list[CommitRecord | None]:
        store = self.store
        return [] if store is None else [store.glance(lane).commit for lane in range(self.lanes)]


def load(path: Path, *, applying: bool = False, joining: bool = False) -> Settings:
    """The flow of a file, or the flow that applies it, or the one that joins its labels."""
    if applying and joining:
        raise SettingsError("--apply and --join name two flows: give one of them")
    return (ApplySettings if applying else JoinSettings if joining else Settings).load(path)


def work_of(settings: Settings) -> Work:
    if isinstance(settings, ApplySettings):
        return APPLYING
    return JOINING if isinstance(settings, JoinSettings) else SELECTING


def reach(settings: Settings) -> Reached:
    work = work_of(settings)
    given = _input(settings)
    around = None if given is None else Surroundings(given.partitions, given.id, {}, None, given.other_ids)
    belongs: BelongsTo = {} if around is None else belongs_to(settings, around, work)
    count = 0 if given is None else given.partitions
    state = settings.state
    if isinstance(state, DirectoryTopic):
        store = DirectoryStore(settings.flow.name, state.path, {}, belongs)
        known = store.lanes()
        return Reached(settings, work, given, store if known else None, known or count, belongs)
    info = kafka.describe_topics(state.bootstrap, settings.kafka, [state.name])[state.name]
    if info is None:
        return Reached(settings, work, given, None, count, belongs)
    return Reached(settings, work, given, kafka_store(settings, info, belongs), info.partitions, belongs)


def kafka_store(
    settings: Settings,
    info: kafka.TopicInfo,
    belongs: BelongsTo,
    outputs: Mapping[str, kafka.TopicInfo] | None = None,
) -> KafkaStore:
    """For the state, and those outputs."""
    state = settings.state
    assert isinstance(state, KafkaTopic)
    topic = StateTopic(settings.flow.name, state.bootstrap, settings.kafka, info)
    output = KafkaOutput(settings.flow.name, state.bootstrap, settings.kafka, outputs or {}, info, TRANSACTION_SECONDS)
    return KafkaStore(topic, output, belongs, reads=settings.source_role, directories={})


def _input(settings: Settings) -> Input | None:
    found = {name: _looked_at(topic, settings) for name, topic in settings.inputs.items()}
    first = found.pop(settings.source_role)
    return None if first is None else Input(*first, {name: "" if at is None else at[1] for name, at in found.items()})


def _looked_at(topic: Topic, settings: Settings) -> tuple[int, str] | None:
    """How many partitions it has, and its id; None if it is not there."""
    if isinstance(topic, DirectoryTopic):
        count = partition_count(topic)
        return None if count is None else (count, "")
    info = kafka.describe_topics(topic.bootstrap, settings.kafka, [topic.name])[topic.name]
    return None if info is None else (info.partitions, info.topic_id)


# -- who runs it ------------------------------------------------------------------------------------------------------


def members(settings: Settings) -> list[groups.Member]:
    """The workers that run a flow whose output goes to Kafka; of others none can be known this way."""
    state = settings.state
    if isinstance(state, DirectoryTopic):
        return []
    return groups.members(state.bootstrap, settings.kafka, settings.flow.name + SUFFIX)


def refuse_running(reached: Reached) -> None:
    """A flow that runs would go on with what is taken away under it, or with what is put there."""
    settings, store = reached.settings, reached.store
    found = members(settings)
    if found:
        who = "; ".join(_who(member, store) for member in found)
        raise FlowError(
            f"{reached.flow!r} is running, stop it first ({who}). A process that was killed counts as a member until"
            f" its session ends, some seconds later"
        )
    if isinstance(store, DirectoryStore):
        with store.held():
            return
    for topic in settings.outputs.values():  # beside Kafka outputs a directory keeps the flow to one process, no member
        if isinstance(topic, DirectoryTopic):
            for lane in range(reached.lanes):
                if _is_held(partition_path(topic, lane)):
                    raise FlowError(f"{reached.flow!r} is running, stop it first: it is writing {topic}")


def _who(member: groups.Member, store: Store | None) -> str:
    """By the newest open records, where they can be read: the broker knows addresses only."""
    owners: dict[str, list[int]] = {}
    for lane in member.lanes:
        try:
            opened = None if store is None else store.glance(lane).opened
        except FlowError:
            opened = None
        who = f"{member.client} at {member.host}" if opened is None else f"process {opened.pid} on {opened.host}"
        owners.setdefault(who, []).append(lane)
    if not owners:
        return f"{member.client} at {member.host} stands by"
    return "; ".join(f"{who} has {lanes_named(lanes)}" for who, lanes in owners.items())


def lanes_named(lanes: Sequence[int]) -> str:
    return f"lane{'s' if len(lanes) > 1 else ''} {', '.join(map(str, lanes))}"


def _is_held(path: Path) -> bool:
    try:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it is not there, or not ours to write: so this flow does not write it from here
        return False
    return False


def refuse_foreign(reached: Reached) -> None:
    """A state of another flow, met because two flow files name one place."""
    for commit in reached.commits():
        owner = None if commit is None else commit.belongs_to.get("flow")
        if owner is not None and owner != reached.flow:
            raise SettingsError(f"{reached.state} holds the models of another flow, {owner!r}")

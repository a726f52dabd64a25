"""Beginning anew: a flow's state, its groups and, if told, its snapshots are removed, with those of its `apply`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.filling import fence
from sluiceway.flows.preflight import make_state_topic
from sluiceway.flows.reach import Reached, load, reach, refuse_foreign, refuse_running
from sluiceway.topics import groups, kafka
from sluiceway.topics.directory import partition_count, whole_size
from sluiceway.topics.directory_store import DirectoryStore
from sluiceway.topics.kafka_store import KafkaStore
from sluiceway.topics.members import SUFFIX
from sluiceway.topics.tombstones import bury, living
from sluiceway.topics.url import DirectoryTopic, KafkaTopic


@dataclass(frozen=True, slots=True)
class Part:
    """What goes of the flow, or of its `apply`."""

    reached: Reached
    streams: int | None
    """None: the state cannot be read, which may be why it is to go."""
    bytes: int | None
    groups: list[str]

    @property
    def is_empty(self) -> bool:
        return self.reached.store is None and not self.groups


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reset removes, and what it leaves."""

    parts: list[Part]
    selections: KafkaTopic | None
    """Where snapshots are, if they can be removed one by one."""
    snapshots: dict[str, list[int]]
    """Of the flow's streams, by key, the partitions that hold one."""
    with_snapshots: bool
    kept: list[DirectoryTopic]
    """Output that is kept, and that a flow which begins anew would refuse to write after."""

    @property
    def is_empty(self) -> bool:
        return all(part.is_empty for part in self.parts) and not (self.with_snapshots and self.snapshots)


def plan(path: Path, *, with_snapshots: bool, joining: bool = False, step: Callable[[], None]) -> Plan:
    """Look, and change nothing; refused where a reset would be. `joining`: of the flow's `join`, and no more."""
    if joining and with_snapshots:
        raise SettingsError("--snapshots does not go with --join, which writes none")
    settings = load(path, joining=joining)
    flows = [reach(settings)]
    if settings.topics.applied is not None and settings.topics.instances is not None and not joining:
        flows.append(reach(load(path, applying=True)))
    for reached in flows:
        _refuse(reached)
    parts = [_part(reached, step) for reached in flows]
    selections = None if joining else settings.topic(settings.topics.selections)
    on_kafka = selections if isinstance(selections, KafkaTopic) else None
    directories = [topic for part in parts for topic in part.reached.settings.outputs.values()]
    return Plan(
        parts=parts,
        selections=on_kafka,
        snapshots={} if on_kafka is None else _snapshots(on_kafka, settings.kafka, settings.flow.name),
        with_snapshots=with_snapshots,
        kept=[topic for topic in directories if isinstance(topic, DirectoryTopic) and _holds_output(topic)],
    )


def _refuse(reached: Reached) -> None:
    refuse_running(reached)
    with suppress(FlowError):  # it cannot be read: nobody else can use it either
        refuse_foreign(reached)


def _part(reached: Reached, step: Callable[[], None]) -> Part:
    store, streams, size = reached.store, 0, 0
    known = []
    state = reached.settings.state
    if isinstance(state, KafkaTopic):
        named = [reached.flow, reached.flow + SUFFIX]
        known = groups.existing(state.bootstrap, reached.settings.kafka, named)
    try:
        for lane in range(reached.lanes if store is not None else 0):
            assert store is not None
            found = store.read(lane)
            streams += len(found.streams)
            size += found.size
            step()
    except FlowError:
        return Part(reached, None, None, known)
    return Part(reached, streams, size, known)


def _snapshots(topic: KafkaTopic, config: kafka.Config, flow: str) -> dict[str, list[int]]:
    if kafka.describe_topics(topic.bootstrap, config, [topic.name])[topic.name] is None:
        return {}
    return {key: homes for key, homes in living(topic, config).items() if key.startswith(f"{flow}/")}


def _holds_output(topic: DirectoryTopic) -> bool:
    count = partition_count(topic)
    return count is not None and any(whole_size(topic, lane) for lane in range(count))


def carry_out(wanted: Plan) -> None:
    """Fence, then remove. A reset that died on its way is finished by another one."""
    for part in wanted.parts:
        if isinstance(part.reached.store, KafkaStore):
            fence(part.reached.store, part.reached.lanes)
    for part in wanted.parts:
        refuse_running(part.reached)  # somebody may have come meanwhile
    if wanted.with_snapshots and wanted.selections is not None:
        config = wanted.parts[0].reached.settings.kafka
        graves = [(key, partition) for key, homes in wanted.snapshots.items() for partition in homes]
        bury(wanted.selections, config, graves)
    for part in wanted.parts:
        if isinstance(part.reached.store, DirectoryStore):
            part.reached.store.remove()
        elif not part.is_empty or wanted.snapshots:
            _empty_topic(part)


def _empty_topic(part: Part) -> None:
    """The topic is made anew at once: one that is missing beside snapshots of the flow is taken for lost."""
    reached = part.reached
    settings, state = reached.settings, reached.settings.state
    if not isinstance(state, KafkaTopic):
        return
    if reached.store is not None:
        kafka.delete_topics(state.bootstrap, settings.kafka, [state.name])
    groups.remove(state.bootstrap, settings.kafka, part.groups)
    if reached.input is not None:
        make_state_topic(settings, reached.input.partitions)

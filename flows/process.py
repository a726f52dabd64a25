"""A flow put together for this process: its store, its run, and how lanes are handed out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import orjson

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.memory import memory_of
from sluiceway.flows.parts import Parts
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.flows.work import Work
from sluiceway.flows.worker import Finish, Process
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory_store import CACHE, DirectoryStore
from sluiceway.topics.kafka_store import KafkaStore
from sluiceway.topics.kafka_writer import KafkaOutput
from sluiceway.topics.lost_state import refuse_emptied, refuse_lost
from sluiceway.topics.members import AllLanes, GroupMember, Membership
from sluiceway.topics.offsets import Offsets
from sluiceway.topics.reader import resolve_bounds
from sluiceway.topics.state_records import RunRecord
from sluiceway.topics.state_topic import Follower, StateTopic
from sluiceway.topics.store import BelongsTo, Glance, Wanted, other_models, refuse_changed
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic
from sluiceway.wording import counted

DEFAULT_INTERVAL = 2.0
"""Seconds between commits."""
Store = KafkaStore | DirectoryStore


class EndedError(Exception):
    """The run that this process has come for is over."""


def assemble(
    settings: Settings,
    around: Surroundings,
    work: Work,
    *,
    interval: float,
    stopping: Callable[[], bool],
    progress: Progress | None = None,
    again: bool = False,
) -> Process:
    """Everything that the workers of this process share; nothing is opened yet."""
    progress = progress or Progress()
    store = open_store(settings, around, belongs_to(settings, around, work), interval)
    if isinstance(store, KafkaStore) and store.offsets is not None:
        store.offsets.begin()
    glances = [store.glance(lane) for lane in range(around.lanes)]
    refuse_other_models(settings, store, glances)
    parts = Parts(
        store=store.lane,
        wanted=wanted_run(settings, around, glances, again=again),
        reads=settings.source_role,
        reader=work.reader(settings, around, progress),
        processor=work.processor(settings, around),
        interval=interval,
        progress=progress,
    )
    shared = isinstance(store, KafkaStore) and not store.directories

    def join(
        index: int, count: int, gained: Callable[[int], None], lost: Callable[[int, bool], None]
    ) -> Membership:
        if not shared:
            return AllLanes(range(index, around.lanes, count), gained)
        assert isinstance(store, KafkaStore)
        topic = store.topic
        return GroupMember(topic.flow, topic.bootstrap, topic.config, topic.info.name, index, gained, lost)

    def follow(lanes: Sequence[int]) -> Follower:
        assert isinstance(store, KafkaStore)
        return Follower(store.topic, lanes)

    return Process(
        parts=parts,
        join=join,
        bounded=settings.input.stop is not None,
        stopping=stopping,
        finish=Finish(around.lanes, follow if shared else None),
    )


def belongs_to(settings: Settings, around: Surroundings, work: Work) -> BelongsTo:
    """As it comes back from a store."""
    content: BelongsTo = orjson.loads(orjson.dumps(work.belongs_to(settings, around)))
    return content


def open_store(
    settings: Settings, around: Surroundings, belongs: BelongsTo, interval: float = 0.0, *, make: bool = True
) -> Store:
    """Where the state lies: where the output goes. Nothing is made on a broker; a directory is, if it is to be."""
    directories = {
        name: topic for name, topic in settings.outputs.items() if isinstance(topic, DirectoryTopic)
    }
    state, memory = settings.state, memory_of(settings.flow.memory, around.lanes)
    cache = None if memory is None else memory.cache
    if isinstance(state, DirectoryTopic):
        store = DirectoryStore(settings.flow.name, state.path, directories, belongs, cache or CACHE)
        if make:
            store.make()
        known = store.lanes()
        if known and known != around.lanes:
            raise SettingsError(
                f"{store} has {counted(known, 'lane')}, but the input has {counted(around.lanes, 'partition')}: keys"
                f" have moved, and the"
                f" streams' models would be split; give the flow another name and other outputs"
            )
        return store
    assert around.state is not None
    topic = StateTopic(settings.flow.name, state.bootstrap, settings.kafka, around.state)
    output = KafkaOutput(
        flow=settings.flow.name,
        bootstrap=state.bootstrap,
        config=settings.kafka,
        topics=around.outputs,
        state=around.state,
        transaction_seconds=max(120.0, 3 * interval),
    )
    source = settings.source
    offsets = (
        Offsets(settings.flow.name, source.bootstrap, settings.kafka, settings.read_names)
        if isinstance(source, KafkaTopic)
        else None
    )
    return KafkaStore(
        topic,
        output,
        belongs,
        reads=settings.source_role,
        directories=directories,
        offsets=offsets,
        cache=cache,
    )


def refuse_other_models(settings: Settings, store: Store, glances: Sequence[Glance]) -> None:
    """Before anything is opened: the settings or the input have changed so that the models would be others."""
    for lane, glance in enumerate(glances):
        if isinstance(store, KafkaStore):
            _refuse_shared(settings, store.topic, glance)
            refuse_emptied(store.topic, lane, glance.low)
            if glance.commit is None:
                refuse_lost(store.topic, lane, store.offsets)
        if glance.commit is not None:
            name = str(store) if isinstance(store, DirectoryStore) else str(store.topic)
            found, wanted, holds = glance.commit.belongs_to, store.belongs_to, partial(store.holds_streams, lane)
            try:
                refuse_changed(name, settings.flow.name, found, wanted, holds)
            except FlowError as problem:
                raise SettingsError(str(problem)) from None


def _refuse_shared(settings: Settings, topic: StateTopic, glance: Glance) -> None:
    """A flow that has opened its lanes and not committed yet has its state topic to itself already."""
    found, wanted = glance.opened, settings.flow.name
    if found is not None and found.flow != wanted:
        raise SettingsError(str(other_models(str(topic), wanted, "flow", found.flow, wanted)))


def wanted_run(settings: Settings, around: Surroundings, glances: Sequence[Glance], *, again: bool) -> Wanted:
    """The run to go on with, or the next one."""
    commits = [glance.commit for glance in glances]
    number = max((commit.run for commit in commits if commit is not None), default=1)
    ended = settings.input.stop is not None and all(
        commit is not None and commit.ends(number) and commit.stop_setting == settings.input.stop for commit in commits
    )
    if ended and not again:
        raise EndedError
    given = settings.input

    def resolve(before: RunRecord | None) -> Bounds:
        bounds = {
            reads: resolve_one(topic, None if before is None else before.bounds.others.get(reads, before.bounds))
            for reads, topic in settings.inputs.items()
        }
        return replace(bounds.pop(settings.source_role), others=bounds)

    def resolve_one(topic: Topic, before: Bounds | None) -> Bounds:
        bounds = resolve_bounds(topic, settings.kafka, around.lanes, given.start, given.stop)
        if before is None:
            return bounds
        # what has been decided stays; partitions added since are read from their first record on
        known = before.starts
        first = resolve_bounds(topic, settings.kafka, around.lanes, "beginning", None).starts
        return replace(bounds, starts=(*known, *first[len(known) :]))

    return Wanted(number + (1 if ended else 0), around.lanes, given.stop, resolve)

"""What `run` would meet, found out without running: the same checks, in the same words, and what they would make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sluiceway.errors import SluicewayError
from sluiceway.flows.preflight import HEADROOM, Surroundings, look_around, missing_topics
from sluiceway.flows.process import EndedError, belongs_to, open_store, refuse_other_models, wanted_run
from sluiceway.flows.progress import Progress
from sluiceway.flows.settings import Settings
from sluiceway.flows.work import Work
from sluiceway.topics import groups, kafka
from sluiceway.topics.directory_writer import DirectoryWriter
from sluiceway.topics.kafka_store import KafkaStore
from sluiceway.topics.kafka_writer import TransactionalWriter
from sluiceway.topics.members import SHARED, SUFFIX
from sluiceway.topics.offsets import WHAT_FOR
from sluiceway.topics.registry import check_registry
from sluiceway.topics.store import Glance
from sluiceway.topics.url import DirectoryTopic, KafkaTopic

_Found = TypeVar("_Found")


@dataclass(slots=True)
class Findings:
    """What stands in the way, and what is there."""

    lanes: int | None = None
    problems: list[SluicewayError] = field(default_factory=list)
    """`run` would say the first of them and end."""
    missing: list[str] = field(default_factory=list)
    """Topics that are not there."""
    would_create: bool = False
    """Whether `--create-topics` would make them."""
    warnings: list[str] = field(default_factory=list)
    committed: int = 0
    """Lanes that have a state."""
    checkpoint_age: float | None = None
    """Of the newest, in seconds."""
    members: int | None = None
    """Workers that run the flow now; None where that cannot be known."""
    ended: bool = False
    """A bounded flow that has come to its end."""


def examine(settings: Settings, work: Work, *, create: bool, again: bool = False) -> Findings:
    """As `run --create-topics` or `run --again` would find it."""
    found = Findings()
    _look_at_topics(settings, work, found, create=create, again=again)
    registry = settings.registry
    if registry is not None:
        _try(found, lambda: check_registry(registry))
    return found


def _look_at_topics(settings: Settings, work: Work, found: Findings, *, create: bool, again: bool) -> None:
    """And, if they are there, at all that follows from them."""
    if any(isinstance(topic, KafkaTopic) for topic in (*settings.outputs.values(), settings.source)):
        found.missing = _try(found, lambda: missing_topics(settings)) or []
    around = None
    if not found.problems:
        around = _try(found, lambda: look_around(settings, pretend=create, create_directories=False))
        if found.missing:
            found.would_create = around is not None or _would_create(settings)
    if around is None:
        return
    found.lanes = around.lanes
    _try(found, lambda: work.reader(settings, around, Progress()))
    _look_at_sizes(settings, around, found)
    if isinstance(settings.state, KafkaTopic):
        _look_at_rights(settings, around, work, found)
    if not found.problems and (isinstance(settings.state, DirectoryTopic) or around.state is not None):
        _try(found, lambda: _look_at_state(settings, around, work, found, again))


def _try(found: Findings, step: Callable[[], _Found]) -> _Found | None:
    try:
        return step()
    except SluicewayError as problem:
        found.problems.append(problem)
        return None


def _would_create(settings: Settings) -> bool:
    try:
        look_around(settings, pretend=True, create_directories=False)
    except SluicewayError:
        return False
    return True


def _look_at_state(settings: Settings, around: Surroundings, work: Work, found: Findings, again: bool) -> None:
    store = open_store(settings, around, belongs_to(settings, around, work), make=False)
    glances = [store.glance(lane) for lane in range(around.lanes)]
    times = [glance.commit.at for glance in glances if glance.commit is not None]
    found.committed = len(times)
    found.checkpoint_age = max(time.time() - max(times) / 1000, 0.0) if times else None
    refuse_other_models(settings, store, glances)
    try:
        wanted_run(settings, around, glances, again=again)
    except EndedError:
        found.ended = True
        return
    if isinstance(store, KafkaStore):
        _look_at_files(store.directories, glances)
        return
    with store.held():
        _look_at_files(store.topics, glances)


def _look_at_files(directories: Mapping[str, DirectoryTopic], glances: Sequence[Glance]) -> None:
    """As a lane finds its outputs when it is opened."""
    for lane, glance in enumerate(glances if directories else ()):
        DirectoryWriter(lane, directories, glance.commit, look=True).close()


def _look_at_sizes(settings: Settings, around: Surroundings, found: Findings) -> None:
    """An original of the largest size must fit in together with what is added to it."""
    source = settings.source
    if not isinstance(source, KafkaTopic):
        return
    info = kafka.describe_topics(source.bootstrap, settings.kafka, [source.name])[source.name]
    largest = 0 if info is None else info.max_message_bytes
    for name in ("dead_letters", "applied", "labelled"):
        output = around.outputs.get(name)
        if output is not None and output.max_message_bytes < largest + HEADROOM:
            found.warnings.append(
                f"topic {output.name!r} ({name}) takes messages of {output.max_message_bytes:,} bytes, the input of"
                f" {largest:,}: a large record with what is added to it may not fit, and would park its lane; set"
                f" max.message.bytes={largest + HEADROOM}"
            )


def _look_at_rights(settings: Settings, around: Surroundings, work: Work, found: Findings) -> None:
    """Of groups and of the transactional id; those of topics have been looked at."""
    state, name = settings.state, settings.flow.name
    assert isinstance(state, KafkaTopic)
    ask, members = groups.refuse_unreadable, name + SUFFIX
    _try(found, lambda: ask(state.bootstrap, settings.kafka, members, SHARED))
    if isinstance(settings.source, KafkaTopic):
        _try(found, lambda: ask(state.bootstrap, settings.kafka, name, WHAT_FOR))
    if around.state is not None:
        _try(found, lambda: _fence_nobody(settings, around, work))
    try:
        found.members = len(groups.members(state.bootstrap, settings.kafka, members))
    except SluicewayError:
        found.members = None


def _fence_nobody(settings: Settings, around: Surroundings, work: Work) -> None:
    """Whether transactions are allowed: by an id of the flow's that belongs to no lane, and that the broker forgets
    within a week."""
    store = open_store(settings, around, belongs_to(settings, around, work), make=False)
    assert isinstance(store, KafkaStore)
    writer = TransactionalWriter(0, store.output, name="check")
    try:
        writer.fence()
    finally:
        writer.close()

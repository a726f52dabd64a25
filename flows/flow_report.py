"""How a flow stands: its lanes, who has them, how far they are, what they hold. Read without disturbing anybody."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.reach import Reached, members
from sluiceway.flows.stream_report import ModelReport, StreamReport, model_report, report
from sluiceway.topics import kafka
from sluiceway.topics.directory import whole_size
from sluiceway.topics.state_records import Contents, OpenRecord, RunRecord
from sluiceway.topics.url import DirectoryTopic, KafkaTopic

Owned = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who opened a lane last."""

    host: str
    pid: int
    since: int
    """In milliseconds."""


@dataclass(frozen=True, slots=True)
class LaneReport:
    lane: int
    owner: Owner | None
    owned: Owned
    """Whether somebody has the lane now."""
    parked: str | None
    """Why it stands still, if it does."""
    position: int | None
    """Where reading goes on; None before the first commit."""
    end: int | None
    """Of the input, as of now; None if it is not there."""
    lag: int | None
    """From the position to the end: offsets, or bytes of a directory."""
    streams: int
    bytes: int
    committed: int | None
    """When, in milliseconds."""
    age: float | None
    """Seconds since then."""
    final: bool
    """It has come to the end of the run."""
    run: int | None


@dataclass(frozen=True, slots=True)
class FlowReport:
    flow: str
    state: str
    belongs_to: Mapping[str, Any]
    """What the models depend on, as it is stored."""
    run: int | None
    bounded: bool | None
    stop: str | None
    """Its `input.stop`."""
    lag_in: Literal["records", "bytes"]
    lanes: list[LaneReport]
    streams: list[StreamReport]
    """In the order of lanes and of their first appearance; not more than were asked for."""
    stream_count: int


def flow_report(reached: Reached, step: Callable[[], None], *, most_streams: int | None = None) -> FlowReport:
    contents = _contents(reached, step)
    owned = _owned(reached)
    ends = _ends(reached)
    runs = [found.run for found in contents if found.run is not None]
    run = max(runs, key=lambda each: each.number, default=None)
    belongs: Mapping[str, Any] = next((found.commit.belongs_to for found in contents if found.commit is not None), {})
    every = [
        (lane, name, stored, found.commit)
        for lane, found in enumerate(contents)
        if found.commit is not None
        for name, stored in found.streams.items()
    ]
    return FlowReport(
        flow=reached.flow,
        state=str(reached.settings.state),
        belongs_to=belongs,
        run=None if run is None else run.number,
        bounded=None if run is None else run.bounds.stop_setting is not None,
        stop=None if run is None else run.bounds.stop_setting,
        lag_in="records" if isinstance(reached.settings.source, KafkaTopic) else "bytes",
        lanes=[
            _lane(lane, found, run, owned(lane, found.opened), ends.get(lane), reached.settings.source_role)
            for lane, found in enumerate(contents)
        ],
        streams=[report(*each) for each in every[:most_streams]],
        stream_count=len(every),
    )


def stream_in_full(reached: Reached, stream: str, step: Callable[[], None]) -> ModelReport:
    """One stream's model, wherever it lies."""
    contents = _contents(reached, step)
    for lane, found in enumerate(contents):
        if stream in found.streams:
            assert found.commit is not None
            return model_report(lane, stream, found.streams[stream], found.commit)
    names = [name for found in contents for name in found.streams]
    near = get_close_matches(stream, names, n=1, cutoff=0.5)
    some = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    hint = f"did you mean {near[0]!r}?" if near else f"it has {some or 'none yet'}"
    raise SettingsError(f"{reached.flow!r} has no stream {stream!r}; {hint}")


def _contents(reached: Reached, step: Callable[[], None]) -> list[Contents]:
    store = reached.store
    if store is None:
        raise SettingsError(
            f"{reached.flow!r} has no state yet: there is no {reached.state.removeprefix('the ')};"
            f" `sluiceway {reached.settings.verb} FLOW` begins one"
        )
    found = []
    for lane in range(reached.lanes):
        found.append(store.read(lane))
        step()
    return found


def _lane(
    lane: int, found: Contents, run: RunRecord | None, owned: Owned, end: int | None, reads: str
) -> LaneReport:
    opened, commit = found.opened, found.commit
    position = None if commit is None else commit.positions.get(reads)
    begin = position
    if begin is None and run is not None and lane < len(run.bounds):
        begin = run.bounds.starts[lane]
    return LaneReport(
        lane=lane,
        owner=None if opened is None else Owner(opened.host, opened.pid, opened.at),
        owned=owned,
        parked=None if opened is None else opened.parked,
        position=position,
        end=end,
        lag=None if end is None or begin is None else max(end - begin, 0),
        streams=len(found.streams),
        bytes=found.size,
        committed=None if commit is None else commit.at,
        age=None if commit is None else round(max(time.time() - commit.at / 1000, 0.0), 1),
        final=commit is not None and run is not None and commit.ends(run.number),
        run=None if commit is None else commit.run,
    )


def _owned(reached: Reached) -> Callable[[int, OpenRecord | None], Owned]:
    """The group knows on Kafka; a flow that writes directories is one process, and that may live on this machine."""
    settings = reached.settings
    if any(isinstance(topic, DirectoryTopic) for topic in settings.outputs.values()):
        return _is_alive
    try:
        had = {lane for member in members(settings) for lane in member.lanes}
    except FlowError:  # who may read the topic need not be allowed to see the group
        return lambda lane, opened: "unknown"
    return lambda lane, opened: "yes" if lane in had else "no"


def _is_alive(lane: int, opened: OpenRecord | None) -> Owned:
    # asking for the lane's lock would disturb a flow that takes it just now
    if opened is None:
        return "no"
    if opened.host != os.uname().nodename:
        return "unknown"
    try:
        os.kill(opened.pid, 0)
    except ProcessLookupError:
        return "no"
    except PermissionError:
        pass
    return "yes"


def _ends(reached: Reached) -> dict[int, int]:
    """Where the input's partitions end now."""
    source, given = reached.settings.source, reached.input
    if given is None:
        return {}
    if isinstance(source, DirectoryTopic):
        return {lane: whole_size(source, lane) for lane in range(given.partitions)}
    with closing(kafka.reader(source.bootstrap, reached.settings.kafka)) as consumer:
        return {lane: kafka.watermarks(consumer, source.name, lane)[1] for lane in range(given.partitions)}

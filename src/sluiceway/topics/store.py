"""A lane's store: where its state, its position and its output become durable in one act.

The state lies where the output goes: a compacted topic beside Kafka outputs (`kafka_store`), SQLite files beside
directories (`directory_store`). Both are used the same way: a lane is opened, which fences whoever had it before; what
it writes afterwards is invisible, or compared when it comes again, until `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from sluiceway.errors import FlowError
from sluiceway.schemas.asleep import Asleep
from sluiceway.schemas.lane import LaneOutput
from sluiceway.schemas.state import StoredChange
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.state_records import CommitRecord, Contents, OpenRecord, RunRecord


class Wanted(NamedTuple):
    """The run that a process has come for."""

    number: int
    """At least this one: a run that ended before is not gone on with."""
    lanes: int
    stop_setting: str | None
    resolve: Callable[[RunRecord | None], Bounds]
    """Decides the bounds where nobody has yet; given the run before, if there was one."""

    def accepts(self, run: RunRecord | None) -> bool:
        return (
            run is not None
            and run.number >= self.number
            and run.bounds.stop_setting == self.stop_setting
            and len(run.bounds) == self.lanes
        )

    def begin(self, before: RunRecord | None) -> RunRecord:
        """The next run, for whoever opens lane 0."""
        number = max(self.number, 1 if before is None else before.number + 1)
        return RunRecord(number, self.resolve(before))


class Restored(NamedTuple):
    """What an opened lane goes on from."""

    run: RunRecord
    commit: CommitRecord | None
    """None: the lane has never committed."""
    asleep: Asleep
    """The streams. They hold until the lane is closed."""


class LaneStore(Protocol):
    """One lane, to be written. Its calls block, and are made from one thread of the lane's own."""

    def open(self, wanted: Wanted) -> Restored:
        """Fence whoever had the lane, restore what was committed, find or begin the run."""

    def write(self, output: LaneOutput) -> None:
        """Output, in order. It belongs to the next commit."""

    def commit(self, positions: Mapping[str, int], changes: Sequence[StoredChange], *, final: bool) -> None:
        """Output written since, changed states and position, all or nothing."""

    def park(self, reason: str) -> None:
        """Say in the store why the lane stands still. Whatever goes wrong with that is passed over."""

    def close(self) -> None:
        """Let go; nothing may be committed here."""


class Glance(NamedTuple):
    """What can be known of a lane without reading its states."""

    opened: OpenRecord | None
    commit: CommitRecord | None
    low: int = 0
    """Where its records begin, on Kafka: not at 0 if some were deleted."""


class FlowStore(Protocol):
    """The store of a flow, read-only but for the lanes that it opens and for `remove`."""

    def glance(self, lane: int) -> Glance: ...

    def read(self, lane: int) -> Contents:
        """Everything up to a commit met at the end, while others may go on writing."""

    def holds_streams(self, lane: int) -> bool:
        """Whether anything was ever learnt there."""

    def lane(self, lane: int, alive: Callable[[], bool]) -> LaneStore:
        """`alive` says whether the lane is still wanted: a late opener must not fence its successor."""


JOIN = "-join"
"""What a flow's name has after it when its labels are joined."""


def choices(flow: str) -> str:
    """What to do about a store that cannot be gone on with."""
    if flow.endswith(JOIN):
        return f"`sluiceway reset FLOW --join` forgets what waits in {flow!r} and begins anew"
    return f"`sluiceway reset FLOW` forgets the models of {flow!r} and begins anew; another flow.name leaves them alone"


BelongsTo = Mapping[str, Any]


def first_difference(found: BelongsTo, wanted: BelongsTo) -> tuple[str, Any, Any] | None:
    """Name, stored value and wanted value of what makes stored models another flow's."""
    for name in [*wanted, *found]:
        if found.get(name) != wanted.get(name):
            return name, found.get(name), wanted.get(name)
    return None


_PLACES = frozenset({"flow", "input", "input_id", "labels", "labels_id", "selections"})
"""Of what belongs to a store, that which its positions are about. It comes first."""


def refuse_changed(
    store: str, flow: str, found: BelongsTo, wanted: BelongsTo, holds_streams: Callable[[], bool]
) -> None:
    """Of a lane: settings that would make other models. Where it holds none yet, they may be mended."""
    difference = first_difference(found, wanted)
    if difference is not None and (difference[0] in _PLACES or holds_streams()):
        raise other_models(store, flow, *difference)


def other_models(store: str, flow: str, name: str, found: object, wanted: object) -> FlowError:
    """The refusal of settings that would make other models, with the commands that lead on."""
    was, now = orjson.dumps(found).decode(), orjson.dumps(wanted).decode()
    if name == "flow":
        return FlowError(
            f"{store} holds the models of flow {was}, not of {now}: `sluiceway fork` takes them to a flow of another"
            f" name, with a state of its own; or give the flow another topics.state, or its old name"
        )
    return FlowError(
        f"{store} was made with {name.replace('_', ' ')} = {was}, the flow now has {now}: its models cannot go on with"
        f" that; undo the change (`sluiceway fork` makes flows of other names from these models only while such"
        f" settings stay), or {choices(flow)}"
    )

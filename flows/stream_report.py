"""One stream's model, as it lies in a store, in words and numbers; tolerant of what this program does not know."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.schemas.state import StoredStream, StreamState, UnreadableStateError, unpack_stream
from sluiceway.topics.state_records import CommitRecord


@dataclass(frozen=True, slots=True)
class StreamReport:
    """A stream as of its lane's last commit; None where this program cannot read it."""

    lane: int
    stream: str
    version: int | None
    """Labelled instances (or columns) learnt; of a windowed flow up to its newest window's end."""
    seen: int | None
    selected: int | None
    pieces: int
    """Parts of the state that are stored apart: instances that wait for a label, rows of a window, columns."""
    bytes: int


@dataclass(frozen=True, slots=True)
class SelectedFeature:
    feature: str
    weight: float | None
    """None where weights live no longer than a window."""
    since: int
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else a snapshot says of it."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """One stream's model in full."""

    summary: StreamReport
    operator: str
    params: dict[str, Any]
    selected: list[SelectedFeature]
    counts: dict[str, int]
    """What the stream has counted: mistakes, evicted, pending, and the like."""
    metrics: dict[str, float]
    """What only the operator can count."""
    classes: list[str | int]
    """In the order of `confusion`, where there is one."""
    confusion: list[list[int]] | None
    """With more than two classes: labelled instances by their class (rows) and the class that was predicted."""
    problem: str | None
    """Why the rest is not known, if it is not."""
    head: Any = field(repr=False)
    """The state's head as it is stored, bytes as base64."""


def report(lane: int, stream: str, stored: StoredStream, commit: CommitRecord) -> StreamReport:
    return model_report(lane, stream, stored, commit).summary


def model_report(lane: int, stream: str, stored: StoredStream, commit: CommitRecord) -> ModelReport:
    """`commit`: the lane's, which says what its models depend on and what they are made of."""
    belongs_to = commit.belongs_to
    state, found, problem = StreamState({}, {}), None, None
    operator = str(belongs_to.get("operator"))
    try:
        state = unpack_stream(stored)
        entry = registry.get(operator)
        kind = entry.kind.in_flow(frozenset(commit.positions))
        found = kind.stored_model(entry.cls, belongs_to, state)
    except UnreadableStateError as error:
        problem = f"the state cannot be read: {error}"
    except SettingsError as error:
        problem = str(error)
    except Exception as error:  # whatever a state of another version, or a damaged one, leads to
        problem = f"this program does not know the model: {error!r}"
    head = state.head if isinstance(state.head, Mapping) else {}
    if found is None:
        summary = StreamReport(lane, stream, None, head.get("seen"), None, len(stored.pieces), stored.size)
        return ModelReport(summary, operator, {}, [], _counts(head), {}, [], None, problem, printable(state.head))
    seen, chosen = head.get("seen", found.seen), len(found.selected)
    summary = StreamReport(lane, stream, found.version, seen, chosen, len(stored.pieces), stored.size)
    return ModelReport(
        summary,
        operator,
        found.params,
        [SelectedFeature(*each) for each in found.selected],
        _counts(head) | found.counts,
        found.metrics,
        list(belongs_to.get("classes") or ()),
        None if found.confusion is None else found.confusion.tolist(),
        problem,
        printable(state.head),
    )


def _counts(head: Mapping[str, Any]) -> dict[str, int]:
    """What stands in the head of any stream."""
    counts = {
        name.replace("_", " "): value
        for name, value in head.items()
        if type(value) is int and name not in ("seen", "state_version", "pieces", "next_piece", "ts")
    }
    snapshots = head.get("snapshots")
    if isinstance(snapshots, Mapping) and type(snapshots.get("version")) is int:
        counts["version of the last snapshot"] = snapshots["version"]
    return counts


def printable(value: Any) -> Any:
    """For JSON: bytes as base64, keys as texts."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): printable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable(inner) for inner in value]
    return value

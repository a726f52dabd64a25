"""One stream's model, as it lies in a store, in words and numbers; tolerant of what this program does not know."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.operators.stages.column_stream import selector_state
from sluiceway.operators.stages.stored_model import stored_model
from sluiceway.schemas.state import StoredStream, StreamState, UnreadableStateError, unpack_stream


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
    problem: str | None
    """Why the rest is not known, if it is not."""
    head: Any = field(repr=False)
    """The state's head as it is stored, bytes as base64."""


def report(lane: int, stream: str, stored: StoredStream, belongs_to: Mapping[str, Any]) -> StreamReport:
    return model_report(lane, stream, stored, belongs_to).summary


def model_report(lane: int, stream: str, stored: StoredStream, belongs_to: Mapping[str, Any]) -> ModelReport:
    """`belongs_to`: what the lane's commit says that its models depend on."""
    state, problem = StreamState({}, {}), None
    version = seen = None
    operator, counts = str(belongs_to.get("operator")), {}
    params: dict[str, Any] = {}
    selected: list[SelectedFeature] | None = None
    metrics: dict[str, float] = {}
    try:
        state = unpack_stream(stored)
        head = state.head
        if "since" in head:  # a windowed flow's: its selectors live for one window, what they selected lives on
            version = head["snapshots"]["version"]
            selected = [SelectedFeature(name, None, since) for name, since in head["since"].items()]
        elif isinstance(head.get("model"), bytes):
            params = belongs_to["params"]
            found = stored_model(registry.get(operator).cls(**params), head["model"])
            version, seen, metrics, counts = found.version, found.seen, found.metrics, found.counts
            selected = [SelectedFeature(*chosen) for chosen in found.selected]
        else:
            model = registry.get(operator).cls.from_state(_model_state(state))
            version, params, metrics = model.version, model.params, model.metrics()
            selected = [SelectedFeature(*chosen) for chosen in model.selected]
    except UnreadableStateError as error:
        problem = f"the state cannot be read: {error}"
    except SettingsError as error:
        problem = str(error)
    except Exception as error:  # whatever a state of another version, or a damaged one, leads to
        problem = f"this program does not know the model: {error!r}"
    head = state.head if isinstance(state.head, Mapping) else {}
    seen = head.get("seen", seen)
    chosen = None if selected is None else len(selected)
    summary = StreamReport(lane, stream, version, seen, chosen, len(stored.pieces), stored.size)
    return ModelReport(
        summary,
        operator,
        params,
        selected or [],
        _counts(state, head) | counts,
        metrics,
        problem,
        printable(state.head),
    )


def _model_state(state: StreamState) -> Mapping[str, Any]:
    head = state.head
    if "model" in head:
        model: Mapping[str, Any] = head["model"]
        return model
    return selector_state(state)


def _counts(state: StreamState, head: Mapping[str, Any]) -> dict[str, int]:
    counts = {
        name.replace("_", " "): value
        for name, value in head.items()
        if type(value) is int and name not in ("seen", "state_version", "pieces", "next_piece", "ts")
    }
    if "selector" not in head:  # an instance that waits is a list, a block of a window's rows is a table
        counts["pending"] = sum(isinstance(piece, list) for piece in state.pieces.values())
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

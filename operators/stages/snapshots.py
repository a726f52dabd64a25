"""The snapshots of one stream: each made against the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluiceway.operators.contract import Selected
from sluiceway.operators.stages.emission import Emit, Reason
from sluiceway.schemas import encode
from sluiceway.schemas.encode import Entry
from sluiceway.schemas.lane import OutRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    """What the snapshots of all streams of a flow share."""

    flow: str
    operator: str
    emit: Emit = field(default_factory=Emit)
    max_snapshot_bytes: int | None = None
    """Snapshots above this are cut to fewer features."""
    source: str = "instances"
    """What the flow reads."""


class Snapshots:
    """Makes the snapshots of one stream and remembers the last: what it held, and at which version."""

    def __init__(self, stream: str, lane: int, config: SnapshotConfig) -> None:
        self._stream = stream
        self._lane = lane
        self._config = config
        self.version = 0
        self._names: list[str] = []
        self._held: frozenset[str] = frozenset()

    def differs(self, selected: Sequence[Selected]) -> bool:
        """Whether another set of features is selected than in the last snapshot."""
        return {entry.feature for entry in selected} != self._held

    def held(self, feature: str) -> bool:
        """Whether the last snapshot had it."""
        return feature in self._held

    def make(
        self,
        reason: Reason,
        *,
        offset: int,
        position: int,
        version: int,
        seen: int,
        ts: int,
        selected: Sequence[Entry],
        metrics: Mapping[str, float],
        params: Mapping[str, Any],
        wanted: Sequence[str] | None = None,
        generation: int = 0,
        redundant: Mapping[str, Sequence[str]] | None = None,
    ) -> OutRecord:
        """The snapshot after the record at `offset`; reading goes on at `position`.

        `wanted` are the features to send next; they are said whole, or not at all if the snapshot is too large.
        `redundant` says of features that have left which others made them redundant.
        """
        config, top = self._config, self._config.emit.top
        names = [entry[0] for entry in selected]
        before, now = self._held, frozenset(names)
        left = [name for name in self._names if name not in now]
        while True:
            record = encode.snapshot(
                offset=offset,
                flow=config.flow,
                stream=self._stream,
                operator=config.operator,
                version=version,
                seen=seen,
                generation=generation,
                ts=ts,
                reason=reason,
                n_selected=len(selected),
                selected=selected[:top],
                entered=[name for name in names if name not in before],
                left=left,
                wanted=wanted,
                redundant=None if redundant is None else {name: redundant.get(name, ()) for name in left},
                metrics=metrics,
                params=params,
                source={config.source: (self._lane, position)},
            )
            if config.max_snapshot_bytes is None or top == 0 or record.size <= config.max_snapshot_bytes:
                break
            wanted, top = None, min(top, len(selected)) // 2
        self.version, self._names, self._held = version, names, now
        return record

    def state(self) -> dict[str, Any]:
        return {"version": self.version, "names": list(self._names)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.version, self._names = state["version"], list(state["names"])
        self._held = frozenset(self._names)

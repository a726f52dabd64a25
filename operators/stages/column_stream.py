"""One stream of columns: its selector, from targets and columns to snapshots and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from sluiceway.operators.contract import ColumnSelector, Verdict
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import StreamOutput
from sluiceway.schemas import encode
from sluiceway.schemas.columns import ColumnRecord
from sluiceway.schemas.lane import OutRecord, RawRecords
from sluiceway.schemas.refusal import Refused

STATE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStreamConfig(SnapshotConfig):
    """What all streams of a flow of columns share."""

    new_selector: Callable[[], ColumnSelector]
    selector_from_state: Callable[[Mapping[str, Any]], ColumnSelector]
    verdicts: bool = False
    source: str = "features"

    def new(self, name: str, lane: int) -> ColumnStream:
        return ColumnStream(name, lane, self)

    def restore(self, name: str, lane: int, state: Mapping[str, Any]) -> ColumnStream:
        return ColumnStream.from_state(name, lane, self, state)


class ColumnStream:
    """One selector of columns and its stages."""

    def __init__(self, name: str, lane: int, config: ColumnStreamConfig) -> None:
        self.name = name
        self._lane = lane
        self._config = config
        self._selector = config.new_selector()
        self._seen = 0
        self._ts = 0
        self._redundant: dict[str, tuple[str, ...]] = {}
        """Features of the last snapshot that have left since, and what made them redundant, since the target came."""
        self._snapshots = Snapshots(name, lane, config)

    def process(self, batch: list[ColumnRecord], raw: RawRecords) -> StreamOutput:
        output = StreamOutput([])
        row = 0
        while row < len(batch):
            stop = self._block_end(batch, row)
            block = batch[row:stop]
            self._judge(block, raw, output)
            reason = self._due()
            if reason is not None:
                output.snapshots.append(self._snapshot(reason, block[-1].offset, block[-1].next_offset))
            row = stop
        return output

    def _block_end(self, batch: list[ColumnRecord], start: int) -> int:
        """How many records can be judged before a snapshot may be due: a target, or columns up to then."""
        emit = self._config.emit
        if batch[start].name is None or emit.on_change:
            return start + 1
        left = emit.every - self._selector.version % emit.every if emit.every else len(batch)
        stop = start
        while stop < min(start + left, len(batch)) and batch[stop].name is not None:
            stop += 1
        return stop

    def _judge(self, block: list[ColumnRecord], raw: RawRecords, output: StreamOutput) -> None:
        """Learn from a block; a record that does not fit becomes a dead letter and changes nothing."""
        version = self._selector.version
        try:
            if block[0].name is None:
                self._selector.begin(block[0].values)  # type: ignore[arg-type]  # a target is never sparse
                self._ts = max(self._ts, block[0].ts)
                self._redundant.clear()
                return
            names = [record.name or "" for record in block]
            verdicts = self._selector.learn_features(names, [record.values for record in block])
        except ValueError as problem:
            if len(block) > 1:  # nothing has changed: find the one that does not fit
                for record in block:
                    self._judge([record], raw, output)
                return
            [record] = block
            refused = Refused("bad-column", str(problem))
            output.dead_letters.append(refused.letter(record.offset, *raw[record.offset], stage="select"))
            return
        for step, (record, verdict) in enumerate(zip(block, verdicts, strict=True), start=1):
            self._note(record, verdict, version + step, output)

    def _note(self, record: ColumnRecord, verdict: Verdict, version: int, output: StreamOutput) -> None:
        self._seen += 1
        self._ts = max(self._ts, record.ts)
        for removed in verdict.removed:
            if self._snapshots.held(removed.feature):
                self._redundant[removed.feature] = removed.by
        if self._config.verdicts:
            output.verdicts.append(
                encode.verdict(
                    offset=record.offset,
                    flow=self._config.flow,
                    stream=self.name,
                    version=version,
                    generation=self._selector.generation,
                    feature=record.name or "",
                    kept=verdict.kept,
                    reason=verdict.reason,
                    by=verdict.by,
                    removed={removed.feature: removed.by for removed in verdict.removed},
                    returned=verdict.returned,
                    partition=self._lane,
                )
            )

    # -- emitting ------------------------------------------------------------------------------------------------

    def _due(self) -> Reason | None:
        emit, selector = self._config.emit, self._selector
        changed = emit.on_change and self._snapshots.differs(selector.selected)
        return emit.due(selector.version, self._snapshots.version, changed)

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already."""
        if not self._config.emit.final or self._selector.version == self._snapshots.version:
            return None
        return self._snapshot("final", position, position)

    def _snapshot(self, reason: Reason, offset: int, position: int) -> OutRecord:
        selector = self._selector
        redundant, self._redundant = self._redundant, {}
        return self._snapshots.make(
            reason,
            offset=offset,
            position=position,
            version=selector.version,
            seen=self._seen,
            ts=self._ts,
            selected=selector.selected,
            metrics=selector.metrics(),
            params=selector.params,
            generation=selector.generation,
            redundant=redundant,
        )

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "state_version": STATE_VERSION,
            "selector": self._selector.state(),
            "seen": self._seen,
            "ts": self._ts,
            "redundant": dict(self._redundant),
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: ColumnStreamConfig, state: Mapping[str, Any]) -> Self:
        if state["state_version"] != STATE_VERSION:
            raise ValueError(f"stream state of version {state['state_version']}, this program knows {STATE_VERSION}")
        stream = cls(name, lane, config)
        stream._selector = config.selector_from_state(state["selector"])
        stream._seen = state["seen"]
        stream._ts = state["ts"]
        stream._redundant = dict(state["redundant"])
        stream._snapshots.restore(state["snapshots"])
        return stream

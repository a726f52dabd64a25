"""One stream of columns: its selector, from targets and columns to snapshots and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np

from sluiceway.operators.contract import ColumnSelector, Verdict
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.pieces import readable
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import StreamOutput
from sluiceway.schemas import encode
from sluiceway.schemas.arrow import ARROW_HEADERS
from sluiceway.schemas.columns import ColumnRecord, ColumnTable
from sluiceway.schemas.lane import OutRecord, RawRecords
from sluiceway.schemas.refusal import Refused
from sluiceway.schemas.state import StreamChange, StreamState

KIND, STATE_VERSION = "columns", 2
Record = ColumnRecord | ColumnTable
_TS = attrgetter("ts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStreamConfig(SnapshotConfig):
    """What all streams of a flow of columns share."""

    new_selector: Callable[[], ColumnSelector]
    selector_from_state: Callable[[Mapping[str, Any]], ColumnSelector]
    verdicts: bool = False
    source: str = "features"

    def lane(self, topic: str, number: int) -> Lane:
        return Lane(self, topic)

    def new(self, name: str, lane: int) -> ColumnStream:
        return ColumnStream(name, lane, self)

    def restore(self, name: str, lane: int, state: StreamState) -> ColumnStream:
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
        self._changed = False
        """Whether the selection differs from the last snapshot's; kept up to date where something depends on it."""
        self._told: set[int] = set()
        """The pieces of which the last `changes` knew."""

    def process(self, batch: Sequence[Record], raw: RawRecords) -> StreamOutput:
        output = StreamOutput([])
        row = 0
        while row < len(batch):
            record = batch[row]
            if isinstance(record, ColumnTable):
                self._take_table(record, raw, output)
                row += 1
            elif record.name is None:
                self._take_target(record, raw, output)
                row += 1
            else:
                run = self._run(batch, row)
                self._judge(run, raw, output)
                row += len(run)
        return output

    def _run(self, batch: Sequence[Record], start: int) -> list[ColumnRecord]:
        """The columns from a record on that are judged together; one whose name may come again stands alone."""
        run: list[ColumnRecord] = []
        names: set[str] = set()
        for row in range(start, len(batch)):
            record = batch[row]
            if isinstance(record, ColumnTable) or record.name is None:
                break
            if run and (record.name in names or self._selector.holds(record.name)):
                break
            run.append(record)
            names.add(record.name)
            if len(run) == 1 and self._selector.holds(record.name):
                break
        return run

    def _judge(self, run: list[ColumnRecord], raw: RawRecords, output: StreamOutput) -> None:
        """Learn from columns; a record that does not fit becomes a dead letter and changes nothing."""
        try:
            block = self._selector.prepare([record.name or "" for record in run], [record.values for record in run])
        except ValueError as problem:
            if len(run) == 1:
                self._refuse(run[0], problem, raw, output)
                return
            for record in run:  # nothing has changed: find the one that does not fit
                self._judge([record], raw, output)
            return
        self._learn(block, [record.name or "" for record in run], run, output)

    def _take_target(self, record: ColumnRecord, raw: RawRecords, output: StreamOutput) -> None:
        try:
            self._begin(record, record.values, output)
        except ValueError as problem:
            self._refuse(record, problem, raw, output)

    def _begin(self, record: Record, target: Any, output: StreamOutput) -> None:
        if record.classes > 2 and self._selector.needs_numbers:
            raise ValueError(
                f"the target has {record.classes} classes, which have no order, but {self._config.operator} as it is"
                f" set measures numbers: choose a measure or test for discrete data, or input.target_type = 'number'"
            )
        self._selector.begin(target)
        self._ts = max(self._ts, record.ts)
        self._redundant.clear()
        self._look()
        self._emit(record, output)

    def _take_table(self, table: ColumnTable, raw: RawRecords, output: StreamOutput) -> None:
        """All columns, or none. Columns that bring their target fit it."""
        try:
            if table.target is not None:
                self._begin(table, table.target, output)
            block = self._selector.prepare(table.names, table.values)
        except ValueError as problem:
            self._refuse(table, problem, raw, output)
            return
        self._learn(block, table.names, [table] * len(table.names), output)

    def _learn(self, block: Any, names: Sequence[str], records: Sequence[Record], output: StreamOutput) -> None:
        """Advance to each column where a snapshot may be due, emit, and go on."""
        emit, selector = self._config.emit, self._selector
        columns = np.arange(len(names))
        done = 0
        while done < len(names):
            stop, at_change = emit.until(
                selector.version, self._snapshots.version, self._changed, columns[done:], len(names)
            )
            verdicts = selector.advance(block, done, stop, until_change=at_change)
            part = slice(done, done + len(verdicts))
            self._note(names[part], verdicts, records[part], output)
            done = part.stop
            if emit.on_change and any(verdict.changes for verdict in verdicts):
                self._look()
            self._emit(records[done - 1], output)

    def _look(self) -> None:
        if self._config.emit.on_change:
            self._changed = self._snapshots.differs(self._selector.selected)

    def _refuse(self, record: Record, problem: ValueError, raw: RawRecords, output: StreamOutput) -> None:
        headers = ARROW_HEADERS if isinstance(record, ColumnTable) else ()
        refused = Refused("bad-column", str(problem))
        output.dead_letters.append(
            refused.letter(record.offset, *raw[record.offset], stage="select", headers=headers)
        )

    def _note(
        self, names: Sequence[str], verdicts: Sequence[Verdict], records: Sequence[Record], output: StreamOutput
    ) -> None:
        """What became of columns, and from which records they came."""
        version = self._selector.version - len(verdicts)
        self._seen += len(verdicts)
        self._ts = max(self._ts, *map(_TS, records))
        for verdict in verdicts:
            for removed in verdict.removed:
                if self._snapshots.held(removed.feature):
                    self._redundant[removed.feature] = removed.by
        if self._config.verdicts:
            for step, (name, verdict, record) in enumerate(zip(names, verdicts, records, strict=True), start=1):
                output.verdicts.append(self._verdict(name, verdict, version + step, record.offset))

    def _verdict(self, name: str, verdict: Verdict, version: int, offset: int) -> OutRecord:
        return encode.verdict(
            offset=offset,
            flow=self._config.flow,
            stream=self.name,
            version=version,
            generation=self._selector.generation,
            feature=name,
            kept=verdict.kept,
            reason=verdict.reason,
            by=verdict.by,
            removed={removed.feature: removed.by for removed in verdict.removed},
            returned=verdict.returned,
            partition=self._lane,
        )

    # -- emitting ------------------------------------------------------------------------------------------------

    def _emit(self, record: Record, output: StreamOutput) -> None:
        """The snapshot after a record, if one is due."""
        reason = self._config.emit.due(self._selector.version, self._snapshots.version, self._changed)
        if reason is not None:
            output.snapshots.append(self._snapshot(reason, record.offset, record.next_offset))

    def final(self, position: int) -> OutRecord | None:
        """The snapshot at the end of bounded input, unless this version has one already."""
        if not self._config.emit.final or self._selector.version == self._snapshots.version:
            return None
        return self._snapshot("final", position, position)

    def _snapshot(self, reason: Reason, offset: int, position: int) -> OutRecord:
        selector = self._selector
        redundant, self._redundant = self._redundant, {}
        self._changed = False
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

    def state(self) -> StreamState:
        pieces = sorted(self._pieces())
        return StreamState(self._head(len(pieces)), {number: self._piece(number) for number in pieces})

    def changes(self) -> StreamChange:
        told, self._told = self._told, self._pieces()
        added = {number: self._piece(number) for number in sorted(self._told - told)}
        return StreamChange(self._head(len(self._told)), added, sorted(told - self._told))

    def _pieces(self) -> set[int]:
        selector = self._selector
        target = {_target_piece(selector.generation)} if selector.rows else set()
        return target.union(map(_column_piece, selector.column_numbers()))

    def _piece(self, number: int) -> bytes:
        return self._selector.target_bytes() if number % 2 else self._selector.column_bytes(number // 2)

    def _head(self, pieces: int) -> dict[str, Any]:
        return {
            "stream": KIND,
            "state_version": STATE_VERSION,
            "pieces": pieces,
            "selector": self._selector.state(columns=False),
            "generation": self._selector.generation,
            "columns": self._selector.column_numbers(),
            "seen": self._seen,
            "ts": self._ts,
            "redundant": {feature: list(by) for feature, by in self._redundant.items()},
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: ColumnStreamConfig, state: StreamState) -> Self:
        head = readable(state, KIND, STATE_VERSION)
        stream = cls(name, lane, config)
        stream._selector = config.selector_from_state(selector_state(state))
        stream._told = set(state.pieces)
        stream._seen = head["seen"]
        stream._ts = head["ts"]
        stream._redundant = {feature: tuple(by) for feature, by in head["redundant"].items()}
        stream._snapshots.restore(head["snapshots"])
        stream._look()
        return stream


def selector_state(state: StreamState) -> dict[str, Any]:
    """What the selector's own `state` had given."""
    head, pieces = state
    return {
        **head["selector"],
        "target": pieces[_target_piece(head["generation"])] if pieces else b"",
        "columns": [pieces[_column_piece(number)] for number in head["columns"]],
    }


# The selector numbers its columns through all generations, and its targets by them: no number comes twice if columns
# are given the even ones and targets the odd ones.


def _column_piece(number: int) -> int:
    return 2 * number


def _target_piece(generation: int) -> int:
    return 2 * generation + 1

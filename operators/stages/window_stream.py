"""One stream of instances, a window of them at a time turned into columns for a column selector."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from sluiceway.operators.contract import ColumnSelector, Selected
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.pending import Joined, Pending, orphan
from sluiceway.operators.stages.pieces import Pieces, readable
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import StreamOutput
from sluiceway.operators.stages.window_rows import WindowRows
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.lane import OutRecord, RawRecords
from sluiceway.schemas.state import StreamChange, StreamState

KIND, STATE_VERSION = "windows", 3
COLUMNS_A_BLOCK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStreamConfig(SnapshotConfig):
    """What all streams of a windowed flow share."""

    new_selector: Callable[[], ColumnSelector]
    size: int
    """Labelled instances a window."""
    slide: int
    """Labelled instances from one window's start to the next one's; at most `size`."""
    max_pending: int = 10_000
    """Unlabelled instances that wait for a later label."""

    def lane(self, topic: str, number: int) -> Lane:
        return Lane(self, topic)

    def new(self, name: str, lane: int) -> WindowStream:
        return WindowStream(name, lane, self)

    def restore(self, name: str, lane: int, state: StreamState) -> WindowStream:
        return WindowStream.from_state(name, lane, self, state)


class _Block(NamedTuple):
    """Rows that were told of together."""

    number: int
    stop: int
    """How many instances had been learnt at its end."""


class WindowStream:
    """Gathers labelled instances; each full window is judged by a selector of its own and gives a snapshot.

    `version` counts the labelled instances up to the newest window's end, `since` the version of the window at which a
    feature last entered. An instance whose label comes later takes its place in the window then. Snapshots follow the
    windows alone: one for each full window, none for the last that is not full.
    """

    def __init__(self, name: str, lane: int, config: WindowStreamConfig) -> None:
        self.name = name
        self._config = config
        self._rows = WindowRows()
        self._learnt = 0
        self._pieces = Pieces()
        self._blocks: deque[_Block] = deque()
        """The pieces that hold rows of the window, oldest first."""
        self._told = 0
        """Instances learnt at the last `changes`: rows after it are in no block."""
        self._gone = 0
        """Rows of the first block that are no longer in the window."""
        self._seen = 0
        self._ts = 0
        self._since: dict[str, int] = {}
        self._pending = Pending(config.max_pending, self._pieces)
        self._evicted = 0
        self._snapshots = Snapshots(name, lane, config)

    def process(self, batch: InstanceBatch, raw: RawRecords) -> StreamOutput:
        joined = self._pending.join(batch)
        output = StreamOutput([], dead_letters=[orphan(offset, *raw[offset]) for offset in joined.orphans])
        rows = joined.batch
        learns = np.flatnonzero(rows.y)
        done = row = 0
        while done < len(learns):
            need = self._config.size - len(self._rows)
            taken = learns[done : done + need]
            done += len(taken)
            start, row = row, (int(taken[-1]) + 1 if len(taken) == need else len(rows))
            self._count(joined, start, row)
            self._rows.append(rows, taken)
            self._learnt += len(taken)
            if len(taken) == need:
                output.snapshots.append(self._judge(int(rows.offset[row - 1]), int(rows.next_offset[row - 1])))
        self._count(joined, row, len(rows))
        return output

    def _count(self, joined: Joined, start: int, stop: int) -> None:
        if stop > start:
            arrived = joined.arrived
            self._seen += stop - start if arrived is None else int(np.count_nonzero(arrived[start:stop]))
            self._ts = max(self._ts, int(joined.batch.ts[start:stop].max()))
            self._evicted += bisect_left(joined.evictions, stop) - bisect_left(joined.evictions, start)

    def _judge(self, offset: int, position: int) -> OutRecord:
        selector = self._config.new_selector()
        selector.begin(self._rows.y)
        columns, names = self._rows.columns(), self._rows.names()
        for start in range(0, len(names), COLUMNS_A_BLOCK):
            block = names[start : start + COLUMNS_A_BLOCK]
            selector.learn_features(block, self._rows.dense(columns, block))
        self._since = {entry.feature: self._since.get(entry.feature, self._learnt) for entry in selector.selected}
        evicted = {"pending_evicted": self._evicted} if self._evicted else {}
        record = self._snapshots.make(
            "interval",
            offset=offset,
            position=position,
            version=self._learnt,
            seen=self._seen,
            ts=self._ts,
            selected=[Selected(entry.feature, entry.weight, self._since[entry.feature]) for entry in selector.selected],
            metrics={"columns": len(names), **evicted, **selector.metrics()},
            params={**selector.params, "window": self._config.size, "slide": self._config.slide},
        )
        self._forget()
        return record

    def _forget(self) -> None:
        """Drop what the next window does not hold, blocks of which no row is left included."""
        start = self._learnt - len(self._rows)
        self._rows.forget(self._config.slide)
        first = self._learnt - len(self._rows)
        begun = start - self._gone  # where the first block begins
        while self._blocks and self._blocks[0].stop <= first:
            begun = self._blocks[0].stop
            self._pieces.drop(self._blocks.popleft().number)
        self._gone = first - begun if self._blocks else 0

    def final(self, position: int) -> OutRecord | None:
        """None: a window that the input's end has cut short says nothing that another end would not contradict."""
        return None

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> StreamState:
        """Numbered afresh, all rows in one block: where blocks end follows from the commits, not from the input."""
        contents = list(self._pending.pieces().values())
        if len(self._rows):
            contents.append(self._rows.block())
        return StreamState(self._head(len(contents), len(contents), gone=0), dict(enumerate(contents)))

    def changes(self) -> StreamChange:
        first = self._learnt - len(self._rows)
        if self._learnt > max(self._told, first):
            block = self._rows.block(max(self._told - first, 0))
            self._blocks.append(_Block(self._pieces.add(lambda: block), self._learnt))
        self._told = self._learnt
        head = self._head(len(self._pending) + len(self._blocks), self._pieces.following, self._gone)
        return StreamChange(head, *self._pieces.changes())

    def _head(self, pieces: int, next_piece: int, gone: int) -> dict[str, Any]:
        return {
            "stream": KIND,
            "state_version": STATE_VERSION,
            "pieces": pieces,
            "next_piece": next_piece,
            "window": [self._config.size, self._config.slide],
            "gone": gone,
            "evicted": self._evicted,
            "learnt": self._learnt,
            "seen": self._seen,
            "ts": self._ts,
            "since": dict(self._since),
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: WindowStreamConfig, state: StreamState) -> Self:
        head = readable(state, KIND, STATE_VERSION)
        size, slide = head["window"]
        if (size, slide) != (config.size, config.slide):
            raise ValueError(
                f"a window of {size} instances sliding by {slide} was begun, which none of {config.size} sliding by"
                f" {config.slide} can go on"
            )
        stream = cls(name, lane, config)
        stream._pieces.following = head["next_piece"]
        stream._learnt = stream._told = head["learnt"]
        stream._gone = head["gone"]
        stream._restore_pieces(state.pieces)
        stream._evicted = head["evicted"]
        stream._seen = head["seen"]
        stream._ts = head["ts"]
        stream._since = dict(head["since"])
        stream._snapshots.restore(head["snapshots"])
        return stream

    def _restore_pieces(self, pieces: Mapping[int, Any]) -> None:
        """A block is a table, an instance that waits is a list."""
        blocks = {number: piece for number, piece in sorted(pieces.items()) if isinstance(piece, dict)}
        self._pending.restore({number: piece for number, piece in pieces.items() if number not in blocks})
        self._rows = WindowRows.from_blocks(blocks.values())
        stop = self._learnt - len(self._rows)
        for number, block in blocks.items():
            stop += len(block["y"]) // 8
            self._blocks.append(_Block(number, stop))
        if self._gone:
            self._rows.forget(self._gone)

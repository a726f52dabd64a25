"""One stream of instances, a window of them at a time turned into columns for a column selector."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from sluiceway.operators.contract import ColumnSelector, Selected
from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.operators.stages.pending import Joined, Pending, orphan
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.streams import StreamOutput
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.lane import OutRecord, RawRecords

STATE_VERSION = 1
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

    def new(self, name: str, lane: int) -> WindowStream:
        return WindowStream(name, lane, self)

    def restore(self, name: str, lane: int, state: Mapping[str, Any]) -> WindowStream:
        return WindowStream.from_state(name, lane, self, state)


class WindowStream:
    """Gathers labelled instances; each full window is judged by a selector of its own and gives a snapshot.

    `version` counts the labelled instances up to the newest window's end, `since` the version of the window at which a
    feature last entered. An instance whose label comes later takes its place in the window then. Snapshots follow the
    windows alone: one for each full window, none for the last that is not full.
    """

    def __init__(self, name: str, lane: int, config: WindowStreamConfig) -> None:
        self.name = name
        self._config = config
        self._rows = csr_array((0, 0))
        self._names: dict[str, int] = {}
        self._y = np.empty(0)
        self._learnt = 0
        self._seen = 0
        self._ts = 0
        self._since: dict[str, int] = {}
        self._pending = Pending(config.max_pending)
        self._evicted = 0
        self._snapshots = Snapshots(name, lane, config)

    def process(self, batch: InstanceBatch, raw: RawRecords) -> StreamOutput:
        joined = self._pending.join(batch)
        output = StreamOutput([], dead_letters=[orphan(offset, *raw[offset]) for offset in joined.orphans])
        rows = joined.batch
        learns = np.flatnonzero(rows.y)
        done = row = 0
        while done < len(learns):
            need = self._config.size - len(self._y)
            taken = learns[done : done + need]
            done += len(taken)
            start, row = row, (int(taken[-1]) + 1 if len(taken) == need else len(rows))
            self._count(joined, start, row)
            self._gather(rows, taken)
            if len(taken) == need:
                output.snapshots.append(self._judge(int(rows.offset[row - 1]), int(rows.next_offset[row - 1])))
        self._count(joined, row, len(rows))
        self._pending.scored(np.zeros(len(rows)))
        return output

    def _count(self, joined: Joined, start: int, stop: int) -> None:
        if stop > start:
            arrived = joined.arrived
            self._seen += stop - start if arrived is None else int(np.count_nonzero(arrived[start:stop]))
            self._ts = max(self._ts, int(joined.batch.ts[start:stop].max()))
            self._evicted += bisect_left(joined.evictions, stop) - bisect_left(joined.evictions, start)

    def _gather(self, batch: InstanceBatch, taken: Any) -> None:
        """Rows into the window; a column has a name only if a row of the window uses it, in order of first use."""
        rows = csr_array((batch.values, batch.indices, batch.indptr), shape=(len(batch), len(batch.names)))[taken]
        rows.eliminate_zeros()
        used, first = np.unique(rows.indices, return_index=True)
        place = np.zeros(len(batch.names), dtype=np.int64)
        for at in used[np.argsort(first)].tolist():
            place[at] = self._names.setdefault(batch.names[at], len(self._names))
        width = len(self._names)
        renamed = csr_array((rows.data, place[rows.indices], rows.indptr), shape=(len(taken), width))
        held = csr_array((self._rows.data, self._rows.indices, self._rows.indptr), shape=(len(self._y), width))
        self._rows = csr_array(vstack([held, renamed]))
        self._y = np.concatenate([self._y, batch.y[taken].astype(np.float64)])
        self._learnt += len(taken)

    def _judge(self, offset: int, position: int) -> OutRecord:
        selector = self._config.new_selector()
        selector.begin(self._y)
        columns = csc_array(self._rows)
        names = list(self._names)
        names = [names[at] for at in np.argsort(feature_keys(names), kind="stable").tolist()]
        for start in range(0, len(names), COLUMNS_A_BLOCK):
            block = names[start : start + COLUMNS_A_BLOCK]
            selector.learn_features(block, columns[:, [self._names[name] for name in block]].toarray().T.copy())
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
        """Drop what the next window does not hold, names that no row uses included."""
        rows = self._rows[self._config.slide :]
        used = np.unique(rows.indices)
        by_place = list(self._names)
        self._names = {by_place[place]: at for at, place in enumerate(used.tolist())}
        self._rows = csr_array(
            (rows.data, np.searchsorted(used, rows.indices), rows.indptr), shape=(rows.shape[0], len(used))
        )
        self._y = self._y[self._config.slide :]

    def final(self, position: int) -> OutRecord | None:
        """None: a window that the input's end has cut short says nothing that another end would not contradict."""
        return None

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        rows = self._rows
        return {
            "state_version": STATE_VERSION,
            "window": [self._config.size, self._config.slide],
            "pending": self._pending.state(),
            "evicted": self._evicted,
            "names": list(self._names),
            "indptr": rows.indptr.astype(np.int64).tobytes(),
            "indices": rows.indices.astype(np.int64).tobytes(),
            "values": rows.data.astype(np.float64).tobytes(),
            "y": self._y.tobytes(),
            "learnt": self._learnt,
            "seen": self._seen,
            "ts": self._ts,
            "since": dict(self._since),
            "snapshots": self._snapshots.state(),
        }

    @classmethod
    def from_state(cls, name: str, lane: int, config: WindowStreamConfig, state: Mapping[str, Any]) -> Self:
        if state["state_version"] != STATE_VERSION:
            raise ValueError(f"stream state of version {state['state_version']}, this program knows {STATE_VERSION}")
        size, slide = state["window"]
        if (size, slide) != (config.size, config.slide):
            raise ValueError(
                f"a window of {size} instances sliding by {slide} was begun, which none of {config.size} sliding by"
                f" {config.slide} can go on"
            )
        stream = cls(name, lane, config)
        stream._pending = Pending.from_state(config.max_pending, state["pending"])
        stream._evicted = state["evicted"]
        stream._names = {name: at for at, name in enumerate(state["names"])}
        stream._y = np.frombuffer(state["y"]).copy()
        parts = (np.frombuffer(state["values"]), np.frombuffer(state["indices"], dtype=np.int64))
        stream._rows = csr_array(
            (*parts, np.frombuffer(state["indptr"], dtype=np.int64)), shape=(len(stream._y), len(stream._names))
        )
        stream._learnt = state["learnt"]
        stream._seen = state["seen"]
        stream._ts = state["ts"]
        stream._since = dict(state["since"])
        stream._snapshots.restore(state["snapshots"])
        return stream

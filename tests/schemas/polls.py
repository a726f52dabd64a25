"""Polls made of plain values, and batches as plain rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.lane import LaneBatch, RawPoll


class Row(NamedTuple):
    offset: int
    next_offset: int
    x: tuple[tuple[str, float], ...]
    y: int
    ts: int
    id: str | None
    label_only: bool


def poll_of(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None, *, first: int = 0, lane: int = 0
) -> RawPoll:
    """Offsets go up by ten, so that an offset is never taken for a row number."""
    offsets = [first + 10 * at for at in range(len(values))]
    return RawPoll(
        lane=lane,
        start=first,
        stop=first + 10 * len(values),
        end=False,
        keys=[b"mail"] * len(values) if keys is None else list(keys),
        values=list(values),
        offsets=offsets,
        next_offsets=[offset + 10 for offset in offsets],
    )


def poll_of_records(records: Sequence[Any], **options: Any) -> RawPoll:
    return poll_of([orjson.dumps(record) for record in records], **options)


def rows_of(batch: InstanceBatch) -> list[Row]:
    rows = []
    for at in range(len(batch)):
        low, high = batch.indptr[at], batch.indptr[at + 1]
        x = [(batch.names[i], float(v)) for i, v in zip(batch.indices[low:high], batch.values[low:high], strict=True)]
        rows.append(
            Row(
                int(batch.offset[at]),
                int(batch.next_offset[at]),
                tuple(x),
                int(batch.y[at]),
                int(batch.ts[at]),
                None if batch.ids is None else batch.ids[at],
                batch.label_only is not None and bool(batch.label_only[at]),
            )
        )
    return rows


def batches_of(decoded: LaneBatch) -> list[tuple[str, InstanceBatch]]:
    assert decoded.columns is not None
    return decoded.columns.batches()


def rows_by_stream(decoded: LaneBatch) -> dict[str, list[Row]]:
    return {stream: rows_of(rows) for stream, rows in batches_of(decoded)}

"""A decoded poll with the rows of some streams alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sluiceway.schemas.instance_columns import Columns, take_rows
from sluiceway.schemas.lane import LaneBatch


def only(batch: LaneBatch, streams: frozenset[str]) -> LaneBatch:
    """Dead letters belong to no stream and stay."""
    kept = [entry for entry in batch.streams if entry[0] in streams]
    columns = None if batch.columns is None else _rows_of(batch.columns, streams)
    return replace(batch, streams=kept, columns=columns)


def _rows_of(columns: Columns, streams: frozenset[str]) -> Columns:
    wanted = {name.encode() for name in streams}
    keep = np.fromiter((name in wanted for name in columns.streams), dtype=bool, count=len(columns.streams))
    return columns if keep.all() else take_rows(columns, np.flatnonzero(keep))


def names_of(batch: LaneBatch) -> set[str]:
    """The streams that have rows."""
    names = {name for name, _ in batch.streams}
    return names if batch.columns is None else names | {name.decode() for name in set(batch.columns.streams)}

"""Room for the columns of a poll, used again for the next: memory that is new each time costs more than the reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.name_hash import (
    SECRET_1,
    SECRET_2,
    TABLE_ADDRESS,
    TABLE_AT,
    TABLE_KEY,
    TABLE_LONGS,
    TABLE_SIZE,
    NameTable,
    name_table,
)
from sluiceway.schemas.read_rows import MOST_EXPECTED, MOST_LETTERS, Desk
from sluiceway.schemas.swar import READABLE_BEYOND

_BY_RECORD: dict[Desk, type] = {Desk.START: np.int64, Desk.SIZE: np.int64}
_BY_ROW: dict[Desk, type] = {
    Desk.INDPTR: np.int64,
    Desk.Y: np.int8,
    Desk.TS: np.int64,
    Desk.ID_AT: np.int64,
    Desk.ID_SIZE: np.int32,
    Desk.LABEL_ONLY: np.bool_,
    Desk.STREAM_AT: np.int64,
    Desk.STREAM_SIZE: np.int32,
    Desk.RECORD: np.int64,
}
_BY_FEATURE: dict[Desk, type] = {
    Desk.ADDRESS: np.uint64,
    Desk.KEY: np.int64,
    Desk.NAME_AT: np.int64,
    Desk.NAME_SIZE: np.int32,
    Desk.VALUES: np.float64,
}
_FEWEST_ROWS, _FEWEST_FEATURES, _FEWEST_LETTERS = 64, 1024, 4096
_KEPT_FEATURES = 1 << 19
"""So much room for features, some 20 MB, is kept whatever polls need; beyond, four times what the newest needed."""
_MOST_STAMPS = 1 << 30
"""A stamp has to fit into 31 bits; a poll never has so many records."""


class ColumnRoom:
    """Text and columns of one poll, growing as they are filled, and the desk that compiled code finds them by."""

    def __init__(self) -> None:
        self.desk = np.zeros(len(Desk), dtype=np.int64)
        self.desk[[Desk.SECRET_1, Desk.SECRET_2]] = np.array((SECRET_1, SECRET_2)).view(np.int64)
        self._at: dict[Desk, NDArray[Any]] = {}
        """The arrays that the desk points to."""
        self._make(_BY_RECORD, _FEWEST_ROWS)
        self._make(_BY_ROW, _FEWEST_ROWS + 1)
        self._records = self._rows = _FEWEST_ROWS
        self._make_features(_FEWEST_FEATURES)
        self.put(Desk.EXPECTED, np.zeros((MOST_EXPECTED, TABLE_LONGS), dtype=np.uint64))
        self.put(Desk.EXPECTED_LETTERS, np.zeros(MOST_LETTERS + len(READABLE_BEYOND), dtype=np.uint8))

    # -- a poll ----------------------------------------------------------------------------------------------------

    def begin(self, values: Sequence[bytes | None], array: NameTable, spare: int = 0) -> None:
        """A new poll, with these records, and so much room for text that compiled code adds."""
        desk, count = self.desk, len(values)
        if self._features > _KEPT_FEATURES and self._features > 4 * self.filled:
            self._make_features(max(self.filled, _FEWEST_FEATURES), keep=0)
        if desk[Desk.STAMP] > _MOST_STAMPS:
            self._at[Desk.SEEN].fill(0)
            desk[Desk.STAMP] = 0
        if count > self._records:
            self._make(_BY_RECORD, count, keep=0)
            self._records = count
        desk[Desk.NEXT_ROW] = desk[Desk.NEXT_RECORD] = 0
        self.need_rows(count)
        beyond = bytes(spare) + READABLE_BEYOND
        try:
            text = _BETWEEN.join((array.letters, *values, beyond))  # type: ignore[arg-type]  # see below
        except TypeError:  # a message without a value
            values = filled = [value or b"" for value in values]
            text = _BETWEEN.join((array.letters, *filled, beyond))
        if count:
            size, start = self._at[Desk.SIZE][:count], self._at[Desk.START][:count]
            size[:] = np.fromiter(map(len, values), dtype=np.int64, count=count)  # type: ignore[arg-type]  # none is None by now
            start[0] = len(array.letters) + 1
            np.cumsum(size[:-1] + 1, out=start[1:])
            start[1:] += start[0]
        desk[Desk.LETTERS] = len(text) - spare
        self._put_text(np.frombuffer(text, dtype=np.uint8))
        self._put_array(array, 0)

    def columns(
        self, streams: list[bytes], offset: NDArray[np.int64], next_offset: NDArray[np.int64]
    ) -> Columns:
        """What has been filled in, until the next poll begins."""
        at, rows, filled = self._at, self.rows, self.filled
        return Columns(
            text=self.text,
            streams=streams,
            indptr=at[Desk.INDPTR][: rows + 1],
            y=at[Desk.Y][:rows],
            ts=at[Desk.TS][:rows],
            offset=offset,
            next_offset=next_offset,
            id_at=at[Desk.ID_AT][:rows],
            id_size=at[Desk.ID_SIZE][:rows],
            label_only=at[Desk.LABEL_ONLY][:rows],
            address=at[Desk.ADDRESS][:filled],
            key=at[Desk.KEY][:filled],
            name_at=at[Desk.NAME_AT][:filled],
            name_size=at[Desk.NAME_SIZE][:filled],
            values=at[Desk.VALUES][:filled],
        )

    @property
    def rows(self) -> int:
        return self.desk.item(Desk.NEXT_ROW)

    @property
    def filled(self) -> int:
        """How many features the rows have."""
        return int(self._at[Desk.INDPTR].item(self.rows))

    @property
    def record(self) -> NDArray[np.int64]:
        """Of each row, the record that it is from."""
        return self._at[Desk.RECORD][: self.rows]

    @property
    def label_only(self) -> NDArray[np.bool_]:
        return self._at[Desk.LABEL_ONLY][: self.rows]

    def member_names(self) -> tuple[list[int], list[int]]:
        """Of each row, where in its record the stream's name begins and where it ends; the same if it has none."""
        start = self._at[Desk.STREAM_AT][: self.rows] - self._at[Desk.START][self.record]
        return start.tolist(), (start + self._at[Desk.STREAM_SIZE][: self.rows]).tolist()

    # -- rows that compiled code did not read ------------------------------------------------------------------------

    def add_row(
        self, y: int, ts: int, id_: bytes, names: list[bytes], values: NDArray[np.float64], *, label_only: bool
    ) -> None:
        """A row of the next record, of these features."""
        self._add_row(y, ts, id_, label_only)
        if names:
            at = self.add_text(b"".join(names))
            self._add_features(name_table(self.text, at, names), 0, values)

    def add_array_row(self, y: int, ts: int, id_: bytes, array: NameTable, values: NDArray[np.float64]) -> None:
        """A row of the next record, of the values at the first places of the array's names, zeros among them."""
        self._add_row(y, ts, id_, label_only=False)
        if self.desk.item(Desk.ARRAY_COUNT) < len(values):
            self._put_array(array, self.add_text(array.letters))
        present = np.arange(len(values)) if self.desk.item(Desk.KEEPS_ZEROS) else np.flatnonzero(values)
        self._add_features(array.lines[present], self.desk.item(Desk.ARRAY_AT), values[present])

    def add_rows(
        self,
        y: NDArray[np.int8],
        ts: NDArray[np.int64],
        ids: Sequence[bytes],
        table: NameTable,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[np.float64],
    ) -> None:
        """Many rows of the next record; an id that is empty is none."""
        row, count, at = self.rows, len(y), self._at
        self.need_rows(row + count + self._records)
        rows = slice(row, row + count)
        at[Desk.Y][rows], at[Desk.TS][rows], at[Desk.LABEL_ONLY][rows] = y, ts, False
        at[Desk.RECORD][rows] = self.desk[Desk.NEXT_RECORD]
        sizes = np.fromiter(map(len, ids), dtype=np.int64, count=count)
        at[Desk.ID_SIZE][rows] = sizes
        at[Desk.ID_AT][rows] = self.add_text(b"".join(ids)) + np.cumsum(sizes) - sizes
        at[Desk.STREAM_AT][rows] = at[Desk.STREAM_SIZE][rows] = 0
        before = self.filled
        at[Desk.INDPTR][row + 1 : row + count + 1] = before + indptr[1:]
        self.need_features(before + len(values), keep=before)
        self._put_features(before, table.lines[indices], self.add_text(table.letters), values)
        self.desk[Desk.NEXT_ROW] += count

    def _add_row(self, y: int, ts: int, id_: bytes, label_only: bool) -> None:
        at, row = self._at, self.rows
        at[Desk.Y][row], at[Desk.TS][row], at[Desk.LABEL_ONLY][row] = y, ts, label_only
        at[Desk.RECORD][row] = self.desk[Desk.NEXT_RECORD]
        at[Desk.STREAM_AT][row] = at[Desk.STREAM_SIZE][row] = 0
        at[Desk.ID_SIZE][row] = len(id_)
        if id_:
            at[Desk.ID_AT][row] = self.add_text(id_)
        at[Desk.INDPTR][row + 1] = at[Desk.INDPTR][row]
        self.desk[Desk.NEXT_ROW] += 1

    def _add_features(self, lines: NDArray[np.uint64], letters_at: int, values: NDArray[np.float64]) -> None:
        """Features of the newest row."""
        before = self.filled
        self.need_features(before + len(values), keep=before)
        self._put_features(before, lines, letters_at, values)
        self._at[Desk.INDPTR][self.rows] = before + len(values)

    def _put_features(
        self, first: int, lines: NDArray[np.uint64], letters_at: int, values: NDArray[np.float64]
    ) -> None:
        at, places = self._at, slice(first, first + len(values))
        at[Desk.ADDRESS][places], at[Desk.KEY][places] = lines[:, TABLE_ADDRESS], lines[:, TABLE_KEY]
        at[Desk.NAME_AT][places], at[Desk.NAME_SIZE][places] = lines[:, TABLE_AT], lines[:, TABLE_SIZE]
        at[Desk.NAME_AT][places] += letters_at
        at[Desk.VALUES][places] = values

    # -- room --------------------------------------------------------------------------------------------------------

    def add_text(self, letters: bytes) -> int:
        """More text: where it begins."""
        begin = self.desk.item(Desk.LETTERS)
        end = begin + len(letters)
        if end > self.desk.item(Desk.TEXT_ROOM):
            self.more_text(end)
        self.text[begin:end] = np.frombuffer(letters, dtype=np.uint8)
        self.desk[Desk.LETTERS] = end
        return begin

    def more_text(self, size: int = 0) -> None:
        """See that there is room for more text, and for text of this size."""
        used = self.desk.item(Desk.LETTERS)
        size = max(size, used + _FEWEST_LETTERS)
        larger = np.zeros(size + size // 4 + len(READABLE_BEYOND), dtype=np.uint8)
        larger[:used] = self.text[:used]
        self._put_text(larger)

    def need_rows(self, rows: int) -> None:
        """See that there is room for so many rows."""
        if rows > self._rows:
            self._make(_BY_ROW, rows + 1, keep=self.rows + 1)
            self._rows = rows

    def need_features(self, features: int, keep: int) -> None:
        """See that there is room for so many features; those before `keep` stay."""
        if features > self._features:
            self._make_features(max(features, 2 * self._features), keep)

    def more_features(self) -> None:
        self.need_features(self._features + 1, keep=self.filled)

    def put(self, place: Desk, array: NDArray[Any]) -> None:
        """An array on the desk, and kept."""
        self._at[place] = array
        self.desk[place] = array.ctypes.data

    def _put_text(self, text: NDArray[np.uint8]) -> None:
        self.text = text
        self.put(Desk.TEXT, text)
        self.desk[Desk.TEXT_ROOM] = len(text) - len(READABLE_BEYOND)

    def _put_array(self, array: NameTable, at: int) -> None:
        self.put(Desk.ARRAY_NAMES, array.lines)
        self.desk[Desk.ARRAY_COUNT], self.desk[Desk.ARRAY_AT] = len(array.lines), at

    def _make(self, types: dict[Desk, type], size: int, keep: int = 0) -> None:
        for place, of_type in types.items():
            array: NDArray[Any] = np.empty(size, dtype=of_type)
            if keep:
                array[:keep] = self._at[place][:keep]
            self.put(place, array)
        if types is _BY_ROW:
            self._at[Desk.INDPTR][0] = 0

    def _make_features(self, size: int, keep: int = 0) -> None:
        self._make(_BY_FEATURE, size, keep)
        self.put(Desk.SEEN, np.zeros(1 << (2 * size).bit_length(), dtype=np.int64))
        self._features = size
        self.desk[Desk.ROOM], self.desk[Desk.STAMP] = size, 0


_BETWEEN = bytearray(1)
"""A byte of 0, which ends a record."""

"""From names as bytes in a text to their places in a stream's list of names, in compiled code.

Most records of a stream have the same names in the same order, so each name is first compared with the one that stood
there in the record before; only if it differs is it looked up in a hash table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.skim import Skimmed
from sluiceway.schemas.words import READABLE_BEYOND, same

_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class Places(NamedTuple):
    """The names of a stream by place, with room for more."""

    letters: NDArray[np.uint8]
    start: NDArray[np.int64]
    """Where each name begins in the letters; it ends where the next begins."""
    table: NDArray[np.int32]
    """Place + 1 by hash; 0: free. At most half of it is used."""
    shape: NDArray[np.int32]
    """The places in the newest record; before them, at 0, how many."""
    stamp: NDArray[np.int64]
    """By place: the last row in which the name was met out of the usual order; before them, at 0, the newest one."""

    @classmethod
    def none(cls) -> Self:
        start, stamp = np.zeros((2, 1), dtype=np.int64)
        table, shape = np.zeros((2, 1), dtype=np.int32)
        return cls(np.zeros(len(READABLE_BEYOND), dtype=np.uint8), start, table, shape, stamp)

    def and_also(self, names: Sequence[str], known: int) -> Places:
        """With these names after the `known` first."""
        spelt = [name.encode(errors="surrogatepass") for name in names]
        lengths = list(map(len, spelt))
        end = self.start.item(known)
        places = self._with_room(known + len(names), end + sum(lengths))
        np.cumsum([end, *lengths], out=places.start[known : known + len(names) + 1])
        places.letters[end : end + sum(lengths)] = np.frombuffer(b"".join(spelt), dtype=np.uint8)
        # a table that was too small begins anew
        _enter(places, known if places.table is self.table else 0, known + len(names))
        return places

    def _with_room(self, names: int, letters: int) -> Places:
        table = self.table
        if 2 * names > len(table):
            table = np.zeros(1 << (4 * names).bit_length(), dtype=np.int32)
        return Places(
            _larger(self.letters, letters + len(READABLE_BEYOND)),
            _larger(self.start, names + 1),
            table,
            _larger(self.shape, names + 1),
            _larger(self.stamp, names + 1),
        )


def _larger(array: NDArray[Any], size: int) -> NDArray[Any]:
    return array if size <= len(array) else np.pad(array, (0, size + size // 4 - len(array)))


class Columnar(NamedTuple):
    """The rows of a batch as they are filled in, without zeros."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]

    def fill(self, row: int, places: NDArray[np.int32], values: bytes) -> None:
        numbers = np.frombuffer(values, dtype=np.float64)
        present = numbers != 0
        if not present.all():
            places, numbers = places[present], numbers[present]
        start = self.indptr.item(row)
        stop = self.indptr[row + 1] = start + len(numbers)
        self.indices[start:stop] = places
        self.values[start:stop] = numbers


@kernel
def place_rows(
    found: Skimmed, records: NDArray[np.int64], row: int, places: Places, array_places: NDArray[np.int32], out: Columnar
) -> int:
    """Fill in the rows from `row` on: the record of each, -1 for none. The first that cannot be: no record, a name
    that is not known or stands twice, an array longer than known."""
    while row < len(records):
        record = records[row]
        if record < 0:
            return row
        first, size = found.first[record], found.first[record + 1] - found.first[record]
        indices = out.indices[out.indptr[row] : out.indptr[row] + size]
        values = found.values[first : first + size]
        if found.is_array[record]:
            if size > len(array_places):
                return row
            indices[:] = array_places[:size]
        elif not _find_all(found, first, size, places, indices):
            return row
        out.indptr[row + 1] = out.indptr[row] + _present(indices, values, out.values[out.indptr[row] :])
        row += 1
    return row


@kernel
def _present(indices: NDArray[np.int32], values: NDArray[np.float64], out: NDArray[np.float64]) -> int:
    """Values that are not zero, and their indices; how many."""
    filled = 0
    for i in range(len(values)):
        indices[filled] = indices[i]
        out[filled] = values[i]
        filled += values[i] != 0.0
    return filled


@kernel
def _find_all(found: Skimmed, first: int, size: int, places: Places, indices: NDArray[np.int32]) -> bool:
    """The place of each name of a record."""
    shape, start, letters, text = places.shape, places.start, places.letters, found.text
    if size >= len(shape):
        return False
    usual = shape[0] == size
    for i in range(size):
        name, length = found.name_at[first + i], found.name_size[first + i]
        place = shape[i + 1]
        begin = start[place]
        if start[place + 1] - begin != length or not same(text, name, letters, begin, length):
            place = _find(text, name, length, places)
            if place < 0:
                shape[0] = 0
                return False
            shape[i + 1] = place
            usual = False
        indices[i] = place
    if not usual and _repeat(indices, places.stamp):
        shape[0] = 0
        return False
    shape[0] = size
    return True


@kernel
def _repeat(places: NDArray[np.int32], stamp: NDArray[np.int64]) -> bool:
    """Whether a place stands there twice."""
    stamp[0] += 1
    for place in places:
        if stamp[place + 1] == stamp[0]:
            return True
        stamp[place + 1] = stamp[0]
    return False


@kernel
def _find(text: NDArray[np.uint8], at: int, length: int, places: Places) -> int:
    mask = len(places.table) - 1
    slot = _hash(text[at : at + length]) & mask
    while places.table[slot] != 0:
        place = places.table[slot] - 1
        start = places.start[place]
        if places.start[place + 1] - start == length and same(text, at, places.letters, start, length):
            return int(place)
        slot = (slot + 1) & mask
    return -1


@kernel
def _hash(letters: NDArray[np.uint8]) -> int:
    sum_ = _FNV_OFFSET
    for letter in letters:
        sum_ = (sum_ ^ np.uint64(letter)) * _FNV_PRIME
    return int((sum_ ^ (sum_ >> np.uint64(32))) & np.uint64(0x7FFFFFFF))


@kernel
def _enter(places: Places, first: int, stop: int) -> None:
    """The names from `first` to `stop` into the table."""
    mask = len(places.table) - 1
    for place in range(first, stop):
        slot = _hash(places.letters[places.start[place] : places.start[place + 1]]) & mask
        while places.table[slot] != 0:
            slot = (slot + 1) & mask
        places.table[slot] = place + 1

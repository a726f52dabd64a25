"""The names of the features that have a weight in any model of a bank: each once, exact, by number.

An address is only a hash: the book compares bytes, so two names that share an address are two entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.swar import READABLE_BEYOND, pointer_to, same

ENTRY = np.dtype([("address", "u8"), ("key", "i8"), ("at", "i8"), ("size", "i8")])
ENTRIES, LETTERS, SWEEP_AT = 0, 1, 2
LEAST_SWEPT = 4096
"""With fewer entries there is nothing to gain."""


class Book(NamedTuple):
    counts: NDArray[np.int64]
    """[ENTRIES], [LETTERS]: how many there are; [SWEEP_AT]: so many entries are worth a look for those not used."""
    entry: NDArray[np.void]
    """Address, feature key, and where in the letters the name stands, by number."""
    letters: NDArray[np.uint8]
    table: NDArray[np.int32]
    """1 + number by address, 0 = free; at most half used."""


def new_book() -> Book:
    counts = np.array((0, 0, LEAST_SWEPT), dtype=np.int64)
    letters = np.zeros(len(READABLE_BEYOND), dtype=np.uint8)
    return Book(counts, np.zeros(0, dtype=ENTRY), letters, np.zeros(2, dtype=np.int32))


def with_room(book: Book, names: int, letters: int) -> Book:
    """For so many more names, of so many letters together."""
    entries, used = int(book.counts[ENTRIES]), int(book.counts[LETTERS])
    if entries + names > len(book.entry):
        grown = np.zeros(max(entries + names, 2 * len(book.entry)), dtype=ENTRY)
        grown[:entries] = book.entry[:entries]
        book = book._replace(entry=grown)
    if 2 * (entries + names) > len(book.table):
        book = book._replace(table=np.zeros(1 << (4 * (entries + names)).bit_length(), dtype=np.int32))
        refill(book)
    if used + letters + len(READABLE_BEYOND) > len(book.letters):
        spelt = np.zeros(max(used + letters, 2 * len(book.letters)) + len(READABLE_BEYOND), dtype=np.uint8)
        spelt[:used] = book.letters[:used]
        book = book._replace(letters=spelt)
    return book


def bytes_used(book: Book) -> int:
    """By the names that there are, and by the table."""
    return int(book.counts[ENTRIES]) * ENTRY.itemsize + int(book.counts[LETTERS]) + book.table.nbytes


def name_of(book: Book, number: int) -> str:
    entry = book.entry[number]
    return book.letters[entry["at"] : entry["at"] + entry["size"]].tobytes().decode("utf-8", "surrogatepass")


@kernel
def number_of(book: Book, address: np.uint64, key: int, text: NDArray[np.uint8], at: int, size: int) -> int:
    """Of the name that stands in the text; entered if it is new, for which there is room."""
    number = number_or_place(book, address, text, at, size)
    return number if number >= 0 else enter(book, ~number, address, key, text, at, size)


@kernel
def number_or_place(book: Book, address: np.uint64, text: NDArray[np.uint8], at: int, size: int) -> int:
    """Of the name that stands in the text; ~place of the table where it is to be entered, if it is new."""
    entries, letters, table = book.entry, book.letters, book.table
    mask = np.uint64(len(table) - 1)
    place = address & mask
    while table[place] != 0:
        number = table[place] - 1
        entry = entries[number]
        if entry.address == address and entry.size == size:
            spelt, wanted = pointer_to(letters) + entry.at, pointer_to(text) + at
            if same(spelt, wanted, size):
                return int(number)
        place = (place + np.uint64(1)) & mask
    return int(~np.int64(place))


@kernel
def enter(
    book: Book, place: int, address: np.uint64, key: int, text: NDArray[np.uint8], at: int, size: int
) -> int:
    """The number of a new name, with its place in the table. There is room for it."""
    entries, letters = book.entry, book.letters
    number = book.counts[ENTRIES]
    start = book.counts[LETTERS]
    book.table[place] = number + 1
    entries[number].address = address
    entries[number].key = key
    entries[number].at = start
    entries[number].size = size
    for i in range(size):
        letters[start + i] = text[at + i]
    book.counts[ENTRIES] += 1
    book.counts[LETTERS] += size
    return int(number)


@kernel
def refill(book: Book) -> None:
    """Enter all names into a table of zeros."""
    mask = np.uint64(len(book.table) - 1)
    for number in range(book.counts[ENTRIES]):
        place = book.entry[number].address & mask
        while book.table[place] != 0:
            place = (place + np.uint64(1)) & mask
        book.table[place] = number + 1


@kernel
def keep_used(book: Book, used: NDArray[np.int32]) -> None:
    """Names whose number in `used` is 0 go; the others move up, and `used` tells 1 + their new numbers."""
    kept = 0
    letters = 0
    for number in range(book.counts[ENTRIES]):
        if used[number] == 0:
            continue
        entry = book.entry[number]
        at, size = entry.at, entry.size
        for i in range(size):
            book.letters[letters + i] = book.letters[at + i]
        book.entry[kept].address = entry.address
        book.entry[kept].key = entry.key
        book.entry[kept].at = letters
        book.entry[kept].size = size
        letters += size
        kept += 1
        used[number] = kept
    book.counts[ENTRIES] = kept
    book.counts[LETTERS] = letters
    book.counts[SWEEP_AT] = max(LEAST_SWEPT, 2 * kept)
    book.table[:] = 0
    refill(book)

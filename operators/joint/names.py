"""The names of one model's features, each with a slot; kernels find it by the name's address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.kernels.joint.line import Line, place_of
from sluiceway.operators.kernels.joint.naming import enter_all, find_all, index_all
from sluiceway.schemas.name_hash import hash_names
from sluiceway.schemas.swar import READABLE_BEYOND

Integers = NDArray[np.int64]
_LEAST, _LEAST_LETTERS = 4, 32


class Spelt(NamedTuple):
    """Names as kernels take them: in the order given, their letters in one text."""

    text: NDArray[np.uint8]
    address: NDArray[np.uint64]
    key: Integers
    at: Integers
    size: NDArray[np.int32]

    @classmethod
    def of(cls, names: Sequence[str]) -> Spelt:
        spelt = [name.encode("utf-8", "surrogatepass") for name in names]
        text = np.frombuffer(bytearray(b"".join(spelt) + READABLE_BEYOND), dtype=np.uint8)
        size = np.fromiter(map(len, spelt), dtype=np.int32, count=len(spelt))
        at = np.cumsum(size, dtype=np.int64) - size
        address, key = hash_names(text, at, size)
        return cls(text, address, key, at, size)


class Names:
    def __init__(self, line: Line) -> None:
        self._line, self._at = line, place_of(line)
        line["features"] = line["letters"] = self.room = 0
        self._address, self._key, self._name = np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(1, np.int64)
        """By slot; the last: where each name ends in the letters, after a 0."""
        self._letters, self._index = np.zeros(0, np.uint8), np.zeros(0, np.int32)
        self.make_room(_LEAST, _LEAST_LETTERS)

    def __len__(self) -> int:
        return int(self._line["features"][0])

    @property
    def keys(self) -> Integers:
        return self._key[: len(self)]

    def spelt(self, slots: Sequence[int] | None = None) -> list[str]:
        """Of these slots, or of all."""
        letters = self._letters[: self._line["letters"][0]].tobytes()
        wanted = range(len(self)) if slots is None else slots
        ends = self._name[: len(self) + 1].tolist()
        if letters.isascii():  # a letter is a byte
            text = letters.decode()
            return [text[ends[slot] : ends[slot + 1]] for slot in wanted]
        return [letters[ends[slot] : ends[slot + 1]].decode("utf-8", "surrogatepass") for slot in wanted]

    def find(self, names: Sequence[str]) -> Integers:
        """Their slots; -1: not known."""
        slots = np.empty(len(names), dtype=np.int64)
        find_all(self._at, Spelt.of(names).address, slots)
        return slots

    def add(self, names: Sequence[str]) -> None:
        """None of them known."""
        spelt = Spelt.of(names)
        self.make_room(len(names), int(spelt.size.sum()))
        enter_all(self._at, spelt.text, spelt.address, spelt.key, spelt.at, spelt.size)

    def make_room(self, names: int, letters: int) -> None:
        """For so many more, of so many letters together."""
        line, need, anew = self._line, len(self) + names, False
        letters += int(line["letters"][0])
        if letters > len(self._letters):
            self._letters = grown(self._letters, max(letters, 2 * len(self._letters)))
        if need > self.room:
            self.room = max(need, 2 * self.room)
            self._address, self._key = grown(self._address, self.room), grown(self._key, self.room)
            self._name = grown(self._name, self.room + 1)
            self._index = np.full(1 << (2 * self.room - 1).bit_length(), -1, dtype=np.int32)  # half used at most
            anew = True
        line["room"], line["letters_room"], line["index_size"] = self.room, len(self._letters), len(self._index)
        line["address_at"], line["key_at"], line["name_at"] = map(place_of, (self._address, self._key, self._name))
        line["letters_at"], line["index_at"] = place_of(self._letters), place_of(self._index)
        if anew:
            index_all(self._at)


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The same and zeros, so many along the first dimension."""
    return np.concatenate((array, np.zeros((size - len(array), *array.shape[1:]), dtype=array.dtype)))

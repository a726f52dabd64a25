"""All models of a lane that one learner's settings make: one compiled call goes through the rows of a whole poll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument
from sluiceway.operators.bank import arena as arenas
from sluiceway.operators.bank import book as books
from sluiceway.operators.bank import packing
from sluiceway.operators.bank.chosen import Chosen
from sluiceway.operators.bank.gather import gathered
from sluiceway.operators.bank.packing import free_model
from sluiceway.operators.bank.rows import ARRIVED, TOUCHED, Poll, count_back, new_scratch
from sluiceway.operators.bank.sweep import sweep
from sluiceway.operators.contract import Selected, SelectedOfClass
from sluiceway.operators.kernels.head import HEAD
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.name_hash import SECRET_1, SECRET_2
from sluiceway.schemas.swar import READABLE_BEYOND

DAMAGED = "its model is damaged"


@dataclass(frozen=True, slots=True)
class Emission:
    """When the compiled call stops for a snapshot: each `every` versions (0 = never), and when what is selected has
    changed since the last one, at least `min_gap` versions after it."""

    every: int = 0
    on_change: bool = False
    min_gap: int = 1


class Needs(NamedTuple):
    """What a poll asks of a bank before any row is learnt from."""

    names: int
    letters: int
    """Of all names together."""
    longest: int
    """Features of the longest row."""


def needs_of(columns: Columns) -> Needs:
    names = int(columns.indptr[-1]) if len(columns) else 0
    return Needs(names, int(columns.name_size[:names].sum()), int(np.diff(columns.indptr).max(initial=0)))


class Banked(Protocol):
    """What a bank needs of a learner, beside its parameters."""

    @property
    def loop(self) -> Callable[..., int]:
        """The learner's kernel."""

    @property
    def slots_at_most(self) -> int:
        """How many weights a model may have."""

    @property
    def features(self) -> int:
        """What a model keeps of the features it has seen: NO_FEATURES, KEYS or NAMES of `seen`."""

    @property
    def by_slot(self) -> bool:
        """Whether every feature in a slot is selected, so that what is selected is known after every row."""

    def advance_bank(self, bank: Bank, row: int, poll: Poll, scores: NDArray[np.float64], emit: Emission) -> int:
        """Call the learner's kernel for the rows from `row` on.

        The next row to do, with `signal[0]` set if a snapshot is due after the row before it; ~row if there is no room
        for what that row can bring.
        """

    def choose(self, bank: Bank, models: NDArray[np.int64]) -> Chosen:
        """What is selected in these models, of which there is one at least."""

    def know_selected(self, bank: Bank, model: int) -> None:
        """Bring the head's fingerprint of what is selected up to date, where that is not done row by row."""

    def metrics(self, bank: Bank, model: int) -> dict[str, float]:
        """What only the learner can count, as a model of its own says it."""

    def wanted_features(self, bank: Bank, model: int) -> list[str] | None:
        """The features that the model's coming instance is asked for; None where all are looked at."""


class Bank:
    """Models by number. A number is given once and used again only after `drop`."""

    def __init__(self, learner: Banked, *, scaled: bool = True) -> None:
        self.learner = learner
        self.scaled = scaled
        """Whether each row is brought to length 1 first."""
        self.arena = arenas.new_arena()
        self.book = books.new_book()
        self.heads = np.zeros(0, dtype=HEAD)
        self.scratch = new_scratch(0, 0, 0)
        self.workspace: Any = None
        """What the learner's kernel needs beside the scratch arrays; the learner makes it."""
        self._free: list[int] = []
        self._used = 0
        self._plain = _Plain(0)

    by_class = False
    """Whether what is selected has a class: that of its largest weight."""

    # -- models --------------------------------------------------------------------------------------------------

    def add(self, count: int = 1) -> list[int]:
        """Numbers of new models."""
        return self._take(count)

    def _take(self, count: int) -> list[int]:
        numbers = [self._free.pop() for _ in range(min(count, len(self._free)))]
        more = count - len(numbers)
        if self._used + more > len(self.heads):
            heads = np.zeros(max(self._used + more, 2 * len(self.heads)), dtype=HEAD)
            heads[: self._used] = self.heads[: self._used]
            self.heads = heads
            touched = np.zeros(len(heads) + 1, dtype=np.int64)
            known = self.scratch.touched_models
            touched[: len(known)] = known
            self.scratch = self.scratch._replace(touched_models=touched)
        numbers += range(self._used, self._used + more)
        self._used += more
        self.heads[numbers] = np.zeros(1, dtype=HEAD)  # a number used again: nothing is left of the model before
        self.heads["scale"][numbers] = 1.0
        return numbers

    def drop(self, model: int) -> None:
        """Forget a model that has been packed since it was last touched; its number is used again."""
        free_model(self.arena, self.heads, model, self.learner.features)
        self._free.append(model)

    # -- memory --------------------------------------------------------------------------------------------------

    @property
    def bytes_used(self) -> int:
        """By models, and by the names of their features; scratch arrays go by."""
        models = self._used - len(self._free)
        return 8 * arenas.words_in_use(self.arena) + models * HEAD.itemsize + books.bytes_used(self.book)

    def reserve(self, size: int) -> None:
        """Room for models of so many bytes, which takes no memory before it is used: growing takes twice as much."""
        if size // 8 > len(self.arena.words):
            self.arena = arenas.larger(self.arena, size // 8)

    def tidy(self, size: int) -> None:
        """After models were dropped: what they leave is given back where it takes the models beyond so many bytes."""
        if self.book.counts[books.ENTRIES] > books.LEAST_SWEPT:
            sweep(self.heads[: self._used], self.arena, self.book, self.learner.features)
        taken, used = arenas.words_taken(self.arena), arenas.words_in_use(self.arena)
        if 8 * taken > size and 4 * used < 3 * taken:
            heads, learner = self.heads[: self._used], self.learner
            self.arena = gathered(self.arena, heads, learner.slots_at_most, learner.features, size // 8)

    # -- what has changed ----------------------------------------------------------------------------------------

    def touch(self, models: Sequence[int]) -> None:
        """These, each named once, count as changed."""
        known, flags, numbers = self.scratch.touched_models, self.heads["flags"], np.array(models, dtype=np.int64)
        numbers = numbers[flags[numbers] & TOUCHED == 0]
        flags[numbers] |= TOUCHED
        known[known[0] + 1 : known[0] + 1 + len(numbers)] = numbers
        known[0] += len(numbers)

    @property
    def touched_count(self) -> int:
        return int(self.scratch.touched_models[0])

    def touched(self) -> NDArray[np.int64]:
        """The models that rows have changed since `packed` was last called, in the order of their first change."""
        return self._touched()

    def _touched(self) -> NDArray[np.int64]:
        return self.scratch.touched_models[1 : self.scratch.touched_models[0] + 1].copy()

    # -- state ---------------------------------------------------------------------------------------------------

    def pack(self, models: NDArray[np.int64]) -> list[bytes]:
        """These models as bytes, each by itself; they are no longer touched."""
        if not len(models):
            return []
        ends, done = np.zeros(len(models), dtype=np.int64), 0
        out = np.zeros(64 * len(models) + 64, dtype=np.int64)
        while True:
            done = packing.pack(
                models, done, self.heads, self.heads.view(np.int64), self.arena, self.book, self.learner.features,
                out, ends,
            )  # fmt: skip
            if done == len(models):
                break
            out = np.concatenate((out, np.zeros(len(out), dtype=np.int64)))
        left = self._touched()
        left = left[self.heads["flags"][left] & TOUCHED != 0]
        self.scratch.touched_models[0] = len(left)
        self.scratch.touched_models[1 : len(left) + 1] = left
        octets = out.tobytes()
        starts = [0, *ends[:-1].tolist()]
        return [octets[8 * start : 8 * end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def peek(self, model: int) -> bytes:
        """A model as `pack` gives it; whether it is touched stays as it is."""
        touched, flags = self.scratch.touched_models.copy(), self.heads["flags"].copy()
        packed = self.pack(np.array([model], dtype=np.int64))[0]
        self.scratch.touched_models[:], self.heads["flags"] = touched, flags
        return packed

    def check(self, packed: bytes) -> None:
        """`ValueError` if that is nothing that `pack` gave."""
        if self.first_damaged([packed]) >= 0:
            raise ValueError(DAMAGED)

    def first_damaged(self, packed: Sequence[bytes]) -> int:
        """Which of these is nothing that `pack` gave; -1: none. Compiled code does not look before it reads."""
        for at, one in enumerate(packed):
            if type(one) is not bytes or len(one) % 8:
                return at
        words, ends = _words(packed)
        return packing.first_damaged(as_argument(words), ends, self.learner.slots_at_most, self.learner.features)

    def wake(self, packed: Sequence[bytes]) -> NDArray[np.int64]:
        """The numbers of models that were packed here or elsewhere, and go on from there."""
        models = np.array(self._take(len(packed)), dtype=np.int64)
        words, ends = _words(packed)
        words = words.copy()
        self._make_room_for_names(2 * len(words), 8 * len(words))  # a name has a letter at least, and its size
        done = 0
        while True:
            done = packing.wake(
                models, done, words, ends, self.heads, self.heads.view(np.int64), self.arena, self.book,
                self.learner.slots_at_most, self.learner.features, SECRET_1, SECRET_2,
            )  # fmt: skip
            if done == len(models):
                break
            self.arena = arenas.larger(self.arena, len(words))
        self._widen(max(int(self.heads["room"][models].max(initial=0)), len(self.scratch.origin) - 1), 0)
        return models

    def choose(self, models: NDArray[np.int64]) -> Chosen:
        """What is selected in these models, of which there is one at least."""
        return self.learner.choose(self, models)

    def selected(self, model: int) -> Sequence[Selected | SelectedOfClass]:
        """By weight; of equal ones the smaller feature key first."""
        chosen = self.choose(np.array([model], dtype=np.int64))
        names = (books.name_of(self.book, number) for number in chosen.number.tolist())
        return list(map(Selected, names, chosen.weight.tolist(), chosen.since.tolist()))

    def metrics(self, model: int) -> dict[str, float]:
        """What only the learner can count, as a model of its own says it."""
        return self.learner.metrics(self, model)

    def wanted_features(self, model: int) -> list[str] | None:
        """The features that the model's coming instance is asked for; None where all are looked at."""
        return self.learner.wanted_features(self, model)

    def confusion(self, model: int) -> NDArray[np.int64] | None:
        """Where there are more than two classes: labelled instances by their class and the one predicted."""
        return None

    def numbers_of_rows(self, models: NDArray[np.int64], special: Special | None) -> NDArray[np.int64]:
        """The number of each row among the instances of its model, after `advance` has done them; -1: a later label."""
        numbers = np.empty(len(models), dtype=np.int64)
        if special is None:
            special = self._plain
        count_back(models, special.kind, self.heads, numbers)
        return numbers

    def emitted(self, models: NDArray[np.int64]) -> None:
        """Snapshots of the models as they are were taken: the next change is one against what is selected now."""
        for model in models.tolist():
            self.learner.know_selected(self, model)
        heads = self.heads
        heads["emitted"][models], heads["emitted_fingerprint"][models] = (
            heads["version"][models],
            heads["fingerprint"][models],
        )

    # -- learning ------------------------------------------------------------------------------------------------

    def new_scores(self, rows: int) -> NDArray[np.float64]:
        """Room for the scores of a poll's rows."""
        return np.empty(rows)

    def judged(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """By row, what tells later whether a label agrees with what was said of its instance."""
        return scores

    def poll(
        self,
        columns: Columns,
        models: NDArray[np.int64],
        special: Special | None = None,
        needs: Needs | None = None,
    ) -> Poll:
        """The rows of a poll, each with its model; `special` tells of later labels, `needs` what is counted already."""
        self._make_room(needs or needs_of(columns))
        rows = len(columns)
        if special is None:
            if len(self._plain.kind) < rows:
                self._plain = _Plain(rows + rows // 2)
            special = self._plain
        return Poll(
            columns.text,
            columns.indptr[:-1],
            columns.indptr[1:],
            columns.address,
            columns.key,
            columns.name_at,
            columns.name_size,
            columns.values,
            columns.y,
            columns.ts,
            models,
            special.kind,
            special.judged_by,
            special.given_score,
            special.evicted,
        )

    def advance(self, poll: Poll, row: int, scores: NDArray[np.float64], emit: Emission) -> tuple[int, bool]:
        """Rows from `row` on, scored and then learnt from, up to a snapshot that is due or the end.

        The next row to do, and whether a snapshot of the model of the row before it is due.
        """
        self.scratch.signal[0] = 0
        while True:
            row = self.learner.advance_bank(self, row, poll, scores, emit)
            if row >= 0:
                return row, bool(self.scratch.signal[0])
            row = ~row
            self._grow(poll, row)

    def _make_room(self, needs: Needs) -> None:
        """For names and rows as they come with the poll; what slots need is found out row by row."""
        self._make_room_for_names(needs.names, needs.letters)
        if needs.longest > len(self.scratch.values):
            self._widen(len(self.scratch.origin) - 1, needs.longest)

    def _make_room_for_names(self, names: int, letters: int) -> None:
        counts = self.book.counts
        if counts[books.ENTRIES] > counts[books.SWEEP_AT]:
            sweep(self.heads[: self._used], self.arena, self.book, self.learner.features)
        self.book = books.with_room(self.book, names, letters)

    def _grow(self, poll: Poll, row: int) -> None:
        length = int(poll.stop[row] - poll.first[row])
        limit = self.learner.slots_at_most
        head = self.heads[poll.model[row]]
        room = arenas.room_for(min(limit, int(head["active"]) + length), limit)
        if room >= len(self.scratch.origin):
            self._widen(room, len(self.scratch.values))
        self.arena = arenas.larger(self.arena, 2 * arenas.block_words(room))

    def _widen(self, slots: int, length: int) -> None:
        length = max(length, len(self.scratch.values))
        signal, touched = self.scratch.signal, self.scratch.touched_models
        self.scratch = new_scratch(slots, length, 0)._replace(signal=signal, touched_models=touched)


def _words(packed: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Packed models one after the other, with a word beyond the last, and where each ends."""
    words = np.frombuffer(b"".join([*packed, READABLE_BEYOND]), dtype=np.int64)
    return words, np.cumsum(np.fromiter(map(len, packed), dtype=np.int64, count=len(packed)) >> 3)


class Special:
    """What rows are that are not plain instances, by row."""

    def __init__(self, rows: int) -> None:
        self.kind = np.full(rows, ARRIVED, dtype=np.int8)
        self.judged_by = np.full(rows, -1, dtype=np.int64)
        self.given_score = np.zeros(rows)
        self.evicted = np.zeros(rows, dtype=np.int64)


class _Plain(Special):
    """Of polls in which every row is a plain instance: the same zeros for all of them."""

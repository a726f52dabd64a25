"""More than two classes from a learner of two: a model of this bank is one binary model a class.

A row is learnt from by the models of its stream in turn, +1 for the model of its own class and -1 for the others, in
the learner's own compiled loop: each is, bit for bit, the model that it would be by itself. The class predicted is that
of the largest score, the first of equal ones.

What is selected is the union of what the models select. A feature's `since` is when it last entered the union: every
model that holds the feature has that in its slot. (Of dense learners, whose selection is computed only when asked for,
it is the earliest that one of their models has.)

A model's number is that of its first class's binary model: what is counted once a stream stands in that one's head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.operators.bank.bank import DAMAGED, Bank, Banked, Emission, Needs, Special
from sluiceway.operators.bank.block import slots_of
from sluiceway.operators.bank.book import name_of
from sluiceway.operators.bank.chosen import Chosen, together
from sluiceway.operators.bank.rows import LABEL_OF_NOTHING, LABELLED_LATER, Poll
from sluiceway.operators.contract import SelectedOfClass
from sluiceway.schemas.instance_columns import Columns

_KNOWN_AT_MOST = 10_000
"""Streams whose unions are kept at hand between polls."""


class OneVsRestBank(Bank):
    """Models by number, as in any bank; scores have a row for each of a poll and a column for each class."""

    by_class = True

    def __init__(self, learner: Banked, classes: int, *, scaled: bool = True) -> None:
        super().__init__(learner, scaled=scaled)
        self._classes = classes
        self._place = np.zeros(0, dtype=np.int64)
        """Of each binary model's stream in the arrays below."""
        self._members = np.zeros((0, classes), dtype=np.int64)
        self._confusion = np.zeros((0, classes, classes), dtype=np.int64)
        """Labelled instances by their class and the class that was predicted."""
        self._mistakes = np.zeros(0, dtype=np.int64)
        self._places = 0
        self._free_places: list[int] = []
        self._unions: dict[int, _Union] = {}
        """By model; of those that polls have touched lately."""
        self._given: Poll
        """The poll under way, a row an instance."""

    # -- models --------------------------------------------------------------------------------------------------

    def add(self, count: int = 1) -> list[int]:
        return self._enrol(super().add(count * self._classes))

    def _enrol(self, numbers: Sequence[int]) -> list[int]:
        members = np.array(numbers, dtype=np.int64).reshape(-1, self._classes)
        places = [self._free_places.pop() for _ in range(min(len(members), len(self._free_places)))]
        more = len(members) - len(places)
        places += range(self._places, self._places + more)
        self._places += more
        if self._places > len(self._members):
            room = max(self._places, 2 * len(self._members))
            self._members, self._confusion = _longer(self._members, room), _longer(self._confusion, room)
            self._mistakes = _longer(self._mistakes, room)
        if len(self._place) < len(self.heads):
            self._place = _longer(self._place, len(self.heads))
        self._members[places], self._confusion[places], self._mistakes[places] = members, 0, 0
        self._place[members] = np.array(places, dtype=np.int64)[:, None]
        return members[:, 0].tolist() if len(members) else []

    def drop(self, model: int) -> None:
        place = int(self._place[model])
        for member in self._members[place].tolist():
            super().drop(member)
        self._free_places.append(place)
        self._unions.pop(model, None)

    def touched(self) -> NDArray[np.int64]:
        members = self._touched()
        firsts = self._members[self._place[members], 0]
        _, at = np.unique(firsts, return_index=True)
        in_order: NDArray[np.int64] = firsts[np.sort(at)]
        return in_order

    def _members_of(self, models: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._members[self._place[models]]

    # -- state ---------------------------------------------------------------------------------------------------

    def pack(self, models: NDArray[np.int64]) -> list[bytes]:
        parts, classes = super().pack(self._members_of(models).reshape(-1)), self._classes
        confusion = self._confusion[self._place[models]].astype("<i8")
        return [
            msgspec.msgpack.encode([parts[at * classes : (at + 1) * classes], counts.tobytes()])
            for at, counts in enumerate(confusion)
        ]

    def first_damaged(self, packed: Sequence[bytes]) -> int:
        members: list[bytes] = []
        for at, one in enumerate(packed):
            try:
                parts, confusion = self._unpacked(one)
            except ValueError:
                return at
            if len(parts) != self._classes or len(confusion) != 8 * self._classes**2:
                return at
            members += parts
        at = super().first_damaged(members)
        return at // self._classes if at >= 0 else -1

    def _unpacked(self, packed: bytes) -> tuple[list[bytes], bytes]:
        try:
            return msgspec.msgpack.decode(packed, type=tuple[list[bytes], bytes])
        except msgspec.DecodeError:
            raise ValueError(DAMAGED) from None

    def wake(self, packed: Sequence[bytes]) -> NDArray[np.int64]:
        unpacked = [self._unpacked(one) for one in packed]
        members = super().wake([part for parts, _ in unpacked for part in parts])
        models = np.array(self._enrol(members.tolist()), dtype=np.int64)
        confusion = np.frombuffer(b"".join(counts for _, counts in unpacked), dtype="<i8")
        self._confusion[self._place[models]] = confusion.reshape(-1, self._classes, self._classes)
        self._mistakes[self._place[models]] = self.heads["mistakes"][models]
        return models

    # -- what there is to say of a model -------------------------------------------------------------------------

    def choose(self, models: NDArray[np.int64]) -> Chosen:
        return together([self._chosen(model)[0] for model in models.tolist()])

    def _chosen(self, model: int) -> tuple[Chosen, NDArray[np.int64]]:
        """Each feature once, with its largest |weight| and, apart, the class of that, the first of equal ones."""
        every = self.learner.choose(self, self._members[self._place[model]])
        of_class = np.repeat(np.arange(1, self._classes + 1), np.diff(every.ends, prepend=0))
        best = np.lexsort((of_class, -np.abs(every.weight), every.number))
        number = every.number[best]
        first = np.flatnonzero(np.diff(number, prepend=-1))
        since = np.minimum.reduceat(every.since[best], first) if len(first) else every.since
        best, number = best[first], number[first]
        order = np.lexsort((self.book.entry["key"][number], -np.abs(every.weight[best])))
        best = best[order]
        chosen = Chosen(np.array([len(order)]), number[order], every.weight[best], since[order])
        return chosen, of_class[best]

    def selected(self, model: int) -> list[SelectedOfClass]:
        chosen, of_class = self._chosen(model)
        names = (name_of(self.book, number) for number in chosen.number.tolist())
        told = (of.tolist() for of in (chosen.weight, chosen.since, of_class))
        return list(map(SelectedOfClass, names, *told))

    def metrics(self, model: int) -> dict[str, float]:
        """Beside the learner's own, which are those of the class that has most."""
        counts = self.confusion(model)
        known = counts.sum(axis=1) > 0
        recall = np.diag(counts)[known] / counts.sum(axis=1)[known]
        of_class = [self.learner.metrics(self, member) for member in self._members[self._place[model]].tolist()]
        own = {name: max(each[name] for each in of_class) for name in of_class[0]}
        return {"balanced_accuracy": float(recall.mean()) if known.any() else 0.0, **own}

    def confusion(self, model: int) -> NDArray[np.int64]:
        """Labelled instances by their class (rows) and the class that was predicted (columns)."""
        counts: NDArray[np.int64] = self._confusion[self._place[model]]
        return counts

    def emitted(self, models: NDArray[np.int64]) -> None:
        super().emitted(self._members_of(models).reshape(-1))
        for model in models.tolist():
            union = self._unions.get(model)
            if union is not None:
                union.last = frozenset(union.since)

    # -- learning ------------------------------------------------------------------------------------------------

    def new_scores(self, rows: int) -> NDArray[np.float64]:
        return np.empty((rows, self._classes))

    def score(self, columns: Columns, model: int) -> NDArray[np.float64]:
        """Of rows without a label, all of one model, which does not count them."""
        members, scores = self._members[self._place[model]], self.new_scores(len(columns))
        poll = self.poll(columns, np.full(len(columns), model, dtype=np.int64))
        counts = self.heads[["seen", "ts"]][members]
        self.advance(poll, 0, scores, Emission())
        self.heads["seen"][members], self.heads["ts"][members] = counts["seen"], counts["ts"]
        return scores

    def judged(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The class predicted for each row: 1, 2, 3, ..."""
        return np.asarray(scores.argmax(axis=1) + 1.0)

    def poll(
        self,
        columns: Columns,
        models: NDArray[np.int64],
        special: Special | None = None,
        needs: Needs | None = None,
    ) -> Poll:
        """A row for each class of each row, one after the other."""
        given = self._given = super().poll(columns, models, special, needs)
        rows, classes = len(models), self._classes
        numbers = np.arange(1, classes + 1, dtype=np.int8)
        labels = given.y[:, None]
        y = np.where(labels == 0, 0, np.where(labels == numbers, 1, -1)).astype(np.int8)
        evicted = np.zeros((rows, classes), dtype=np.int64)
        evicted[:, 0] = given.evicted[:rows]
        return given._replace(
            first=given.first.repeat(classes),
            stop=given.stop.repeat(classes),
            y=y.reshape(-1),
            ts=given.ts.repeat(classes),
            model=self._members_of(models).reshape(-1),
            kind=given.kind[:rows].repeat(classes),
            judged_by=np.full(rows * classes, -1, dtype=np.int64),  # what the class's own model would have said
            given_score=np.zeros(rows * classes),
            evicted=evicted.reshape(-1),
        )

    def advance(self, poll: Poll, row: int, scores: NDArray[np.float64], emit: Emission) -> tuple[int, bool]:
        classes, rows = self._classes, len(self._given.y)
        flat = scores.reshape(-1)
        # a model stops the loop where its selection has changed, for the union to be kept up with
        follow = Emission(emit.every, self.learner.by_slot or emit.on_change, 1)
        if row == 0 and follow.on_change:
            self._know_unions(self._given.model)
        at, begin = row * classes, row
        while at < rows * classes:
            at, stopped = super().advance(poll, at, flat, follow)
            if not stopped:
                break
            row = (at - 1) // classes
            end = (row + 1) * classes
            instance = poll._replace(y=poll.y[:end])
            while at < end:  # the other classes of the same instance
                at, _ = super().advance(instance, at, flat, follow)
            model = int(self._given.model[row])
            self._follow(model, emit)
            if self._is_due(model, emit):
                self._judge(begin, row + 1, scores)
                return row + 1, True
        self._judge(begin, rows, scores)
        return rows, False

    def _judge(self, start: int, stop: int, scores: NDArray[np.float64]) -> None:
        given = self._given
        judge_rows(
            start, stop, given.y, given.kind, given.judged_by, given.given_score, given.model, self._place, scores,
            self._confusion, self._mistakes, self.heads,
        )  # fmt: skip

    def _is_due(self, model: int, emit: Emission) -> bool:
        version, emitted = int(self.heads["version"][model]), int(self.heads["emitted"][model])
        if version == emitted:
            return False
        if emit.every and version % emit.every == 0:
            return True
        return emit.on_change and version - emitted >= emit.min_gap and self._unions[model].differs

    # -- the union -----------------------------------------------------------------------------------------------

    def _know_unions(self, models: NDArray[np.int64]) -> None:
        """Those of the poll's streams, before a row changes them."""
        touched = np.unique(models).tolist()
        if len(self._unions) + len(touched) > _KNOWN_AT_MOST:
            self._unions.clear()
        for model in touched:
            if model not in self._unions:
                self._unions[model] = self._union(model)

    def _union(self, model: int) -> _Union:
        parts = [self._features(member) for member in self._members[self._place[model]].tolist()]
        start, size = 2 * int(self.heads["snapshot"][model]), int(self.heads["snapshot_size"][model])
        numbers = self.arena.ints[start : start + size]
        if self.learner.by_slot:
            last: frozenset[Any] = frozenset(self.book.entry["address"][numbers].tolist())
        else:
            last = frozenset(name_of(self.book, number) for number in numbers.tolist())
        held = Counter(feature for part in parts for feature in part)
        since = {feature: entered for part in parts for feature, entered in part.items()}
        return _Union([set(part) for part in parts], held, since, last)

    def _features(self, member: int) -> dict[Any, int]:
        """What a binary model has selected, and since when: by address, in the order of its slots, or by name."""
        if not self.learner.by_slot:
            chosen = self.learner.choose(self, np.array([member], dtype=np.int64))
            names = (name_of(self.book, number) for number in chosen.number.tolist())
            return dict(zip(names, chosen.since.tolist(), strict=True))
        block, room, active = (int(self.heads[field][member]) for field in ("block", "room", "active"))
        slots = slots_of(self.arena, block, room)
        address = self.book.entry["address"][slots.name[1 : active + 1]]
        return dict(zip(address.tolist(), slots.since[1 : active + 1].tolist(), strict=True))

    def _follow(self, model: int, emit: Emission) -> None:
        """Bring the union up to the row that all models of a stream have just learnt from."""
        union = self._unions.get(model)
        if union is None:
            return
        members = self._members[self._place[model]]
        entered, left = [], []
        for number, member in enumerate(members.tolist()):
            if self.heads["fingerprint"][member] == self.heads["emitted_fingerprint"][member]:
                continue
            now, was = self._features(member), union.parts[number]
            entered += [(member, feature, slot) for slot, feature in enumerate(now, start=1) if feature not in was]
            left += [feature for feature in was if feature not in now]
            union.parts[number] = set(now)
        union.change([feature for _, feature, _ in entered], left, int(self.heads["version"][model]))
        if self.learner.by_slot:
            for member, feature, slot in entered:
                block, room = int(self.heads["block"][member]), int(self.heads["room"][member])
                slots_of(self.arena, block, room).since[slot] = union.since[feature]
        self.heads["emitted_fingerprint"][members] = self.heads["fingerprint"][members]
        if emit.on_change and union.differs:  # a snapshot may be due with the next row, whatever that changes
            self.heads["emitted_fingerprint"][model] = ~self.heads["fingerprint"][model]


@dataclass(slots=True)
class _Union:
    """What the models of a stream have selected, and since when the union of it has each feature."""

    parts: list[set[Any]]
    held: Counter[Any]
    """By how many of the models."""
    since: dict[Any, int]
    last: frozenset[Any]
    """Of the stream's last snapshot."""

    @property
    def differs(self) -> bool:
        """Whether the union is another than in the last snapshot."""
        return self.since.keys() != self.last

    def change(self, entered: Sequence[Any], left: Sequence[Any], version: int) -> None:
        """What has entered and left one model or another with an instance."""
        self.held.update(entered)
        self.held.subtract(left)
        for feature in left:
            if not self.held[feature]:
                del self.held[feature]
                self.since.pop(feature, None)
        for feature in entered:
            self.since.setdefault(feature, version)


def _longer(array: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


@kernel
def judge_rows(
    start: int, stop: int, y: NDArray[np.int8], kind: NDArray[np.int8], judged_by: NDArray[np.int64],
    given_score: NDArray[np.float64], model: NDArray[np.int64], place: NDArray[np.int64],
    scores: NDArray[np.float64], confusion: NDArray[np.int64], mistakes: NDArray[np.int64], heads: NDArray[Any],
) -> None:  # fmt: skip
    """Count the labelled rows [start, stop) by class and by the class that was predicted when the instance came."""
    for row in range(start, stop):
        if y[row] == 0 or kind[row] == LABEL_OF_NOTHING:
            continue
        judged, by = 0, row
        if kind[row] == LABELLED_LATER:
            by = judged_by[row]
            judged = int(given_score[row])
        if by >= 0:
            judged = 1
            for number in range(1, scores.shape[1]):
                if scores[by, number] > scores[by, judged - 1]:
                    judged = number + 1
        if 1 <= judged <= scores.shape[1]:
            confusion[place[model[row]], y[row] - 1, judged - 1] += 1
            mistakes[place[model[row]]] += judged != y[row]
    for row in range(start, stop):  # the loop has counted those of the first class's own model there
        heads[model[row]].mistakes = mistakes[place[model[row]]]

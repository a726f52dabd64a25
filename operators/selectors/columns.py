"""What all column selectors share: the target, names, blocks, verdicts and state; no algorithm.

Columns are kept in a store. Blocks are learnt by a compiled kernel; a verdict's names are found afterwards, from the
numbers the kernel noted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sluiceway.compiling import as_argument, is_compiled
from sluiceway.operators.checks import refuse_other_state
from sluiceway.operators.contract import Removed, Selected, Verdict
from sluiceway.operators.kernels.columns import column_set as holding
from sluiceway.operators.kernels.columns.column_set import (
    MEMBERS,
    TARGET_VARIES,
    VERSION,
    ColumnSet,
    Events,
    empty_events,
    empty_set,
)
from sluiceway.operators.kernels.columns.column_store import (
    FIRST_MEMBER,
    FISHER_Z,
    TARGET,
    ColumnStore,
    empty_store,
    estimate,
    put,
    settle,
    with_places,
)
from sluiceway.operators.kernels.keys import feature_keys, keys_of_blob
from sluiceway.operators.parameters import Parameters, count
from sluiceway.schemas.columns import SparseColumn

_FLOATS, _INTEGERS, _CODES, _WORDS = np.dtype("<f8"), np.dtype("<i8"), np.dtype("<i4"), np.dtype("<u8")
_FEW_PLACES = 16
_ROOM_FOR_EVENTS = 1024

REASONS = {
    holding.SELECTED: "selected",
    holding.IRRELEVANT: "irrelevant",
    holding.CONSTANT: "irrelevant: the column is constant",
    holding.ONE_CLASS: "irrelevant: the target has a single value",
    holding.REDUNDANT: "redundant",
    holding.LEFT_OUT: "left out: max_features columns are held",
}
_PLAIN = {outcome: Verdict(outcome == holding.SELECTED, (), reason) for outcome, reason in REASONS.items()}


class Block(NamedTuple):
    """Columns as the kernels read them."""

    names: list[str]
    columns: NDArray[np.float64]
    keys: NDArray[np.int64]
    one_by_one: bool
    """A name comes again: of a column that is held, or twice in the block."""

    def part(self, start: int, stop: int) -> Block:
        return Block(self.names[start:stop], self.columns[start:stop], self.keys[start:stop], self.one_by_one)


class StoreSelector(Parameters, ABC):
    """A `ColumnSelector` over a column store; an algorithm adds `_learn_columns`."""

    NAME: ClassVar[str]
    STATE_VERSION: ClassVar[int] = 1
    KERNEL: ClassVar[Callable[..., Any]]
    HOLDS_REDUNDANT: ClassVar[bool] = False
    """Whether a redundant column is held, because it may be selected later."""

    max_features: int = count(
        "how many columns are held: what would be one more is left out, and counted", most=2**30, default=10_000
    )

    @property
    @abstractmethod
    def _measure(self) -> int:
        """How columns are compared, as the store has it."""

    @property
    def _width(self) -> int:
        """How many columns together can make one redundant."""
        return 1

    def _begin(self) -> None:
        self._targets = 0
        self._target = np.zeros(0)
        self._names: dict[int, str] = {}  # of the columns held, by number
        self._numbers: dict[str, int] = {}  # and their numbers, by name
        self._tally = np.zeros(len(REASONS), dtype=np.int64)
        self._removals = 0
        self._store: ColumnStore = empty_store(self._measure, 1, FIRST_MEMBER)
        self._members: ColumnSet = empty_set(FIRST_MEMBER)

    @abstractmethod
    def _learn_columns(self, block: Block, start: int, events: Events, until_change: bool) -> int:
        """The algorithm: columns from `start` in turn, as long as there is room; the next column to do."""

    @classmethod
    def is_compiled(cls) -> bool:
        kernels: tuple[Callable[..., Any], ...] = (cls.KERNEL, keys_of_blob, put, settle, estimate)
        return all(map(is_compiled, kernels))

    @classmethod
    def compile(cls) -> None:
        model = cls()
        model.begin((0.0, 0.0, 1.0, 1.0))
        model.learn_feature("0", (0.0, 1.0, 2.0, 3.0))
        cls.from_state(model.state())

    @property
    def version(self) -> int:
        return int(self._members.counts[VERSION])

    @property
    def generation(self) -> int:
        return max(self._targets - 1, 0)

    @property
    def rows(self) -> int:
        return len(self._target)

    @property
    def needs_numbers(self) -> bool:
        return self._measure == FISHER_Z

    @property
    def selected(self) -> list[Selected]:
        places = self._members.order[: self._members.counts[MEMBERS]]
        places = places[self._members.selected[places]]
        weight, key = self._members.relevance[places], self._members.key[places]
        places = places[np.lexsort((key, -weight))]
        names = map(self._names.__getitem__, self._members.number[places].tolist())
        weight, since = self._members.relevance[places], self._members.since[places]
        return list(map(Selected, names, weight.tolist(), since.tolist()))

    def metrics(self) -> dict[str, float]:
        """Of this generation: columns found irrelevant, constant or redundant (at once or later), or left out."""
        tally = self._tally.tolist()
        return {
            "irrelevant": tally[holding.IRRELEVANT] + tally[holding.CONSTANT] + tally[holding.ONE_CLASS],
            "constant": tally[holding.CONSTANT],
            "single_class_target": int(self.rows > 0 and self._members.counts[TARGET_VARIES] == 0),
            "redundant": tally[holding.REDUNDANT] + self._removals,
            "columns_left_out": tally[holding.LEFT_OUT],
        }

    def begin(self, target: ArrayLike) -> None:
        given = _column("target", "the target", _numbered(target))
        if self.needs_numbers and given.dtype.kind != "f":
            _refuse_classes(self.NAME, given)
        values = np.array(given, dtype=np.float64)
        if len(values) == 0:
            raise ValueError("the target has no rows")
        _refuse_non_finite("the target", values)
        self._start(values, self._targets + 1, self.version)

    def learn_feature(self, name: str, column: ArrayLike | SparseColumn) -> Verdict:
        return self.learn_features((name,), (column,))[0]

    def learn_features(
        self, names: Sequence[str], columns: NDArray[Any] | Sequence[ArrayLike | SparseColumn]
    ) -> list[Verdict]:
        return self.advance(self.prepare(names, columns), 0, len(names))

    def holds(self, name: str) -> bool:
        return name in self._numbers

    def prepare(self, names: Sequence[str], columns: NDArray[Any] | Sequence[ArrayLike | SparseColumn]) -> Block:
        block = self._block([str(name) if isinstance(name, str) else name for name in names], columns)
        if len(names) == 1 and block.one_by_one:
            self._refuse_selected(names[0])
        elif block.one_by_one:
            # Whether a name may come again depends on what the columns before it do: tried on a copy.
            type(self).from_state(self.state()).advance(block, 0, len(names))
        return block

    def advance(self, block: Block, start: int, stop: int, *, until_change: bool = False) -> list[Verdict]:
        if not block.one_by_one:
            return self._learn(block.part(start, stop), until_change)
        verdicts: list[Verdict] = []
        for at in range(start, stop):
            name = block.names[at]
            if self.holds(name):
                self._refuse_selected(name)
                self._make_way(name)
            verdicts += self._learn(block.part(at, at + 1), until_change)
            if until_change and verdicts[-1].changes:
                break
        return verdicts

    def state(self, *, columns: bool = True) -> dict[str, Any]:
        places = self._members.order[: self._members.counts[MEMBERS]]
        state = {
            "operator": self.NAME,
            "state_version": self.STATE_VERSION,
            "params": self.params,
            "version": self.version,
            "targets": self._targets,
            "names": [self._names[number] for number in self._members.number[places].tolist()],
            "numbers": self._members.number[places].astype(_INTEGERS).tobytes(),
            "since": self._members.since[places].astype(_INTEGERS).tobytes(),
            "relevance": self._members.relevance[places].astype(_FLOATS).tobytes(),
            "levels": self._store.levels[places].tolist(),
            "tally": [*self._tally.tolist(), self._removals],
        }
        if columns:
            state["target"] = self.target_bytes()
            state["columns"] = [self._column_bytes(place) for place in places.tolist()]
        return state

    def column_numbers(self) -> list[int]:
        numbers: list[int] = self._members.number[self._members.order[: self._members.counts[MEMBERS]]].tolist()
        return numbers

    def column_bytes(self, number: int) -> bytes:
        places = self._members.order[: self._members.counts[MEMBERS]]
        return self._column_bytes(int(places[self._members.number[places] == number][0]))

    def target_bytes(self) -> bytes:
        return self._target.astype(_FLOATS, copy=False).tobytes()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        refuse_other_state(state, cls.NAME, cls.STATE_VERSION)
        model = cls(**state["params"])
        if state["targets"]:
            model._restore(state)
        return model

    def _restore(self, state: Mapping[str, Any]) -> None:
        names = state["names"]
        self._start(np.frombuffer(state["target"], dtype=_FLOATS).astype(np.float64), state["targets"], 0)
        self._grow(FIRST_MEMBER + len(names))
        places = slice(FIRST_MEMBER, FIRST_MEMBER + len(names))
        members, store = self._members, self._store
        members.counts[MEMBERS], members.counts[VERSION] = len(names), state["version"]
        members.number[places] = np.frombuffer(state["numbers"], dtype=_INTEGERS)
        members.since[places] = np.frombuffer(state["since"], dtype=_INTEGERS)
        members.relevance[places] = np.frombuffer(state["relevance"], dtype=_FLOATS)
        members.key[places] = feature_keys(names)
        members.selected[places] = True
        members.dominator[places] = holding.NOBODY
        store.levels[places] = state["levels"]
        for place, column in enumerate(state["columns"], start=FIRST_MEMBER):
            self._restore_column(place, column)
        self._names = dict(zip(members.number[places].tolist(), names, strict=True))
        self._numbers = {name: number for number, name in self._names.items()}
        *tally, self._removals = state["tally"]
        self._tally[:] = tally

    def _column_bytes(self, place: int) -> bytes:
        column: NDArray[Any]
        if self._measure == FISHER_Z:
            column = self._store.floats[place].astype(_FLOATS, copy=False)
        elif self._store.levels[place] > 2:
            column = self._store.codes[place].astype(_CODES, copy=False)
        else:
            column = self._store.bits[place].astype(_WORDS, copy=False)
        return column.tobytes()

    def _restore_column(self, place: int, column: bytes) -> None:
        if self._measure == FISHER_Z:
            self._store.floats[place] = np.frombuffer(column, dtype=_FLOATS)
            estimate(self._store, place)
            return
        if self._store.levels[place] > 2:
            self._store.codes[place] = np.frombuffer(column, dtype=_CODES)
            self._store.coded[place] = True
        else:
            self._store.bits[place] = np.frombuffer(column, dtype=_WORDS)
        settle(self._store, place)

    def _start(self, target: NDArray[np.float64], targets: int, version: int) -> None:
        self._store = empty_store(self._measure, len(target), _FEW_PLACES)
        self._members = empty_set(_FEW_PLACES)
        self._members.counts[VERSION] = version
        self._members.counts[TARGET_VARIES] = put(self._store, TARGET, target)
        self._target = target
        self._targets = targets
        self._names, self._numbers = {}, {}
        self._tally[:] = 0
        self._removals = 0

    def _grow(self, places: int) -> None:
        if places > len(self._members.number):
            places = max(places, 2 * len(self._members.number))
            self._store = with_places(self._store, places)
            self._members = holding.set_with_places(self._members, places)

    def _block(self, names: list[str], columns: Any) -> Block:
        for name in names:
            if type(name) is not str or not name:
                raise ValueError(f"column {name!r} must be named by a string that is not empty")
        if len(names) != len(columns):
            raise ValueError(f"{len(names)} names for {len(columns)} columns")
        if not self._targets:
            raise ValueError(f"column {names[0]!r} has come before any target" if names else "there is no target yet")
        if isinstance(columns, np.ndarray) and columns.ndim == 2 and columns.dtype.kind in "fiub" and names:
            if columns.shape[1] != self.rows:
                raise ValueError(f"column {names[0]!r} has {columns.shape[1]} rows, the target has {self.rows}")
            table = np.ascontiguousarray(columns, dtype=np.float64)
        else:
            table = np.empty((len(names), self.rows))
            for at, (name, column) in enumerate(zip(names, columns, strict=True)):
                if isinstance(column, SparseColumn) and column.size != self.rows:  # before it is made that long
                    column.check(name)
                    raise ValueError(f"column {name!r} has {column.size} rows, the target has {self.rows}")
                values = _column(name, f"column {name!r}", column)
                if len(values) != self.rows:
                    raise ValueError(f"column {name!r} has {len(values)} rows, the target has {self.rows}")
                table[at] = values
        with np.errstate(all="ignore"):
            sums = table.sum(axis=1)
        for at in np.flatnonzero(~np.isfinite(sums)).tolist():
            _refuse_non_finite(f"column {names[at]!r}", table[at])
        again = len(set(names)) < len(names) or not self._numbers.keys().isdisjoint(names)
        return Block(names, as_argument(table), feature_keys(names), again)

    def _learn(self, block: Block, until_change: bool) -> list[Verdict]:
        verdicts: list[Verdict] = []
        total = len(block.names)
        events = empty_events(total, 0, self._width)
        first = self.version + 1
        at = 0
        while at < total:
            count = int(self._members.counts[MEMBERS])
            self._grow(FIRST_MEMBER + count + 1)
            room = empty_events(0, count + total - at + _ROOM_FOR_EVENTS, self._width)
            events = room._replace(outcome=events.outcome, by=events.by)
            done = self._learn_columns(block, at, events, until_change)
            if done == at:
                raise RuntimeError(f"no room for column {block.names[at]!r}")
            verdicts += self._verdicts(block.names, first, at, done, events)
            at = done
            if until_change and verdicts[-1].changes:
                break
        return verdicts

    def _refuse_selected(self, name: str) -> None:
        """A column that is held comes again under its name."""
        if self._is_selected(name):
            raise ValueError(f"column {name!r} is selected already")

    def _is_selected(self, name: str) -> bool:
        """Of a column that is held."""
        return True

    def _make_way(self, name: str) -> None:
        """Give up a column that is held but not selected."""
        raise AssertionError(f"column {name!r} is held, and here all that are held are selected")

    def _remember(self, number: int, name: str) -> None:
        self._names[number], self._numbers[name] = name, number

    def _forget(self, number: int) -> None:
        del self._numbers[self._names.pop(number)]

    def _verdicts(self, names: Sequence[str], first: int, start: int, stop: int, events: Events) -> list[Verdict]:
        """Of the block's columns [start, stop); `first` is the number of the block's first column."""
        outcomes = events.outcome[start:stop].tolist()
        self._tally += np.bincount(events.outcome[start:stop], minlength=len(REASONS))
        verdicts = list(map(_PLAIN.__getitem__, outcomes))
        held_now = events.outcome[start:stop] == holding.SELECTED
        if self.HOLDS_REDUNDANT:
            held_now |= events.outcome[start:stop] == holding.REDUNDANT
        for at in (start + np.flatnonzero(held_now)).tolist():
            self._remember(first + at, names[at])

        def name_of(number: int) -> str:
            return names[number - first] if number >= first else self._names[number]

        blamed = np.flatnonzero(events.by[start:stop, 0])
        for at, numbers in zip(blamed.tolist(), events.by[start:stop][blamed].tolist(), strict=True):
            by = tuple([name_of(number) for number in numbers if number])
            verdicts[at] = Verdict(False, (), REASONS[outcomes[at]], by)
        for event in range(int(events.noted[0])):
            at, number = int(events.at[event]) - start, int(events.number[event])
            feature = name_of(number)
            if events.kind[event] == holding.RETURNED:
                verdicts[at] = verdicts[at]._replace(returned=(*verdicts[at].returned, feature))
                continue
            by = tuple(name_of(other) for other in events.because[event].tolist() if other)
            verdicts[at] = verdicts[at]._replace(removed=(*verdicts[at].removed, Removed(feature, by)))
            self._removals += 1
            if not self.HOLDS_REDUNDANT:
                self._forget(number)
        return verdicts


def _column(name: str, shown: str, column: ArrayLike | SparseColumn) -> NDArray[Any]:
    """Not copied if it need not be."""
    if isinstance(column, SparseColumn):
        return column.dense(name)
    given = np.asarray(column)
    if given.ndim != 1 or (given.dtype.kind not in "fiub" and given.size):
        raise ValueError(f"{shown} is not a list of numbers")
    return given


def _numbered(target: ArrayLike) -> ArrayLike:
    """Texts hold classes: numbers for them, in their order."""
    if np.asarray(target).dtype.kind not in "OUT":
        return target
    given = np.asarray(target, dtype=object)  # beside a text, a number would become one
    if not all(isinstance(label, str) for label in given.flat):
        return target
    return np.unique(given.astype(str), return_inverse=True)[1].reshape(given.shape)


def _refuse_classes(operator: str, target: NDArray[Any]) -> None:
    """Whole numbers are classes, floats are numbers: of more than two classes the order says nothing."""
    classes = np.unique(target)
    if len(classes) > 2:
        first = ", ".join([*map(str, classes[:3].tolist()), *["..."][: len(classes) - 3]])
        raise ValueError(
            f"the target has {len(classes)} classes ({first}), but {operator} as it is set measures numbers: choose a"
            f" measure or test for discrete data, or give floats if they are numbers"
        )


def _refuse_non_finite(shown: str, values: NDArray[np.float64]) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"{shown} is {values[row]} in row {row}: values must be finite")

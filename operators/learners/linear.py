"""What all linear learners with few non-zero weights share: names, slots, batches and state; no algorithm.

A batch's names are bound to slots once, and not at all when the batch before had the very same tuple of names. The
names of the slots are brought up to date only when someone asks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument, is_compiled
from sluiceway.operators.checks import binary_label, numbers_of, refuse_other_state
from sluiceway.operators.contract import Selected
from sluiceway.operators.kernels.head import new_head
from sluiceway.operators.kernels.keys import feature_keys, keys_of_blob
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.parameters import Parameters
from sluiceway.schemas.batch import InstanceBatch

_LARGEST = float(np.finfo(np.float64).max)
_FLOATS, _INTEGERS = np.dtype("<f8"), np.dtype("<i8")


class LinearLearner(Parameters, ABC):
    """A `Learner` whose selection is its non-zero weights; an algorithm adds `_learn_rows` and its hyper-parameters."""

    NAME: ClassVar[str]
    STATE_VERSION: ClassVar[int] = 1
    KERNEL: ClassVar[Callable[..., Any]]

    def _begin(self) -> None:
        self._names: list[str] = [""]  # by slot, as of the last binding
        self._slots: dict[str, int] = {}
        self._bound: tuple[str, ...] = ()
        self._model = Model(
            head=new_head(),
            weight=np.zeros(1),
            key=np.zeros(1, dtype=np.int64),
            since=np.zeros(1, dtype=np.int64),
            origin=np.zeros(1, dtype=np.int64),
            local=np.full(1, -1, dtype=np.int32),
            slot_of=np.zeros(0, dtype=np.int32),
            name_key=np.zeros(0, dtype=np.int64),
            touched=np.zeros(0, dtype=np.int32),
            entrant=np.zeros(0),
            entrant_name=np.zeros(0, dtype=np.int32),
            ordering=np.zeros(1, dtype=np.int64),
        )

    @abstractmethod
    def _learn_rows(self, rows: Rows, start: int, stop: int, scores: NDArray[np.float64], until_change: bool) -> int:
        """The algorithm: rows [start, stop) in turn; the next row to do."""

    @property
    def _slots_at_most(self) -> int:
        """How many weights there can be."""
        return int(self.given["k"])

    @classmethod
    def is_compiled(cls) -> bool:
        return is_compiled(cls.KERNEL) and is_compiled(keys_of_blob)

    @classmethod
    def compile(cls) -> None:
        cls(k=1).learn_one({"0": 1.0}, 1)

    @property
    def version(self) -> int:
        return int(self._model.head["version"][0])

    @property
    def selected(self) -> list[Selected]:
        self._settle_names()
        active = slice(1, len(self._names))
        weight, key, since = self._weights()[active], self._model.key[active], self._model.since[active]
        order = np.lexsort((key, -np.abs(weight)))
        names = map(self._names.__getitem__, (order + 1).tolist())
        return list(map(Selected, names, weight[order].tolist(), since[order].tolist()))

    def metrics(self) -> dict[str, float]:
        return {}

    def wanted_features(self) -> list[str] | None:
        return None

    def score_one(self, x: Mapping[str, float]) -> float:
        self._settle_names()
        slots = self._slots
        f = 0.0
        for name, value in zip(x, numbers_of(x), strict=True):
            slot = slots.get(name)
            if slot is not None:
                f += self._weight_in(slot) * value
        return min(max(f, -_LARGEST), _LARGEST) if not math.isnan(f) else 0.0

    def predict_one(self, x: Mapping[str, float]) -> int:
        return 1 if self.score_one(x) > 0 else -1

    def learn_one(self, x: Mapping[str, float], y: int | bool) -> None:
        values = numbers_of(x)
        y = binary_label(y)
        batch = InstanceBatch(
            names=tuple(map(str, x)),  # numpy's texts are texts too
            indptr=np.array((0, len(values)), dtype=np.int64),
            indices=np.arange(len(values), dtype=np.int32),
            values=np.array(values, dtype=np.float64),
            y=np.array((y,), dtype=np.int8),
            ts=(nothing := np.zeros(1, dtype=np.int64)),
            offset=nothing,
            next_offset=nothing,
        )
        self.learn_many(batch)

    def learn_many(self, batch: InstanceBatch) -> None:
        self.prequential(batch)

    def prequential(self, batch: InstanceBatch) -> NDArray[np.float64]:
        scores = np.empty(len(batch))
        self.advance(batch, 0, len(batch), scores)
        return scores

    def advance(
        self,
        batch: InstanceBatch,
        start: int,
        stop: int,
        scores: NDArray[np.float64],
        *,
        until_change: bool = False,
    ) -> int:
        if not 0 <= start <= stop <= len(batch):
            raise ValueError(f"rows [{start}, {stop}) are not rows of a batch of {len(batch)}")
        if scores.dtype != np.float64 or scores.shape != (len(batch),) or not scores.flags.carray:
            raise ValueError(f"scores must be a plain array of {len(batch)} floats")
        if start == stop:
            return stop
        if batch.y.max() > 1:
            raise ValueError(f"label {batch.y.max()} is a class of many: this learner knows -1 and +1")
        if batch.names is not self._bound:
            self._bind(batch.names)
        self._make_room(batch.indptr[start : stop + 1])
        rows = Rows(
            as_argument(batch.indptr), as_argument(batch.indices), as_argument(batch.values), as_argument(batch.y)
        )
        return self._learn_rows(rows, start, stop, scores, until_change)

    def state(self) -> dict[str, Any]:
        self._settle_names()
        active = slice(1, len(self._names))
        return {
            "operator": self.NAME,
            "state_version": self.STATE_VERSION,
            "params": self.params,
            "version": self.version,
            "names": self._names[1:],
            "weights": self._model.weight[active].astype(_FLOATS, copy=False).tobytes(),
            "since": self._model.since[active].astype(_INTEGERS, copy=False).tobytes(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        refuse_other_state(state, cls.NAME, cls.STATE_VERSION)
        model = cls(**state["params"])
        model._restore(state)
        return model

    @property
    def _active(self) -> int:
        """How many slots are in use."""
        return int(self._model.head["active"][0])

    def _weights(self) -> NDArray[np.float64]:
        """The weights themselves, by slot."""
        return self._model.weight[: self._active + 1]

    def _weight_in(self, slot: int) -> float:
        return self._model.weight.item(slot)

    def _restore(self, state: Mapping[str, Any]) -> None:
        names = state["names"]
        self._names = ["", *names]
        self._slots = {name: slot for slot, name in enumerate(names, start=1)}
        self._grow_slots(len(names))
        active = slice(1, len(names) + 1)
        self._model.weight[active] = np.frombuffer(state["weights"], dtype=_FLOATS)
        self._model.since[active] = np.frombuffer(state["since"], dtype=_INTEGERS)
        self._model.key[active] = feature_keys(names)
        self._model.origin[active] = np.arange(1, len(names) + 1)
        self._model.local[active] = -1
        self._model.head["active"] = len(names)
        self._model.head["version"] = state["version"]

    def _bind(self, names: tuple[str, ...]) -> None:
        self._settle_names()
        self._model.local[self._model.slot_of] = -1  # those of the batch before; no other slot has one
        slot_of = np.fromiter(map(self._slots.get, names, repeat(0)), dtype=np.int32, count=len(names))
        present = np.flatnonzero(slot_of)
        self._model.local[slot_of[present]] = present
        self._model = self._model._replace(slot_of=slot_of, name_key=feature_keys(names))
        self._bound = names

    def _settle_names(self) -> None:
        """Bring `_names` and `_slots` up to date: only what has changed since is looked at by name."""
        active = self._active
        moved = self._moved_slots(active)
        if not moved and active + 1 == len(self._names):
            return
        origin, local = self._model.origin, self._model.local
        names = [self._bound[local[slot]] if local[slot] >= 0 else self._names[origin[slot]] for slot in moved]
        for slot in moved:
            if slot < len(self._names):
                del self._slots[self._names[slot]]
        for name in self._names[active + 1 :]:
            del self._slots[name]
        del self._names[active + 1 :]
        self._names += repeat("", active + 1 - len(self._names))
        for slot, name in zip(moved, names, strict=True):
            self._names[slot] = name
            self._slots[name] = slot
        self._model.origin[moved] = moved

    def _moved_slots(self, active: int) -> list[int]:
        """The slots up to `active` that hold another name than `_names` says."""
        moved: list[int] = (np.flatnonzero(self._model.origin[1 : active + 1] != np.arange(1, active + 1)) + 1).tolist()
        return moved

    def _make_room(self, indptr: NDArray[np.int64]) -> None:
        """For what these rows can bring at most; slots never beyond what there can be."""
        bringing = min(int(indptr[-1] - indptr[0]), len(self._model.slot_of))
        self._grow_slots(min(self._slots_at_most, self._active + bringing))
        longest = int(np.diff(indptr).max())
        if longest > len(self._model.touched):
            self._model = self._model._replace(
                touched=np.zeros(longest, dtype=np.int32),
                entrant=np.zeros(longest),
                entrant_name=np.zeros(longest, dtype=np.int32),
            )
        if len(self._model.weight) + 2 * longest > len(self._model.ordering):
            room = np.zeros(len(self._model.weight) + 2 * len(self._model.touched), dtype=np.int64)
            self._model = self._model._replace(ordering=room)

    def _grow_slots(self, slots: int) -> None:
        had = len(self._model.weight) - 1
        if slots <= had:
            return
        more = min(max(slots, 2 * had), self._slots_at_most) - had
        by_slot = ("weight", "key", "since", "origin", "local")
        grown = {field: np.pad(getattr(self._model, field), (0, more)) for field in by_slot}
        self._model = self._model._replace(**grown)

"""One learner of many classes from learners of two: a binary model a class, learnt from in turn.

    f_c = score of the model of class c                 the class predicted: the largest f_c, the first of equal ones
    every model learns the instance: +1 for the model of its own class, -1 for the others

Each model is, bit for bit, the binary model that it would be by itself; a budget (`k`) is that of one class. What is
selected is the union over the classes, each feature with its largest |weight| and the class of that; `since` is when it
last entered the union. In a flow a learner does this by itself where `input.classes` names more than two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators import registry
from sluiceway.operators.bank.bank import Emission
from sluiceway.operators.bank.learners import banked
from sluiceway.operators.bank.one_vs_rest import OneVsRestBank
from sluiceway.operators.checks import numbers_of, refuse_other_state
from sluiceway.operators.contract import Learner, SelectedOfClass
from sluiceway.operators.parameters import whole_number
from sluiceway.schemas.batch import MOST_CLASSES, InstanceBatch
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.name_hash import hash_names
from sluiceway.schemas.swar import READABLE_BEYOND

_NEVER = Emission()


class OneVsRest:
    """Classes are 1, 2, 3, ...; 0 is an instance without a label.

    >>> from sluiceway.operators.learners.ofs import OFS
    >>> model = OneVsRest(OFS(k=1), classes=3)
    >>> for x, y in [({"free": 1.0}, 1), ({"len": 1.0}, 2), ({"now": 1.0}, 3)]:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"now": 2.0})
    3
    >>> model.selected[0]
    SelectedOfClass(feature='free', weight=0.2, since=1, of_class=1)
    """

    NAME: ClassVar[str] = "one-vs-rest"
    STATE_VERSION: ClassVar[int] = 1

    def __init__(self, learner: Learner, *, classes: int) -> None:
        self._classes = whole_number("classes", classes, least=3, most=MOST_CLASSES)
        found = banked(learner)
        if found is None or learner.wanted_features() is not None:
            raise ValueError(f"{learner!r} cannot be one of many: it must be a binary learner of whole instances")
        self._learner = learner
        self._bank = OneVsRestBank(found, self._classes, scaled=False)
        (self._model,) = self._bank.add()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._learner!r}, classes={self._classes})"

    @property
    def params(self) -> dict[str, Any]:
        return {**self._learner.params, "classes": self._classes}

    @property
    def version(self) -> int:
        """How many labelled instances have been learnt."""
        return int(self._bank.heads["version"][self._model])

    @property
    def selected(self) -> list[SelectedOfClass]:
        """Each feature once, by |weight|, with the class that the weight is of."""
        return self._bank.selected(self._model)

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Labelled instances by their class (rows) and the class that was predicted (columns)."""
        return self._bank.confusion(self._model).copy()

    def metrics(self) -> dict[str, float]:
        """Those of the class that has most of each, and the mean of the recalls of all classes met."""
        return self._bank.metrics(self._model)

    def wanted_features(self) -> None:
        return None

    def scores_one(self, x: Mapping[str, float]) -> list[float]:
        """A score for each class."""
        scores: list[float] = self._score(x)[0].tolist()
        return scores

    def score_one(self, x: Mapping[str, float]) -> float:
        """The largest score."""
        return float(self._score(x)[0].max())

    def predict_one(self, x: Mapping[str, float]) -> int:
        """The class with the largest score, the first of equal ones."""
        return int(self._score(x)[0].argmax()) + 1

    def _score(self, x: Mapping[str, float]) -> NDArray[np.float64]:
        return self._bank.score(_columns(_one(x, 0)), self._model)

    def learn_one(self, x: Mapping[str, float], y: int) -> None:
        if isinstance(y, bool | np.bool_) or not isinstance(y, int | np.integer) or not 1 <= y <= self._classes:
            raise ValueError(f"label {y!r} is not a class, 1 to {self._classes}")
        self.learn_many(_one(x, int(y)))

    def learn_many(self, batch: InstanceBatch) -> None:
        self.prequential(batch)

    def prequential(self, batch: InstanceBatch) -> NDArray[np.float64]:
        """Score, then learn, row by row; unlabelled rows are scored only. A column for each class."""
        if len(batch) and not (batch.y.min() >= 0 and batch.y.max() <= self._classes):
            raise ValueError(f"labels must be classes, 1 to {self._classes}, or 0 for none")
        scores = self._bank.new_scores(len(batch))
        poll = self._bank.poll(_columns(batch), np.full(len(batch), self._model, dtype=np.int64))
        row = 0
        while row < len(batch):
            row, _ = self._bank.advance(poll, row, scores, _NEVER)
        return scores

    def state(self) -> dict[str, Any]:
        return {
            "operator": self.NAME,
            "state_version": self.STATE_VERSION,
            "learner": self._learner.NAME,  # type: ignore[attr-defined]  # all of ours have one
            "params": self._learner.params,
            "classes": self._classes,
            "model": self._bank.peek(self._model),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        refuse_other_state(state, cls.NAME, cls.STATE_VERSION)
        made = cls(registry.learner(state["learner"])(**state["params"]), classes=state["classes"])
        made._bank.drop(made._model)
        made._bank.check(state["model"])
        (made._model,) = made._bank.wake([state["model"]]).tolist()
        return made


def one_vs_rest(learner: Learner | str, *, classes: int, **params: Any) -> OneVsRest:
    """A learner of so many classes from a binary one, given as it is or by name and parameters.

    >>> one_vs_rest("ofs", classes=3, k=10)
    OneVsRest(OFS(k=10, eta=0.2, lam=0.01, decay=False), classes=3)
    """
    made = registry.learner(learner)(**params) if isinstance(learner, str) else learner
    return OneVsRest(made, classes=classes)


def _one(x: Mapping[str, float], y: int) -> InstanceBatch:
    values = np.array(numbers_of(x), dtype=np.float64)
    batch = InstanceBatch.from_csr((0, len(values)), np.arange(len(values)), values, names=tuple(x))
    batch.y[0] = y
    return batch


def _columns(batch: InstanceBatch) -> Columns:
    """The same rows, each feature with its address and its name."""
    spelt = [name.encode("utf-8", "surrogatepass") for name in batch.names]
    text = np.frombuffer(b"".join([*spelt, READABLE_BEYOND]), dtype=np.uint8).copy()
    sizes = np.fromiter(map(len, spelt), dtype=np.int32, count=len(spelt))
    at = np.cumsum(sizes, dtype=np.int64) - sizes
    address, key = hash_names(text, at, sizes)
    rows, kept = len(batch), batch.values != 0
    ends = np.concatenate(([0], np.cumsum(kept, dtype=np.int64)))
    indices = batch.indices[kept]
    return Columns(
        text=text,
        streams=[b"s"] * rows,
        indptr=ends[batch.indptr],
        y=batch.y,
        ts=batch.ts,
        offset=batch.offset,
        next_offset=batch.next_offset,
        id_at=np.zeros(rows, dtype=np.int64),
        id_size=np.zeros(rows, dtype=np.int32),
        label_only=np.zeros(rows, dtype=np.bool_),
        address=address[indices],
        key=key[indices],
        name_at=at[indices],
        name_size=sizes[indices],
        values=batch.values[kept],
    )

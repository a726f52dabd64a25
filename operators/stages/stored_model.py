"""One stream's model as a store holds it, for who wants to look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.bank.bank import Bank
from sluiceway.operators.contract import Operator, Selected, SelectedOfClass
from sluiceway.schemas.batch import Label
from sluiceway.schemas.encode import Entry


class StoredModel(NamedTuple):
    version: int
    seen: int
    params: dict[str, Any]
    selected: Sequence[Entry | tuple[str, None, int]]
    """As in a snapshot; a weight is None where weights are not kept."""
    metrics: dict[str, float]
    counts: dict[str, int]
    """What the stream has counted: mistakes and the like."""
    confusion: NDArray[np.int64] | None = None
    """Where more than two classes are predicted: labelled instances by their class and the class that was predicted."""


def model_of(operator: Operator, seen: int) -> StoredModel:
    """Of a stream that has an operator to itself."""
    return StoredModel(operator.version, seen, operator.params, operator.selected, operator.metrics(), {})


def named(entry: Selected | SelectedOfClass, classes: Sequence[Label]) -> Entry:
    """With the class, if there is one, as records have it."""
    if isinstance(entry, Selected):
        return entry
    return entry.feature, entry.weight, entry.since, {"class": classes[entry.of_class - 1]}


def banked_model(bank: Bank, packed: bytes, classes: Sequence[Label] = ()) -> StoredModel:
    """`bank`: a fresh one for models like this. `ValueError` if the bytes are none."""
    bank.check(packed)
    model = int(bank.wake([packed])[0])
    head = bank.heads[model]
    return StoredModel(
        int(head["version"]),
        int(head["seen"]),
        {},
        [named(entry, classes) for entry in bank.selected(model)],
        bank.metrics(model),
        {
            "mistakes": int(head["mistakes"]),
            "evicted": int(head["evicted"]),
            "version of the last snapshot": int(head["emitted"]),
        },
        bank.confusion(model),
    )

"""One stream's model as a store holds it, taken out of its bank for who wants to look at it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sluiceway.operators.bank.bank import Bank
from sluiceway.operators.bank.learners import banked
from sluiceway.operators.contract import Selected


class StoredModel(NamedTuple):
    version: int
    seen: int
    selected: list[Selected]
    metrics: dict[str, float]
    counts: dict[str, int]
    """What the stream has counted: mistakes and the like."""


def stored_model(learner: Any, packed: bytes) -> StoredModel:
    """`learner`: one with the parameters of the model. `ValueError` if the bytes are no model of its kind."""
    found = banked(learner)
    if found is None:
        raise ValueError(f"{type(learner).__name__} has no bank")
    bank = Bank(found)
    bank.check(packed)
    model = int(bank.wake([packed])[0])
    head = bank.heads[model]
    return StoredModel(
        int(head["version"]),
        int(head["seen"]),
        [Selected(*entry) for entry in bank.selected(model)],
        found.metrics(bank, model),
        {
            "mistakes": int(head["mistakes"]),
            "evicted": int(head["evicted"]),
            "version of the last snapshot": int(head["emitted"]),
        },
    )

"""A policy: which features are looked at, in which order, and when to stop. Made at times from what has been counted.

It is all that rows are decided with until the next one is made, so beliefs and stopping rule are of the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument
from sluiceway.operators.kernels.joint.advancing import Decided, Facts, Reach, decide, new_decided
from sluiceway.operators.kernels.joint.binding import Bound
from sluiceway.operators.kernels.joint.deciding import posterior_of
from sluiceway.operators.kernels.joint.line import Line, new_line, place_of
from sluiceway.operators.kernels.joint.stages import Stages, decided, enough, new_scratch, sum_to_one, take_in
from sluiceway.schemas.batch import InstanceBatch

Vector = NDArray[np.float64]
MOST_BELIEFS = 1000
"""So many are followed to say how far rows can go."""
_ROUNDING = 1e-9
_FLOATS, _INTEGERS = np.dtype("<f8"), np.dtype("<i8")


class Plan(NamedTuple):
    """What a policy is solved from, and the whole of its state."""

    version: int
    """Labelled rows counted when it was made."""
    labels: tuple[int, ...]
    prior: Vector
    # by stage
    names: tuple[str, ...]
    paid: Vector
    """What it costs to look."""
    priced: Vector
    """What the policy takes it to cost, to keep to a budget."""
    cuts: Vector
    zero: NDArray[np.int64]
    ancestor: NDArray[np.int64]
    tables: Vector
    """[stage, bin of the ancestor, bin, class]"""

    def state(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "labels": list(self.labels),
            "prior": self.prior.tolist(),
            "names": list(self.names),
            "paid": self.paid.tolist(),
            "priced": self.priced.tolist(),
            "cuts": self.cuts.astype(_FLOATS).tobytes(),
            "zero": self.zero.tolist(),
            "ancestor": self.ancestor.tolist(),
            "tables": self.tables.astype(_FLOATS).tobytes(),
            "shape": list(self.tables.shape),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Plan:
        horizon, _, bins, _ = shape = state["shape"]
        return cls(
            state["version"],
            tuple(state["labels"]),
            np.array(state["prior"], dtype=np.float64),
            tuple(state["names"]),
            np.array(state["paid"], dtype=np.float64),
            np.array(state["priced"], dtype=np.float64),
            np.frombuffer(state["cuts"], dtype=_FLOATS).astype(np.float64).reshape(horizon, bins - 1),
            np.array(state["zero"], dtype=np.int64),
            np.array(state["ancestor"], dtype=np.int64),
            np.frombuffer(state["tables"], dtype=_FLOATS).astype(np.float64).reshape(shape),
        )


@dataclass(frozen=True)
class Policy:
    plan: Plan
    misclassification: Vector
    solve: Callable[[Stages, Vector], Stages]
    """Adds a stopping rule."""

    @cached_property
    def stages(self) -> Stages:
        """Solved when first needed: a model that is only restored and stored again does not wait for it."""
        plan, M = self.plan, self.misclassification
        none, classes = np.zeros(0), len(plan.labels)
        stages = Stages(
            plan.cuts, plan.zero, plan.ancestor, plan.tables, none, none, np.zeros((0, 0)), none,
            np.zeros((0, classes, 0)), plan.prior, M, np.array_equal(M, 1.0 - np.eye(classes)),
        )  # fmt: skip
        return self.solve(stages, plan.priced)

    @cached_property
    def spent(self) -> Vector:
        """What a row has paid that went through no, one, two, ... stages."""
        return np.concatenate(([0.0], np.cumsum(self.plan.paid)))

    @property
    def horizon(self) -> int:
        return len(self.plan.names)

    @cached_property
    def reach(self) -> int:
        """How many stages a row can go through at most that has a value for each."""
        return self._reach(unknown=False)

    @cached_property
    def reach_with_unknown(self) -> int:
        """And whatever values it lacks."""
        return self._reach(unknown=True)

    def _reach(self, *, unknown: bool) -> int:
        """Never too few. It follows all beliefs that rows come to; where these get too many, only a stage before which
        any belief stops ends it."""
        stages, horizon = self.stages, self.horizon
        _, befores, values, _ = stages.tables.shape
        never = np.isposinf(stages.low if len(stages.odds) else stages.risk)
        beliefs: Vector | None = stages.prior[None]
        bins = np.zeros((1, horizon), dtype=np.int8)
        for k in range(horizon):
            if len(never) and never[k]:
                return k
            if beliefs is None:
                continue
            going = self._goes_on(k, beliefs)
            if not going.any():
                return k
            beliefs, bins = beliefs[going], bins[going]
            ancestor = int(stages.ancestor[k])
            before = bins[:, ancestor] if ancestor >= 0 else np.full(len(beliefs), befores - 1)
            told = stages.tables[k, before]
            after = np.concatenate([beliefs * told[:, v] for v in range(values)] + [beliefs] * unknown)
            bins = np.tile(bins, (values + unknown, 1))
            bins[:, k] = np.repeat([*range(values), *[befores - 1] * unknown], len(beliefs))
            there = after.sum(axis=1) > 0
            after, bins = after[there], bins[there]
            beliefs = after / after.sum(axis=1, keepdims=True) if len(after) <= MOST_BELIEFS else None
        return horizon

    def _goes_on(self, k: int, beliefs: Vector) -> NDArray[np.bool_]:
        """As the kernels have it, but for rounding: in doubt, yes."""
        stages = self.stages
        if len(stages.odds):
            with np.errstate(divide="ignore"):
                odds = np.log(beliefs[:, 1]) - np.log(beliefs[:, 0])
            return np.asarray((odds > stages.low[k] - _ROUNDING) & (odds < stages.high[k] + _ROUNDING))
        risk = (beliefs @ self.misclassification).min(axis=1)
        enough = stages.risk[k] if len(stages.risk) else (beliefs @ stages.planes[k]).min(axis=1)
        # a threshold lets a risk go on that is above it, planes one that they are below
        return np.asarray(risk > enough - _ROUNDING)

    @cached_property
    def prior_odds(self) -> float:
        first, second = self.plan.prior
        return float(np.log(second) - np.log(first))

    def seat(self, line: Line, column: NDArray[np.int64]) -> list[NDArray[Any]]:
        """Write into a model's line what rows are decided with; who keeps the line keeps these arrays too.

        `column`: where each stage's feature is among the features of a row.
        """
        plan, stages = self.plan, self.stages
        arrays = {
            "column": column, "stage_cuts": stages.cuts, "stage_zero": stages.zero, "ancestor": stages.ancestor,
            "tables": stages.tables, "low": stages.low, "high": stages.high, "odds": stages.odds, "risk": stages.risk,
            "planes": stages.planes, "prior": stages.prior, "misclassification": stages.misclassification,
            "spent": self.spent, "labels": np.array(plan.labels, dtype=np.int8),
        }  # fmt: skip
        kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        for name, array in kept.items():
            line[f"{name}_at"] = place_of(array)
        line["horizon"], line["known"], line["befores"] = self.horizon, len(plan.labels), stages.tables.shape[1]
        line["bins"], line["planes_a_stage"] = stages.tables.shape[2], stages.planes.shape[2]
        line["by_odds"], line["prior_odds"] = len(stages.odds) > 0, self.prior_odds if len(stages.odds) else 0.0
        line["zero_one"], line["decides"], line["seated"] = stages.zero_one, 1, 1
        return [*kept.values()]

    def decide(self, batch: InstanceBatch, column: NDArray[np.int64], *, absent_is_zero: bool) -> Decided:
        """All rows, the features of a row in ascending order."""
        rows, classes = len(batch), len(self.plan.labels)
        line = new_line()
        kept = self.seat(line, column)
        line["absent_is_zero"], line["stop_at"] = absent_is_zero, 1
        octets, longs = np.zeros(rows, dtype=np.int8), np.zeros(max(rows, 1), dtype=np.int64)
        decided = new_decided(rows, classes)
        decide(
            np.array([place_of(line)]), longs[:1],
            Reach(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([rows]), np.zeros(1, np.int8)),
            Bound(as_argument(batch.indptr), as_argument(batch.indices), as_argument(batch.values), longs, longs),
            Facts(octets, longs, octets, longs, octets, longs), decided, classes,
        )  # fmt: skip
        del kept  # the kernel has read them
        return decided

    def one_row(self) -> OddsRow | BeliefRow:
        return OddsRow(self.stages, self.prior_odds) if len(self.stages.odds) else BeliefRow(self.stages)


class OddsRow:
    """One row being decided, of two classes: the same numbers as in a batch."""

    def __init__(self, stages: Stages, odds: float) -> None:
        self._stages, self._odds = stages, odds

    def enough(self, k: int) -> bool:
        return not self._stages.low[k] < self._odds < self._stages.high[k]

    def take_in(self, k: int, found: int) -> None:
        if found >= 0:
            self._odds += float(self._stages.odds[k, found])

    def decision(self) -> tuple[int, Vector]:
        posterior = np.zeros(2)
        posterior_of(self._odds, posterior)
        return decided(self._stages, posterior), posterior


class BeliefRow:
    def __init__(self, stages: Stages) -> None:
        self._stages, self._q, self._scratch = stages, stages.prior.copy(), new_scratch()
        self._unknown = stages.tables.shape[1] - 1
        self._bins: list[int] = []

    def enough(self, k: int) -> bool:
        return enough(self._stages, k, self._q, self._scratch)

    def take_in(self, k: int, found: int) -> None:
        ancestor = int(self._stages.ancestor[k])
        if found >= 0:
            before = self._bins[ancestor] if self._unknown and ancestor >= 0 else self._unknown
            take_in(self._stages, k, before, found, self._q)
        self._bins.append(found if found >= 0 else self._unknown)

    def decision(self) -> tuple[int, Vector]:
        sum_to_one(self._q)
        return decided(self._stages, self._q), self._q


def in_order(batch: InstanceBatch) -> InstanceBatch:
    """The same batch, the features of each row in ascending order."""
    rises = batch.indices[1:] > batch.indices[:-1]
    ends = batch.indptr[1:-1]
    rises[ends[(ends > 0) & (ends < len(batch.indices))] - 1] = True
    if rises.all():
        return batch
    rows = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
    order = np.lexsort((batch.indices, rows))
    return InstanceBatch(
        batch.names, batch.indptr, batch.indices[order], batch.values[order], batch.y, batch.ts, batch.offset,
        batch.next_offset, batch.ids, batch.label_only,
    )  # fmt: skip

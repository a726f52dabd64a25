# ruff: noqa: SLF001 (merging reads and makes other models of the same class)
"""What the joint operators share: learning by counting, policies made at times, decisions, metrics and state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import as_argument, is_compiled
from sluiceway.operators.checks import numbers_of, refuse_other_state
from sluiceway.operators.contract import Decision, Selected
from sluiceway.operators.joint.counts import Counts
from sluiceway.operators.joint.decisions import NO_DECISION, Decisions, Fetch, decide_one
from sluiceway.operators.joint.names import Spelt
from sluiceway.operators.joint.plans import first_pairs, plan_of
from sluiceway.operators.joint.policy import Plan, Policy, Vector, in_order
from sluiceway.operators.joint.poll import Poll
from sluiceway.operators.joint.settings import (
    OTHERS,
    Binning,
    Cost,
    Table,
    Terms,
    costs,
    cuts,
    mistakes,
)
from sluiceway.operators.joint.tree import PairCounts
from sluiceway.operators.joint.window import FIELDS, Window
from sluiceway.operators.kernels.joint import advancing, binding, naming
from sluiceway.operators.kernels.joint.advancing import Facts
from sluiceway.operators.kernels.joint.binding import Given
from sluiceway.operators.kernels.joint.counting import count_values
from sluiceway.operators.kernels.joint.line import new_line, place_of
from sluiceway.operators.kernels.joint.stages import Stages
from sluiceway.operators.kernels.keys import keys_of_blob
from sluiceway.operators.kernels.sparse.sampling import explores
from sluiceway.operators.parameters import Parameters, choice, count, positive, random_seed, share
from sluiceway.schemas.batch import InstanceBatch

Kernel = Callable[..., Any]


class SequentialClassifier(Parameters, ABC):
    """Looks at one feature after the other until a decision is worth more than the next look."""

    NAME: ClassVar[str]
    STATE_VERSION: ClassVar[int] = 1
    KERNELS: ClassVar[tuple[Kernel, ...]]
    VARIANTS: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """Parameters with which all kernels are needed."""

    cost: Cost = costs('what it costs to look at a feature: the same for all, or by name, with "*" for all others')
    misclassification: Table | None = mistakes(
        "what it costs to decide j where i is true, as [i][j]; if not given, 1 for every mistake"
    )
    bins: int = count("into how many bins values are cut", least=2, most=100, default=4)
    binning: Binning = cuts("where values are cut")
    warm_up: int = count("labelled instances learnt before the first policy is made", default=500)
    refit_every: int = count("and then a policy is made every so many labelled instances", default=500)
    horizon: int = count("how many features may be looked at for one instance", default=400)
    absent: str = choice("what a feature is that the instance does not have", "zero", "missing", default="zero")
    explore: float = share("the share of instances of which all features are asked for", zero=True, default=0.0)
    budget: float | None = positive("features an instance, in the mean: costs are scaled to keep to it", default=None)
    seed: int = random_seed()
    max_features: int = count("how many features may be known: later ones are ignored, and counted", default=100_000)

    def _begin(self) -> None:
        cost, table = self.cost, self.misclassification
        self._terms = Terms(
            costs=cost if isinstance(cost, Mapping) else {OTHERS: cost},
            misclassification=None if table is None else np.array(table),
            horizon=self.horizon,
        )
        self.line = new_line()
        """Where kernels find the model, and keep its numbers."""
        self._counts = Counts(
            bins=self.bins, binning=self.binning, absent=self.absent, max_features=self.max_features,
            labels=self._terms.labels, line=self.line,
        )  # fmt: skip
        self._pairs: PairCounts | None = None
        self._scale = 1.0
        """What costs are multiplied by to keep to the budget."""
        self._policy: Policy | None = None
        self._seated: list[NDArray[Any]] = []
        """What the line says of the policy."""
        self._used: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        """Rows decided by this policy, by the number of features used."""
        self._last = Window()
        self._since: dict[str, int] = {}
        self._spelt: tuple[tuple[str, ...], Spelt] | None = None

    @property
    def _candidates(self) -> int:
        """How many features a tree is made of; 0: there is none."""
        return 0

    @abstractmethod
    def _solve(self, version: int) -> Callable[[Stages, Vector], Stages]:
        """The stopping rule of a policy made at that version."""

    @classmethod
    def is_compiled(cls) -> bool:
        naming_kernels = naming.enter_all, naming.find_all, naming.index_all
        shared = binding.bind, advancing.decide, advancing.learn, count_values, explores, keys_of_blob
        kernels: tuple[Kernel, ...] = (*cls.KERNELS, *naming_kernels, *shared)
        return all(map(is_compiled, kernels))

    @classmethod
    def compile(cls) -> None:
        for params in cls.VARIANTS:
            for labels in ((-1, 1), (1, 2, 3)):
                model = cls(warm_up=2 * len(labels), explore=0.1, **params)
                for label in (*labels, *labels, 1):
                    model.learn_one({"0": float(label), "1": 1.0}, label)
                model.classify_one({"0": 1.0})
                model.classify(InstanceBatch.from_records([{"x": {"0": 1.0}}]))
                model.wanted_features()
                assert cls.from_state(model.state()).selected == model.selected

    @property
    def version(self) -> int:
        """How many labelled instances have been learnt."""
        return self._counts.rows

    @property
    def seen(self) -> int:
        """How many instances there have been, unlabelled ones included."""
        return int(self.line["seen"][0])

    @property
    def classes(self) -> tuple[int, ...]:
        """The labels seen, in ascending order: whose posteriors a decision has, as of the policy that made it."""
        return tuple(self._counts.labels)

    @property
    def cuts(self) -> dict[str, list[float]]:
        """Of each feature that has them: what `binning` takes."""
        return self._counts.cuts_by_name()

    @property
    def policy(self) -> Policy | None:
        """What rows are decided with now; None before the first one."""
        return self._policy

    @property
    def order(self) -> tuple[str, ...]:
        """The features that the policy may look at, in that order; empty before the first one."""
        return self._policy.plan.names if self._policy else ()

    @property
    def reachable(self) -> tuple[str, ...]:
        """The first ones of the order: no other is looked at, as long as an instance has a value for each.

        Once a window has seen a value missing that was looked at: whatever instances lack.
        """
        if self._policy is None:
            return ()
        reach = self._policy.reach_with_unknown if self._last.missing else self._policy.reach
        return self._policy.plan.names[:reach]

    @property
    def policy_version(self) -> int:
        """How many labelled instances had been learnt when the policy was made; 0 before the first one."""
        return self._policy.plan.version if self._policy else 0

    @property
    def until_policy(self) -> int:
        """Labelled instances until the next policy is made."""
        if self.version < self.warm_up:
            return self.warm_up - self.version
        return self.refit_every - (self.version - self.warm_up) % self.refit_every

    @property
    def policy_is_due(self) -> bool:
        """Whether one is made at this version, if it has not been yet."""
        return self.version >= self.warm_up and (self.version - self.warm_up) % self.refit_every == 0

    @property
    def selected(self) -> list[Selected]:
        """The features in use: the weight is the share of instances that used it, in the last window between policies.

        In the first window, so far.
        """
        entered = self.policy_version
        return [Selected(name, use, self._since.get(name, entered)) for name, use in self._window().shares()]

    def metrics(self) -> dict[str, float]:
        """Means over the instances of the last window between policies; and what all that was learnt has come to."""
        window = self._window()
        rows, spent = max(window.rows, 1), sorted(window.by_name.items())
        found = {
            "mean_features": window.used / rows,
            "mean_cost": math.fsum(count * self._terms.cost_of(name) for name, count in spent) / rows,
            "accuracy": window.right / max(window.labelled, 1),
            "missing": window.missing,
            "features": int(np.count_nonzero(self._counts.has_cuts)),
            "classes": len(self._counts.labels),
            "values_ignored": self._counts.ignored,
        }
        return found | {"cost_scale": self._scale} if self.budget is not None else found

    def wanted_features(self) -> list[str] | None:
        """What the next instance should carry, in the order of evaluation; None: all it has."""
        if self._policy is None:
            return None
        if explores(self.seed, self.seen, self.explore):
            return None
        return list(self.reachable)

    def classify_one(self, x: Mapping[str, float | None] | Fetch) -> Decision:
        """Asks for one feature after the other, and for none once it has decided. Changes nothing.

        `x` is the instance, or fetches a feature by name. None is a value that is not known: it was asked for, so it
        counts as used, and the decision goes on without it.
        """
        if self._policy is None:
            return NO_DECISION
        absent = 0.0 if self._counts.absent_is_zero else None
        return decide_one(self._policy, x if callable(x) else lambda name: x.get(name, absent))

    def classify(self, batch: InstanceBatch) -> Decisions:
        """As `classify_one` for each row; NaN is null. Changes nothing."""
        decisions = Decisions(len(batch))
        policy = self._policy
        if policy is None or not len(batch):
            return decisions
        places = dict(zip(batch.names, range(len(batch.names)), strict=True))
        column = np.array([places.get(name, -1) for name in policy.plan.names], dtype=np.int64)
        decided = policy.decide(in_order(batch), column, absent_is_zero=self._counts.absent_is_zero)
        decisions.take_in(0, policy, decided)
        return decisions

    def learn_one(self, x: Mapping[str, float | None], y: int | bool) -> None:
        """True is +1, False is -1; None is a value that is not known."""
        if isinstance(y, bool | np.bool_):
            y = 1 if y else -1
        known = {name: value for name, value in x.items() if value is not None}
        values = np.array(numbers_of({name: 0.0 if value is None else value for name, value in x.items()}))
        if len(known) < len(x):
            values[[value is None for value in x.values()]] = np.nan
        self._terms.check_labels((y,))
        if y == 0:
            raise ValueError("label 0 is not -1, or 1, 2, ... up to 127")
        zero = np.zeros(1, dtype=np.int64)
        self.learn_many(
            InstanceBatch(
                tuple(map(str, x)), np.array((0, len(values))), np.arange(len(values), dtype=np.int32), values,
                np.array((y,), dtype=np.int8), zero, zero, zero + 1,
            )
        )  # fmt: skip

    def learn_many(self, batch: InstanceBatch) -> None:
        """Decide, then learn, row by row; rows without a label (y = 0) are decided only."""
        self.prequential(batch)

    def prequential(self, batch: InstanceBatch) -> Decisions:
        decisions = Decisions(len(batch))
        self.advance(batch, 0, len(batch), decisions)
        return decisions

    def advance(
        self, batch: InstanceBatch, start: int, stop: int, decisions: Decisions, *, until_change: bool = False
    ) -> int:
        """Prequential over rows [start, stop), decisions put at their rows; the next row to do.

        With `until_change` it returns right after the first row with which a policy was made that found other features
        selected than the policy before.
        """
        if not 0 <= start <= stop <= len(batch):
            raise ValueError(f"rows [{start}, {stop}) are not rows of a batch of {len(batch)}")
        self._terms.check_labels(np.unique(batch.y[start:stop]).tolist())
        labelled = np.concatenate(([0], np.cumsum(batch.y[start:stop] != 0)))
        row = start
        while row < stop:
            until = labelled[row - start] + self.until_policy
            due = until <= labelled[-1]
            end = start + int(np.searchsorted(labelled, until)) if due else stop
            self._go(batch, row, end, decisions)
            row = end
            if due and self.make_policy() and until_change:
                return row
        return stop

    def _go(self, batch: InstanceBatch, start: int, stop: int, decisions: Decisions) -> None:
        """Rows that the policy there is decides."""
        rows, policy = stop - start, self._policy
        self.line["stop_at"] = self.version + rows + 1
        low, high = int(batch.indptr[start]), int(batch.indptr[stop])
        if self._spelt is None or self._spelt[0] != batch.names:
            self._spelt = batch.names, Spelt.of(batch.names)
        spelt, of = self._spelt[1], batch.indices[low:high]
        given = Given(
            spelt.text, batch.indptr[start : stop + 1] - low, spelt.address[of], spelt.key[of], spelt.at[of],
            spelt.size[of], as_argument(batch.values[low:high]),
        )  # fmt: skip
        nothing, zeros = np.zeros(rows, dtype=np.int8), np.zeros(rows, dtype=np.int64)
        facts = Facts(as_argument(batch.y[start:stop]), zeros, nothing, zeros, nothing, zeros)
        poll = Poll(
            np.array([place_of(self.line)]), lambda _: self, np.array((0, rows)), np.arange(rows), given, facts,
            most_classes=len(policy.plan.labels) if policy else 0,
        )  # fmt: skip
        poll.advance()
        if policy:
            decisions.take_in(start, policy, poll.decided)

    def refit(self) -> None:
        """Make a policy now of all that has been learnt; in the warm-up, end it."""
        if not self._counts.rows:
            raise ValueError("nothing has been learnt yet")
        self.make_policy()

    def fresh(self) -> Self:
        """A model with the same cuts that has learnt nothing: for another part of the data, to be merged."""
        made = type(self)(**self.params)
        made._counts = self._counts.fresh(self._terms.labels)
        made.line = made._counts.line
        made._take_pairs(PairCounts(self._pairs.names, self.bins) if self._pairs else None)
        return made

    def merge(self, other: Self) -> Self:
        """What one model would be that had learnt what both have. Neither is changed.

        Refused unless both are set alike and have the same cuts; features count as entered at the merge.
        """
        if not isinstance(other, type(self)) or other.params != self.params:
            raise ValueError(f"{other!r} cannot be merged into {self!r}: they are not set alike")
        for one in (self, other):
            if not one._counts.started:
                raise ValueError("a model in its warm-up has no cuts and cannot be merged")
        made = type(self)(**self.params)
        made._counts = self._counts.merged(other._counts)
        made.line = made._counts.line
        made.line["seen"] = self.seen + other.seen
        made._scale = max(self._scale, other._scale)
        for one in (self, other):
            made._last.add(one._last)
            made._last.add(one._current())
        if self._pairs and other._pairs:
            made._take_pairs(self._pairs.merged(other._pairs))
        made._decide_by(made._new_policy())
        made._since = dict.fromkeys(made._last.names(), made.version)
        return made

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self, *, values: bool = True) -> dict[str, Any]:
        """Without `values` it lacks those that wait: for who stores them in blocks."""
        return {
            "operator": self.NAME,
            "state_version": self.STATE_VERSION,
            "params": self.params,
            "seen": self.seen,
            "scale": self._scale,
            "counts": self._counts.state(),
            "pairs": self._pairs.state() if self._pairs else None,
            "policy": self._policy.plan.state() if self._policy else None,
            "used": self._used.tolist(),
            "now": self._now().state(),
            "last": self._last.state(),
            "since": dict(self._since),
            **({"values": self.block()} if values else {}),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """By its state: a copy of the line would lead to the arrays of this one."""
        return type(self).from_state, (self.state(),)

    @property
    def values_waiting(self) -> int:
        """How many values wait for cuts. They only get more from one policy to the next."""
        return self._counts.values_waiting

    def block(self, start: int = 0) -> dict[str, Any]:
        """All but the first `start` of them, as in the state's "values"."""
        return self._counts.block(start)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], blocks: Iterable[Mapping[str, Any]] = ()) -> Self:
        """`blocks`: of the values that wait, in their order, if the state lacks them."""
        refuse_other_state(state, cls.NAME, cls.STATE_VERSION)
        model = cls(**state["params"])
        model._restore(state)
        for block in [state["values"]] if "values" in state else blocks:
            model._counts.take_in(block)
        return model

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._counts.restore(state["counts"])
        self._take_pairs(PairCounts.from_state(state["pairs"], self.bins) if state["pairs"] else None)
        self.line["seen"], self._scale = state["seen"], state["scale"]
        if state["policy"]:
            used = np.array(state["used"], dtype=np.int64)
            self._decide_by(self._policy_of(Plan.from_state(state["policy"])), used)
        for field in FIELDS:
            self.line[f"window_{field}"] = state["now"][field]
        self._last = Window.from_state(state["last"])
        self._since = dict(state["since"])

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        return self._counts

    def know_class(self, label: int) -> None:
        self._counts.know_class(label)
        self._take_pairs(self._pairs)

    def _take_pairs(self, pairs: PairCounts | None) -> None:
        self._pairs = pairs
        if pairs:
            pairs.seat(self._counts)

    def _decide_by(self, policy: Policy, used: NDArray[np.int64] | None = None) -> None:
        """From now on; a window begins, or goes on with what was used."""
        self._policy = policy
        self._used = np.zeros(policy.horizon + 1, dtype=np.int64) if used is None else used
        line = self.line
        line["decides"], line["seated"], line["horizon"], line["used_at"] = 1, 0, policy.horizon, place_of(self._used)
        for field in FIELDS:
            line[f"window_{field}"] = 0

    def seat_policy(self) -> None:
        """Write into the line what rows are decided with, if it is not there."""
        if self._policy and not self.line["seated"][0]:
            self._seated = self._policy.seat(self.line, self._counts.known.find(self._policy.plan.names))

    def _now(self) -> Window:
        """The window since the last policy was made, without the names of features."""
        return Window.from_state({"by_name": {}} | {field: int(self.line[f"window_{field}"][0]) for field in FIELDS})

    def _current(self) -> Window:
        """The window since the last policy was made, with the features it used."""
        window = self._now()
        if self._policy:
            deeper = window.rows - np.cumsum(self._used)
            window.by_name.update(dict(zip(self._policy.plan.names, deeper.tolist(), strict=False)))
        return window

    def _window(self) -> Window:
        return self._last if self._last.rows else self._current()

    def make_policy(self) -> bool:
        """Whether other features are selected than before."""
        budget, started = self.budget, self._counts.started
        window = self._current()
        if window.rows:
            self._last = window
            if budget is not None:
                self._scale *= min(max(window.used / window.rows / budget, 0.25), 4.0)
        waiting, labels = self._counts.make_cuts()
        if not started and self._candidates:
            self._take_pairs(first_pairs(self._counts, self._terms, self._candidates, waiting, labels))
        had = self.policy_version
        self._decide_by(self._new_policy())
        names = self._last.names()
        changed = set(names) != self._since.keys()
        self._since = {name: self._since.get(name, had) for name in names}
        return changed

    def _new_policy(self) -> Policy:
        return self._policy_of(plan_of(self._counts, self._pairs, self._terms, self._scale))

    def _policy_of(self, plan: Plan) -> Policy:
        return Policy(plan, self._terms.mistakes(len(plan.labels)), self._solve(plan.version))

# ruff: noqa: SLF001 (merging reads and makes other models of the same class)
"""What the joint operators share: learning by counting, policies made at times, decisions, metrics and state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sluiceway.compiling import is_compiled
from sluiceway.operators.checks import numbers_of, refuse_other_state
from sluiceway.operators.contract import Decision, Selected
from sluiceway.operators.joint.counts import Counts, labelled_part
from sluiceway.operators.joint.decisions import NO_DECISION, Decisions, Fetch, Later, decide_one
from sluiceway.operators.joint.plans import first_pairs, plan_of
from sluiceway.operators.joint.policy import Plan, Policy, Vector, in_order
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
from sluiceway.operators.joint.window import Window
from sluiceway.operators.kernels.joint.counting import count_values
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
        self._counts = Counts(
            bins=self.bins, binning=self.binning, absent=self.absent, max_features=self.max_features,
            labels=self._terms.labels,
        )  # fmt: skip
        self._pairs: PairCounts | None = None
        self._seen = 0
        self._scale = 1.0
        """What costs are multiplied by to keep to the budget."""
        self._policy: Policy | None = None
        self._used: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        """Rows decided by this policy, by the number of features used."""
        self._now, self._last = Window(), Window()
        self._since: dict[str, int] = {}
        self._column: tuple[tuple[str, ...], Policy, NDArray[np.int64]] | None = None

    @property
    def _candidates(self) -> int:
        """How many features a tree is made of; 0: there is none."""
        return 0

    @abstractmethod
    def _solve(self, version: int) -> Callable[[Stages, Vector], Stages]:
        """The stopping rule of a policy made at that version."""

    @classmethod
    def is_compiled(cls) -> bool:
        kernels: tuple[Kernel, ...] = (*cls.KERNELS, count_values, explores, keys_of_blob)
        return all(map(is_compiled, kernels))

    @classmethod
    def compile(cls) -> None:
        for params in cls.VARIANTS:
            for labels in ((-1, 1), (1, 2, 3)):
                model = cls(warm_up=2 * len(labels), explore=0.1, **params)
                for label in (*labels, *labels, 1):
                    model.learn_one({"0": float(label), "1": 1.0}, label)
                model.classify_one({"0": 1.0})
                model.wanted_features()

    @property
    def version(self) -> int:
        """How many labelled instances have been learnt."""
        return self._counts.rows

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
        if explores(self.seed, self._seen, self.explore):
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
        self._decide(in_order(batch), 0, len(batch), decisions)
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
        self,
        batch: InstanceBatch,
        start: int,
        stop: int,
        decisions: Decisions,
        *,
        later: Later | None = None,
        until_change: bool = False,
    ) -> int:
        """Prequential over rows [start, stop), decisions put at their rows; the next row to do.

        `later` says which rows are no instances: what is decided of them counts for nothing. With `until_change` it
        returns right after the first row with which a policy was made that found other features selected than the
        policy before.
        """
        if not 0 <= start <= stop <= len(batch):
            raise ValueError(f"rows [{start}, {stop}) are not rows of a batch of {len(batch)}")
        self._terms.check_labels(np.unique(batch.y[start:stop]).tolist())
        ordered = in_order(batch)
        labelled = np.concatenate(([0], np.cumsum(batch.y[start:stop] != 0)))
        row = start
        while row < stop:
            until = labelled[row - start] + self.until_policy
            due = until <= labelled[-1]
            end = start + int(np.searchsorted(labelled, until)) if due else stop
            self._decide(ordered, row, end, decisions)
            self._note(batch.y, row, end, decisions, later)
            if labelled[end - start] > labelled[row - start]:
                part = labelled_part(batch, row, end)
                self._counts.add(part)
                if self._pairs:
                    self._pairs.add(part, self._counts)
            row = end
            if due and self._make_policy() and until_change:
                return row
        return stop

    def refit(self) -> None:
        """Make a policy now of all that has been learnt; in the warm-up, end it."""
        if not self._counts.rows:
            raise ValueError("nothing has been learnt yet")
        self._make_policy()

    def fresh(self) -> Self:
        """A model with the same cuts that has learnt nothing: for another part of the data, to be merged."""
        made = type(self)(**self.params)
        made._counts = self._counts.fresh(self._terms.labels)
        made._pairs = PairCounts(self._pairs.names, self.bins) if self._pairs else None
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
        made._seen = self._seen + other._seen
        made._scale = max(self._scale, other._scale)
        for one in (self, other):
            made._last.add(one._last)
            made._last.add(one._current())
        if self._pairs and other._pairs:
            made._pairs = self._pairs.merged(other._pairs)
        made._policy = made._new_policy()
        made._used = np.zeros(made._policy.horizon + 1, dtype=np.int64)
        made._since = dict.fromkeys(made._last.names(), made.version)
        return made

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self, *, values: bool = True) -> dict[str, Any]:
        """Without `values` it lacks those that wait: for who stores them in blocks."""
        return {
            "operator": self.NAME,
            "state_version": self.STATE_VERSION,
            "params": self.params,
            "seen": self._seen,
            "scale": self._scale,
            "counts": self._counts.state(),
            "pairs": self._pairs.state() if self._pairs else None,
            "policy": self._policy.plan.state() if self._policy else None,
            "used": self._used.tolist(),
            "now": self._now.state(),
            "last": self._last.state(),
            "since": dict(self._since),
            **({"values": self.block()} if values else {}),
        }

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
        self._pairs = PairCounts.from_state(state["pairs"], self.bins) if state["pairs"] else None
        self._seen, self._scale = state["seen"], state["scale"]
        self._policy = self._policy_of(Plan.from_state(state["policy"])) if state["policy"] else None
        self._used = np.array(state["used"], dtype=np.int64)
        self._now, self._last = Window.from_state(state["now"]), Window.from_state(state["last"])
        self._since = dict(state["since"])

    # -- inside ----------------------------------------------------------------------------------------------------

    def _columns_of(self, names: tuple[str, ...], policy: Policy) -> NDArray[np.int64]:
        if self._column is None or self._column[0] is not names or self._column[1] is not policy:
            places = dict(zip(names, range(len(names)), strict=True))
            column = np.array([places.get(name, -1) for name in policy.plan.names], dtype=np.int64)
            self._column = names, policy, column
        return self._column[2]

    def _decide(self, batch: InstanceBatch, start: int, stop: int, decisions: Decisions) -> None:
        policy = self._policy
        if policy is None or start == stop:
            return
        column = self._columns_of(batch.names, policy)
        outcome = policy.decide(batch, start, stop, column, self._counts.absent_is_zero)
        decisions.label[start:stop] = np.array(policy.plan.labels, dtype=np.int8)[outcome.decided]
        decisions.used[start:stop] = outcome.used
        decisions.cost[start:stop] = policy.spent[outcome.used]
        decisions.missing[start:stop] = outcome.missing
        decisions.put(start, policy, outcome.posterior)

    def _note(
        self, y: NDArray[np.int8], start: int, stop: int, decisions: Decisions, later: Later | None
    ) -> None:
        """Count what came of rows just decided."""
        here = slice(start, stop) if later is None else start + np.flatnonzero(later.arrived[start:stop])
        used = decisions.used[here]
        self._seen += len(used)
        if self._policy is None:
            return
        said = decisions.said(later, start, stop)
        judged = (y[start:stop] != 0) & (said != 0)
        self._used += np.bincount(used, minlength=len(self._used))
        self._now.rows += len(used)
        self._now.used += int(used.sum())
        self._now.missing += int(decisions.missing[here].sum())
        self._now.labelled += int(np.count_nonzero(judged))
        self._now.right += int(np.count_nonzero(judged & (y[start:stop] == said)))

    def _current(self) -> Window:
        """The window since the last policy was made, with the features it used."""
        window = Window()
        window.add(self._now)
        if self._policy:
            deeper = self._now.rows - np.cumsum(self._used)
            window.by_name.update(dict(zip(self._policy.plan.names, deeper.tolist(), strict=False)))
        return window

    def _window(self) -> Window:
        return self._last if self._last.rows else self._current()

    def _make_policy(self) -> bool:
        """Whether other features are selected than before."""
        budget, started = self.budget, self._counts.started
        window = self._current()
        if window.rows:
            self._last = window
            if budget is not None:
                self._scale *= min(max(window.used / window.rows / budget, 0.25), 4.0)
        waiting, labels = self._counts.make_cuts()
        if not started and self._candidates:
            self._pairs = first_pairs(self._counts, self._terms, self._candidates, waiting, labels)
        had = self.policy_version
        self._policy = self._new_policy()
        self._used = np.zeros(self._policy.horizon + 1, dtype=np.int64)
        self._now = Window()
        names = self._last.names()
        changed = set(names) != self._since.keys()
        self._since = {name: self._since.get(name, had) for name in names}
        return changed

    def _new_policy(self) -> Policy:
        return self._policy_of(plan_of(self._counts, self._pairs, self._terms, self._scale))

    def _policy_of(self, plan: Plan) -> Policy:
        return Policy(plan, self._terms.mistakes(len(plan.labels)), self._solve(plan.version))

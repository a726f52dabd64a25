"""What an operator is to everything around it. No engine, no topic, no record format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.columns import SparseColumn


class Selected(NamedTuple):
    """One selected feature: its weight now, and the version at which it last entered.

    A dense learner computes its selection only when asked: there `since` is when the weight last became non-zero.
    """

    feature: str
    weight: float
    since: int


class SelectedOfClass(NamedTuple):
    """One selected feature where there are more than two classes: the class is that of its largest |weight|.

    `since` is the version at which the feature last entered the union of what is selected for any class.
    """

    feature: str
    weight: float
    since: int
    of_class: int
    """1, 2, 3, ..."""


class Operator(Protocol):
    """What all kinds have in common.

    Hyper-parameters are keyword-only and validated by the constructor (`ValueError` naming the parameter).
    """

    STATE_VERSION: ClassVar[int]

    @classmethod
    def is_compiled(cls) -> bool:
        """Whether `compile` will be quick: the kernels are compiled, in this process or kept from an earlier one."""

    @classmethod
    def compile(cls) -> None:
        """Load or compile the kernels, so that what comes first does not wait for them."""

    @property
    def params(self) -> dict[str, Any]:
        """The hyper-parameters, as given or defaulted: what makes the same operator again."""

    @property
    def version(self) -> int:
        """How many instances or columns have been learnt."""

    @property
    def selected(self) -> list[Selected]:
        """Sorted by |weight| descending, ties to the smaller feature key."""

    def metrics(self) -> dict[str, float]:
        """What only the operator can count (values ignored at a limit); empty for most."""

    def state(self) -> dict[str, Any]:
        """Builtins and bytes only, with `"state_version"`; shares nothing with the model."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self: ...


class Learner(Operator, Protocol):
    """Learns from labelled instances one at a time and selects by the weights it has: `version` counts them."""

    def wanted_features(self) -> list[str] | None:
        """The features that the coming instance is asked for; None where all are looked at."""

    def score_one(self, x: Mapping[str, float]) -> float: ...

    def predict_one(self, x: Mapping[str, float]) -> int:
        """+1 if the score is above 0, else -1."""

    def learn_one(self, x: Mapping[str, float], y: int | bool) -> None:
        """True is +1, False is -1."""

    def learn_many(self, batch: InstanceBatch) -> None: ...

    def prequential(self, batch: InstanceBatch) -> NDArray[np.float64]:
        """Score, then learn, row by row; unlabelled rows (y = 0) are scored only."""

    def advance(
        self,
        batch: InstanceBatch,
        start: int,
        stop: int,
        scores: NDArray[np.float64],
        *,
        until_change: bool = False,
    ) -> int:
        """Prequential over rows [start, stop), scores written in place at their rows; the next row to do.

        With `until_change` it returns right after the first row that changed the set of selected features.
        """


class Removed(NamedTuple):
    """A feature that has left the selection, and the features that made it redundant."""

    feature: str
    by: tuple[str, ...]


class Verdict(NamedTuple):
    """What became of one column, and of others because of it."""

    kept: bool
    removed: tuple[Removed, ...]
    reason: str
    """"selected", "redundant", or "irrelevant" and why."""
    by: tuple[str, ...] = ()
    """The features that made the column itself redundant."""
    returned: tuple[str, ...] = ()
    """Features that came back because what had made them redundant was removed (order-free selectors only)."""

    @property
    def changes(self) -> bool:
        """Whether the column has changed what is selected."""
        return bool(self.kept or self.removed or self.returned)


class ColumnSelector(Operator, Protocol):
    """Learns from whole feature columns, one at a time, against a target that came before them.

    `version` counts the columns seen, over all generations. The weight of a selected feature is its relevance.
    """

    @property
    def generation(self) -> int:
        """0 for the first target, one more for each target after it."""

    @property
    def rows(self) -> int:
        """The length of the target; 0 before there is one."""

    def begin(self, target: ArrayLike) -> None:
        """A new target: what was selected before is forgotten.

        Whole numbers are classes, floats are numbers; a selector that measures numbers takes at most two classes.
        """

    def learn_feature(self, name: str, column: ArrayLike | SparseColumn) -> Verdict:
        """`ValueError` naming the column, before anything changes, if it cannot be used."""

    def learn_features(
        self, names: Sequence[str], columns: NDArray[Any] | Sequence[ArrayLike | SparseColumn]
    ) -> list[Verdict]:
        """A block: the same as one column after the other, or a `ValueError` before anything changes.

        `columns` is a table with a row for each column (not copied if it holds floats), or a list of columns.
        """

    @property
    def needs_numbers(self) -> bool:
        """Whether the target is measured as a number, so that more than two classes have no meaning for it."""

    def holds(self, name: str) -> bool:
        """Whether a column of that name is held. Another one of that name is cheaper learnt alone than in a block."""

    def prepare(self, names: Sequence[str], columns: NDArray[Any] | Sequence[ArrayLike | SparseColumn]) -> Any:
        """A block for `advance`, or a `ValueError` if one of its columns cannot be used after those before it.

        Changes nothing; the block holds until something else is learnt.
        """

    def advance(self, block: Any, start: int, stop: int, *, until_change: bool = False) -> list[Verdict]:
        """Learn the columns [start, stop) of a block in turn.

        With `until_change` the first column that changed what is selected is the last one learnt.
        """

    def state(self, *, columns: bool = True) -> dict[str, Any]:
        """As any operator's. Without `columns` it lacks "target" and "columns": for who stores those one by one."""

    def column_numbers(self) -> list[int]:
        """Of the columns held, in the order of the state's "columns". A number above 0 that no column has twice."""

    def column_bytes(self, number: int) -> bytes:
        """A column that is held, as in the state's "columns". It never changes."""

    def target_bytes(self) -> bytes:
        """The state's "target"; changed by `begin` alone."""


class InstanceSelector(Operator, Protocol):
    """Learns from labelled instances and selects without scoring. `version` counts the labelled instances."""

    @property
    def needs_numbers(self) -> bool:
        """Whether the label is measured as a number, so that more than two classes have no meaning for it."""

    @property
    def refresh(self) -> int:
        """It looks for changes of what is selected after so many labelled instances, and then again."""

    def learn_one(self, x: Mapping[str, float], y: int | bool) -> None:
        """True is +1, False is -1."""

    def learn_many(self, batch: InstanceBatch) -> None: ...

    def advance(self, batch: InstanceBatch, start: int, stop: int, *, until_change: bool = False) -> int:
        """Rows [start, stop) in turn; the next row to do.

        With `until_change` it returns right after the first row at which a look found the selection changed.
        """


class Decision(NamedTuple):
    """What was decided of one instance, and what was looked at for it."""

    label: int
    """-1 or +1, or 1, 2, 3, ... for more than two classes; 0: nothing has been learnt to decide with."""
    posterior: tuple[float, ...]
    """The chance of each class, in the order of the labels."""
    features_used: tuple[str, ...]
    """In the order in which they were asked for, those included that had no value."""
    cost: float
    """What it cost to look at them."""


class Joint(Operator, Protocol):
    """Decides each instance by as few features as it needs. `version` counts the labelled instances learnt.

    It decides by policies, made at times of what has been counted. The weight of a selected feature is the share of
    instances for which it was looked at. In a flow an operator is made of `SequentialClassifier`: compiled code takes
    the rows of all streams through counts and policies as that has them, and what is an operator's own is how a policy
    is solved.
    """

    @property
    def order(self) -> tuple[str, ...]:
        """The features that the policy may look at, in that order; empty before the first one."""

    @property
    def reachable(self) -> tuple[str, ...]:
        """The first ones of the order: no other is looked at, as long as instances have a value for each."""

    @property
    def policy_version(self) -> int:
        """How many labelled instances had been learnt when the policy was made; 0 before the first one."""

    @property
    def until_policy(self) -> int:
        """Labelled instances until the next policy is made."""

    def classify_one(self, x: Mapping[str, float | None] | Callable[[str], float | None]) -> Decision:
        """`x` is the instance, or fetches a feature by name: none is asked for after the decision."""

    def learn_one(self, x: Mapping[str, float | None], y: int | bool) -> None:
        """True is +1, False is -1; None is a value that is not known."""

    def learn_many(self, batch: InstanceBatch) -> None: ...

    def advance(
        self, batch: InstanceBatch, start: int, stop: int, decisions: Any, *, until_change: bool = False
    ) -> int:
        """Decide, then learn, row by row over rows [start, stop), decisions put at their rows; the next row to do."""

    @property
    def values_waiting(self) -> int:
        """How many values have not been counted yet. They only get more from one policy to the next."""

    def block(self, start: int = 0) -> dict[str, Any]:
        """All but the first `start` of them, as in the state's "values"."""

    def state(self, *, values: bool = True) -> dict[str, Any]:
        """As any operator's. Without `values` it lacks those that wait: for who stores them in blocks."""

    @classmethod
    def from_state(cls, state: Mapping[str, Any], blocks: Iterable[Mapping[str, Any]] = ()) -> Self:
        """`blocks`: of the values that wait, in their order, if the state lacks them."""

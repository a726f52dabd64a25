"""Operators as scikit-learn feature selectors.

Learners learn row by row:

>>> from sklearn.datasets import load_breast_cancer
>>> X, y = load_breast_cancer(return_X_y=True)
>>> selector = OnlineSelector("ofs", k=3).fit(X / X.max(axis=0), y)
>>> selector.transform(X).shape
(569, 3)

Column selectors learn column by column:

>>> selector = ColumnSelector("saola").fit(X, y)
>>> selector.transform(X).shape
(569, 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sluiceway import adapting
from sluiceway.errors import SluicewayError
from sluiceway.operators import registry
from sluiceway.schemas.batch import InstanceBatch
from sluiceway.schemas.columns import SparseColumn


class _Selector(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An operator by its name, with hyper-parameters of its own."""

    _OPERATOR: ClassVar[str]
    """The attribute that holds it once it has learnt."""

    def __init__(self, operator: str, **params: Any) -> None:
        self.operator = operator
        self._params = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"operator": self.operator, **self._params}

    def set_params(self, **params: Any) -> Self:
        operator = params.pop("operator", self.operator)
        if isinstance(operator, str) and operator in registry.operators():  # an unknown one is for `fit` to refuse
            known = registry.parameters(operator)
            for name in params.keys() - known.keys():
                raise ValueError(f"Invalid parameter {name!r} for operator {operator!r}: it has {', '.join(known)}.")
        self.operator = operator
        self._params = {**self._params, **params}
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=np.bool_)
        mask[[int(selected.feature) for selected in getattr(self, self._OPERATOR).selected]] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> Mapping[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if self._OPERATOR in state:
            state[self._OPERATOR] = state[self._OPERATOR].state()
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(dict(state))
        if self._OPERATOR in state:  # by an operator that `set_params` may have changed since
            setattr(self, self._OPERATOR, adapting.restored(state[self._OPERATOR]))


class OnlineSelector(_Selector):
    """Learns row by row, in order, and selects the features that the learner has selected by then.

    Parameters
    ----------
    operator : the name of a learner in the registry ("ofs", "pa-l1", ...)
    **params : its hyper-parameters; where it needs a `k` and none is given, that is 10

    Attributes
    ----------
    learner_ : the learner itself (`learner_.selected`, `learner_.state()`)
    classes_ : the two labels; a score above 0 stands for the second
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Rows are learnt as they are: put a `Normalizer` before it for what a flow does with `scale = "l2"`.
    """

    _OPERATOR = "learner_"
    classes_: NDArray[Any]

    def __init__(self, operator: str = "ofs", **params: Any) -> None:
        super().__init__(operator, **params)

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Forget everything, then learn from all rows."""
        return self._learn(X, y, classes=None, reset=True)

    def partial_fit(self, X: Any, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from more rows. The first call must have both labels, in `y` or in `classes`."""
        return self._learn(X, y, classes, reset=not hasattr(self, "learner_"))

    def _learn(self, X: Any, y: ArrayLike, classes: ArrayLike | None, *, reset: bool) -> Self:
        before = self.__dict__.copy()
        try:
            self._learn_checked(X, y, classes, reset=reset)
        except Exception:  # scikit-learn's checks have written attributes: a call that fails changes nothing
            self.__dict__ = before
            raise
        return self

    def _learn_checked(self, X: Any, y: ArrayLike, classes: ArrayLike | None, *, reset: bool) -> None:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=reset)
        check_classification_targets(y)
        known = self.classes_ if not reset else unique_labels(y) if classes is None else np.unique(classes)
        if len(known) > 2:
            raise ValueError(f"Only binary classification is supported. There are {len(known)} classes: {known}")
        if len(known) < 2:
            raise ValueError(f"there is one class only, {known.tolist()[0]!r}: two are needed, in y or as classes")
        unknown = ~np.isin(y, known)
        if unknown.any():
            raise ValueError(f"label {np.asarray(y)[unknown].tolist()[0]!r} is not one of the classes {known}")
        if reset:
            self.learner_ = adapting.make(self.operator, self._params, "prequential")
            self.classes_ = known
            self._names = tuple(map(str, range(self.n_features_in_)))
        self.learner_.learn_many(self._batch(X, np.where(y == self.classes_[1], 1, -1)))

    def _batch(self, X: Any, y: NDArray[Any]) -> InstanceBatch:
        if isinstance(X, np.ndarray):
            return InstanceBatch.from_arrays(X, y, self._names)
        X = _without_repeats(X)
        return InstanceBatch.from_csr(X.indptr, X.indices, X.data, y, names=self._names)

    def scores(self, X: Any) -> NDArray[np.float64]:
        """What the learner says of rows, without learning from them."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores: NDArray[np.float64] = self.learner_.prequential(self._batch(X, np.zeros(X.shape[0], dtype=np.int8)))
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


class ColumnSelector(_Selector):
    """Learns column by column, in order, and selects the columns that the selector has kept at the end.

    Parameters
    ----------
    operator : the name of a column selector in the registry ("saola", "fcbf", ...)
    **params : its hyper-parameters

    Attributes
    ----------
    selector_ : the selector itself (`selector_.selected`, `selector_.metrics()`)
    verdicts_ : what became of each column as it came, and which others made it redundant; columns are numbered
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    A target of floats holds numbers; one of texts, booleans or whole numbers holds classes. Operators that measure
    numbers, as `saola` does unless it is told another `measure`, take two classes at most.
    """

    _OPERATOR = "selector_"

    def __init__(self, operator: str = "saola", **params: Any) -> None:
        super().__init__(operator, **params)

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Forget everything, then learn from all columns."""
        before = self.__dict__.copy()
        try:
            X, y = validate_data(self, X, y, accept_sparse="csc", dtype=np.float64, ensure_min_samples=2)
            selector = adapting.make(self.operator, self._params, "learn_features")
            selector.begin(_target(y))
            names = [*map(str, range(self.n_features_in_))]
            self.verdicts_ = selector.learn_features(names, X.T if isinstance(X, np.ndarray) else _columns(X))
            self.selector_ = selector
        except Exception:
            self.__dict__ = before
            raise
        return self


    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=not self._measures_numbers())
        return tags

    def _measures_numbers(self) -> bool:
        try:
            return bool(adapting.make(self.operator, self._params, "learn_features").needs_numbers)
        except (SluicewayError, TypeError, ValueError):  # for `fit` to refuse
            return False


def _target(y: Any) -> NDArray[Any]:
    values: NDArray[Any] = column_or_1d(y, warn=True)
    return values if values.dtype.kind in "fiub" else np.unique(values, return_inverse=True)[1]


def _columns(X: Any) -> list[SparseColumn]:
    X = _without_repeats(X)
    cuts = X.indptr.tolist()
    at, values = X.indices.astype(np.int64), X.data
    return [SparseColumn(X.shape[0], at[start:stop], values[start:stop]) for start, stop in pairwise(cuts)]


def _without_repeats(X: Any) -> Any:
    """A sparse matrix in which no cell stands twice; the caller's own is left as it is."""
    if X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X

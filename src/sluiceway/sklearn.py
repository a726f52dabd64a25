"""Any learner of the registry as a scikit-learn feature selector.

>>> from sklearn.datasets import load_breast_cancer
>>> X, y = load_breast_cancer(return_X_y=True)
>>> selector = OnlineSelector("ofs", k=3).fit(X / X.max(axis=0), y)
>>> selector.transform(X).shape
(569, 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from sluiceway.operators import registry
from sluiceway.operators.contract import Learner
from sluiceway.schemas.batch import InstanceBatch

DEFAULT_K = 10


class OnlineSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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

    classes_: NDArray[Any]

    def __init__(self, operator: str = "ofs", **params: Any) -> None:
        self.operator = operator
        self._params = params

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"operator": self.operator, **self._params}

    def set_params(self, **params: Any) -> Self:
        operator = params.pop("operator", self.operator)
        if isinstance(operator, str) and operator in registry.OPERATORS:  # an unknown one is for `fit` to refuse
            known = signature(registry.OPERATORS[operator].cls).parameters
            for name in params.keys() - known.keys():
                raise ValueError(f"Invalid parameter {name!r} for operator {operator!r}: it has {', '.join(known)}.")
        self.operator = operator
        self._params = {**self._params, **params}
        return self

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
            self.learner_ = self._new_learner()
            self.classes_ = known
            self._names = tuple(map(str, range(self.n_features_in_)))
        self.learner_.learn_many(self._batch(X, np.where(y == self.classes_[1], 1, -1)))

    def _new_learner(self) -> Learner:
        needed = {"k": DEFAULT_K} if registry.needs(self.operator, "k") else {}
        return registry.learner(self.operator)(**{**needed, **self._params})

    def _batch(self, X: Any, y: NDArray[Any]) -> InstanceBatch:
        if isinstance(X, np.ndarray):
            return InstanceBatch.from_arrays(X, y, self._names)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return InstanceBatch.from_csr(X.indptr, X.indices, X.data, y, names=self._names)

    def scores(self, X: Any) -> NDArray[np.float64]:
        """What the learner says of rows, without learning from them."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self.learner_.prequential(self._batch(X, np.zeros(X.shape[0], dtype=np.int8)))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=np.bool_)
        mask[[int(selected.feature) for selected in self.learner_.selected]] = True
        return mask

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def __getstate__(self) -> Mapping[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "learner_" in state:
            state["learner_"] = state["learner_"].state()
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        super().__setstate__(dict(state))
        if "learner_" in state:
            learnt = state["learner_"]  # by an operator that `set_params` may have changed since
            self.learner_ = registry.learner(learnt["operator"]).from_state(learnt)

"""Any operator that learns from instances, as a transformer of River.

>>> from river import datasets, linear_model, metrics, preprocessing
>>> model = preprocessing.StandardScaler() | Selector("ofs", k=5) | linear_model.LogisticRegression()
>>> accuracy = metrics.Accuracy()
>>> for x, y in datasets.Phishing():
...     accuracy.update(y, model.predict_one(x))
...     model.learn_one(x, y)
>>> accuracy.get() > 0.8
True
>>> len(model["Selector"].model.selected)
5
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from river import base

from sluiceway import adapting

Instance = dict[base.typing.FeatureName, Any]


class Selector(base.SupervisedTransformer):  # type: ignore[misc]  # River's classes count as untyped here
    """Learns from labelled instances, and passes on the features that are selected at the time.

    Until the first instance has been learnt, all features pass.

    Parameters
    ----------
    operator
        The name of an operator that learns from instances ("ofs", "pa-l1", "saola-stream", ...).
    params
        Its hyper-parameters; where it needs a `k` and none is given, that is 10.

    Attributes
    ----------
    model
        The operator itself (`model.selected`, `model.state()`).

    Labels are True and False, or +1 and -1. Values are learnt as they are: put a scaler before it.
    """

    def __init__(self, operator: str = "ofs", **params: Any) -> None:
        self.operator = operator
        self.params = params
        self.model = adapting.make(operator, params, "learn_one")
        self._looked = -1
        self._selected: frozenset[str] = frozenset()

    def learn_one(self, x: Instance, y: bool | int) -> None:
        """Learn from one labelled instance."""
        self.model.learn_one({str(name): _number(value) for name, value in x.items()}, y)

    def transform_one(self, x: Instance) -> Instance:
        """What of `x` is selected, under the names that `x` has."""
        version = self.model.version
        if version == 0:
            return dict(x)
        if version != self._looked:
            self._selected = frozenset(selected.feature for selected in self.model.selected)
            self._looked = version
        return {name: value for name, value in x.items() if str(name) in self._selected}

    def __getstate__(self) -> Mapping[str, Any]:
        return {"operator": self.operator, "params": self.params, "model": self.model.state()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.operator, self.params = state["operator"], state["params"]
        self.model = adapting.restored(state["model"])
        self._looked, self._selected = -1, frozenset()

    def _unit_test_skips(self) -> set[str]:
        """River's checks of transformers that learn from the targets of a regression; labels are binary here."""
        return {
            "check_learn_one",
            "check_pickling",
            "check_shuffle_features_no_impact",
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
            "check_predict_one_pure",
            "check_predict_one_before_any_learn",
            "check_no_state_aliasing_with_input",
            "check_clone_is_independent",
            "check_transform_one",
            "check_bounded_memory_growth",
        }


def _number(value: Any) -> Any:
    """River's features may be booleans."""
    return float(value) if isinstance(value, bool) else value

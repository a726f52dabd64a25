"""Hyper-parameters declared once: constructor, checks, `params`, what is told of them."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.joint.f_etana import FEtana
from sluiceway.operators.learners.norma import NORMA
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.pa import PA
from sluiceway.operators.learners.stsd import STSD
from sluiceway.operators.parameters import Parameters, choice, count, flag, from_zero, parameters_of, positive, share
from sluiceway.operators.registry import OPERATORS
from sluiceway.operators.selectors.osfs import OSFS
from sluiceway.operators.selectors.saola import Saola

CLASSES = [*(entry.cls for entry in OPERATORS.values()), Etana, FEtana]


class Sorts(Parameters):
    n: int = count("a count", least=2, most=5)
    p: float = positive("a positive number", most=1.0, default=1.0)
    q: float = positive("a number within bounds", least=0.5, most=2.0, default=1.0)
    z: float = from_zero("a number from 0", default=0.0)
    s: float = share("a share", default=0.5)
    s0: float = share("a share that may be 0", zero=True, default=0.0)
    c: str = choice("a text", "one", "two", default="one")
    i: int = choice("a whole number", 0, 1, default=0)
    f: bool = flag("yes or no", default=False)
    o: float | None = positive("may be left out", default=None)
    seed: int = count("after the others", least=0, default=0)


class More(Sorts):
    m: int = count("of the class below", default=1)


@pytest.mark.parametrize("cls", CLASSES)
def test_all_is_told(cls: type[Parameters]) -> None:
    for name, told in parameters_of(cls).items():
        assert told.name == name
        assert all((told.meaning, told.values, told.annotation))
        assert told.required or told.default is None or told.checked(told.default) == told.default


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("value", [math.nan, "nonsense", -1, 10**400, [], object()], ids=lambda value: f"{value!r:.8}")
def test_a_wrong_value_of_any_parameter_is_refused_by_name(cls: type[Any], value: Any) -> None:
    needed = {name: 2 for name, told in parameters_of(cls).items() if told.required}
    for name in parameters_of(cls):
        with pytest.raises(ValueError, match=f"^{name} must "):
            cls(**{**needed, name: value})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"n": 1}, "n must be a whole number of at least 2, not 1"),
        ({"n": 6}, "n must be at most 5, not 6"),
        ({"n": True}, "n must be a whole number of at least 2, not True"),
        ({"n": 2.0}, r"n must be a whole number of at least 2, not 2\.0"),
        ({"p": 0}, "p must be a number above 0 and at most 1, not 0"),
        ({"p": math.inf}, "p must be a number above 0 and at most 1, not inf"),
        ({"p": 1.5}, r"p must be a number above 0 and at most 1, not 1\.5"),
        ({"q": 3}, r"q must be a number from 0\.5 to 2, not 3"),
        ({"z": -0.5}, r"z must be a finite number of at least 0, not -0\.5"),
        ({"s": 0}, "s must be a number between 0 and 1, not 0"),
        ({"s0": 1}, "s0 must be a number of at least 0 and below 1, not 1"),
        ({"c": "three"}, "c must be one of one, two, not 'three'"),
        ({"i": True}, "i must be one of 0, 1, not True"),
        ({"f": 1}, "f must be true or false, not 1"),
        ({"p": None}, "p must be a number above 0 and at most 1, not None"),
    ],
)
def test_what_a_refusal_says(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        Sorts(**{"n": 2, **given})


def test_what_is_missing_or_unknown_is_told() -> None:
    with pytest.raises(TypeError, match=r"^OFS needs k$"):
        OFS()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^OFS has no parameter 'steps': it has k, eta, lam, decay$"):
        OFS(k=1, steps=2)  # type: ignore[call-arg]


def test_those_needed_come_first_then_those_above_and_the_surroundings_last() -> None:
    assert list(More(n=3).params) == ["n", "p", "q", "z", "s", "s0", "c", "i", "f", "m", "seed"]
    assert repr(OFS(k=3)) == "OFS(k=3, eta=0.2, lam=0.01, decay=False)"
    assert list(PA(k=3).params) == ["k", "variant", "C", "trigger", "max_features"]


def test_left_out_is_not_among_the_params() -> None:
    assert "o" not in Sorts(n=2).params
    assert Sorts(n=2).o is None
    assert Sorts(n=2, o=3).params["o"] == 3.0


def test_values_can_be_read_and_not_changed() -> None:
    model = OFS(k=3)
    assert (model.k, model.eta) == (3, 0.2)
    with pytest.raises(AttributeError, match="k cannot be changed: make another OFS"):
        model.k = 4  # type: ignore[misc]


def test_editors_and_help_see_the_keywords() -> None:
    signature = inspect.signature(STSD)
    assert str(signature.parameters["proportion"]) == "proportion: 'float' = 0.5"
    assert all(each.kind is each.KEYWORD_ONLY for each in signature.parameters.values())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: OFS(k=1, eta=200.0, decay=True), "with decay, eta \\* lam must be below 1"),
        (lambda: NORMA(eta=200.0, lam=0.01), "eta \\* lam must be below 1"),
        (lambda: PA(k=1, keep=0.5), "k and keep must not both be given"),
        (lambda: STSD(lam=1e10), "lam must be a number from 1e-09 to 1e\\+09"),
        (lambda: Saola(bound="mean"), "bound must be one of min, max"),
        (lambda: OSFS(max_subset=11), "max_subset must be at most 10"),
    ],
)
def test_what_does_not_go_together_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_class_with_a_constructor_of_its_own() -> None:
    class Foreign:
        def __init__(self, *, k: int, eta: float = 0.5) -> None: ...

    k, eta = parameters_of(Foreign).values()
    assert (k.required, k.annotation, eta.default, eta.meaning) == (True, "int", 0.5, "")

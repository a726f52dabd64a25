"""The registry: complete, honest about names, helpful when asked for what it does not have."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sluiceway.errors import SettingsError
from sluiceway.operators import learners
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.learners.linear import LinearLearner
from sluiceway.operators.registry import OPERATORS, column_selector, get, learner

from .streams import budget


@pytest.mark.parametrize("name", OPERATORS)
def test_every_entry_is_complete(name: str) -> None:
    entry = get(name)
    assert entry.summary
    assert entry.paper
    assert entry.time.startswith("O(")
    assert entry.state.startswith("O(")
    assert set(entry.exceptions) <= set(range(1, 8))
    assert all(entry.exceptions.values())
    given = budget(entry.cls, 2) if entry.kind is LEARNER else {}
    model = entry.cls(**given)
    assert model.state()["operator"] == name
    assert repr(model).startswith(f"{entry.cls.__name__}(")
    parameters = inspect.signature(entry.cls).parameters.values()
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    unset = {parameter.name for parameter in parameters if parameter.default is None} - given.keys()
    assert model.params.keys() == {parameter.name for parameter in parameters} - unset
    assert entry.cls(**model.params).params == model.params


def test_every_learner_is_registered() -> None:
    for module in pkgutil.iter_modules(learners.__path__, "sluiceway.operators.learners."):
        __import__(module.name)
    registered = {entry.cls for entry in OPERATORS.values() if entry.kind is LEARNER}
    assert registered == set(_concrete(LinearLearner))


def _concrete(base: type[Any]) -> Iterator[type[Any]]:
    for cls in base.__subclasses__():
        if not inspect.isabstract(cls) and cls.__module__.startswith("sluiceway."):
            yield cls
        yield from _concrete(cls)


def test_a_kind_is_asked_for_by_name() -> None:
    assert learner("ofs") is OPERATORS["ofs"].cls
    assert column_selector("saola") is OPERATORS["saola"].cls
    with pytest.raises(SettingsError, match='"saola" is of the kind column-selector; a learner is needed here'):
        learner("saola")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r'^there is no operator "osf"; did you mean "osfs"\?$'):
        get("osf")
    with pytest.raises(SettingsError, match="perceptron-truncated"):
        get("perceptron_trunc")
    with pytest.raises(SettingsError, match="there are: ofs, perceptron-truncated, perceptron-random"):
        get("zzz")


@pytest.mark.parametrize("name", OPERATORS)
def test_the_examples_in_its_file_hold(name: str) -> None:
    module = sys.modules[OPERATORS[name].cls.__module__]
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner()
    for test in finder.find(module):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 0


def test_algorithms_need_numpy_and_numba_alone() -> None:
    modules = sorted({entry.cls.__module__ for entry in OPERATORS.values()})
    program = f"""
import sys  # scipy is not in the list: numba takes it along where it is installed
from importlib import import_module
for module in {modules}:
    import_module(module)
others = {{"bytewax", "confluent_kafka", "orjson", "pydantic", "typer", "rich", "pandas", "pyarrow"}}
print(sorted(others & sys.modules.keys()))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[]", ran.stderr

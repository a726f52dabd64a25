"""What `import sluiceway` costs and brings."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import sluiceway
import sluiceway.client
import sluiceway.mask
from sluiceway.operators import registry


def in_a_new_process(code: str) -> Any:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_public_name_is_there_and_no_other() -> None:
    for name in sluiceway.__all__:
        assert getattr(sluiceway, name) is not None
    assert set(sluiceway.__all__) <= set(dir(sluiceway))
    assert set(sluiceway.__all__) - {"__version__"} == set(sluiceway._HOMES)
    with pytest.raises(AttributeError, match="no attribute 'subscribers'"):
        sluiceway.__getattr__("subscribers")


def test_a_bare_import_brings_nothing() -> None:
    loaded = in_a_new_process("import json, sys, sluiceway; print(json.dumps(sorted(sys.modules)))")
    roots = {name.partition(".")[0] for name in loaded}
    assert not roots & {"bytewax", "numba", "numpy", "scipy", "pydantic", "confluent_kafka", "typer", "rich"}
    assert [name for name in loaded if name.startswith("sluiceway.")] == []


def test_the_client_needs_neither_the_engine_nor_the_compiler() -> None:
    code = (
        "import json, sys\n"
        "for heavy in ('bytewax', 'numba', 'scipy', 'typer', 'rich'): sys.modules[heavy] = None\n"
        "import sluiceway\n"
        "names = [name for name in sluiceway.__all__ if getattr(sluiceway, name)]\n"
        "from sluiceway import *\n"
        "print(json.dumps(names))"
    )
    assert in_a_new_process(code) == sluiceway.__all__


def test_every_operator_is_there_by_name() -> None:
    assert set(sluiceway._OPERATORS) == {entry.cls.__name__ for entry in registry.OPERATORS.values()}
    for entry in registry.OPERATORS.values():
        assert getattr(sluiceway, entry.cls.__name__) is entry.cls
        assert entry.cls.__name__ in dir(sluiceway)
    model = sluiceway.OFS(k=1)
    model.learn_one({"free": 1.0}, True)
    assert model.selected == [("free", 0.2, 1)]


@pytest.mark.parametrize("first", ["", "from sluiceway.operators import registry; "])
def test_operators_are_listed(first: str) -> None:
    """Also where the package of that name has been imported."""
    listing = "{name: entry.cls.__name__ for name, entry in sluiceway.operators().items()}"
    assert in_a_new_process(f"import json, sluiceway; {first}print(json.dumps({listing}))") == {
        name: entry.cls.__name__ for name, entry in registry.OPERATORS.items()
    }


def test_import_time() -> None:
    """Below 0.15 s of CPU, the interpreter's own start included; the best of three, for other people's load."""
    code = "import time, sluiceway; print(time.process_time())"
    assert min(in_a_new_process(code) for _ in range(3)) < 0.15


@pytest.mark.parametrize("module", [sluiceway.client, sluiceway.mask], ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0

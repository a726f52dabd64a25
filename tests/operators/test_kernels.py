"""The compiled pieces, each against the plain way to say the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluiceway import compiling
from sluiceway.operators.kernels.keys import feature_keys
from sluiceway.operators.kernels.numbers import order_statistics
from sluiceway.operators.kernels.numbers.random import draw, stream_of, uniform
from sluiceway.operators.kernels.sparse import features_seen
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated

from .oracles import random_bits

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)


@given(st.lists(INTEGERS, min_size=1, max_size=80), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_nth_smallest_is_that_of_sorted(values: list[int], data: st.DataObject) -> None:
    nth = data.draw(st.integers(1, len(values)))
    expected = sorted(values)[nth - 1]
    for select in (order_statistics.nth_smallest, order_statistics._nth_by_heap, order_statistics._nth_by_partition):
        assert select(np.array(values), len(values), nth) == expected


@pytest.mark.parametrize("n", [1, 2, 7, 200, 5000])
@pytest.mark.parametrize("kind", ["random", "sorted", "reversed", "equal", "two values", "saw"])
def test_nth_smallest_of_the_shapes_that_break_quickselect(n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    made = {
        "random": rng.integers(-(2**62), 2**62, n),
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.full(n, 7),
        "two values": rng.integers(0, 2, n),
        "saw": np.arange(n) % 5,
    }[kind]
    ordered = np.sort(made)
    for nth in sorted({1, (n + 1) // 8 + 1, (n + 1) // 2, n}):
        for select in (order_statistics._nth_by_heap, order_statistics._nth_by_partition):
            assert select(made.copy(), n, min(nth, n)) == ordered[min(nth, n) - 1]


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0.5, -0.5, 1.0, -1.0, 2.0, 3.0, 1e-9])), max_size=60),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_truncation_is_that_of_sorted(k: int, updates: list[tuple[int, float]]) -> None:
    """Weights set by instances that are always wrong; then one that forces the cut through ties."""
    model = PerceptronTruncated(k=k)
    w: dict[int, float] = {}
    x: dict[int, float] = {}
    for feature, value in updates:
        x[feature] = value
        if len(x) < 5:
            continue
        y = 1 if sum(w.get(i, 0.0) * v for i, v in x.items()) <= 0 else -1
        model.learn_one({str(i): v for i, v in x.items()}, y)
        w = {i: w.get(i, 0.0) + y * x.get(i, 0.0) for i in w.keys() | x.keys()}
        kept = sorted((i for i in w if w[i] != 0), key=lambda i: (-abs(w[i]), i))[:k]
        w = {i: w[i] for i in kept}
        x = {}
        assert [int(selected.feature) for selected in model.selected] == kept
        assert [selected.weight for selected in model.selected] == [w[i] for i in kept]


def test_keys_of_plain_whole_numbers_are_their_values() -> None:
    plain = ["0", "7", "10", "123456789", "9" * 18]
    assert feature_keys(plain).tolist() == [int(name) for name in plain]


@pytest.mark.parametrize(
    "name", ["00", "01", "-1", "+1", "1.0", "1e3", " 1", "1 ", "9" * 19, "٣", "²", "a", "\x00", "0\x00"]
)
def test_any_other_name_lies_above_all_numbers(name: str) -> None:
    (key,) = feature_keys([name])
    assert 2**62 <= key < 2**63


@given(st.lists(st.text(st.characters(codec=None), min_size=1, max_size=12), max_size=30))
@example(["a\ud800", "\udc00b", "\ud800\udc00", "é", "日本", "🙂🙂", "e\u0301", "0", "x\x00"])
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_key_does_not_depend_on_the_names_around_it(names: list[str]) -> None:
    together = feature_keys(names).tolist()
    assert together == [int(feature_keys([name])[0]) for name in names]
    assert len(set(together)) == len(set(names))


def test_keys_are_the_same_for_ever() -> None:
    """State on disk and the outcome of ties depend on them: if this fails, bump every STATE_VERSION."""
    assert [int(key) for key in feature_keys(["free", "läng", "価格", "-1"])] == FOR_EVER


FOR_EVER = [5574372020871107579, 8248667579238797448, 7848833437956793402, 9170928745836476191]


def test_keys_do_not_collide_or_cluster() -> None:
    names = [f"word-{i}" for i in range(200_000)]
    keys = feature_keys(names)
    assert len(np.unique(keys)) == len(names)
    spread = np.bincount((keys >> 56) & 63, minlength=64)
    assert spread.max() < 1.1 * spread.mean()


def random_number(seed: int, instance: int, purpose: int, counter: int) -> np.uint64:
    return np.uint64(draw(np.uint64(stream_of(seed, instance, purpose)), counter))


def test_random_numbers_are_splitmix_of_seed_instance_purpose_and_counter() -> None:
    for case in [(0, 0, 0, 0), (7, 1, 0, 3), (2**63 - 1, 10**12, 1, 2**62 + 12345)]:
        seed, instance, purpose, counter = case
        assert random_number(seed, instance, purpose, counter) == random_bits(*case)


def test_random_numbers_are_uniform_and_unrelated() -> None:
    numbers = np.array([[uniform(random_number(3, i, 0, j)) for j in range(40)] for i in range(200)])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 4 / np.sqrt(12 * numbers.size)
    across = np.corrcoef(numbers.T) - np.eye(40)
    assert np.abs(across).max() < 0.35


@given(st.lists(st.integers(0, 50) | st.integers(2**62, 2**63 - 1), max_size=120), st.integers(0, 60))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_seen_set_is_a_set(keys: list[int], limit: int) -> None:
    held, table = np.zeros(limit, dtype=np.int64), features_seen.table_for(limit)
    count = 0
    expected: list[int] = []
    for key in keys:
        after = features_seen.insert(held, count, table, key, limit)
        if key in expected:
            assert after == count
        elif len(expected) == limit:
            assert after == -1
        else:
            expected.append(key)
            assert after == count + 1
        count = max(count, after)
    assert held[:count].tolist() == expected
    again = features_seen.table_for(4 * limit + 1)
    features_seen.refill(held, count, again)
    assert np.count_nonzero(again) == count
    assert all(features_seen.insert(held, count, again, key, 0) == count for key in expected)


def test_a_change_in_any_kernel_makes_all_of_them_compile_anew() -> None:
    PerceptronTruncated.compile()
    kernel: Any = PerceptronTruncated.KERNEL
    stamp = kernel._cache._cache_file._source_stamp
    assert stamp[1] == compiling._digest_of_kernels()
    assert compiling.is_compiled(kernel)


LEARNER_OF_ANOTHER_PACKAGE = """
from sluiceway.compiling import kernel
from sluiceway.operators.kernels.dense.storage import Dense
from sluiceway.operators.kernels.dense.weights_by_name import add_row
from sluiceway.operators.kernels.sparse.slots import Model, Rows
from sluiceway.operators.learners.by_name import by_name_loop
from sluiceway.operators.learners.pa import PA, PARule

@kernel
def learn(rows: Rows, row: int, m: Model, d: Dense, y: int, f: float, rule: PARule) -> bool:
    add_row(rows, row, m, d, STEP * y, 1.0)
    return True

class Constant(PA):
    KERNEL = by_name_loop("pa", learn)

for learner in (PA, Constant):
    model = learner(k=1)
    model.learn_one({"a": 1.0}, 1)
    print(model.score_one({"a": 1.0}))
"""


def test_a_loop_that_another_package_fills_in_is_its_own(tmp_path: Path) -> None:
    """Also under a name that is taken already, and when its file has changed since it was compiled."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for step in (5.0, 7.0):
        (tmp_path / "mine.py").write_text(LEARNER_OF_ANOTHER_PACKAGE.replace("STEP", str(step)))
        ran = subprocess.run(
            [sys.executable, "-c", "import mine"], env=environment, cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert ran.stdout.split() == ["1.0", str(step)], ran.stderr


def test_a_read_only_installation_without_a_cache_still_learns(tmp_path: Path) -> None:
    """Nothing can be written: beside the sources `__pycache__` is a plain file, and so is the home directory."""
    package = Path(compiling.__file__).parent
    site = tmp_path / "site"
    compilers = [source.name for source in package.glob("kernel_*.py")]
    for part in ("compiling.py", *compilers, "errors.py", "operators", "schemas"):
        source, target = package / part, site / "sluiceway" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "adapters", "stages"))
        else:
            shutil.copy(source, target)
    (site / "sluiceway" / "__init__.py").touch()
    for folder in [site / "sluiceway", *(p for p in (site / "sluiceway").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("not a directory")
    nowhere = tmp_path / "nowhere"
    nowhere.write_text("not a directory")
    program = """
import sys
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated
print(PerceptronTruncated.is_compiled())
PerceptronTruncated.compile()
print(PerceptronTruncated.is_compiled())
print(sys.modules["sluiceway"].__path__[0].removesuffix("/sluiceway"))
"""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "PYTHON"))
    }
    environment |= {"HOME": str(nowhere), "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout.split("\n")[:3] == ["False", "True", str(site)], ran.stderr

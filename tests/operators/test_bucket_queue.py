"""The k largest kept by a queue of the smallest: whatever its sample suggests, exactly the smallest go."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sluiceway.operators.kernels.head import new_head
from sluiceway.operators.kernels.numbers.sorting import sort_numbers
from sluiceway.operators.kernels.sparse.bucket_queue import BucketQueue, admit, queue_for
from sluiceway.operators.kernels.sparse.slots import Model


def model_of(weights: NDArray[np.float64], room: int) -> tuple[Model, BucketQueue]:
    """A model with these weights, whose keys are their slots, and names for as many entrants as there is room for."""
    n = len(weights)
    size = n + room + 1
    weight, local = np.zeros(size), np.full(size, -1, dtype=np.int32)
    weight[1 : n + 1] = weights
    head = new_head()
    head["active"], head["version"] = n, 1
    head = new_head()
    head["active"], head["version"] = n, 1
    model = Model(
        head=head,
        weight=weight,
        key=np.arange(size),
        since=np.zeros(size, dtype=np.int64),
        origin=np.arange(size),
        local=local,
        slot_of=np.zeros(room, dtype=np.int32),
        name_key=np.arange(size, size + room),
        touched=np.zeros(room, dtype=np.int32),
        entrant=np.zeros(room),
        entrant_name=np.arange(room, dtype=np.int32),
        ordering=np.zeros(size + room, dtype=np.int64),
    )
    return model, queue_for(size - 1, 7)


def admitted(model: Model, queue: BucketQueue, entrants: NDArray[np.float64], k: int) -> list[float]:
    model.entrant[: len(entrants)] = entrants
    admit(queue, model, len(entrants), k)
    active = int(model.head["active"][0])
    return sorted(np.abs(model.weight[1 : active + 1]).tolist())


def misleading() -> NDArray[np.float64]:
    """Every fourth weight, which is what a sample of 256 looks at, is small: a bound for 400 of all has 100 below."""
    weights = 10.0 + np.random.default_rng(0).random(1024)
    weights[::4] = 1.0 + np.random.default_rng(1).random(256)
    return weights


@pytest.mark.parametrize("entering", [1, 30, 200, 700])
@pytest.mark.parametrize("kind", ["even", "misleading", "equal", "skew"])
def test_the_largest_stay(kind: str, entering: int) -> None:
    rng = np.random.default_rng(2)
    weights = {
        "even": rng.random(1024) + 0.1,
        "misleading": misleading(),
        "equal": rng.integers(1, 4, 1024).astype(float),
        "skew": 10.0 ** rng.uniform(-200, 200, 1024),
    }[kind]
    model, queue = model_of(weights * rng.choice([-1, 1], 1024), 700)
    there = np.sort(weights)
    for turn in range(12):  # guesses come from the turn before
        entrants = rng.choice(weights, entering) * (0.5 + turn * rng.random(entering))
        there = np.sort(np.concatenate((there, entrants)))[-1024:]
        assert admitted(model, queue, entrants, 1024) == there.tolist()


@pytest.mark.parametrize("entering", [150, 200, 250])
def test_a_sample_that_misleads_is_found_out(entering: int) -> None:
    """What enters is large, so all that must go is among the slots, and the sample's bound has too few below."""
    weights = misleading()
    model, queue = model_of(weights, 700)
    entrants = 20.0 + np.random.default_rng(3).random(entering)
    there = np.sort(np.concatenate((weights, entrants)))[-1024:]
    assert admitted(model, queue, entrants, 1024) == there.tolist()


def test_of_equal_weights_the_smaller_key_stays() -> None:
    """And a guess, which stands at the weight that had to go before, does not hide those that equal the cut."""
    model, queue = model_of(np.full(1024, 2.0), 100)
    assert admitted(model, queue, np.full(60, 2.0), 1024) == [2.0] * 1024
    assert np.array_equal(model.key[1:1025], np.arange(1, 1025))
    assert admitted(model, queue, np.full(60, 3.0), 1024) == [2.0] * 964 + [3.0] * 60
    assert sorted(model.key[model.weight == 2.0].tolist()) == list(range(1, 965))


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 300])
def test_slots_are_sorted(n: int) -> None:
    slots = np.random.default_rng(n).permutation(700)
    rest = slots[2 * n :].copy()
    expected = np.sort(slots[:n])
    sort_numbers(slots, n)
    assert np.array_equal(slots[:n], expected)
    assert np.array_equal(slots[2 * n :], rest)

"""Learning with partial input: against the dense oracle, by hand, what is wanted, and the paper's invariants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from sluiceway.operators.contract import Selected
from sluiceway.operators.learners.ofs_partial import OFSPartial
from sluiceway.operators.learners.perceptron_partial import PerceptronPartial
from sluiceway.schemas.batch import InstanceBatch

from . import partial_oracle

PAIRS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "OFS_P": (OFSPartial, partial_oracle.OFSPartial, {}),
    "OFS_P, as tabled": (OFSPartial, partial_oracle.OFSPartial, {"margin": 0, "seed": 4}),
    "OFS_P, ball reached": (OFSPartial, partial_oracle.OFSPartial, {"epsilon": 0.6, "eta": 0.5, "radius": 0.7}),
    "OFS_rand": (OFSPartial, partial_oracle.OFSPartial, {"input": "random", "seed": 2}),
    "PE_rand": (PerceptronPartial, partial_oracle.PerceptronPartial, {"seed": 1}),
    "RAND": (PerceptronPartial, partial_oracle.PerceptronPartial, {"selection": "random", "seed": 7}),
}


def made(kind: str) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    rng = np.random.default_rng(31)
    rows, d = 2000, 60
    X = rng.normal(size=(rows, d))
    if kind != "dense":
        X *= rng.random(X.shape) < 0.3
    if kind == "growing":
        X *= np.arange(d) < np.linspace(2, d, rows)[:, None]
    noise = rng.normal(size=rows)
    return X, np.where(X[:, :5].sum(axis=1) - X[:, 5:10].sum(axis=1) + noise > 0, 1, -1).astype(np.int8)


def weights(model: Any) -> dict[str, float]:
    return {feature: weight for feature, weight, _ in model.selected}


@pytest.mark.parametrize("kind", ["dense", "sparse", "growing"])
@pytest.mark.parametrize("pair", PAIRS)
def test_scores_and_weights_are_the_oracle_s(pair: str, kind: str) -> None:
    X, y = made(kind)
    learner, oracle, params = PAIRS[pair]
    for k in (1, 6, 60):
        expected = oracle(X.shape[1], k, **params)
        scores = [expected.learn(x, int(label)) for x, label in zip(X, y, strict=True)]
        model = learner(k=k, **params)
        np.testing.assert_allclose(model.prequential(InstanceBatch.from_arrays(X, y)), scores, atol=1e-9)
        held = np.zeros(X.shape[1])
        for feature, weight in weights(model).items():
            held[int(feature)] = weight
        np.testing.assert_allclose(held, expected.w, atol=1e-9)
        assert model.state()["features"] == [str(i) for i in expected.features]
        assert expected.truncate.ties <= 0.01 * expected.cuts


def seed_that(explores: list[bool], epsilon: float = 0.5) -> int:
    """A seed with which the instances after the first are explored or not as asked."""
    for seed in range(1000):
        model = OFSPartial(k=1, epsilon=epsilon, seed=seed)
        drawn = []
        for _ in range(len(explores) + 1):
            drawn.append(model.explores(model.version + 1))
            model.learn_one({}, 1)
        if drawn[1:] == explores:
            return seed
    raise AssertionError("no such seed")


def test_three_instances_by_hand() -> None:
    model = OFSPartial(k=1, epsilon=0.5, eta=0.2, seed=seed_that([True, False, False]))
    assert model.wanted_features() == []
    model.learn_one({"3": 1.0, "1": 1.0}, 1)
    # Nothing had been seen before, so nothing was looked at; now d = 2.
    assert model.selected == []
    (wanted,) = model.wanted_features()
    model.learn_one({"1": 0.5, "3": 0.5, "8": 9.0}, -1)
    # f = 0, chance of a new weight .5 · 1/2 = .25: w = -.2 · .5 / .25 = -.4; "8" came too late to be wanted.
    assert model.selected == [Selected(wanted, -0.4, 2)]
    other = "1" if wanted == "3" else "3"
    assert model.wanted_features() == [wanted]
    assert model.score_one({other: 5.0, wanted: 2.0}) == -0.8
    model.learn_one({other: 5.0, wanted: 2.0}, 1)
    # f = -.8, d = 3, chance of a weight that is there .5/3 + .5 = 2/3: w = -.4 + .2 · 2 · 3/2 = .2
    assert weights(model) == pytest.approx({wanted: 0.2})
    model.learn_one({other: 5.0, wanted: 2.0}, 1)
    # f = .4 <= 1: w = .2 + .6
    assert weights(model) == pytest.approx({wanted: 0.8})


def test_the_partial_perceptron_by_hand() -> None:
    asked = set()
    for seed in range(20):
        model = PerceptronPartial(k=1, seed=seed)
        model.learn_one({"a": 5.0}, 1)  # nothing had been seen before, so nothing was looked at
        assert (model.selected, model.wanted_features()) == ([], ["a"])
        model.learn_one({"a": 2.0, "b": 9.0}, 1)  # f = 0: a mistake; b is not looked at
        assert model.selected == [Selected("a", 2.0, 2)]
        (wanted,) = model.wanted_features()
        model.learn_one({"a": 1.0, "b": 4.0}, -1)
        # a is looked at: f = 2, a mistake, w_a = 2 - 1; b is: f = 0, a mistake, w = (2, -4), of which the larger stays
        assert model.selected == [Selected("a", 1.0, 2) if wanted == "a" else Selected("b", -4.0, 3)]
        asked.add(wanted)
    assert asked == {"a", "b"}


def test_as_tabled_it_learns_from_mistakes_only() -> None:
    for margin, after in ((1, 2.0), (0, 1.0)):
        model = OFSPartial(k=1, input="random", eta=1.0, margin=margin)
        model.learn_one({"a": 1.0}, 1)
        model.learn_one({"a": 1.0}, 1)
        model.learn_one({"a": 1.0}, 1)  # y f = 1: within the margin, no mistake
        assert weights(model) == {"a": after}


def test_ofs_rand_is_pe_rand_where_eta_and_ball_do_not_matter() -> None:
    X, y = made("dense")
    batch = InstanceBatch.from_arrays(X, y)
    one = OFSPartial(k=6, input="random", margin=0, eta=0.25, radius=1e9, seed=9)
    other = PerceptronPartial(k=6, seed=9)
    np.testing.assert_array_equal(4 * one.prequential(batch), other.prequential(batch))


MODELS: list[Any] = [
    lambda seed: OFSPartial(k=4, epsilon=0.5, seed=seed),
    lambda seed: OFSPartial(k=4, input="random", seed=seed),
    lambda seed: PerceptronPartial(k=4, seed=seed),
    lambda seed: PerceptronPartial(k=4, selection="random", seed=seed),
]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("kind", ["dense", "growing"])
def test_what_is_not_wanted_need_not_be_sent(make: Any, kind: str) -> None:
    """Once all features have been announced, instances cut down to what is wanted teach the same."""
    X, y = made(kind)
    whole, cut = make(3), make(3)
    for x, label in zip(X[:400], y[:400], strict=True):
        full = {str(i): float(value) for i, value in enumerate(x) if value != 0}
        wanted = whole.wanted_features()
        assert wanted == cut.wanted_features()
        assert len(wanted) <= 4
        assert len(set(wanted)) == len(wanted)
        known = set(cut.state()["features"])
        new = full.keys() - known
        sent = {name: value for name, value in full.items() if name in wanted or name in new}
        assert cut.score_one(sent) == whole.score_one(full)
        whole.learn_one(full, int(label))
        cut.learn_one(sent, int(label))
    assert whole.selected == cut.selected
    assert whole.state() == cut.state()


def test_instances_without_a_label_share_what_is_wanted() -> None:
    model = PerceptronPartial(k=2, seed=5)
    model.learn_one(dict.fromkeys("abcdefgh", 1.0), 1)
    wanted = model.wanted_features()
    model.learn_many(InstanceBatch.from_records([{"x": {"a": 1.0}}, {"x": {"zzz": 1.0}}]))
    assert model.wanted_features() == wanted
    assert type(model).from_state(model.state()).wanted_features() == wanted


def test_every_set_of_features_is_equally_likely_and_so_is_exploring() -> None:
    model = OFSPartial(k=2, epsilon=0.3, seed=11)
    counts: dict[tuple[str, ...], int] = {}
    explored, rows = 0, 6000
    model.learn_one(dict.fromkeys("abcde", 1.0), 1)
    for _ in range(rows):
        if model.explores(model.version + 1):
            explored += 1
            wanted = tuple(model.wanted_features())
            counts[wanted] = counts.get(wanted, 0) + 1
        model.learn_one({}, 1)
    assert abs(explored / rows - 0.3) < 4 * np.sqrt(0.3 * 0.7 / rows)
    assert len(counts) == 10
    assert chisquare(list(counts.values())).pvalue > 0.001


def test_which_features_are_wanted_does_not_depend_on_their_order() -> None:
    names = [*map(str, range(30)), "free", "läng", "価格"]
    rng = np.random.default_rng(0)
    one, other = (PerceptronPartial(k=5, seed=1) for _ in range(2))
    for _ in range(20):
        names.append(f"word-{len(names)}")
        one.learn_one(dict.fromkeys(names, 1.0), 1)
        other.learn_one({names[at]: 1.0 for at in rng.permutation(len(names))}, 1)
        assert one.wanted_features() == other.wanted_features()


values = st.floats(-4, 4, allow_subnormal=False)
features = st.dictionaries(st.sampled_from([*"abcdefgh", "1", "2", "3"]), values, max_size=6)
instances = st.lists(st.tuples(features, st.sampled_from([-1, 1])), max_size=30)
models = st.builds(
    OFSPartial,
    k=st.sampled_from([1, 2, 5]),
    epsilon=st.sampled_from([0.2, 0.7, 1.0]),
    eta=st.sampled_from([0.2, 3.0]),
    radius=st.sampled_from([0.3, 10.0]),
    margin=st.sampled_from([0, 1]),
    input=st.sampled_from(["greedy", "random"]),
    seed=st.integers(0, 5),
)


@given(instances, models)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_invariants_of_the_paper(rows: list[tuple[dict[str, float], int]], model: OFSPartial) -> None:
    for x, y in rows:
        wanted = set(model.wanted_features())
        before, held = model.selected, weights(model)
        margin = y * sum(held.get(name, 0.0) * value for name, value in x.items() if name in wanted)
        assert y * model.score_one(x) == pytest.approx(margin, abs=1e-9)
        margin = y * model.score_one(x)
        model.learn_one(x, y)
        after = weights(model)
        assert len(wanted) <= model.params["k"]
        assert len(after) <= model.params["k"]
        assert np.linalg.norm(list(after.values())) <= model.params["radius"] * (1 + 1e-12)
        assert after.keys() <= held.keys() | wanted
        if margin > model.params["margin"]:
            assert model.selected == before


def test_names_beyond_the_limit_are_never_wanted() -> None:
    model = PerceptronPartial(k=5, max_features=2)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"9": 1.0, "3": 1.0, "none": 0.0}, 1)  # room for one more: the smaller key
    assert model.wanted_features() == ["a", "3"]
    assert model.metrics() == {"values_ignored": 1}
    assert model.state()["features"] == ["a", "3"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OFSPartial(k=0), "k must be a whole number of at least 1, not 0"),
        (lambda: OFSPartial(k=1, epsilon=0), "epsilon must be a number above 0 and at most 1, not 0"),
        (lambda: OFSPartial(k=1, epsilon=1.1), "epsilon must be a number above 0 and at most 1, not 1.1"),
        (lambda: OFSPartial(k=1, margin=2), "margin must be one of 0, 1, not 2"),
        (lambda: OFSPartial(k=1, radius=-1), "radius must be a finite number above 0, not -1"),
        (lambda: OFSPartial(k=1, input="all"), "input must be one of greedy, random, not 'all'"),
        (lambda: PerceptronPartial(k=1, selection="all"), "selection must be one of largest, random, not 'all'"),
        (lambda: PerceptronPartial(k=1, seed=-1), "seed must be a whole number of at least 0, not -1"),
        (lambda: PerceptronPartial(k=1, max_features=0), "max_features must be a whole number of at least 1, not 0"),
    ],
)
def test_hyper_parameters_are_checked_at_once(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        make()
    assert str(caught.value) == message

"""Three and ten classes on the real broker: each prediction is that of binary models run apart, each window its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris

from benchmarks.papers.data import folder
from sluiceway.operators.contract import Decision
from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.registry import column_selector, learner
from sluiceway.operators.stages.scale import scaled
from sluiceway.schemas.batch import InstanceBatch
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow, sluiceway

LEARNERS = ("ofs", "stsd")
WINDOW = 75


class Data(NamedTuple):
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    """0, 1, 2, ..."""
    classes: list[Any]


def params(name: str, data: Data) -> dict[str, Any]:
    """Two of a flower's four measures tell it; of a digit's pixels it takes an eighth."""
    return {"k": max(2, data.X.shape[1] // 8)} if name == "ofs" else {"proportion": 0.5}


def iris() -> Data:
    X, y = load_iris(return_X_y=True)
    return shuffled(X, y, ["setosa", "versicolor", "virginica"])


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return shuffled(X[:600], y[:600], list(range(10)))


def usps() -> Data:
    place = folder(None)
    if place is None or not (place / "usps.npz").exists():
        pytest.skip("usps.npz is not there: set SLUICEWAY_DATA to the folder of the published data sets")
    with np.load(place / "usps.npz") as arrays:
        return shuffled(arrays["X"][:2000].astype(np.float64), arrays["y"][:2000].astype(np.int64), list(range(10)))


def shuffled(X: NDArray[Any], y: NDArray[Any], classes: list[Any]) -> Data:
    order = np.random.default_rng(0).permutation(len(y))
    return Data(np.asarray(X[order], dtype=np.float64), y[order], classes)


def send(flow: KafkaFlow, data: Data) -> None:
    records = (
        orjson.dumps({"id": str(at), "x": x.tolist(), "y": data.classes[y]})
        for at, (x, y) in enumerate(zip(data.X, data.y.tolist(), strict=True))
    )
    produce(flow.bootstrap, flow.instances, ((b"flowers", record) for record in records))


def apart(name: str, data: Data) -> NDArray[np.float64]:
    """The scores of binary models that know nothing of each other."""
    rows = scaled(InstanceBatch.from_arrays(data.X, np.zeros(len(data.y))), "l2")
    scores = []
    for number in range(len(data.classes)):
        model: Any = learner(name)
        y = np.where(data.y == number, 1, -1).astype(np.int8)
        scores.append(model(**params(name, data)).prequential(replace(rows, y=y)))
    return np.array(scores).T


@pytest.mark.parametrize("of", [iris, digits, usps])
@pytest.mark.parametrize("name", LEARNERS)
def test_predictions_are_those_of_binary_models_run_apart(topics: Topics, tmp_path: Path, name: str, of: Any) -> None:
    data = of()
    flow = KafkaFlow(
        topics, tmp_path,
        input={"classes": data.classes}, emit={"every": 50, "scores": True},
    )  # fmt: skip
    flow.sections["operator"] = {"name": name, **params(name, data)}
    flow.write()
    send(flow, data)
    if of is iris:
        with flow.start() as killed:
            killed.until(lambda: "lane 0 is open" in killed.stderr, 200)
            killed.kill()
        assert flow.run(timeout=200).code == 0  # it may have come to its end before it was killed
    else:
        flow.ends(timeout=200)
    wanted, told = apart(name, data), flow.values("predictions")
    assert [list(one["scores"].values()) for one in told] == wanted.tolist()
    assert [one["label"] for one in told] == [data.classes[at] for at in wanted.argmax(axis=1).tolist()]
    assert [one["score"] for one in told] == wanted.max(axis=1).tolist()
    wrong = int(np.count_nonzero(wanted.argmax(axis=1) != data.y))
    final = flow.values("selections")[-1]
    assert (final["version"], final["metrics"]["mistakes"]) == (len(data.y), wrong)
    assert wrong < len(data.y) - np.bincount(data.y).max()  # better than any one class for all
    assert {entry["class"] for entry in final["selected"]} <= set(data.classes)
    seen = sluiceway("inspect", flow.file, "--stream", "flowers", "--json")
    counts = np.array(orjson.loads(seen.stdout)["confusion"])
    assert counts.sum(axis=1).tolist() == np.bincount(data.y, minlength=len(data.classes)).tolist()
    assert counts.sum() - np.trace(counts) == wrong


ETANA: dict[str, Any] = {"warm_up": 60, "refit_every": 100, "cost": 0.005, "absent": "missing", "points": 32}


def decided_alone(data: Data, upto: int, model: Etana | None = None) -> list[Decision]:
    """What the operator decides in Python, every value of a row there."""
    rows, features = data.X[:upto].shape
    order = np.arange(rows, dtype=np.int64)
    batch = InstanceBatch(
        tuple(map(str, range(features))), np.arange(rows + 1) * features,
        np.tile(np.arange(features, dtype=np.int32), rows), data.X[:upto].ravel(), (data.y[:upto] + 1).astype(np.int8),
        order, order, order + 1,
    )  # fmt: skip
    return list((model or Etana(**ETANA)).prequential(batch))


def check_decisions(told: list[dict[str, Any]], wanted: list[Decision], data: Data) -> None:
    assert [one["label"] for one in told] == [data.classes[one.label - 1] if one.label else None for one in wanted]
    assert [one["features_used"] for one in told] == [len(one.features_used) for one in wanted]
    assert [one["cost"] for one in told] == [one.cost for one in wanted]
    assert [tuple(one["posterior"].values()) for one in told] == [one.posterior for one in wanted]
    assert [one["score"] for one in told] == [max(one.posterior, default=None) for one in wanted]


@pytest.mark.parametrize("of", [iris, digits, usps])
def test_etana_decides_as_it_does_alone(topics: Topics, tmp_path: Path, of: Any) -> None:
    data = of()
    flow = KafkaFlow(topics, tmp_path, input={"classes": data.classes}, emit={"every": 50})
    flow.sections["operator"] = {"name": "etana", **ETANA}
    flow.write()
    send(flow, data)
    flow.ends(timeout=300)
    wanted = decided_alone(data, len(data.y))
    check_decisions(flow.values("predictions"), wanted, data)
    judged = [(one.label, y + 1) for one, y in zip(wanted, data.y.tolist(), strict=True) if one.label]
    wrong = sum(label != y for label, y in judged)
    final = flow.values("selections")[-1]
    assert (final["version"], final["metrics"]["mistakes"]) == (len(data.y), wrong)
    assert wrong < len(judged) / 2
    assert final["metrics"]["mean_features"] < data.X.shape[1]
    seen = orjson.loads(sluiceway("inspect", flow.file, "--stream", "flowers", "--json").stdout)
    counts = np.array(seen["confusion"])
    assert (counts.sum(), counts.sum() - np.trace(counts)) == (len(judged), wrong)
    assert seen["counts"]["mistakes"] == wrong


def test_who_follows_requests_gets_the_same_decisions(topics: Topics, tmp_path: Path) -> None:
    """Instances that carry what was asked for alone, up to the next policy."""
    data, first = digits(), ETANA["warm_up"]
    flow = KafkaFlow(topics, tmp_path, input={"classes": data.classes}, emit={"every": 50})
    flow.topic["requests"] = topics("requests")
    flow.sections["operator"] = {"name": "etana", **ETANA, "horizon": 12}
    flow.write()
    send(flow, Data(data.X[:first], data.y[:first], data.classes))
    flow.ends(timeout=300)
    [request] = flow.values("requests")
    assert (request["version"], request["seq"], request["at"]["offset"]) == (first, first, first - 1)
    assert len(request["features"]) == 12
    asked = [int(name) for name in request["features"]]
    upto = first + ETANA["refit_every"]
    records = (
        orjson.dumps({"x": {str(at): x[at] for at in asked}, "y": data.classes[y]})
        for x, y in zip(data.X[first:upto].tolist(), data.y[first:upto].tolist(), strict=True)
    )
    produce(flow.bootstrap, flow.instances, ((b"flowers", record) for record in records))
    assert flow.run("--again", timeout=300).code == 0
    check_decisions(flow.values("predictions"), decided_alone(data, upto, Etana(**ETANA, horizon=12)), data)


@pytest.mark.parametrize("of", [iris, digits, usps])
def test_windows_measure_many_classes(topics: Topics, tmp_path: Path, of: Any) -> None:
    data = of()
    flow = KafkaFlow(topics, tmp_path, input={"classes": data.classes})
    del flow.topic["predictions"], flow.sections["emit"]
    flow.sections["operator"] = {"name": "saola", "measure": "symmetric-uncertainty"}
    flow.write(window={"size": WINDOW})
    send(flow, data)
    flow.ends()
    told = flow.values("selections")
    assert len(told) == len(data.y) // WINDOW
    for at, snapshot in enumerate(told):
        model: Any = column_selector("saola")
        selector = model(measure="symmetric-uncertainty")
        rows = slice(at * WINDOW, (at + 1) * WINDOW)
        selector.begin(data.y[rows] + 1.0)
        present = np.flatnonzero((data.X[rows] != 0).any(axis=0))
        selector.learn_features([str(feature) for feature in present], data.X[rows][:, present].T)
        selected = [(entry["feature"], entry["weight"]) for entry in snapshot["selected"]]
        assert selected == [(entry.feature, entry.weight) for entry in selector.selected]
    assert told[-1]["selected"]

"""Lanes of more than two classes: what a lane gives, against an oracle of binary learners, one a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.decode import Decoder
from tests.stages.lanes import LANE, STEP, Given, Message, Store, config, message, new_lane, parsed, polls, unit

CLASSES: tuple[str, ...] = ("ham", "spam", "news")


def lane_config(operator: str = "ofs", emit: Emit | None = None, **options: Any) -> LearnerConfig:
    return config(operator, emit=emit, classes=CLASSES, scores=True, **options)


def run(flow: LearnerConfig, sent: Sequence[Message], cuts: Sequence[int], restores: Sequence[int] = ()) -> Given:
    decoder, lane, given_, store = Decoder(8, classes=CLASSES), new_lane(flow), Given(), Store()
    for number, raw in enumerate(polls(sent, cuts)):
        if number in restores:
            store.commit(lane)
            decoder, lane = Decoder(8, classes=CLASSES), store.lane(flow)
        given_.add(lane.process(decoder.decode(raw)))
    return given_


class Oracle:
    """One stream, instance by instance."""

    def __init__(self, flow: LearnerConfig) -> None:
        self.flow, self.models = flow, [flow.new_learner() for _ in CLASSES]
        self.waiting: dict[str, tuple[dict[str, float], str]] = {}
        self.confusion = np.zeros((len(CLASSES), len(CLASSES)), dtype=np.int64)
        self.seen = self.emitted_version = 0
        self.since: dict[str, int] = {}
        self.emitted: list[str] = []

    @property
    def version(self) -> int:
        return self.models[0].version

    def instance(self, record: dict[str, Any], offset: int) -> dict[str, Any]:
        x = unit(record["x"])
        scores = [model.score_one(x) for model in self.models]
        said = CLASSES[scores.index(max(scores))]
        prediction = {
            "flow": "f", "stream": "s", "id": record.get("id"), "seq": self.seen,
            "at": {"partition": LANE, "offset": offset}, "score": max(scores), "label": said,
            "scores": dict(zip(CLASSES, scores, strict=True)),
        }  # fmt: skip
        self.seen += 1
        if "y" in record:
            self.learn(x, record["y"], said)
        elif "id" in record:
            self.waiting[record["id"]] = x, said
        return prediction

    def learn(self, x: dict[str, float], y: str, said: str) -> None:
        for label, model in zip(CLASSES, self.models, strict=True):
            model.learn_one(x, 1 if label == y else -1)
        self.confusion[CLASSES.index(y), CLASSES.index(said)] += 1
        union = {entry.feature for model in self.models for entry in model.selected}
        self.since = {feature: self.since.get(feature, self.version) for feature in union}

    def due(self) -> str | None:
        emit = self.flow.emit
        if emit.every and self.version % emit.every == 0:
            return "interval"
        changed = self.since.keys() != set(self.emitted)
        return "change" if emit.on_change and changed and self.version - self.emitted_version >= emit.min_gap else None

    def snapshot(self, reason: str) -> dict[str, Any]:
        best: dict[str, tuple[float, str]] = {}
        for label, model in zip(CLASSES, self.models, strict=True):
            for entry in model.selected:
                if abs(entry.weight) > abs(best.get(entry.feature, (0.0, ""))[0]):
                    best[entry.feature] = entry.weight, label
        counts = self.confusion
        met = counts.sum(axis=1) > 0
        told = {
            "version": self.version, "seen": self.seen, "reason": reason, "n_selected": len(best),
            "selected": {name: [weight, self.since[name], label] for name, (weight, label) in best.items()},
            "entered": {name for name in best if name not in self.emitted},
            "left": [name for name in self.emitted if name not in best],
            "mistakes": int(counts.sum() - np.trace(counts)),
            "balanced_accuracy": float((np.diag(counts)[met] / counts.sum(axis=1)[met]).mean()),
        }  # fmt: skip
        self.emitted_version = self.version
        return told


def told(snapshot: dict[str, Any]) -> dict[str, Any]:
    weights = [abs(entry["weight"]) for entry in snapshot["selected"]]
    assert weights == sorted(weights)[::-1]
    selected = {entry["feature"]: [entry["weight"], entry["since"], entry["class"]] for entry in snapshot["selected"]}
    return {
        **{name: snapshot[name] for name in ("version", "seen", "reason", "n_selected", "left")},
        "selected": selected,
        "entered": set(snapshot["entered"]),
        "mistakes": snapshot["metrics"]["mistakes"],
        "balanced_accuracy": snapshot["metrics"]["balanced_accuracy"],
    }


features = st.dictionaries(st.sampled_from(["0", "7", "free", "len", "now"]), st.integers(-4, 4), max_size=4)
instances = st.fixed_dictionaries({"x": features, "y": st.sampled_from(CLASSES)})
unlabelled = st.fixed_dictionaries({"x": features, "id": st.sampled_from(["e1", "e2"])})
later = st.fixed_dictionaries({"id": st.sampled_from(["e1", "e2"]), "y": st.sampled_from(CLASSES)})
records = st.lists(st.one_of(instances, instances, unlabelled, later), max_size=40)
emits = st.builds(Emit, every=st.sampled_from([0, 1, 3]), on_change=st.booleans(), min_gap=st.sampled_from([1, 2, 4]))
operators = st.sampled_from(["ofs", "perceptron-random", "stsd"])


@given(operators, emits, records)
@settings(max_examples=60)
def test_a_lane_gives_what_the_oracle_gives(operator: str, emit: Emit, sent: list[dict[str, Any]]) -> None:
    flow = lane_config(operator, emit)
    got = run(flow, [message("s", record) for record in sent], [])
    stream, predictions, snapshots, orphans = Oracle(flow), [], [], []
    for at, record in enumerate(sent):
        version = stream.version
        if "x" in record:
            predictions.append(stream.instance(record, at * STEP))
        elif record["id"] in stream.waiting:
            x, said = stream.waiting.pop(record["id"])
            stream.learn(x, record["y"], said)
        else:
            orphans.append(at * STEP)
        if stream.version > version and (reason := stream.due()) is not None:
            snapshots.append(stream.snapshot(reason))
            stream.emitted = [entry["feature"] for entry in parsed(got.selections)[len(snapshots) - 1]["selected"]]
    assert parsed(got.predictions) == predictions
    assert [record.offset for record in got.dead_letters] == orphans
    assert [told(one) for one in parsed(got.selections)] == snapshots
    if stream.version != stream.emitted_version:
        assert [told(one) for one in parsed(got.finals)] == [stream.snapshot("final")]


@given(operators, emits, records, st.lists(st.integers(0, 40), max_size=5), st.sets(st.integers(1, 5)))
@settings(max_examples=40)
def test_cutting_and_restoring_change_no_byte(
    operator: str, emit: Emit, sent: list[dict[str, Any]], cuts: list[int], restores: set[int]
) -> None:
    flow = lane_config(operator, emit)
    messages = [message("st"[at % 3 == 0], record) for at, record in enumerate(sent)]
    assert run(flow, messages, cuts, sorted(restores)) == run(flow, messages, [])


@pytest.mark.parametrize("operator", ["pa", "pa-l1", "fobos", "norma"])
@pytest.mark.parametrize("on_change", [False, True])
def test_dense_learners_are_cut_and_restored_too(operator: str, on_change: bool) -> None:
    rng = np.random.default_rng(7)
    sent = [
        message("st"[int(rng.integers(2))], {"x": {str(f): float(rng.normal()) for f in rng.integers(9, size=3)},
                "y": CLASSES[int(rng.integers(3))]})
        for _ in range(80)
    ]  # fmt: skip
    flow = lane_config(operator, Emit(every=0 if on_change else 7, on_change=on_change, min_gap=3))
    whole = run(flow, sent, [])
    assert run(flow, sent, [11, 12, 40, 60], [1, 3, 4]) == whole
    assert len(whole.selections) > 4

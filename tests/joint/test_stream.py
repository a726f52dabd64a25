"""Lanes of joint operators: what a lane gives, against an oracle that goes record by record; cut and restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.operators import registry
from sluiceway.operators.kinds.joint import JOINT
from sluiceway.operators.kinds.kind import Plan
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.lane import OutRecord
from sluiceway.schemas.records import Prediction, Request, Snapshot
from sluiceway.schemas.state import unpack_stream
from tests.stages.lanes import LANE, STEP, Message, Store, message, new_lane, parsed, polls

CLASSES = ("ham", "spam", "news")
SMALL: dict[str, Any] = {"warm_up": 6, "refit_every": 5, "cost": 0.05, "bins": 2, "absent": "missing", "explore": 0.25}
VARIANTS = [
    ("etana", {}),
    ("etana", {"absent": "zero", "points": 8, "explore": 0.0}),
    ("f-etana", {"binning": "widths", "cost": {"free": 0.2, "*": 0.03}}),
    ("f-etana", {"dependence": "tree", "candidates": 3}),
]
METRICS = ("mistakes", "mean_features", "mean_cost", "missing", "accuracy")
OUTPUTS = ("selections", "predictions", "requests", "dead_letters", "finals")


def plan_of(name: str, params: dict[str, Any], classes: Sequence[str] = CLASSES, emit: Emit | None = None) -> Plan:
    given = SMALL | params
    topics = {"instances", "selections", "predictions", "dead_letters"}
    topics |= {"requests"} if given["absent"] == "missing" else set()
    return Plan(
        flow="f", operator=name, cls=registry.get(name).cls, params=given, topics=frozenset(topics),
        emit=emit or Emit(every=4), classes=tuple(classes), max_pending=2,
    )  # fmt: skip


def run(plan: Plan, sent: Sequence[Message], cuts: Sequence[int] = (), restores: Sequence[int] = ()) -> dict[str, Any]:
    JOINT.refuse_unfit(plan)
    streams, store = JOINT.streams(plan), Store()
    decoder, lane = JOINT.decoder(plan, 8, "key"), new_lane(streams)
    given: dict[str, list[OutRecord]] = {name: [] for name in OUTPUTS}
    counts = [0, 0]
    for number, raw in enumerate(polls(sent, cuts)):
        if number in restores:
            store.commit(lane)
            decoder, lane = JOINT.decoder(plan, 8, "key"), store.lane(streams)
        output = lane.process(decoder.decode(raw))
        counts = [counts[0] + output.learnt, counts[1] + output.mistakes]
        for name in OUTPUTS:
            given[name] += getattr(output, name)
    return {**given, "counts": counts}


class Used(NamedTuple):
    """By one instance."""

    features: tuple[str, ...]
    cost: float
    missing: int


class Oracle:
    """One stream, a dictionary at a time."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.model = plan, plan.new()
        self.classes = [str(label) for label in plan.classes or ()]
        self.waiting: dict[str, tuple[dict[str, Any], int]] = {}
        self.seen = self.judged = self.wrong = self.version = 0
        self.requested: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.used: list[Used] = []
        """Of the instances since the last policy."""
        self.right: list[bool] = []
        """Of the labels since then, of instances that had been decided."""
        self.window, self.window_right = self.used, self.right
        """Of those before it."""

    def number(self, label: str) -> int:
        place = self.classes.index(label)
        return (-1, 1)[place] if len(self.classes) == 2 else place + 1

    def name(self, number: int) -> str:
        return self.classes[(number + 1) // 2 if len(self.classes) == 2 else number - 1]

    def instance(self, record: dict[str, Any], offset: int) -> dict[str, Any]:
        decision = self.model.classify_one(record["x"])
        known = self.model.classes if self.model.order or decision.posterior else ()
        told = {
            "flow": "f", "stream": "s", "id": record.get("id"), "seq": self.seen,
            "at": {"partition": LANE, "offset": offset}, "score": None, "label": None,
            "features_used": len(decision.features_used), "cost": decision.cost, "posterior": {},
        }  # fmt: skip
        if decision.label:
            known = self.policy_classes
            told["label"] = self.name(decision.label)
            told["posterior"] = {self.name(c): p for c, p in zip(known, decision.posterior, strict=True)}
            told["score"] = told["posterior"][told["label"]]
            default = 0.0 if self.plan.params["absent"] == "zero" else None
            lacking = sum(record["x"].get(f, default) is None for f in decision.features_used)
            self.used.append(Used(decision.features_used, decision.cost, lacking))
        self.seen += 1
        if "y" in record:
            self.learn(record["x"], record["y"], decision.label, offset)
        elif "id" in record:
            self.waiting.pop(record["id"], None)
            self.waiting[record["id"]] = record["x"], decision.label
            while len(self.waiting) > self.plan.max_pending:
                self.waiting.pop(next(iter(self.waiting)))
        return told

    policy_classes: tuple[int, ...] = ()

    def learn(self, x: dict[str, Any], y: str, said: int, offset: int) -> None:
        self.model.learn_one(x, self.number(y))
        self.version += 1
        if said:
            self.judged += 1
            self.wrong += self.number(y) != said
            self.right.append(self.number(y) == said)
        if self.model.policy_version == self.version:
            self.policy_classes = self.model.classes
            if self.used:
                self.window, self.window_right = self.used, self.right
            self.used, self.right = [], []
            wanted = list(self.model.reachable)
            if wanted != self.requested and "requests" in self.plan.topics:
                self.requested = wanted
                self.requests.append(
                    {"flow": "f", "stream": "s", "version": self.version, "seq": self.seen,
                     "at": {"partition": LANE, "offset": offset}, "features": wanted,
                     "explore": self.plan.params["explore"]}
                )  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        rows, right = (self.window, self.window_right) if self.window else (self.used, self.right)
        shares: dict[str, float] = {}
        for used in rows:
            for feature in used.features:
                shares[feature] = shares.get(feature, 0) + 1
        return {
            "version": self.version, "seen": self.seen, "mistakes": self.wrong,
            "selected": {feature: count / len(rows) for feature, count in shares.items()},
            "rank": {f: self.model.order.index(f) + 1 for f in shares if f in self.model.order},
            "mean_features": sum(len(used.features) for used in rows) / max(len(rows), 1),
            "mean_cost": pytest.approx(sum(used.cost for used in rows) / max(len(rows), 1)),
            "missing": sum(used.missing for used in rows),
            "accuracy": sum(right) / max(len(right), 1),
        }  # fmt: skip


def told(snapshot: dict[str, Any]) -> dict[str, Any]:
    Snapshot.model_validate(snapshot)
    weights = [entry["weight"] for entry in snapshot["selected"]]
    assert weights == sorted(weights)[::-1]
    return {
        **{name: snapshot[name] for name in ("version", "seen")},
        **{name: snapshot["metrics"][name] for name in METRICS},
        "selected": {entry["feature"]: entry["weight"] for entry in snapshot["selected"]},
        "rank": {entry["feature"]: entry["rank"] for entry in snapshot["selected"] if "rank" in entry},
    }


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_a_stored_stream_shows_what_its_snapshot_says(name: str, params: Any) -> None:
    plan, store = plan_of(name, params), Store()
    sent = [
        message("s", {"x": {"free": at % 3, "len": at % 2, "now": at % 5}, "y": CLASSES[at % 3]}) for at in range(40)
    ]
    lane = new_lane(JOINT.streams(plan))
    [snapshot] = [
        orjson.loads(record.value or b"")
        for raw in polls(sent, ())
        for record in lane.process(JOINT.decoder(plan, 8, "key").decode(raw)).selections[-1:]
    ]
    store.commit(lane)
    found = JOINT.stored_model(plan.cls, {"classes": list(CLASSES)}, unpack_stream(store.streams["s"]))
    shown = [
        {"feature": entry[0], "weight": entry[1], "since": entry[2], **(entry[3] if len(entry) > 3 else {})}
        for entry in found.selected
    ]
    assert shown == snapshot["selected"]
    assert any("rank" in entry for entry in shown)
    assert found.metrics.items() <= snapshot["metrics"].items()
    assert found.metrics["balanced_accuracy"] == snapshot["metrics"]["balanced_accuracy"]


features = st.dictionaries(
    st.sampled_from(["0", "7", "free", "len", "now"]), st.none() | st.integers(-4, 4), min_size=1, max_size=4
)
FEW = st.sampled_from(["e1", "e2", "e3"])


def records(classes: Sequence[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    labels = st.sampled_from(classes)
    instances = st.fixed_dictionaries({"x": features, "y": labels})
    unlabelled = st.fixed_dictionaries({"x": features, "id": FEW})
    later = st.fixed_dictionaries({"id": FEW, "y": labels})
    return st.lists(st.one_of(instances, instances, instances, unlabelled, later), min_size=8, max_size=60)


@pytest.mark.parametrize("classes", [CLASSES, CLASSES[:2]], ids=["three", "two"])
@pytest.mark.parametrize(("name", "params"), VARIANTS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_a_lane_gives_what_the_oracle_gives(name: str, params: Any, classes: Sequence[str], data: Any) -> None:
    plan, sent = plan_of(name, params, classes), data.draw(records(classes))
    got = run(plan, [message("s", record) for record in sent])
    stream, predictions, snapshots, orphans = Oracle(plan), [], [], []
    for at, record in enumerate(sent):
        version = stream.version
        if "x" in record:
            predictions.append(stream.instance(record, at * STEP))
        elif record["id"] in stream.waiting:
            x, said = stream.waiting.pop(record["id"])
            stream.learn(x, record["y"], said, at * STEP)
        else:
            orphans.append(at * STEP)
        if stream.version > version and stream.version % plan.emit.every == 0:
            snapshots.append(stream.snapshot())
    for one in parsed(got["predictions"]):
        Prediction.model_validate(one)
    for one in parsed(got["requests"]):
        Request.model_validate(one)
    assert parsed(got["predictions"]) == predictions
    assert parsed(got["requests"]) == stream.requests
    assert [record.offset for record in got["dead_letters"]] == orphans
    assert [told(one) for one in parsed(got["selections"])] == snapshots
    assert got["counts"] == [stream.judged, stream.wrong]
    if stream.version % plan.emit.every:
        assert [told(one) for one in parsed(got["finals"])] == [stream.snapshot()]


@pytest.mark.parametrize(("name", "params"), [*VARIANTS, ("etana", {"budget": 1.5, "max_features": 4})])
@given(data=st.data(), cuts=st.lists(st.integers(0, 60), max_size=5), restores=st.sets(st.integers(1, 5)))
@settings(max_examples=20, deadline=None)
def test_cutting_and_restoring_change_no_byte(name: str, params: Any, data: Any, cuts: Any, restores: Any) -> None:
    plan = plan_of(name, params, emit=Emit(every=3, on_change=True, min_gap=2))
    messages = [message("st"[at % 3 == 0], record) for at, record in enumerate(data.draw(records(CLASSES)))]
    assert run(plan, messages, cuts, sorted(restores)) == run(plan, messages)

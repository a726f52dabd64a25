"""Lanes of joint operators with many streams: a stream's records are decided and learnt as if it were alone."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sluiceway.errors import FlowError
from sluiceway.operators.kinds.joint import JOINT
from sluiceway.operators.kinds.kind import Plan
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.lane import OutRecord, RawPoll
from sluiceway.schemas.state import pack, unpack
from tests.joint.cases import each, make, same
from tests.joint.streams import batch_of, stream
from tests.joint.test_stream import CLASSES, OUTPUTS, VARIANTS, plan_of, run
from tests.stages.lanes import STEP, Message, Store, message, new_lane, poll, polls

STREAMS, MESSAGES = 1000, 9000
EMIT = Emit(every=5, on_change=True, min_gap=2)


def interleaved(streams: int, count: int, classes: Sequence[str], seed: int = 0) -> list[Message]:
    """Instances of streams chosen at random, some of which wait for their labels, and later labels, some of nothing."""
    rng = np.random.default_rng(seed)
    sent = []
    for number in range(count):
        label, kind = int(rng.integers(len(classes))), rng.random()
        record: dict[str, Any] = {"ts": number}
        if kind < 0.9:
            names = rng.choice(12, 5, replace=False).tolist()
            record["x"] = {f"{'n' * (name % 2)}{name}": round(float(rng.normal() + label), 1) for name in names}
            if rng.random() < 0.3:
                record["x"]["null"] = None if rng.random() < 0.5 else 0
        if kind < 0.8 or kind >= 0.9:
            record["y"] = classes[label]
        if kind >= 0.8:
            record["id"] = f"e{rng.integers(2)}"
        sent.append(message(f"ström-{rng.integers(streams)}", record))
    return sent


def given_by(plan: Plan, raw: RawPoll) -> dict[str, list[OutRecord]]:
    """By a new lane, of its whole input."""
    output = new_lane(JOINT.streams(plan)).process(JOINT.decoder(plan, 8, "key").decode(raw))
    return {name: list(getattr(output, name)) for name in OUTPUTS}


def only(raw: RawPoll, key: bytes | None) -> RawPoll:
    """The records of one stream, where they lie."""
    rows = [row for row, of in enumerate(raw.keys) if of == key]
    keys, values = [raw.keys[row] for row in rows], [raw.values[row] for row in rows]
    offsets = [raw.offsets[row] for row in rows]
    return RawPoll(raw.lane, raw.start, raw.stop, raw.end, keys, values, offsets, [at + STEP for at in offsets])


@pytest.mark.parametrize("classes", [CLASSES, CLASSES[:2]], ids=["three", "two"])
@pytest.mark.parametrize(("name", "params"), [VARIANTS[0], VARIANTS[3]])
def test_a_thousand_interleaved_streams_are_each_as_if_alone(name: str, params: Any, classes: Sequence[str]) -> None:
    plan, raw = plan_of(name, params, classes, EMIT), poll(interleaved(STREAMS, MESSAGES, classes), end=True)
    together = given_by(plan, raw)
    for output, records in together.items():
        assert records
        if output != "finals":
            assert [record.offset for record in records] == sorted(record.offset for record in records)
    keys = {key for key in raw.keys if key is not None}
    assert len(keys) > 0.9 * STREAMS
    for key in sorted(keys)[::25]:
        snapshots = b"f/" + key
        own = {
            output: [record for record in records if record.key in (key, snapshots)]
            for output, records in together.items()
        }
        assert given_by(plan, only(raw, key)) == own


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_cutting_and_restoring_change_no_byte_of_many_streams(name: str, params: Any) -> None:
    plan, sent = plan_of(name, params, emit=EMIT), interleaved(40, 800, CLASSES)
    whole = run(plan, sent)
    cuts = np.random.default_rng(1).integers(0, len(sent), 20).tolist()
    assert run(plan, sent, cuts) == whole
    assert run(plan, sent, cuts, range(0, 21, 4)) == whole


@pytest.mark.parametrize(("name", "params"), VARIANTS)
def test_what_many_streams_come_to_does_not_depend_on_cuts_and_commits(name: str, params: Any) -> None:
    plan, sent = plan_of(name, params, emit=EMIT), interleaved(30, 450, CLASSES)
    states = []
    for cuts in (list[int](), [70, 71, 200, 300], [*range(1, 450, 9)]):
        store, decoder, lane = Store(), JOINT.decoder(plan, 8, "key"), new_lane(JOINT.streams(plan))
        for raw in polls(sent, cuts):
            lane.process(decoder.decode(raw))
            store.commit(lane)
        keys = sorted({(one.key or b"").decode() for one in sent})
        states.append([lane.stream_state(key) for key in keys])
    assert states[0] == states[1] == states[2]


def test_a_state_of_another_version_is_refused() -> None:
    plan, store = plan_of("etana", {}), Store()
    lane = new_lane(JOINT.streams(plan))
    record = message("s", {"x": {"free": 1}, "y": "ham"})
    lane.process(JOINT.decoder(plan, 8, "key").decode(poll([record])))
    store.commit(lane)
    stored = store.streams["s"]
    stored.head = pack({**unpack(stored.head), "state_version": 1})
    with pytest.raises(FlowError, match="'s' cannot be used: stream state of version 1, this program knows 2"):
        store.lane(JOINT.streams(plan)).process(JOINT.decoder(plan, 8, "key").decode(poll([record], STEP)))


@each()
def test_a_copy_shares_nothing(name: str, variant: dict[str, Any]) -> None:
    records = stream("late", 4)
    model = make(name, variant)
    model.learn_many(batch_of(records[:100]))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        before = pack(model.state())
        assert same(other, model)
        other.learn_many(batch_of(records[100:]))
        assert pack(model.state()) == before

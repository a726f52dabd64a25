"""Laws of a lane: it gives what the slow oracle gives, however its input is cut and however often it is put away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.operators import registry
from sluiceway.operators.bank.bank import Bank
from sluiceway.operators.bank.chosen import Chosen
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.bank_snapshots import BankSnapshots
from sluiceway.operators.stages.emission import Emit
from tests.stages.lanes import Message, config, message, oracle, parsed, polls, run

streams = st.sampled_from(["a", "b", "ü/c"])
ids = st.sampled_from(["e1", "e2", "e3", "e4", "e5"])
labels = st.sampled_from([1, -1])
values = st.one_of(st.integers(-4, 4), st.floats(-1e3, 1e3).map(lambda value: round(value, 6)), st.just(1e60))
features = st.dictionaries(st.sampled_from(["0", "7", "free", "len", "now"]), values, max_size=4)
stamps: st.SearchStrategy[dict[str, int]] = st.one_of(st.just({}), st.integers(0, 2000).map(lambda ts: {"ts": ts}))


@st.composite
def sent(draw: st.DrawFn) -> Message:
    kind = draw(st.sampled_from(["labelled", "labelled", "labelled", "waits", "waits", "nameless", "label", "bad"]))
    stream = draw(streams)
    if kind == "bad":
        return Message(stream.encode(), b"{" + draw(st.binary(max_size=3)).hex().encode())
    record: dict[str, Any] = dict(draw(stamps))
    if kind in ("waits", "label"):
        record["id"] = draw(ids)
    if kind in ("labelled", "label"):
        record["y"] = draw(labels)
    if kind != "label":
        record["x"] = draw(features)
    return message(stream, record)


messages = st.lists(sent(), max_size=40)
emits = st.builds(
    Emit,
    every=st.sampled_from([0, 1, 2, 3, 5, 1000]),
    on_change=st.booleans(),
    min_gap=st.sampled_from([1, 2, 4]),
    final=st.booleans(),
    top=st.sampled_from([1, 1000]),
)
LEARNERS = sorted(name for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER)
operators = st.sampled_from(LEARNERS)


@st.composite
def configs(draw: st.DrawFn) -> LearnerConfig:
    return config(
        draw(operators),
        emit=draw(emits),
        scale=draw(st.sampled_from(["l2", "none", "rms-l2", "standard"])),
        intercept=draw(st.booleans()),
        max_scaled=draw(st.sampled_from([2, 100])),
        max_pending=draw(st.sampled_from([0, 1, 2, 10])),
    )


law = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@law
@given(configs(), messages)
def test_a_lane_gives_what_the_oracle_gives(flow: LearnerConfig, sent: list[Message]) -> None:
    got, wanted = run(flow, polls(sent, [])), oracle(flow, sent)
    assert parsed(got.selections) == _as_json(wanted.selections)
    assert parsed(got.finals) == _as_json(wanted.finals)
    assert parsed(got.predictions) == _as_json(wanted.predictions)
    assert [record.offset for record in got.predictions] == [record["at"]["offset"] for record in wanted.predictions]
    dead = [
        (record.offset, Message(record.key, record.value), dict(record.headers)["sluiceway.error.class"].decode())
        for record in got.dead_letters
    ]
    assert dead == wanted.dead


def _as_json(records: list[dict[str, Any]]) -> Any:
    return orjson.loads(orjson.dumps(records))


@law
@given(configs(), messages, st.lists(st.integers(0, 40), max_size=8), st.sets(st.integers(0, 8), max_size=4))
def test_cutting_and_restoring_change_no_byte(
    flow: LearnerConfig, sent: list[Message], cuts: list[int], restores: set[int]
) -> None:
    assert run(flow, polls(sent, cuts), sorted(restores)) == run(flow, polls(sent, []))


@pytest.mark.parametrize("operator", LEARNERS)
def test_labelled_instances_without_features_change_no_other_stream(operator: str) -> None:
    """Of a model that has no weight yet, beside one whose weights are of very different sizes."""
    flow = config(operator, emit=Emit(every=1), scale="none")
    first = message("b", {"x": {"0": 1e60, "7": 1e60, "free": 1}, "y": 1})
    empty = message("a", {"x": {}, "y": 1})
    sent = [first, empty, empty, message("b", {"x": {"free": 1}}), message("b", {"x": {"0": 1}})]
    got, wanted = run(flow, polls(sent, [])), oracle(flow, sent)
    assert parsed(got.predictions) == _as_json(wanted.predictions)
    assert parsed(got.selections) == _as_json(wanted.selections)


def test_restoring_changes_no_byte_of_a_growing_model() -> None:
    """With more weights than a model goes through at each row."""
    rng = np.random.default_rng(0)
    sent = []
    for _ in range(600):
        names = np.unique(np.floor(8000 ** rng.random(60)).astype(int))
        x = {f"w{name}": rng.normal() for name in names.tolist()}
        sent.append(message("a", {"x": x, "y": int(rng.choice([-1, 1]))}))
    flow = config("stsd", params={"proportion": 0.3}, emit=Emit(every=100, top=5))
    cuts = [200, 400, 500]
    given = run(flow, polls(sent, []))
    assert parsed(given.selections)[1]["n_selected"] > 512
    assert run(flow, polls(sent, cuts), [1, 2, 3]) == given


@law
@given(configs(), messages)
def test_a_version_has_at_most_one_snapshot(flow: LearnerConfig, sent: list[Message]) -> None:
    got = run(flow, polls(sent, range(len(sent))))
    made = [(record["stream"], record["version"]) for record in parsed(got.selections + got.finals)]
    assert len(set(made)) == len(made)


@law
@given(configs(), messages, st.integers(0, 40))
def test_replaying_up_to_its_source_gives_a_snapshot_again(
    flow: LearnerConfig, sent: list[Message], chosen: int
) -> None:
    got = run(flow, polls(sent, []))
    if not got.selections:
        return
    wanted = got.selections[chosen % len(got.selections)]
    upto = orjson.loads(wanted.value or b"")["source"]["instances"]["offset"] // 10
    again = run(flow, polls(sent[:upto], []))
    assert again.selections[-1] == wanted


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_lane_gives_nothing(rows: int) -> None:
    sent = [message("a", {"x": {"free": 1}})] * rows
    got = run(config(predictions=False), polls(sent, []))
    assert (got.selections, got.finals, got.predictions, got.dead_letters) == ([], [], [], [])


@law
@given(configs(), messages, st.none() | st.integers(200, 600))
def test_snapshots_made_together_are_as_one_by_one(
    flow: LearnerConfig, sent: list[Message], max_bytes: int | None
) -> None:
    """To the byte; also those that are cut."""
    flow = replace(flow, max_snapshot_bytes=max_bytes)
    together = run(flow, polls(sent, []))

    def one_by_one(maker: BankSnapshots, bank: Bank, models: NDArray[np.int64], chosen: Chosen) -> list[bytes | None]:
        return [None] * len(models)

    with patch.object(BankSnapshots, "_features", one_by_one):
        assert run(flow, polls(sent, [])) == together


def test_a_name_that_must_be_escaped_is_in_snapshots() -> None:
    sent = [message("a\\\"", {"x": {'q"\\\n': 1.0, "ü": 2.0}, "y": 1})] * 3
    given = run(config(emit=Emit(every=2)), polls(sent, []))
    first, final = parsed(given.selections + given.finals)
    assert {entry["feature"] for entry in first["selected"]} == {'q"\\\n', "ü"}
    assert (final["stream"], final["entered"], final["left"]) == ("a\\\"", [], [])

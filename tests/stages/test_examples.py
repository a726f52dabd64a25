"""What each member of a snapshot means, on examples small enough to check by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import orjson
import pytest

from sluiceway.errors import FlowError
from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.decode import Decoder
from tests.stages.lanes import (
    LANE,
    Message,
    Store,
    config,
    message,
    new_lane,
    parsed,
    poll,
    polls,
    put_away,
    run,
)

# the truncated perceptron: w += y x where y f <= 0, then all but the k largest |w| are dropped
PERCEPTRON = "perceptron-truncated"


def snapshots(flow: LearnerConfig, records: list[Any], cuts: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    got = run(flow, polls([message("mail", record) for record in records], cuts))
    return parsed(got.selections + got.finals)


def perceptron(k: int, emit: Emit, **options: Any) -> LearnerConfig:
    return config(PERCEPTRON, {"k": k}, emit, scale="none", **options)


def members(snapshot: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(snapshot[name] for name in names)


def test_version_counts_the_learnt_and_seen_counts_all() -> None:
    ys: list[dict[str, Any]] = [{}, {"y": 1}, {"y": None}, {"y": -1}, {}]
    records = [{"x": {"a": 1}, **y} for y in ys]
    got = snapshots(perceptron(2, Emit(every=1)), records)
    assert [members(one, "version", "seen", "reason") for one in got] == [(1, 2, "interval"), (2, 4, "interval")]
    assert [one["source"] for one in got] == [
        {"instances": {"partition": LANE, "offset": 20}},
        {"instances": {"partition": LANE, "offset": 40}},
    ]


def test_a_final_snapshot_stands_at_the_end_of_the_input() -> None:
    records = [{"x": {"a": 1}, "y": 1}, {"x": {"a": 1}}, {"x": {"a": 1}}]
    [final] = snapshots(perceptron(2, Emit(every=1000)), records)
    assert members(final, "version", "seen", "reason") == (1, 3, "final")
    assert final["source"] == {"instances": {"partition": LANE, "offset": 30}}


@pytest.mark.parametrize(("every", "final"), [(1, True), (1000, False)])
def test_no_final_snapshot_where_the_version_has_one_or_none_is_wanted(every: int, final: bool) -> None:
    got = snapshots(perceptron(2, Emit(every=every, final=final)), [{"x": {"a": 1}, "y": 1}, {"x": {"a": 1}}])
    assert [one["reason"] for one in got] == ["interval"][: every == 1]


def test_entered_left_and_since() -> None:
    records = [
        {"x": {"a": 1}, "y": 1},  # a = 1
        {"x": {"b": 3, "a": 0.5}, "y": -1},  # a = 0.5, b = -3: k = 1 keeps b
        {"x": {"a": 9}, "y": 1},  # a = 9, b dropped
        {"x": {"c": 20}, "y": 1},  # c = 20
        {"x": {"a": 50}, "y": 1},  # a = 50 once more
    ]
    got = snapshots(perceptron(1, Emit(every=1)), records)
    assert [members(one, "selected", "entered", "left") for one in got] == [
        ([{"feature": "a", "weight": 1.0, "since": 1}], ["a"], []),
        ([{"feature": "b", "weight": -3.0, "since": 2}], ["b"], ["a"]),
        ([{"feature": "a", "weight": 9.0, "since": 3}], ["a"], ["b"]),
        ([{"feature": "c", "weight": 20.0, "since": 4}], ["c"], ["a"]),
        ([{"feature": "a", "weight": 50.0, "since": 5}], ["a"], ["c"]),
    ]
    # against the previous *emitted* snapshot: a had left and come back in between
    third, final = snapshots(perceptron(1, Emit(every=3)), records)
    assert members(third, "entered", "left", "version") == (["a"], [], 3)
    assert members(final, "entered", "left", "version", "reason") == ([], [], 5, "final")
    assert final["selected"][0]["since"] == 5


def test_selected_is_sorted_by_size_and_cut_at_the_top() -> None:
    records = [{"x": {"a": 1, "b": -5, "c": 3}, "y": 1}]
    [snapshot] = snapshots(perceptron(3, Emit(every=1, top=2)), records)
    assert [entry["feature"] for entry in snapshot["selected"]] == ["b", "c"]
    assert snapshot["n_selected"] == 3
    assert sorted(snapshot["entered"]) == ["a", "b", "c"]


def test_ts_is_the_newest_so_far() -> None:
    records = [{"x": {}, "y": 1, "ts": 5}, {"x": {}, "y": 1}, {"x": {}, "ts": 9}, {"x": {}, "y": 1, "ts": 7}]
    assert [one["ts"] for one in snapshots(perceptron(1, Emit(every=1)), records)] == [5, 5, 9]


def test_mistakes_are_counted_before_learning() -> None:
    records = [{"x": {"a": 1}, "y": 1}, {"x": {"a": 1}, "y": 1}, {"x": {"a": 1}, "y": -1}, {"x": {"a": 2}}]
    [final] = snapshots(perceptron(1, Emit(every=0)), records)
    assert final["metrics"] == {"mistakes": 2, "error_rate": 2 / 3}


def test_emission_on_change_waits_for_the_gap() -> None:
    changes = [{"x": {name: 10.0 ** (at + 1)}, "y": 1} for at, name in enumerate("abcdef")]
    steady = [{"x": {"f": 1}, "y": 1}] * 5
    flow = perceptron(1, Emit(every=0, on_change=True, min_gap=2, final=False))
    for cuts in ((), (1,), (1, 2, 3, 4, 5, 6, 7)):
        got = snapshots(flow, changes + steady, cuts)
        assert [members(one, "version", "reason") for one in got] == [(2, "change"), (4, "change"), (6, "change")], cuts


def test_a_change_within_the_gap_is_told_at_the_end_of_the_gap_however_input_is_cut() -> None:
    records = [{"x": {"a": 1}, "y": 1}] + [{"x": {}, "y": 1}] * 6
    flow = perceptron(1, Emit(every=0, on_change=True, min_gap=3, final=False))
    for cut in range(len(records)):
        assert [one["version"] for one in snapshots(flow, records, (cut,))] == [3], cut


def test_an_interval_wins_over_a_change() -> None:
    flow = perceptron(1, Emit(every=2, on_change=True, final=False))
    got = snapshots(flow, [{"x": {name: 10.0 ** (at + 1)}, "y": 1} for at, name in enumerate("abcd")])
    assert [one["reason"] for one in got] == ["change", "interval", "change", "interval"]


def test_new_emission_settings_take_hold_at_a_learnt_row_whatever_the_polls() -> None:
    """Emission may be changed between runs: what is emitted then must not hang on where a poll ends."""
    before = [message("mail", {"x": {"a": 1}, "y": 1}), message("mail", {"x": {"b": 5}, "y": 1})]
    after = [message("mail", {"x": {"b": 1}, "y": y}) for y in (None, 1, None, 1, 1, None)]
    old = perceptron(1, Emit(every=1000, final=False))
    store = _store_after(old, before)
    for emit in (Emit(every=2, final=False), Emit(every=0, on_change=True, final=False)):
        new = dataclasses.replace(old, emit=emit)
        given = set()
        for cut in range(len(after) + 1):
            lane, decoder, got = store.lane(new), Decoder(8), []
            for part, first in ((after[:cut], 20), (after[cut:], 20 + 10 * cut)):
                got += lane.process(decoder.decode(poll(part, first))).selections
            given.add(tuple(got))
        assert len(given) == 1, emit


def _store_after(flow: LearnerConfig, sent: list[Message]) -> Store:
    lane, store = new_lane(flow), Store()
    lane.process(Decoder(8).decode(poll(sent)))
    store.commit(lane)
    return store


def test_predictions_are_numbered_per_stream_and_made_before_learning() -> None:
    sent = [message(stream, {"id": stream, "x": {"a": 2}, "y": 1}) for stream in "mnmnm"]
    got = run(perceptron(1, Emit()), polls(sent, [2]))
    assert [(one["stream"], one["seq"], one["at"]["offset"], one["score"]) for one in parsed(got.predictions)] == [
        ("m", 0, 0, 0.0), ("n", 0, 10, 0.0), ("m", 1, 20, 4.0), ("n", 1, 30, 4.0), ("m", 2, 40, 4.0),
    ]  # fmt: skip
    assert [record.key for record in got.predictions] == [b"m", b"n", b"m", b"n", b"m"]


def test_classes_name_the_predicted_labels() -> None:
    got = run(perceptron(1, Emit(), classes=("ham", "spam")), polls([message("m", {"x": {"a": 1}, "y": 1})] * 2, []))
    assert [one["label"] for one in parsed(got.predictions)] == ["ham", "spam"]


def test_snapshots_of_several_streams_come_in_the_order_of_the_input() -> None:
    sent = [message(stream, {"x": {"a": 1}, "y": 1}) for stream in "zayz"]
    got = run(perceptron(1, Emit(every=1)), polls(sent, []))
    assert [record.key for record in got.selections] == [b"f/z", b"f/a", b"f/y", b"f/z"]
    assert [record.offset for record in got.selections] == [0, 10, 20, 30]


def test_finals_come_in_the_order_of_the_streams_whether_awake_or_not() -> None:
    sent = [message(stream, {"x": {"a": 1}, "y": 1}) for stream in "zabz"]
    flow = perceptron(1, Emit(every=0))
    assert [record.key for record in run(flow, polls(sent, [1, 2, 3]), [1, 2, 3]).finals] == [b"f/z", b"f/a", b"f/b"]


def test_a_snapshot_too_large_loses_its_last_features() -> None:
    flow = perceptron(64, Emit(every=1), max_snapshot_bytes=3500)
    sent = [message("m", {"x": {f"{at:030d}": at + 1.0 for at in range(40)}, "y": 1})] * 2
    first, second = parsed(run(flow, polls(sent, [])).selections)
    assert (first["n_selected"], second["n_selected"]) == (40, 40)
    assert 0 < len(first["selected"]) < 40
    assert len(second["selected"]) == 40  # nothing has entered this time: there is room
    assert first["selected"][0]["weight"] == 40.0


@pytest.mark.parametrize("operator", ["ofs-partial", "perceptron-partial"])
def test_a_producer_that_sends_only_what_is_wanted_teaches_the_same(operator: str) -> None:
    flow = config(operator, params={"k": 2, "seed": 3}, emit=Emit(every=1, top=1), scale="none")
    rng = np.random.default_rng(4)
    values = rng.normal(size=(30, 5)).tolist()
    whole: list[Any] = [
        {"x": dict(zip("abcde", row, strict=True)), "y": 1 - 2 * (at % 2)} for at, row in enumerate(values)
    ]
    told = [one["wanted"] for one in snapshots(flow, whole)]
    assert {len(wanted) for wanted in told} <= {0, 1, 2}
    following = zip(whole[1:], told[:-1], strict=True)
    cut = [{**one, "x": {name: one["x"][name] for name in wanted}} for one, wanted in following]
    assert [members(one, "selected", "wanted") for one in snapshots(flow, [whole[0], *cut])] == [
        members(one, "selected", "wanted") for one in snapshots(flow, whole)
    ]
    assert sum(len(one["x"]) for one in cut) > 20


def test_what_is_wanted_is_said_whole_or_not_at_all() -> None:
    sent = [message("m", {"x": {f"{at:030d}": at + 1.0 for at in range(40)}, "y": 1})] * 4
    params = {"k": 20, "epsilon": 0.5, "seed": 3}
    whole = parsed(run(config("ofs-partial", params, Emit(every=1, top=1)), polls(sent, [])).selections)
    assert [len(one["wanted"]) for one in whole[1:]] == [20, 20, 20]
    small = config("ofs-partial", params, Emit(every=1), max_snapshot_bytes=1000)
    for one in parsed(run(small, polls(sent, [])).selections)[1:]:
        assert "wanted" not in one
        assert len(one["selected"]) < one["n_selected"]


def test_where_all_features_are_looked_at_none_is_wanted() -> None:
    assert all("wanted" not in one for one in snapshots(perceptron(1, Emit(every=1)), [{"x": {"a": 1}, "y": 1}]))


def test_a_lane_refuses_input_that_does_not_go_on_where_it_stands() -> None:
    lane, decoder = new_lane(perceptron(1, Emit())), Decoder(8)
    lane.process(decoder.decode(poll([message("m", {"x": {}, "y": 1})], 0)))
    before = lane.stream_state("m")
    for wrong in (0, 20):
        with pytest.raises(FlowError, match=rf"input goes on at {wrong}, but the model stands at 10"):
            lane.process(decoder.decode(poll([message("m", {"x": {}, "y": 1})], wrong)))
    assert (lane.stream_state("m"), lane.position) == (before, 10)
    awake = put_away(lane, perceptron(1, Emit()))
    with pytest.raises(FlowError, match="the model stands at 10"):
        awake.process(decoder.decode(poll([], 20)))
    awake.process(decoder.decode(poll([], 10)))


def test_a_new_lane_starts_wherever_the_flow_does() -> None:
    lane = new_lane(perceptron(1, Emit(every=1)))
    [record] = lane.process(Decoder(8).decode(poll([message("m", {"x": {}, "y": 1})], 500))).selections
    assert orjson.loads(record.value or b"")["source"]["instances"]["offset"] == 510

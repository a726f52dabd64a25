"""Labels that come later: whom they reach, what is counted, what becomes of those that reach nobody."""

from __future__ import annotations

from typing import Any

import pytest

from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.decode import Decoder
from tests.stages.lanes import Given, config, message, new_lane, parsed, polls, put_away, run

Records = list[dict[str, Any]]


def flow(records: Records, cuts: tuple[int, ...] = (), restores: tuple[int, ...] = (), **options: Any) -> Given:
    """A perceptron of three features without scaling, a snapshot a version."""
    given = config("perceptron-truncated", {"k": 3}, Emit(every=1, final=False), scale="none", **options)
    return run(given, polls([message("mail", record) for record in records], cuts), restores)


def weights(given: Given) -> list[dict[str, float]]:
    return [{one["feature"]: one["weight"] for one in snapshot["selected"]} for snapshot in parsed(given.selections)]


SPLITS = [((), ()), ((1,), ()), ((1,), (1,)), ((1, 2, 3), (1, 2, 3))]
split = pytest.mark.parametrize(("cuts", "restores"), SPLITS)


@split
def test_a_later_label_is_learnt_when_it_comes(cuts: tuple[int, ...], restores: tuple[int, ...]) -> None:
    got = flow([{"id": "e", "x": {"a": 2}}, {"id": "e", "y": -1}], cuts, restores)
    [snapshot] = parsed(got.selections)
    assert (snapshot["version"], snapshot["seen"]) == (1, 1)
    assert weights(got) == [{"a": -2.0}]
    assert [(one["id"], one["seq"]) for one in parsed(got.predictions)] == [("e", 0)]
    assert got.dead_letters == []


@split
def test_a_label_goes_to_the_newest_waiting_instance_of_its_id(
    cuts: tuple[int, ...], restores: tuple[int, ...]
) -> None:
    got = flow([{"id": "e", "x": {"a": 2}}, {"id": "e", "x": {"b": 3}}, {"id": "e", "y": 1}], cuts, restores)
    assert weights(got) == [{"b": 3.0}]


@split
def test_a_label_is_used_up(cuts: tuple[int, ...], restores: tuple[int, ...]) -> None:
    got = flow([{"id": "e", "x": {"a": 2}}, {"id": "e", "y": 1}, {"id": "e", "y": 1}], cuts, restores)
    assert len(got.selections) == 1
    [orphan] = got.dead_letters
    assert orphan.offset == 20


def test_an_orphan_keeps_its_bytes_and_changes_nothing() -> None:
    value = b' {"y" : 1 , "id":"nobody", "ts": 99, "note": "\xc3\xbc"} '
    records = [message("mail", {"x": {"a": 1}, "y": 1})]
    orphan = message("mail", {})._replace(value=value)
    given = config("perceptron-truncated", {"k": 3}, Emit(every=1), scale="none")
    got = run(given, polls([orphan, *records], []))
    [letter] = got.dead_letters
    assert (letter.offset, letter.key, letter.value) == (0, b"mail", value)
    headers = dict(letter.headers)
    assert headers["sluiceway.error.class"] == b"orphan-label"
    assert headers["sluiceway.error.stage"] == b"label"
    assert (headers["sluiceway.error.topic"], headers["sluiceway.error.offset"]) == (b"instances", b"0")
    [snapshot] = parsed(got.selections)
    assert (snapshot["version"], snapshot["seen"], snapshot["ts"]) == (1, 1, 0)
    assert [one["seq"] for one in parsed(got.predictions)] == [0]


def test_a_labelled_instance_does_not_wait() -> None:
    got = flow([{"id": "e", "x": {"a": 1}, "y": 1}, {"id": "e", "y": 1}])
    assert (len(got.selections), len(got.dead_letters)) == (1, 1)


def test_a_label_of_another_stream_reaches_nobody() -> None:
    given = config("perceptron-truncated", {"k": 3}, Emit(every=1), scale="none")
    sent = [message("a", {"id": "e", "x": {"f": 1}}), message("b", {"id": "e", "y": 1})]
    got = run(given, polls(sent, []))
    assert (got.selections, [letter.offset for letter in got.dead_letters]) == ([], [10])


@pytest.mark.parametrize("cuts", [(), (1, 2, 3, 4), (2,)])
def test_the_oldest_is_evicted_and_counted(cuts: tuple[int, ...]) -> None:
    waiting: Records = [{"id": str(at), "x": {"a": 1}} for at in range(4)]
    answers: Records = [{"id": str(at), "y": 1} for at in range(4)]
    got = flow([*waiting, *answers], cuts, max_pending=2)
    assert [letter.offset for letter in got.dead_letters] == [40, 50]  # 0 and 1 had to go
    assert [one["metrics"]["pending_evicted"] for one in parsed(got.selections)] == [2, 2]


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (3,)])
def test_a_snapshot_counts_only_evictions_before_it(cuts: tuple[int, ...]) -> None:
    waits: Records = [{"id": "p", "x": {"a": 1}}, {"id": "q", "x": {"a": 1}}]
    got = flow([{"x": {"a": 1}, "y": 1}, *waits, {"x": {"a": 1}, "y": 1}], cuts, max_pending=1)
    first, second = parsed(got.selections)
    assert "pending_evicted" not in first["metrics"]
    assert second["metrics"]["pending_evicted"] == 1


def test_a_repeated_id_becomes_the_newest() -> None:
    records: Records = [{"id": name, "x": {"a": 1}} for name in ("p", "q", "p", "r")]
    got = flow([*records, {"id": "p", "y": 1}, {"id": "q", "y": 1}], max_pending=2)
    assert [letter.offset for letter in got.dead_letters] == [50]  # q was the oldest


def test_a_lower_limit_holds_from_the_next_instance_on() -> None:
    def limited(limit: int) -> LearnerConfig:
        return config("perceptron-truncated", {"k": 3}, Emit(every=1, final=False), scale="none", max_pending=limit)

    waiting: Records = [{"id": name, "x": {"a": 1}} for name in ("p", "q", "r", "s")]
    labels: Records = [{"id": name, "y": 1} for name in ("p", "q", "r", "s")]
    first, second = polls([message("mail", record) for record in waiting + labels], (3,))
    lane = new_lane(limited(3))
    lane.process(Decoder(8).decode(first))
    lane = put_away(lane, limited(2))
    given = lane.process(Decoder(8).decode(second))
    assert [letter.offset for letter in given.dead_letters] == [40, 50]  # p and q were pushed out by s
    assert parsed(given.selections)[-1]["metrics"]["pending_evicted"] == 2


def test_nothing_waits_where_nothing_may() -> None:
    got = flow([{"id": "e", "x": {"a": 1}}, {"id": "e", "y": 1}], max_pending=0)
    assert (got.selections, len(got.dead_letters)) == ([], 1)


@pytest.mark.parametrize(("cuts", "restores"), [*SPLITS, ((5,), (1,))])
def test_a_mistake_is_judged_by_the_published_score(cuts: tuple[int, ...], restores: tuple[int, ...]) -> None:
    """When `e` came the model knew nothing (score 0: wrong); when its label comes the model would be right."""
    records: Records = [
        {"id": "e", "x": {"a": 1}},
        {"x": {"a": 1}, "y": 1},
        {"id": "e", "y": 1},
        {"id": "g", "x": {"a": 1}},
        {"x": {"a": 3}, "y": -1},
        {"id": "g", "y": 1},  # published: +1, right; now the model says -2
    ]
    got = flow(records, cuts, restores)
    assert [one["metrics"]["mistakes"] for one in parsed(got.selections)] == [1, 2, 3, 3]
    assert [one["score"] for one in parsed(got.predictions)] == [0.0, 0.0, 1.0, 3.0]


def test_the_label_may_carry_the_newer_ts() -> None:
    got = flow([{"id": "e", "x": {"a": 1}, "ts": 5}, {"id": "e", "y": 1, "ts": 8}])
    assert parsed(got.selections)[0]["ts"] == 8


def test_a_waiting_instance_brings_its_names_into_a_batch_that_lacks_them() -> None:
    got = flow([{"id": "e", "x": {"rare": 2}}, {"x": {"a": 1}, "y": 1}, {"id": "e", "y": 1}], (1,))
    assert weights(got)[-1] == {"rare": 2.0, "a": 1.0}


def test_an_integer_id_is_the_same_as_its_text() -> None:
    got = flow([{"id": 17, "x": {"a": 1}}, {"id": "17", "y": 1}])
    assert len(got.selections) == 1


def test_a_waiting_instance_of_zeros_can_be_labelled() -> None:
    got = flow([{"id": "e", "x": {}}, {"id": "e", "y": 1}])
    assert [one["version"] for one in parsed(got.selections)] == [1]

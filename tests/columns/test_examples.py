"""What each member of a snapshot and of a verdict means in a flow of columns, on examples checked by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sluiceway.operators.stages.emission import Emit
from tests.columns.lanes import columns
from tests.columns.messages import stream
from tests.stages.lanes import LANE, STEP, Message, message, parsed, polls

DISCRETE = {"measure": "symmetric-uncertainty"}
TARGET = {"target": [1, 1, 1, 1, -1, -1, -1, -1], "ts": 5}
NOISY = {"name": "noisy", "values": [1, 1, 1, 1, 1, 1, 0, 0]}
CLEAN = {"name": "clean", "values": [1, 1, 1, 1, 1, 0, 0, 0], "ts": 9}
COPY = {"name": "copy", "size": 8, "at": [5, 6, 7], "values": [2, 2, 2]}
FLAT = {"name": "flat", "values": [3] * 8}
NOTHING = {"name": "nothing", "values": [0, 1] * 4}
STORY = [TARGET, NOISY, CLEAN, COPY, FLAT, NOTHING]


def members(record: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(record[name] for name in names)


def sent(records: list[Any]) -> list[Message]:
    return [message("s", record) for record in records]


def test_versions_generations_and_places() -> None:
    got = columns("saola", DISCRETE, Emit(every=2)).snapshots([*STORY, TARGET, COPY])
    assert [members(one, "version", "seen", "generation", "reason", "ts") for one in got] == [
        (2, 2, 0, "interval", 9),
        (4, 4, 0, "interval", 9),
        (6, 6, 1, "interval", 9),
    ]
    assert [one["source"] for one in got] == [
        {"features": {"partition": LANE, "offset": STEP * after}} for after in (3, 5, 8)
    ]


def test_who_entered_who_left_and_who_made_it_redundant() -> None:
    got = columns("saola", DISCRETE, Emit(every=1)).snapshots(STORY)
    names = [[entry["feature"] for entry in one["selected"]] for one in got]
    assert names == [["noisy"], ["clean"], ["clean"], ["clean"], ["clean"]]
    assert [members(one, "entered", "left", "redundant") for one in got] == [
        (["noisy"], [], {}),
        (["clean"], ["noisy"], {"noisy": ["clean"]}),
        *[([], [], {})] * 3,
    ]
    assert [one["selected"][0]["since"] for one in got] == [1, 2, 2, 2, 2]
    assert got[-1]["selected"][0]["weight"] == pytest.approx(0.562, abs=5e-4)
    counted = {"irrelevant": 2, "constant": 1, "single_class_target": 0, "redundant": 2, "columns_left_out": 0}
    assert got[-1]["metrics"] == counted
    assert got[-1]["params"]["measure"] == "symmetric-uncertainty"


def test_against_the_last_snapshot_that_was_made() -> None:
    """noisy came and went between two snapshots: neither tells of it."""
    [only] = columns("saola", DISCRETE, Emit(every=3)).snapshots([TARGET, NOISY, CLEAN, COPY])
    assert members(only, "entered", "left", "redundant") == (["clean"], [], {})


def test_a_new_target_forgets() -> None:
    """What left because of the target was made redundant by nobody."""
    got = columns("saola", DISCRETE, Emit(every=0, on_change=True, final=True)).snapshots([TARGET, NOISY, TARGET, FLAT])
    assert [members(one, "version", "generation", "reason", "entered", "left", "redundant") for one in got] == [
        (1, 0, "change", ["noisy"], [], {}),
        (2, 1, "change", [], ["noisy"], {"noisy": []}),
    ]
    got = columns("saola", DISCRETE, Emit(every=1)).snapshots([TARGET, NOISY, TARGET, NOISY, CLEAN])
    assert [members(one, "version", "generation", "entered", "left") for one in got] == [
        (1, 0, ["noisy"], []),
        (2, 1, [], []),
        (3, 1, ["clean"], ["noisy"]),
    ]
    assert got[1]["selected"][0]["since"] == 2


def test_a_change_is_told_where_it_is_seen() -> None:
    """noisy has entered at version 1, but a change waits for the gap; by then clean is there instead."""
    got = columns("saola", DISCRETE, Emit(every=0, on_change=True, min_gap=2, final=False)).snapshots(STORY)
    assert [members(one, "version", "entered") for one in got] == [(2, ["clean"])]
    # the target that makes the selection empty is a change too, at the version of the column before it
    got = columns("saola", DISCRETE, Emit(every=0, on_change=True, min_gap=2)).snapshots([*STORY, TARGET])
    last = got[-1]
    assert members(last, "version", "generation", "left", "reason") == (5, 1, ["clean"], "change")
    assert last["source"]["features"]["offset"] == STEP * 7


def test_verdicts() -> None:
    got = columns("saola", DISCRETE).whole(sent([*STORY, TARGET, CLEAN]))
    assert {record.key for record in got.verdicts} == {b"s"}
    told = [members(one, "feature", "kept", "reason", "by", "removed", "returned") for one in parsed(got.verdicts)]
    assert told == [
        ("noisy", True, "selected", [], {}, []),
        ("clean", True, "selected", [], {"noisy": ["clean"]}, []),
        ("copy", False, "redundant", ["clean"], {}, []),
        ("flat", False, "irrelevant: the column is constant", [], {}, []),
        ("nothing", False, "irrelevant", [], {}, []),
        ("clean", True, "selected", [], {}, []),
    ]
    places = [(one["version"], one["generation"], one["at"]["offset"]) for one in parsed(got.verdicts)]
    assert places == [(n, 0, STEP * n) for n in range(1, 6)] + [(6, 1, STEP * 7)]
    assert all(one["at"]["partition"] == LANE for one in parsed(got.verdicts))
    assert [record.offset for record in got.verdicts] == [place[2] for place in places]


def test_columns_that_do_not_fit_change_nothing() -> None:
    misfits = [
        ({"name": "short", "values": [1, 2]}, "column 'short' has 2 rows, the target has 8"),
        ({"name": "long", "size": 2**40, "at": [1], "values": [1]}, f"has {2**40} rows, the target has 8"),
        ({**CLEAN, "ts": 99}, "column 'clean' is selected already"),
        ({"target": []}, "the target has no rows"),
    ]
    records: list[Any] = [FLAT, TARGET, CLEAN]
    records += [record for record, _ in misfits]
    got = columns("saola", DISCRETE, Emit(every=2)).whole(sent([*records, NOTHING]))
    dead = [(record.offset, dict(record.headers)) for record in got.dead_letters]
    assert [offset for offset, _ in dead] == [0, *(STEP * n for n in range(3, 7))]
    reasons = ["has come before any target", *(words for _, words in misfits)]
    for (_, headers), words in zip(dead, reasons, strict=True):
        assert headers["sluiceway.error.class"] == b"bad-column"
        assert headers["sluiceway.error.stage"] == b"select"
        assert words in headers["sluiceway.error.message"].decode()
    assert [record.value for record in got.dead_letters][1:] == [value for _, value in sent(records[3:])]
    [snapshot] = parsed(got.selections)
    assert members(snapshot, "version", "seen", "ts", "generation") == (2, 2, 9, 0)


def test_a_single_class_says_so() -> None:
    got = columns("saola", DISCRETE, Emit(every=1)).whole(sent([{"target": ["only"] * 8}, NOISY]))
    assert parsed(got.verdicts)[0]["reason"] == "irrelevant: the target has a single value"
    assert parsed(got.selections)[0]["metrics"]["single_class_target"] == 1


THREE = ["low", "mid", "high", "low", "mid", "high", "low", "mid"]
NUMBERED = [0, 1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("classes", [THREE, NUMBERED])
@pytest.mark.parametrize(
    ("operator", "params"), [("saola", {}), ("saola-order-free", {}), ("alpha-investing", {}), ("osfs", {})]
)
def test_three_classes_are_no_numbers(operator: str, params: dict[str, Any], classes: list[Any]) -> None:
    """Whatever number they had been given, another would correlate otherwise."""
    got = columns(operator, params, Emit(every=1)).whole(sent([TARGET, {"target": classes}, NOISY]))
    [dead] = got.dead_letters
    assert dead.offset == STEP
    message = dict(dead.headers)["sluiceway.error.message"].decode()
    assert message.startswith("the target has 3 classes, which have no order")
    assert parsed(got.selections)[-1]["generation"] == 0, "the target before it stands"
    by_table = pa.table({"y": classes, "a": [1.0] * 8}).replace_schema_metadata({"sluiceway.target": "y"})
    poll = polls([Message(b"s", stream(by_table))], [])[0]
    poll.arrow = frozenset([0])
    [refused] = columns(operator, params).run([poll]).dead_letters
    assert dict(refused.headers)["sluiceway.error.message"].startswith(b"the target has 3 classes")


@pytest.mark.parametrize(
    ("operator", "params"),
    [("saola", DISCRETE), ("saola-order-free", DISCRETE), ("fcbf", {}), ("osfs", {"test": "g2"})],
)
def test_three_classes_of_discrete_data(operator: str, params: dict[str, Any]) -> None:
    kind = columns(operator, params, Emit(every=1))
    orders = [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0]]
    values = [0, 1, 2, 0, 1, 2, 0, 2]
    told = []
    for order in orders:
        target, column = [THREE[at] for at in order], [values[at] for at in order]
        told.append(kind.snapshots([{"target": target}, {"name": "x", "values": column}])[-1]["selected"])
    assert told[0] == told[1]


def test_three_numbers_are_numbers() -> None:
    got = columns("saola", {}, Emit(every=1), numbers=True).whole(sent([{"target": NUMBERED}, NOISY]))
    assert not got.dead_letters


def test_streams_are_apart() -> None:
    """Each its own target, its own versions; output in the order of the input."""
    other = [("b", {"target": [1, 2]}), ("b", {"name": "x", "values": [1, 2]})]
    both: list[tuple[str, Any]] = [("a", TARGET), *other, ("a", NOISY), ("a", CLEAN)]
    got = columns("saola", DISCRETE, Emit(every=1)).whole([message(*one) for one in both])
    assert [(one["stream"], one["version"]) for one in parsed(got.selections)] == [("b", 1), ("a", 1), ("a", 2)]
    assert [record.key for record in got.selections] == [b"f/b", b"f/a", b"f/a"]


def test_a_final_snapshot() -> None:
    got = columns("saola", DISCRETE, Emit(every=4)).whole(sent(STORY))
    [final] = parsed(got.finals)
    assert members(final, "version", "reason", "generation") == (5, "final", 0)
    assert final["source"]["features"]["offset"] == STEP * len(STORY)
    assert not columns("saola", DISCRETE, Emit(every=5)).whole(sent(STORY)).finals
    assert not columns("saola", DISCRETE).whole(sent([TARGET])).finals

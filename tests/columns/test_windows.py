"""The windowed flow against a plain oracle: gather labelled instances, transpose by feature key, run the selector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluiceway.errors import FlowError
from sluiceway.operators import registry
from sluiceway.operators.kernels.keys import feature_keys
from tests.columns.lanes import windows
from tests.stages.lanes import LANE, STEP, Message, Store, message, new_lane, parsed, polls

NAMES = ["0", "2", "10", "free", "len", "now", "a", "b"]


def instances(seed: int, count: int = 120) -> list[dict[str, Any]]:
    """Sparse instances, most of them labelled; a few features tell the label; "late" begins half-way."""
    rng = np.random.default_rng(seed)
    records = []
    for number in range(count):
        y = int(rng.choice([-1, 1]))
        x = {name: float(rng.integers(-2, 3)) for name in rng.permutation(NAMES).tolist() if rng.random() < 0.7}
        x["tells"] = y + round(float(rng.normal()), 2)
        if number > count // 2:
            x["late"] = 2 * y + round(float(rng.normal()), 2)
        record: dict[str, Any] = {"x": x, "ts": number}
        if rng.random() < 0.8:
            record["y"] = y
        records.append(record)
    return records


def oracle(records: list[dict[str, Any]], operator: str, params: dict[str, Any], size: int, slide: int) -> list[Any]:
    """(version, seen, ts, source, selection with since, columns) of each window."""
    made, window, learnt, ts = [], [], 0, 0
    since: dict[str, int] = {}
    for number, record in enumerate(records):
        ts = max(ts, record["ts"])
        if "y" not in record:
            continue
        window.append(record)
        learnt += 1
        if len(window) < size:
            continue
        names = sorted({name for one in window for name, value in one["x"].items() if value})
        keys = dict(zip(names, feature_keys(names).tolist(), strict=True))
        model = registry.get(operator).cls(**params)
        model.begin([one["y"] for one in window])
        for name in sorted(names, key=keys.__getitem__):
            model.learn_feature(name, [one["x"].get(name, 0.0) for one in window])
        since = {entry.feature: since.get(entry.feature, learnt) for entry in model.selected}
        selected = [(entry.feature, entry.weight, since[entry.feature]) for entry in model.selected]
        made.append((learnt, number + 1, ts, (number + 1) * STEP, selected, len(names)))
        window = window[slide:]
    return made


def told(snapshot: dict[str, Any]) -> tuple[Any, ...]:
    selected = [(entry["feature"], entry["weight"], entry["since"]) for entry in snapshot["selected"]]
    source = snapshot["source"]["instances"]
    assert source["partition"] == LANE
    return (
        *(snapshot[name] for name in ("version", "seen", "ts")),
        source["offset"],
        selected,
        snapshot["metrics"]["columns"],
    )


CASES = [
    ("saola", {}, 20, 20),
    ("saola", {}, 20, 7),
    ("saola", {"measure": "symmetric-uncertainty"}, 25, 1),
    ("saola-order-free", {}, 30, 10),
    ("fcbf", {}, 30, 30),
    ("alpha-investing", {}, 40, 20),
    ("osfs", {}, 40, 40),
    ("fast-osfs", {}, 40, 40),
]


@pytest.mark.parametrize(("operator", "params", "size", "slide"), CASES)
def test_a_window_is_the_selector_on_its_columns(operator: str, params: dict[str, Any], size: int, slide: int) -> None:
    records = instances(size + slide)
    got = windows(operator, params, size=size, slide=slide).snapshots(records)
    wanted = oracle(records, operator, params, size, slide)
    assert len(wanted) >= 2
    assert any(selected for *_, selected, _ in wanted)
    assert [told(one) for one in got] == wanted
    assert all(one["params"] == {**one["params"], "window": size, "slide": slide} for one in got)
    assert {(one["reason"], one["generation"], "redundant" in one) for one in got} == {("interval", 0, False)}


def test_more_columns_than_a_block() -> None:
    rng = np.random.default_rng(0)
    records = [
        {"x": {f"f{at}": float(value) for at, value in enumerate(rng.normal(size=700))}, "y": int(rng.choice([-1, 1])),
         "ts": 0}
        for _ in range(24)
    ]  # fmt: skip
    got = windows(size=12, slide=12).snapshots(records)
    assert [told(one) for one in got] == oracle(records, "saola", {}, 12, 12)


def test_entered_and_left_are_against_the_window_before() -> None:
    one = [{"x": {"a": y}, "y": y, "ts": 0} for y in (1, -1, 1, -1, 1, -1)]
    other = [{"x": {"b": y}, "y": y, "ts": 0} for y in (1, -1, 1, -1, 1, -1)]
    got = windows(size=6, slide=6).snapshots([*one, *other, *other])
    assert [(snap["entered"], snap["left"], snap["selected"][0]["since"]) for snap in got] == [
        (["a"], [], 6),
        (["b"], ["a"], 12),
        ([], [], 12),
    ]


def test_a_window_cut_short_says_nothing() -> None:
    got = windows(size=4, slide=4).whole([message("s", {"x": {"a": 1}, "y": 1})] * 3)
    assert not got.selections
    assert not got.finals


def test_a_later_label_puts_its_instance_into_the_window() -> None:
    """The same windows as if the instance had come with its label when the label came."""
    ys = [1, -1, -1, 1, 1, -1, 1, -1, -1, 1, -1, 1]
    at_once = [{"x": {"a": y, "b": number % 3}, "y": y} for number, y in enumerate(ys)]
    later: list[dict[str, Any]] = []
    for number, record in enumerate(at_once):
        later += [{"x": record["x"], "id": f"e{number}"}, {"id": f"e{number}", "y": record["y"]}]
    kind = windows("saola", {"significance": 0.5}, size=6, slide=3)
    got, wanted = kind.snapshots(later), kind.snapshots(at_once)
    assert [(one["version"], one["selected"]) for one in got] == [(one["version"], one["selected"]) for one in wanted]
    assert [one["version"] for one in got] == [6, 9, 12]
    assert [one["seen"] for one in got] == [6, 9, 12]


def test_labels_that_nobody_waits_for() -> None:
    sent = [message("s", {"x": {"a": 1}, "id": f"e{number}"}) for number in range(3)]
    sent += [message("s", {"id": "e0", "y": 1}), message("s", {"id": "e2", "y": 1}), message("s", {"id": "no", "y": 1})]
    sent += [message("s", {"x": {"a": -1}, "y": -1})] * 3
    got = windows(size=4, slide=4, max_pending=2).whole(sent)
    assert [Message(dead.key, dead.value) for dead in got.dead_letters] == [sent[3], sent[5]]
    assert {dict(dead.headers)["sluiceway.error.class"] for dead in got.dead_letters} == {b"orphan-label"}
    [snapshot] = parsed(got.selections)
    assert snapshot["metrics"]["pending_evicted"] == 1
    assert (snapshot["version"], snapshot["seen"]) == (4, 6)


def test_state_names_what_the_window_uses_however_the_input_is_cut() -> None:
    """Most instances have no label, and each a feature of its own: the window must not remember those."""
    kind = windows(size=10, slide=3)
    messages = [
        message("s", {"x": {f"own-{number}": 1, "shared": number % 4, "zero": 0}, "y": 1 if number % 5 else None})
        for number in range(300)
    ]
    states: list[Any] = []
    for cut in ([], [150], range(300)):
        lane, decoder = new_lane(kind.config), kind.decoder()
        for raw in polls(messages, cut):
            lane.process(decoder.decode(raw))
        states.append(lane.stream_state("s"))
    assert states[0] == states[1] == states[2]
    [block] = states[0].pieces.values()
    assert len(block["y"]) // 8 < 10
    assert len(block["names"]) <= 10


def test_another_window_is_refused() -> None:
    one = windows(size=100, slide=100)
    lane = new_lane(one.config)
    messages = [message("s", {"x": {"a": number}, "y": 1}) for number in range(160)]
    first, second = polls(messages, [80])
    lane.process(one.decoder().decode(first))
    store = Store()
    store.commit(lane)
    for other in (windows(size=50, slide=50), windows(size=100, slide=10)):
        with pytest.raises(FlowError, match="a window of 100 instances sliding by 100 was begun"):
            store.lane(other.config).process(other.decoder().decode(second))

"""Laws of the flows of selectors: no byte of their output depends on how the input is cut, or how often it is put away.

Input is random: several streams, new targets in the middle, and every kind of record that cannot be used.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluiceway.operators import registry
from sluiceway.operators.kinds.column_selector import COLUMN_SELECTOR
from sluiceway.operators.stages.emission import Emit
from tests.columns.lanes import Kind, columns, selecting, windows
from tests.stages.lanes import STEP, Message, message, parsed, polls

ROWS = 8
SELECTORS = sorted(name for name, entry in registry.OPERATORS.items() if entry.kind is COLUMN_SELECTOR)

streams = st.sampled_from(["a", "b", "ü/c"])
names = st.sampled_from(["0", "7", "free", "len", "now", "more", "ß"])
small = st.integers(0, 3)
emits = st.builds(
    Emit,
    every=st.sampled_from([0, 1, 2, 3, 5, 1000]),
    on_change=st.booleans(),
    min_gap=st.sampled_from([1, 2, 4]),
    final=st.booleans(),
    top=st.sampled_from([1, 1000]),
)
stamps: st.SearchStrategy[dict[str, int]] = st.one_of(st.just({}), st.integers(0, 2000).map(lambda ts: {"ts": ts}))
targets = st.one_of(
    st.permutations([0, 0, 0, 0, 1, 1, 1, 1]),
    st.just(["no"] * 4 + ["yes"] * 4),
    st.just([True] * 3 + [False] * 5),
    st.just([1] * ROWS),
)
telling = st.builds(  # mostly the first target, so that columns are relevant and redundant
    lambda wrong, scale: [(0 if row < 4 else scale) if row not in wrong else 9 for row in range(ROWS)],
    st.sets(st.integers(0, ROWS - 1), max_size=3),
    st.sampled_from([1, 2, 0.5]),
)
dense = st.one_of(telling, telling, st.lists(small, min_size=ROWS, max_size=ROWS), st.just([4] * ROWS))
bad_columns = st.one_of(
    st.lists(small, max_size=ROWS + 2).map(lambda values: {"name": "short", "values": values}),
    st.just({"name": "yes", "values": [True] * ROWS}),
    st.just({"name": "none", "values": [None] * ROWS}),
    st.just({"name": "", "values": [1] * ROWS}),
    st.just({"name": "far", "size": ROWS, "at": [ROWS], "values": [1]}),
    st.just({"name": "twice", "size": ROWS, "at": [1, 1], "values": [1, 2]}),
    st.just({"name": "huge", "size": 2**50, "at": [1], "values": [1]}),
    st.just({"target": []}),
    st.just({"target": [1.5]}),
    st.just({"name": "late", "values": [1] * ROWS, "ts": -1}),
)
broken = st.sampled_from([b"{", None, b"", b'{"name":"n","values":[NaN]}', b'{"name":"n","values":[1e999]}', b"\xff"])


@st.composite
def column(draw: st.DrawFn) -> dict[str, Any]:
    record: dict[str, Any] = {"name": draw(names), **draw(stamps)}
    values = draw(dense)
    if draw(st.booleans()):
        at = [row for row in range(ROWS) if values[row]]
        return {**record, "size": ROWS, "at": at, "values": [values[row] for row in at]}
    return {**record, "values": values}


@st.composite
def sent(draw: st.DrawFn) -> Message:
    stream = draw(streams)
    kind = draw(st.sampled_from(["target", "bad", "broken", *["column"] * 9]))
    if kind == "broken":
        return Message(stream.encode(), draw(broken))
    if kind == "target":
        return message(stream, {"target": draw(targets), **draw(stamps)})
    return message(stream, draw(column() if kind == "column" else bad_columns))


@st.composite
def column_messages(draw: st.DrawFn) -> list[Message]:
    """Mostly after a target; sometimes a column comes before it."""
    first = {"target": [0] * 4 + [1] * 4}
    begun = [message(stream, first) for stream in ("a", "b", "ü/c") if draw(st.integers(0, 9))]
    return begun + draw(st.lists(sent(), max_size=40))


LENIENT: dict[str, Any] = {"significance": 0.5}
MEASURED: dict[str, Any] = {"measure": "symmetric-uncertainty"}


@st.composite
def column_kinds(draw: st.DrawFn) -> Kind:
    operator = draw(st.sampled_from(SELECTORS))
    takes_measure = "measure" in inspect.signature(registry.get(operator).cls).parameters
    discrete = takes_measure and draw(st.booleans())
    return columns(operator, MEASURED if discrete else {}, draw(emits))


ids = st.sampled_from(["e1", "e2", "nobody"])
instance_values = st.one_of(st.integers(-2, 2), st.floats(-9, 9).map(lambda value: round(value, 3)))


@st.composite
def instance_messages(draw: st.DrawFn) -> list[Message]:
    messages = []
    for _ in range(draw(st.integers(0, 60))):
        stream, dice = draw(streams), draw(st.integers(0, 11))
        x = draw(st.dictionaries(names, instance_values, max_size=4))
        record: dict[str, Any] = {"x": x, **draw(stamps)}
        if dice == 0:
            record = {"id": draw(ids), "y": draw(st.sampled_from([1, -1]))}
        elif dice == 1:
            messages.append(Message(stream.encode(), b"{"))
            continue
        elif dice < 4:
            record["id"] = draw(ids)
        else:
            record["y"] = draw(st.sampled_from([1, -1]))
        messages.append(message(stream, record))
    return messages


@st.composite
def window_kinds(draw: st.DrawFn) -> Kind:
    size = draw(st.integers(4, 9))
    params = draw(st.sampled_from([LENIENT, MEASURED]))
    pending = draw(st.sampled_from([0, 1, 10_000]))
    return windows("saola", params, size=size, slide=draw(st.integers(1, size)), max_pending=pending)


@st.composite
def selecting_kinds(draw: st.DrawFn) -> Kind:
    params = draw(st.sampled_from([LENIENT, MEASURED]))
    refresh = draw(st.sampled_from([1, 2, 3, 7, 1000]))
    return selecting({**params, "refresh": refresh, "max_features": draw(st.sampled_from([3, 1000]))}, draw(emits))


cuts = st.lists(st.integers(0, 60), max_size=8)
restores = st.sets(st.integers(0, 8), max_size=4)
law = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@law
@given(column_kinds(), column_messages(), cuts, restores)
def test_cutting_and_restoring_change_no_byte_of_columns(
    kind: Kind, messages: list[Message], cut: list[int], restored: set[int]
) -> None:
    assert kind.run(polls(messages, cut), sorted(restored)) == kind.whole(messages)


@law
@given(column_kinds(), column_messages())
def test_one_message_a_poll_gives_the_same_columns(kind: Kind, messages: list[Message]) -> None:
    assert kind.run(polls(messages, range(len(messages))), range(len(messages))) == kind.whole(messages)


@law
@given(window_kinds(), instance_messages(), cuts, restores)
def test_cutting_and_restoring_change_no_byte_of_windows(
    kind: Kind, messages: list[Message], cut: list[int], restored: set[int]
) -> None:
    assert kind.run(polls(messages, cut), sorted(restored)) == kind.whole(messages)


@law
@given(selecting_kinds(), instance_messages(), cuts, restores)
def test_cutting_and_restoring_change_no_byte_of_a_doubly_streaming_selector(
    kind: Kind, messages: list[Message], cut: list[int], restored: set[int]
) -> None:
    assert kind.run(polls(messages, cut), sorted(restored)) == kind.whole(messages)


@law
@given(st.one_of(column_kinds()), column_messages())
def test_every_column_has_a_verdict_or_is_a_dead_letter(kind: Kind, messages: list[Message]) -> None:
    got = kind.whole(messages)
    targets_taken = len(messages) - len(got.verdicts) - len(got.dead_letters)
    assert 0 <= targets_taken <= sum(b'"target"' in (value or b"") for _, value in messages)
    places = [record.offset for record in got.verdicts + got.dead_letters]
    assert len(set(places)) == len(places)
    for stream in ("a", "b", "ü/c"):
        versions = [verdict["version"] for verdict in parsed(got.verdicts) if verdict["stream"] == stream]
        assert versions == list(range(1, len(versions) + 1))


@law
@given(column_kinds(), column_messages())
def test_the_last_snapshot_follows_from_the_verdicts(kind: Kind, messages: list[Message]) -> None:
    """What is selected = what verdicts have kept and brought back, less what they have removed, since the target."""
    got = kind.whole(messages)
    made: dict[str, list[dict[str, Any]]] = {}
    for snapshot in parsed(got.selections + got.finals):
        made.setdefault(snapshot["stream"], []).append(snapshot)
    for stream, snapshots in made.items():
        last = snapshots[-1]
        if last["n_selected"] != len(last["selected"]):
            continue  # cut
        held: set[str] = set()
        for verdict in parsed(got.verdicts):
            if verdict["stream"] == stream and verdict["version"] <= last["version"]:
                if verdict["generation"] != last["generation"]:
                    continue
                held -= set(verdict["removed"])
                held |= {verdict["feature"]} if verdict["kept"] else set()
                held |= set(verdict["returned"])
        assert {entry["feature"] for entry in last["selected"]} == held
        assert last["seen"] == last["version"]


@law
@given(column_kinds(), column_messages())
def test_a_version_has_at_most_one_snapshot(kind: Kind, messages: list[Message]) -> None:
    got = kind.whole(messages)
    made = [(record["stream"], record["version"]) for record in parsed(got.selections + got.finals)]
    assert len(set(made)) == len(made)


@law
@given(column_kinds(), column_messages(), st.integers(0, 40))
def test_replaying_up_to_its_source_gives_a_snapshot_again(kind: Kind, messages: list[Message], chosen: int) -> None:
    got = kind.whole(messages)
    if not got.selections:
        return
    wanted = got.selections[chosen % len(got.selections)]
    upto = orjson.loads(wanted.value or b"")["source"]["features"]["offset"] // STEP
    assert kind.whole(messages[:upto]).selections[-1] == wanted


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("operator", SELECTORS)
def test_long_streams(operator: str, seed: int) -> None:
    """Polls of real size: blocks of columns, snapshots in the middle of them, a new target half-way."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 2, size=60)
    noise = rng.normal(size=(300, 60))
    messages = [message("s", {"target": target.tolist()})]
    for number in range(300):
        if number == 150:
            messages.append(message("s", {"target": (1 - target).tolist()}))
        share = rng.uniform(0, 1.5) if number % 5 == 0 else 0.0
        length = 59 if number % 40 == 7 else 60
        values = (noise[number] + share * target)[:length].round(3)
        messages.append(message("s", {"name": f"f{number % 120}", "values": values.tolist(), "ts": number}))
    for emit in (Emit(every=17), Emit(every=0, on_change=True, min_gap=4)):
        kind = columns(operator, emit=emit)
        whole = kind.whole(messages)
        assert len(whole.dead_letters) >= 7
        assert len(whole.selections) > 5
        ragged = polls(messages, rng.integers(0, len(messages), size=12).tolist())
        assert kind.run(ragged, [2, 5, 6]) == whole


@pytest.mark.parametrize("params", [LENIENT, MEASURED])
def test_a_selector_put_away_before_it_has_learnt(params: dict[str, Any]) -> None:
    """Its stream has seen an instance, but none with a label."""
    kind = selecting({**params, "refresh": 5}, Emit(every=1, on_change=True))
    messages = [message("s", {"x": {"a": 1}}), message("s", {"x": {"a": 1}, "y": 1})]
    assert kind.run(polls(messages, [1]), [1]) == kind.whole(messages)

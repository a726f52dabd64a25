"""What commits write: enough to go on from, whatever the commits, and no more than has changed."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluiceway.errors import FlowError
from sluiceway.operators.stages.bank_lane import BankLane
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.lane import Lane
from sluiceway.operators.stages.pieces import Pieces
from sluiceway.operators.stages.streams import AnyLane
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.state import FORMAT_VERSION, PIECE, pack, unpack
from tests.columns.lanes import Kind, columns, windows
from tests.columns.test_laws import column_kinds, column_messages, instance_messages, selecting_kinds, window_kinds
from tests.stages.lanes import LANE, Message, Store, config, message, new_lane, poll, polls
from tests.stages.test_lane_laws import configs, messages

law = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
cuts = st.lists(st.integers(0, 60), max_size=10)
chances = st.integers(0, 2**32 - 1)
learners = configs().map(lambda flow: Kind(flow, lambda: Decoder(8)))


def outputs_and_states(kind: Kind, sent: list[Message], cut: list[int], seed: int | None) -> Any:
    """All output and the whole states at the end; with a seed the lane commits and is put away by chance."""
    rng = np.random.default_rng(seed)
    lane, decoder, store, given = new_lane(kind.config), kind.decoder(), Store(), []
    for raw in polls(sent, cut):
        dice = 1.0 if seed is None else rng.random()
        if dice < 0.7:
            store.commit(lane)
        if dice < 0.4:
            lane, decoder = store.lane(kind.config), kind.decoder()
        output = lane.process(decoder.decode(raw))
        given.append((output.selections, output.predictions, output.verdicts, output.dead_letters, output.finals))
    whole = [[*chain.from_iterable(records)] for records in zip(*given, strict=True)]
    store.commit(lane)
    states = {name: _woken(kind, store, name) for name in store.streams}
    assert [name for name in states if _is_awake(lane, name) and lane.stream_state(name) != states[name]] == []
    births = [name for name, _ in sorted(store.streams.items(), key=lambda item: item[1].birth)]
    assert sorted(stored.birth for stored in store.streams.values()) == list(range(len(births)))
    return whole, states, births


def _woken(kind: Kind, store: Store, name: str) -> Any:
    """A stream's state as it is once it goes on from the store."""
    lane = store.lane(kind.config)
    if isinstance(lane, BankLane):
        lane._admit([name.encode()])
    else:
        assert isinstance(lane, Lane)
        lane._touch(name, LANE)
    return lane.stream_state(name)


def _is_awake(lane: AnyLane, name: str) -> bool:
    if isinstance(lane, BankLane):
        return name.encode() in lane._roster
    assert isinstance(lane, Lane)
    return name in lane._streams


def check(kind: Kind, sent: list[Message], cut: list[int], seed: int) -> None:
    assert outputs_and_states(kind, sent, cut, seed) == outputs_and_states(kind, sent, [], None)


@law
@given(learners, messages, cuts, chances)
def test_commits_change_nothing_of_learners(kind: Kind, sent: list[Message], cut: list[int], seed: int) -> None:
    check(kind, sent, cut, seed)


@law
@given(window_kinds(), instance_messages(), cuts, chances)
def test_commits_change_nothing_of_windows(kind: Kind, sent: list[Message], cut: list[int], seed: int) -> None:
    check(kind, sent, cut, seed)


@law
@given(column_kinds(), column_messages(), cuts, chances)
def test_commits_change_nothing_of_columns(kind: Kind, sent: list[Message], cut: list[int], seed: int) -> None:
    check(kind, sent, cut, seed)


@law
@given(selecting_kinds(), instance_messages(), cuts, chances)
def test_commits_change_nothing_of_instance_selectors(
    kind: Kind, sent: list[Message], cut: list[int], seed: int
) -> None:
    check(kind, sent, cut, seed)


# -- how much is written ---------------------------------------------------------------------------------------------


def waiting(start: int, stop: int) -> list[Message]:
    return [message("m", {"id": f"e{at}", "x": {"a": at, "b": 1}}) for at in range(start, stop)]


def test_ten_more_among_ten_thousand_that_wait_write_ten() -> None:
    lane, decoder, store = new_lane(config(max_pending=20_000)), Decoder(8), Store()
    lane.process(decoder.decode(poll(waiting(0, 10_000))))
    [first] = store.commit(lane)
    assert len(first.added) == 10_000
    lane = store.lane(config(max_pending=20_000))
    lane.process(decoder.decode(poll(waiting(10_000, 10_010), 100_000)))
    [change] = store.commit(lane)
    assert [unpack(piece, PIECE)[0] for piece in change.added.values()] == [
        f"e{at}".encode() for at in range(10_000, 10_010)
    ]
    assert change.dropped == []
    assert change.size < 1500
    answers = [message("m", {"id": f"e{at}", "y": 1}) for at in (0, 10_009)] + waiting(5, 6)
    lane.process(decoder.decode(poll(answers, 100_100)))
    [change] = store.commit(lane)
    assert sorted(change.dropped) == [0, 5, 10_009]  # labelled, replaced by its own id, labelled
    assert len(change.added) == 1
    assert len(store.streams["m"].pieces) == 10_008


def test_who_comes_and_goes_between_two_commits_is_never_told_of() -> None:
    lane, decoder, store = new_lane(config()), Decoder(8), Store()
    lane.process(decoder.decode(poll([*waiting(0, 2), message("m", {"id": "e0", "y": 1})])))
    [change] = store.commit(lane)
    assert ([*change.added], change.dropped) == ([1], [])
    lane = store.lane(config())
    lane.process(decoder.decode(poll(waiting(2, 3), 30)))
    assert [*lane.changes()[0].added] == [2]


def test_pieces_are_numbered_once_and_asked_for_late() -> None:
    pieces, content = Pieces(), ["early"]
    assert [pieces.add(lambda: content[0]), pieces.add(lambda: "other")] == [0, 1]
    content[0] = "late"
    pieces.drop(1)
    assert pieces.changes() == ({0: "late"}, [])
    pieces.drop(0)
    assert pieces.add(lambda: "new") == 2
    assert pieces.changes() == ({2: "new"}, [0])
    assert pieces.changes() == ({}, [])


def test_a_window_writes_the_rows_that_have_come() -> None:
    kind, store = windows(size=1000, slide=300), Store()
    lane, decoder = new_lane(kind.config), kind.decoder()
    sent = [message("s", {"x": {f"f{at % 50}": 1, f"own-{at}": 2}, "y": 1 - 2 * (at % 2)}) for at in range(1200)]
    changes = []
    for start in range(0, 1200, 100):
        lane.process(decoder.decode(poll(sent[start : start + 100], 10 * start)))
        changes += store.commit(lane)
    assert [len(change.added) for change in changes[:9]] == [1] * 9
    assert max(change.size for change in changes[1:9]) < 1.3 * changes[0].size
    assert {len(unpack(piece, PIECE)["y"]) // 8 for change in changes[:9] for piece in change.added.values()} == {100}
    assert changes[9].dropped == [0, 1, 2]  # the first window is full, and the next begins at its 300th row
    assert [len(change.added) for change in changes[9:]] == [1, 1, 1]
    assert unpack(changes[-1].head)["gone"] == 0


def test_of_a_window_that_begins_inside_a_block_the_head_says_where() -> None:
    kind, store = windows(size=10, slide=3), Store()
    lane, decoder = new_lane(kind.config), kind.decoder()
    sent = [message("s", {"x": {"a": at}, "y": 1 - 2 * (at % 2)}) for at in range(12)]
    lane.process(decoder.decode(poll(sent[:8])))
    store.commit(lane)
    lane.process(decoder.decode(poll(sent[8:], 80)))
    [change] = store.commit(lane)
    assert (unpack(change.head)["gone"], change.dropped, len(change.added)) == (3, [], 1)
    assert _woken(kind, store, "s") == lane.stream_state("s")


@pytest.mark.parametrize("operator", ["saola", "saola-order-free", "alpha-investing", "fast-osfs"])
def test_a_kept_column_writes_that_column(operator: str) -> None:
    rows, rng = 4000, np.random.default_rng(1)
    target = rng.normal(size=rows)
    kind, store = columns(operator, numbers=True), Store()
    lane, decoder = new_lane(kind.config), kind.decoder()
    telling = [(target + 9 * rng.normal(size=rows)).tolist() for _ in range(6)]
    sent = [message("s", {"target": target.tolist()})]
    sent += [message("s", {"name": f"f{at}", "values": values}) for at, values in enumerate(telling)]
    lane.process(decoder.decode(poll(sent[:6])))
    [first] = store.commit(lane)
    assert len(first.added) > 3
    lane = store.lane(kind.config)
    lane.process(decoder.decode(poll(sent[6:], 60)))
    [change] = store.commit(lane)
    assert (len(change.added), change.dropped) == (1, [])
    assert 8 * rows < change.size < 8 * rows + 2000
    lane.process(decoder.decode(poll(sent[:1], 70)))
    [change] = store.commit(lane)
    assert len(change.dropped) == len(first.added) + 1  # of the generation before nothing is left
    assert len(change.added) == 1


def test_only_touched_streams_are_written_and_in_order_of_birth() -> None:
    lane, decoder, store = new_lane(config()), Decoder(8), Store()
    lane.process(decoder.decode(poll([message(name, {"x": {"a": 1}, "y": 1}) for name in "zab"])))
    assert [(change.stream, change.birth) for change in store.commit(lane)] == [("z", 0), ("a", 1), ("b", 2)]
    assert store.commit(lane) == []
    lane = store.lane(config())
    lane.process(decoder.decode(poll([message(name, {"x": {"a": 1}, "y": 1}) for name in "nbz"], 30)))
    assert [(change.stream, change.birth) for change in store.commit(lane)] == [("z", 0), ("b", 2), ("n", 3)]


def test_finals_touch_only_those_who_say_something() -> None:
    flow, decoder, store = config(emit=Emit(every=2)), Decoder(8), Store()
    lane = new_lane(flow)
    lane.process(decoder.decode(poll([message(name, {"x": {"a": 1}, "y": 1}) for name in "zaab"])))
    store.commit(lane)
    lane = store.lane(flow)
    output = lane.process(decoder.decode(poll([], 40, end=True)))
    assert [record.key for record in output.finals] == [b"f/z", b"f/b"]  # a has a snapshot of its version already
    assert [change.stream for change in store.commit(lane)] == ["z", "b"]
    assert store.lane(flow).process(decoder.decode(poll([], 40, end=True))).finals == []


# -- what cannot be used ---------------------------------------------------------------------------------------------


def _store() -> Store:
    lane, store = new_lane(config()), Store()
    lane.process(Decoder(8).decode(poll([message("m", {"id": "e", "x": {"a": 1}}), message("m", {"x": {}, "y": 1})])))
    store.commit(lane)
    return store


def _window() -> bytes:
    kind, store = windows(size=4, slide=4), Store()
    lane = new_lane(kind.config)
    lane.process(kind.decoder().decode(poll([message("m", {"x": {"a": 1}, "y": 1})])))
    store.commit(lane)
    return store.streams["m"].head


HEAD = _store().streams["m"].head
CONTENT = unpack(HEAD)
NOT_A_MODEL = "its model is damaged"
DAMAGE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is damaged, or not Sluiceway's"),
    "a pickle": (b"\x80\x05}\x94.", "it is damaged, or not Sluiceway's"),
    "cut short": (HEAD[:-9], "it is damaged: Input data was truncated"),
    "another format": (HEAD[:1] + b"\x09" + HEAD[2:], f"its format has version 9, this program knows {FORMAT_VERSION}"),
    "a piece": (pack(CONTENT, PIECE), "it is of kind b'p', not b'h'"),
    "a list": (pack([1, 2]), "it is not the state of a stream"),
    "a foreign stream": (_window(), "it is the state of a stream of windows, not of instances"),
    "another version": (pack({**CONTENT, "state_version": 99}), "stream state of version 99, this program knows 3"),
    "a foreign model": (pack({**CONTENT, "model": {"operator": "pa"}}), NOT_A_MODEL),
    "a model cut short": (pack({**CONTENT, "model": CONTENT["model"][:-8]}), NOT_A_MODEL),
    "a model with more": (pack({**CONTENT, "model": CONTENT["model"] + bytes(8)}), NOT_A_MODEL),
    "half a word": (pack({**CONTENT, "model": CONTENT["model"] + bytes(3)}), NOT_A_MODEL),
    "no model": (pack({name: CONTENT[name] for name in CONTENT if name != "model"}), "it lacks 'model'"),
    "no sense": (pack({**CONTENT, "model": 7}), NOT_A_MODEL),
    "a piece too few": (pack({**CONTENT, "pieces": 2}), "it has 2 pieces, but 1 are there"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("end", [False, True])
def test_a_stored_state_that_cannot_be_used_is_one_sentence(damage: str, end: bool) -> None:
    """Whether the stream is needed for a record of its own or for its final snapshot."""
    head, reason = DAMAGE[damage]
    store = _store()
    store.streams["m"].head = head
    sent = [] if end else [message("m", {"x": {"a": 1}})]
    with pytest.raises(FlowError) as caught:
        store.lane(config()).process(Decoder(8).decode(poll(sent, 20, end=end)))
    said = str(caught.value)
    assert said.startswith(f"lane 3: the stored state of stream 'm' cannot be used: {reason}")
    assert said.endswith("; this lane cannot go on")
    assert "\n" not in said


def test_damaged_pieces_are_one_sentence_too() -> None:
    for piece in (b"S", pack([1], PIECE), pack(None, PIECE), HEAD):
        store = _store()
        store.streams["m"].pieces[0] = piece
        with pytest.raises(FlowError, match=r"stored state of stream 'm' cannot be used: .*; this lane cannot go on"):
            store.lane(config()).process(Decoder(8).decode(poll([message("m", {"x": {"a": 1}})], 20)))


def test_what_sleeps_does_not_trouble_the_others() -> None:
    store = _store()
    store.streams["m"].head = b""
    lane = store.lane(config())
    lane.process(Decoder(8).decode(poll([message("n", {"x": {"a": 1}, "y": 1})], 20)))
    assert [(change.stream, change.birth) for change in lane.changes()] == [("n", 1)]


@pytest.mark.parametrize("features", [1, 5, 50, 3000])
def test_the_head_of_a_plain_stream_is_packed_as_any_other(features: int) -> None:
    """However long its model is: MessagePack spells lengths in several ways."""
    lane = new_lane(config("pa", params={}))
    lane.process(Decoder(8).decode(poll([message("a", {"x": {f"f{at}": 1 for at in range(features)}, "y": 1})])))
    [change] = lane.changes()
    assert change.head == pack(unpack(change.head))
    assert not change.added
    assert not change.dropped

"""A lane whose memory is limited gives what one without a limit gives, byte for byte, wherever its streams sleep."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluiceway.operators.stages import bank_lane
from sluiceway.operators.stages.bank_lane import BankLane, LearnerConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.asleep import Asleep, AsleepInMemory
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import OutRecord, RawPoll
from sluiceway.schemas.state import StoredStream
from sluiceway.topics.asleep_file import TABLES, AsleepInFile, AsleepInStore
from sluiceway.topics.directory_store import put_changes
from tests.stages.lanes import LANE, STEP, Message, Store, config, message, new_lane, poll, polls
from tests.stages.test_lane_laws import LEARNERS, configs, messages

law = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
chances = st.integers(0, 2**32 - 1)


@dataclass
class Limit:
    """Of so many bytes, however few."""

    size: int

    def close(self) -> None: ...


class Place:
    """Where a lane's streams sleep, as the stores of a flow make it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._store: AsleepInStore | None = None
        self._file: sqlite3.Connection | None = None

    def of(self, streams: dict[str, StoredStream]) -> Asleep:
        if self._name == "memory":
            return AsleepInMemory(streams)
        if self._name == "file":
            file = AsleepInFile(0)
            file.put(streams)
            return file
        if self._file is None:
            self._file = sqlite3.connect(":memory:", isolation_level=None)
            self._file.executescript(TABLES)
        self._store = AsleepInStore(self._file, "", 0)
        return self._store

    def commit(self, changes: Sequence[Any], landed: bool) -> None:
        """Beside directories it lands now, or with a later one."""
        if self._file is not None and self._store is not None:
            put_changes(self._file, changes)
            if landed:
                self._store.landed = self._commits
        self._commits += 1

    _commits = 1


@dataclass
class Run:
    selections: list[OutRecord] = field(default_factory=list)
    finals: list[OutRecord] = field(default_factory=list)
    predictions: list[OutRecord] = field(default_factory=list)
    dead_letters: list[OutRecord] = field(default_factory=list)
    streams: dict[str, StoredStream] = field(default_factory=dict)
    """As they were stored at last."""


def whole(flow: LearnerConfig, inputs: Sequence[RawPoll]) -> Run:
    """Without a limit, never committed before the end."""
    lane, decoder, run, store = new_lane(flow), Decoder(8), Run(), Store()
    for raw in inputs:
        _add(run, lane.process(decoder.decode(raw)))
    store.commit(lane)
    run.streams = store.streams
    return run


def limited(flow: LearnerConfig, inputs: Sequence[RawPoll], size: int, name: str, seed: int) -> Run:
    """Committed and opened again by chance."""
    rng, place, run, store = np.random.default_rng(seed), Place(name), Run(), Store()
    decoder, lane = Decoder(8), store.lane(flow, Limit(size), place.of)
    assert isinstance(lane, BankLane)
    for raw in inputs:
        dice = rng.random()
        if dice < 0.5 or lane.wants_commit:
            place.commit(store.commit(lane), rng.random() < 0.7)
        if dice < 0.1:
            lane.close()
            place._commits = 1
            lane = store.lane(flow, Limit(size), place.of)
            assert isinstance(lane, BankLane)
        output = lane.process(decoder.decode(raw))
        _add(run, output)
        while lane.unfinished:
            assert not output.end
            place.commit(store.commit(lane), True)
            output = lane.process(decoder.decode(RawPoll(LANE, raw.stop, raw.stop, True, [], [], [], [])))
            _add(run, output)
        assert output.end == raw.end
    store.commit(lane)
    run.streams = store.streams
    return run


def _add(run: Run, output: Any) -> None:
    for name in ("selections", "finals", "predictions", "dead_letters"):
        getattr(run, name).extend(getattr(output, name))


@law
@given(
    configs(),
    messages,
    st.lists(st.integers(0, 40), max_size=12),
    st.sampled_from([0, 2_000, 10_000]),
    st.sampled_from(["memory", "file", "store"]),
    chances,
)
def test_any_limit_gives_the_same_bytes(
    flow: LearnerConfig, sent: list[Message], cuts: list[int], size: int, place: str, seed: int
) -> None:
    assert limited(flow, polls(sent, cuts), size, place, seed) == whole(flow, polls(sent, []))


def crowd(streams: int, rows: int, seed: int) -> list[Message]:
    """Streams that share some names and have some to themselves; some instances are labelled later, or never."""
    rng, waiting, sent = np.random.default_rng(seed), dict[int, list[int]](), list[Message]()
    for row in range(rows):
        stream = int(streams * rng.random() ** 2)
        known = waiting.setdefault(stream, [])
        x = {f"w{int(60 * rng.random() ** 2)}": rng.normal() for _ in range(8)}
        x |= {f"own-{stream}-{rng.integers(5)}": 1.0}
        dice, y = rng.random(), int(rng.choice([-1, 1]))
        if dice < 0.15:
            known.append(row)
            sent.append(message(f"s{stream}", {"id": f"e{row}", "x": x}))
        elif dice < 0.25 and known:
            sent.append(message(f"s{stream}", {"id": f"e{known.pop()}", "y": y}))
        else:
            sent.append(message(f"s{stream}", {"x": x, "y": y, "ts": row}))
    return sent


@pytest.mark.parametrize(("operator", "place"), [*((name, "file") for name in LEARNERS), ("ofs", "store")])
def test_a_crowd_of_streams(operator: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that they come and go, names of their own too, and what they leave in the arena is made use of."""
    sent = crowd(100, 1_500, seed=len(operator))
    flow = config(operator, emit=Emit(every=5, on_change=True, min_gap=4), max_pending=5)
    inputs = polls(sent, range(0, len(sent), 40))
    wanted = whole(flow, inputs)
    assert len(wanted.finals) > 20
    for name in ("_LEAST_SLEPT", "_FINALS", "_WAKING"):
        monkeypatch.setattr(bank_lane, name, 10)
    assert limited(flow, inputs, 30_000, place, seed=1) == wanted


def test_streams_sleep_when_they_have_been_untouched_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    flow, place, store, decoder = config(emit=Emit(every=0)), Place("file"), Store(), Decoder(8)
    memory = Limit(10**9)
    lane = store.lane(flow, memory, place.of)
    assert isinstance(lane, BankLane)
    for at, name in enumerate("abcdab"):
        lane.process(decoder.decode(poll([message(name, {"x": {"f": 1}, "y": 1})], STEP * at)))
    memory.size = 0
    assert lane.wants_commit
    store.commit(lane)
    assert not lane.wants_commit
    memory.size = lane._size - 1
    monkeypatch.setattr(bank_lane, "_LEAST_SLEPT", 1)
    lane.process(decoder.decode(poll([], STEP * 6)))
    awake = [name for name in "abcd" if name.encode() in lane._roster]
    assert awake == ["a", "b"]


def test_what_no_commit_has_does_not_sleep() -> None:
    flow, place, store, decoder = config(emit=Emit(every=0)), Place("store"), Store(), Decoder(8)
    lane = store.lane(flow, Limit(0), place.of)
    assert isinstance(lane, BankLane)
    lane.process(decoder.decode(poll([message("a", {"x": {"f": 1}, "y": 1})])))
    lane.process(decoder.decode(poll([], STEP)))
    assert b"a" in lane._roster
    changes = lane.changes()
    lane.process(decoder.decode(poll([], STEP)))
    assert b"a" in lane._roster  # the commit has not landed yet
    place.commit(changes, True)
    lane.process(decoder.decode(poll([], STEP)))
    assert b"a" not in lane._roster
    before = lane.stream_state("a")
    assert before is not None
    lane._admit([b"a"])
    assert lane.stream_state("a") == before


def test_memory_follows_what_is_awake() -> None:
    """Never much beyond the limit and the streams of a poll, whatever the streams."""
    flow, place, store, decoder = config(emit=Emit(every=0)), Place("file"), Store(), Decoder(8)
    lane = store.lane(flow, Limit(200_000), place.of)
    assert isinstance(lane, BankLane)
    sizes = []
    for at, raw in enumerate(polls(crowd(3_000, 12_000, seed=2), range(0, 12_000, 100))):
        lane.process(decoder.decode(raw))
        if lane.wants_commit or at % 20 == 0:
            lane.changes()
        sizes.append(lane._size)
    assert max(sizes) < 350_000
    arena = lane._bank.arena
    assert 8 * int(arena.free[0]) < 350_000


@pytest.mark.parametrize("limit", [None, Limit(10_000_000)])
def test_commits_leave_nothing_behind(limit: Limit | None) -> None:
    """Of a flow that commits five times a second for a year."""
    flow, place, store, decoder = config(emit=Emit(every=0)), Place("store"), Store(), Decoder(8)
    lane = store.lane(flow, limit, place.of)
    assert isinstance(lane, BankLane)
    for _ in range(20):
        lane.process(decoder.decode(poll([message("a", {"x": {"f": 1}, "y": 1})], lane.position or 0)))
        place.commit(store.commit(lane), True)
    assert len(lane._told) <= 2

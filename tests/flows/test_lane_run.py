"""One lane by itself, with a store, a reader and a processor made up for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest

from sluiceway.flows.apply import AppliedOutput
from sluiceway.flows.lane_run import Attempt, LaneRun
from sluiceway.flows.pace import LONGEST_SECONDS, Pace
from sluiceway.flows.parts import Parts
from sluiceway.flows.progress import Progress
from sluiceway.schemas.asleep import AsleepInMemory
from sluiceway.schemas.lane import LaneOutput, OutRecord, RawPoll
from sluiceway.schemas.state import StoredChange
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.state_records import RunRecord
from sluiceway.topics.store import Restored, Wanted

KINDS = [(LaneOutput, kind.name) for kind in fields(LaneOutput) if kind.default_factory is list]
KINDS.append((AppliedOutput, "applied"))
INTERVAL = 0.02
SLOW_SECONDS, QUICK_SECONDS = 1.0, 0.01
BOUNDS = Bounds((0,), (None,), None)


@dataclass
class Store:
    """Keeps what it is given; one commit may be slow."""

    slow: int = -1
    """Which of them."""
    written: list[LaneOutput] = field(default_factory=list)
    commits: list[tuple[float, float]] = field(default_factory=list)
    """When each began and ended."""
    finals: list[bool] = field(default_factory=list)
    """Of each, whether it was the last."""

    def open(self, wanted: Wanted) -> Restored:
        return Restored(RunRecord(1, BOUNDS), None, AsleepInMemory({}))

    def write(self, output: LaneOutput) -> None:
        self.written.append(output)

    def commit(self, positions: Mapping[str, int], changes: Sequence[StoredChange], *, final: bool) -> None:
        began = time.monotonic()
        time.sleep(SLOW_SECONDS if len(self.commits) == self.slow else QUICK_SECONDS)
        self.commits.append((began, time.monotonic()))
        self.finals.append(final)

    def park(self, reason: str) -> None: ...

    def close(self) -> None: ...


class Endless:
    """A reader with one more record whenever it is asked."""

    stop: int | None = None

    def __init__(self) -> None:
        self.position = 0

    def poll(self) -> RawPoll:
        at, self.position = self.position, self.position + 1
        return RawPoll(0, at, at + 1, False, [None], [b"x"], [at], [at + 1])

    def close(self) -> None: ...


class Silent:
    """A processor that has nothing to say."""

    wants_commit = unfinished = False

    def process(self, batch: Any) -> LaneOutput:
        return LaneOutput(batch.lane, batch.start, batch.stop, batch.end)

    def changes(self) -> Sequence[StoredChange]:
        return ()

    def close(self) -> None: ...


class Ending(Endless):
    """One record, and its end."""

    stop: int | None = 1

    def poll(self) -> RawPoll | None:  # type: ignore[override]  # it ends
        return None if self.position else replace(super().poll(), end=True)


class InParts(Silent):
    """What it has to say at the end comes in three parts."""

    left = 3

    @property
    def unfinished(self) -> bool:  # type: ignore[override]
        return self.left > 0

    def process(self, batch: Any) -> LaneOutput:
        self.left -= 1
        return replace(super().process(batch), end=batch.end and not self.unfinished)


class Hurried(Silent):
    wants_commit = True


def parts(store: Store) -> Parts:
    return Parts(
        store=lambda lane, alive: store,
        wanted=Wanted(1, 1, None, lambda before: BOUNDS),
        reads="instances",
        reader=lambda opening: Endless(),
        processor=lambda lane, restored: Silent(),
        interval=INTERVAL,
        progress=Progress(),
    )


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@contextmanager
def opened(store: Store) -> Iterator[Attempt]:
    attempt = Attempt(0, parts(store))
    until(lambda: attempt.opened is not None)
    yield attempt
    attempt.close()


@pytest.mark.parametrize(("made", "kind"), KINDS)
def test_whatever_a_poll_has_given_is_written_before_the_next_barrier(made: type[LaneOutput], kind: str) -> None:
    store, output = Store(), made(0, 0, 1, False)
    getattr(output, kind).append(OutRecord(0, None, None))  # the smallest there is: a tombstone without a key
    with opened(store) as attempt:
        attempt.expect(barrier=False)
        attempt.deliver(output, None)
        until(lambda: attempt.idle)
    assert store.written == [output]
    assert not store.commits


def test_a_slow_commit_is_worth_a_word(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("sluiceway.flows.lane_run.SLOW_COMMIT_SECONDS", (SLOW_SECONDS + QUICK_SECONDS) / 2)
    store = Store(slow=1)
    with opened(store) as attempt:
        for _ in range(3):
            attempt.expect(barrier=True)
            attempt.deliver(LaneOutput(0, 0, 1, False), ())
        until(lambda: attempt.idle)
    [said] = [record.getMessage() for record in caplog.records if "a commit took" in record.getMessage()]
    assert said.startswith("lane 0: a commit took 1.")


def test_a_poll_that_has_given_nothing_wakes_nobody() -> None:
    store = Store()
    with opened(store) as attempt:
        attempt.expect(barrier=False)
        attempt.deliver(LaneOutput(0, 0, 1, False), None)
        assert attempt.idle
    assert not store.written


def test_a_barrier_is_committed_though_nothing_was_given() -> None:
    store = Store()
    with opened(store) as attempt:
        attempt.expect(barrier=True)
        attempt.deliver(LaneOutput(0, 0, 1, False), ())
        until(lambda: attempt.idle)
    assert len(store.commits) == attempt.commits == 1


def test_a_commit_that_had_to_wait_does_not_put_off_the_next() -> None:
    store = Store(slow=2)
    run = LaneRun(0, parts(store))
    over = threading.Event()

    def work() -> None:
        """What a flow's steps do."""
        while not over.is_set():
            item = run.next(False)
            if item is not None:
                processor = Silent()
                item.attempt.deliver(processor.process(item.content), () if item.barrier else None)
            time.sleep(0.001)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        until(lambda: len(store.commits) > 6)
    finally:
        over.set()
        worker.join()
        run.close()
    began, ended = store.commits[2]
    assert all(later - ended < ended - began for later, _ in store.commits[3:6])


def test_the_pace_follows_what_commits_cost() -> None:
    pace = Pace(2.0)
    assert pace.pause == 2.0
    for seconds in (0.1, 0.1, 0.1):
        pace.took(seconds)
    assert pace.pause == 2.0
    for seconds in (0.6, 0.5, 0.7):
        pace.took(seconds)
    assert pace.pause == pytest.approx(5.0)


def test_two_commits_that_waited_for_a_broker_are_no_cost() -> None:
    pace = Pace(0.3)
    for seconds in (0.02, 11.0, 1.5, 0.02):
        pace.took(seconds)
        assert pace.pause == 0.3


def test_slow_commits_come_often_enough_to_be_seen() -> None:
    pace = Pace(0.3)
    for _ in range(3):
        pace.took(20.0)
    assert pace.pause == LONGEST_SECONDS
    assert Pace(60.0).pause == 60.0


def driven(run: LaneRun, processor: Silent, commits: int, store: Store) -> None:
    """As the steps of a flow do, until there are so many commits or the lane is done."""

    def step() -> bool:
        item = run.next(False)
        if item is not None:
            output = processor.process(item.content)
            item.attempt.deliver(output, processor.changes() if item.barrier else None)
        return run.done or len(store.commits) >= commits

    until(step)


def test_what_comes_at_the_end_may_come_in_several_commits() -> None:
    store, processor = Store(), InParts()
    run = LaneRun(
        0, replace(parts(store), reader=lambda opening: Ending(), processor=lambda lane, restored: processor)
    )
    driven(run, processor, 99, store)
    assert (run.done, run.final, store.finals) == (True, True, [False, False, True])


def test_a_lane_that_cannot_wait_is_committed_at_once() -> None:
    store, processor = Store(), Hurried()
    given = replace(parts(store), interval=1000.0, processor=lambda lane, restored: processor)
    run = LaneRun(0, given)
    driven(run, processor, 3, store)
    assert store.finals == [False] * 3
    run.close()

"""One lane in this process: opened, fed, committed; opened again when its store must be; parked when it cannot go on.

A worker's thread polls, decodes and learns. Everything that may wait for a broker or a disk (opening, writing,
committing) is done by a thread of the lane's own, so no call of a client can hold the worker; one that does not come
back is given up together with its thread, and the lane is opened again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from sluiceway.errors import ReopenError, SluicewayError, UnreachableError
from sluiceway.flows.pace import Pace
from sluiceway.flows.parts import Opening, Parts, Processor
from sluiceway.flows.progress import LaneProgress
from sluiceway.flows.state_size import StateSize
from sluiceway.flows.tally import Tally
from sluiceway.schemas.lane import LaneOutput, RawPoll
from sluiceway.schemas.state import StoredChange
from sluiceway.topics.bounds import RECORDS_A_POLL
from sluiceway.topics.kafka_writer import BYTES_A_SECOND, CALL_SECONDS
from sluiceway.topics.reader import Reader
from sluiceway.topics.store import LaneStore
from sluiceway.wording import counted

logger = logging.getLogger("sluiceway.lane")

PAUSE_SECONDS = 0.02
"""After a poll that took nearly all there was, the next waits: a small item costs as much as a big one."""
GRACE_SECONDS = 5.0
"""By which a call may overrun the time that it was given before it is given up."""
REOPEN_SECONDS = (0.2, 10.0)
"""The first and the longest pause before a lane is opened again."""
BUFFERED_BYTES = 64 << 20
"""Output that waits for a commit to end; then the lane stops reading."""
SLOW_COMMIT_SECONDS = 5.0
"""A commit that takes longer is worth a word."""
DAY = 86_400.0
"""An idle lane commits once a day: what a broker keeps of it expires after seven."""


class Item(NamedTuple):
    """What travels through the steps of a flow: something of one lane, as long as that is this worker's."""

    attempt: Attempt
    content: Any
    barrier: bool
    """A commit follows: what came before it belongs to it, what comes after does not."""


class Job(NamedTuple):
    output: LaneOutput
    changes: Sequence[StoredChange] | None
    """With a barrier: the states to commit."""
    size: int
    tally: Tally
    """With a barrier: what was given since the last one."""


class Opened(NamedTuple):
    run: int
    ended: bool
    """The lane was done with this run already."""
    reader: Reader
    processor: Processor
    state: StateSize
    committed_at: float
    """When the lane's newest commit was made, in seconds since 1970; 0 = there is none."""


class Attempt:
    """One opening of a lane, with the thread that waits for its store."""

    def __init__(self, lane: int, parts: Parts) -> None:
        self.lane = lane
        self.dead_letters = parts.progress.dead_letters
        self.live = True
        """False: whatever is still on its way through the steps is dropped."""
        self.opened: Opened | None = None
        self.problem: BaseException | None = None
        self.commits = 0
        self.began = self.committed_at = self.alive_at = time.monotonic()
        self.pace = Pace(parts.interval)
        self._parts = parts
        self._jobs: SimpleQueue[Job | str | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._bytes = 0
        self._barriers = 0
        self._jobs_left = 0
        self._tally = Tally()
        """Since the last barrier."""
        self._deadline: float | None = None
        self._allowed = 0.0
        threading.Thread(target=self._work, name=f"lane-{lane}", daemon=True).start()

    # -- the worker's side ---------------------------------------------------------------------------------------

    def expect(self, barrier: bool) -> None:
        """An item sets out, which will be delivered."""
        with self._lock:
            self._barriers += barrier
            self._jobs_left += 1

    def deliver(self, output: LaneOutput, changes: Sequence[StoredChange] | None) -> None:
        self._tally.take(output)
        job = Job(output, changes, _size(output), self._tally)
        if changes is not None:
            self._tally = Tally()
        if job.size == 0 and changes is None:  # most polls give nothing: not worth waking a thread
            self._done(job)
            return
        with self._lock:
            self._bytes += job.size
        self._jobs.put(job)

    @property
    def full(self) -> bool:
        """One commit may be running and one waiting; more input would only wait too."""
        return self._barriers > 1 or self._bytes > BUFFERED_BYTES

    @property
    def idle(self) -> bool:
        return self._jobs_left == 0

    def stuck(self) -> bool:
        deadline = self._deadline
        return deadline is not None and time.monotonic() > deadline

    def fail(self, problem: BaseException) -> None:
        """A step of the flow could not do its part for this lane."""
        self.live = False
        self.problem = self.problem or problem

    def park(self, reason: str) -> None:
        """The last that its thread does."""
        self._end(reason)

    def close(self) -> None:
        self._end(None)

    def _end(self, last: str | None) -> None:
        self.live = False
        self._jobs.put(last)

    # -- its thread's side ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        store: LaneStore | None = None
        try:
            with self._within(CALL_SECONDS):
                store = self._parts.store(self.lane, self._alive)
                self.opened = self._open(store)
            self._serve(store)
        except BaseException as problem:
            self.problem = self.problem or problem
            self.live = False
            self._end_with(store, self._last_word())

    def _open(self, store: LaneStore) -> Opened:
        parts, lane = self._parts, self.lane
        restored = store.open(parts.wanted)
        run, commit = restored.run, restored.commit
        positions: Mapping[str, int] = {} if commit is None else commit.positions
        processor = parts.processor(lane, restored)
        self._alive()
        ended = commit is not None and commit.final and commit.run == run.number
        size = StateSize.of(restored.asleep)
        reader = parts.reader(Opening(lane, positions, run.bounds, processor))
        return Opened(run.number, ended, reader, processor, size, 0.0 if commit is None else commit.at / 1000)

    def _serve(self, store: LaneStore) -> None:
        while True:
            job = self._jobs.get()
            if not isinstance(job, Job):
                self._end_with(store, job)
                return
            if self.live:
                self._do(store, job)
            self._done(job)

    def _done(self, job: Job) -> None:
        with self._lock:
            self._bytes -= job.size
            self._barriers -= job.changes is not None
            self._jobs_left -= 1

    def _do(self, store: LaneStore, job: Job) -> None:
        size = 0 if job.changes is None else sum(change.size for change in job.changes)
        with self._within(CALL_SECONDS + size / BYTES_A_SECOND):
            store.write(job.output)
            if job.changes is None:
                return
            began = time.monotonic()
            store.commit(job.output.positions(self._parts.reads), job.changes, final=job.output.end)
            self.committed_at = time.monotonic()
            self.pace.took(self.committed_at - began)
            self.commits += 1
            if self.live:
                self._tell_of_commit(job, job.changes, self.committed_at - began)

    def _tell_of_commit(self, job: Job, changes: Sequence[StoredChange], seconds: float) -> None:
        assert self.opened is not None
        self.opened.state.changed(changes)
        self._parts.progress.committed(self.lane, job.output.stop, job.tally, seconds)
        if seconds > SLOW_COMMIT_SECONDS:
            logger.warning("lane %d: a commit took %.1f s", self.lane, seconds)

    def _last_word(self) -> str | None:
        while isinstance(job := self._jobs.get(), Job):
            pass
        return job

    def _end_with(self, store: LaneStore | None, reason: str | None) -> None:
        with self._within(CALL_SECONDS), suppress(Exception):  # it is over: there is nobody left to tell
            if self.opened is not None:
                self.opened.processor.close()
                self.opened.reader.close()
            if store is not None:
                if reason is not None:
                    store.park(reason)
                store.close()

    def _alive(self) -> bool:
        """Asked by the store while it opens the lane, which is a sign of life."""
        self.alive_at = time.monotonic()
        self._deadline = self.alive_at + self._allowed
        return self.live

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        self._allowed = seconds + GRACE_SECONDS
        self._deadline = time.monotonic() + self._allowed
        try:
            yield
        finally:
            self._deadline = None


def _size(output: LaneOutput) -> int:
    """Roughly: each list as if all its records were as large as the first."""
    return sum(len(records) * (records[0].size + 1) for records in output.lists if records)


class LaneRun:
    """One lane as long as it is this worker's, through all its openings."""

    def __init__(self, lane: int, parts: Parts) -> None:
        self.lane = lane
        self.done = False
        """At the end of its run, or stopped with everything committed."""
        self.final = False
        """At the end of its run."""
        self.parked: BaseException | None = None
        self.run = 0
        self._parts = parts
        self._attempt: Attempt | None = Attempt(lane, parts)
        self._reopen_at = 0.0
        self._pause = REOPEN_SECONDS[0]
        self._progress: LaneProgress | None = None
        parts.progress.await_opening(lane)
        self._begin()

    def _begin(self) -> None:
        self._opened: Opened | None = None
        self._closing = self._at_end = False
        self._dirty = False
        self._awake = 0.0
        self._barrier_at = 0.0

    @property
    def ended(self) -> bool:
        return self.done or self.parked is not None

    def close(self) -> None:
        """What is open here is aborted by whoever opens the lane next."""
        if self._attempt is not None:
            self._attempt.close()
            self._attempt = None

    def forget(self) -> None:
        """The lane has gone to another process."""
        self.close()
        self._parts.progress.forget(self.lane)

    def next(self, stopping: bool) -> Item | None:
        """The lane's next item, if there is one now."""
        if self.ended:
            return None
        attempt = self._attempt
        if attempt is None:
            self._open_again(stopping)
            return None
        if attempt.problem is not None:
            self._failed(attempt.problem)
            return None
        if attempt.stuck():
            self._failed(ReopenError(f"lane {self.lane}: a call of the client does not come back"))
            return None
        if self._opened is None:
            self._take(attempt, stopping)
            return None
        if self._closing:
            if not attempt.idle or attempt.problem is not None:
                return None
            if self._at_end and self._opened.processor.unfinished and not stopping:
                return self._item(attempt, self._nothing(self._opened.reader, end=True), barrier=True)
            self._finish(attempt)
            return None
        try:
            return self._next(attempt, self._opened, stopping)
        except Exception as problem:
            self._failed(problem)
            return None

    def _next(self, attempt: Attempt, opened: Opened, stopping: bool) -> Item | None:
        now, reader = time.monotonic(), opened.reader
        if stopping:
            self._closing = True
            return self._item(attempt, self._nothing(reader), barrier=True) if self._dirty else None
        if attempt.full or now < self._awake:
            return None
        poll = reader.poll()
        due = now >= self._barrier_at or opened.processor.wants_commit
        if poll is None:
            self._awake = now + PAUSE_SECONDS
            if (due and self._dirty) or now - attempt.committed_at > DAY:
                return self._item(attempt, self._nothing(reader), barrier=True)
            return None
        if self._progress is not None:
            self._progress.reached(poll.stop, len(poll.values))
        self._closing = self._at_end = poll.end
        if len(poll.values) < RECORDS_A_POLL // 2:
            self._awake = now + PAUSE_SECONDS
        return self._item(attempt, poll, barrier=due or poll.end)

    def _item(self, attempt: Attempt, poll: RawPoll, *, barrier: bool) -> Item:
        self._dirty = not barrier
        if barrier:
            self._barrier_at = time.monotonic() + attempt.pace.pause
        attempt.expect(barrier)
        return Item(attempt, poll, barrier)

    def _nothing(self, reader: Reader, *, end: bool = False) -> RawPoll:
        at = reader.position
        return RawPoll(self.lane, at, at, end, [], [], [], [])

    # -- opening and ending --------------------------------------------------------------------------------------

    def _take(self, attempt: Attempt, stopping: bool) -> None:
        opened = attempt.opened
        if opened is None:
            self._parts.progress.opening[self.lane] = attempt.alive_at
            if stopping:
                self.close()
                self.done = True
            return
        self._opened, self.run = opened, opened.run
        self._barrier_at = time.monotonic() + self._parts.interval
        at = opened.reader.position
        self._progress = self._parts.progress.open(
            self.lane, at, opened.reader.stop, opened.state, opened.committed_at
        )
        logger.info(
            "lane %d is open at %d with %s; it took %.1f s",
            self.lane, at, counted(opened.state.streams, "stream"), time.monotonic() - attempt.began,
        )  # fmt: skip
        if opened.ended:
            self._finish(attempt)

    def _finish(self, attempt: Attempt) -> None:
        attempt.close()
        self.done = True
        opened = self._opened
        self.final = opened is not None and (opened.ended or (self._at_end and not opened.processor.unfinished))

    def _open_again(self, stopping: bool) -> None:
        if stopping:
            self.done = True
        elif time.monotonic() >= self._reopen_at:
            self._parts.progress.await_opening(self.lane)
            self._begin()
            self._attempt = Attempt(self.lane, self._parts)

    def _failed(self, problem: BaseException) -> None:
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        if isinstance(problem, ReopenError | UnreachableError):
            attempt.close()
            self._pause = REOPEN_SECONDS[0] if attempt.commits else self._pause
            logger.warning("%s; it is opened again in %.1f s", problem, self._pause)
            self._parts.progress.failed(self.lane)
            self._reopen_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, REOPEN_SECONDS[1])
            return
        attempt.park(str(problem))
        self.parked = problem
        self._parts.progress.park(self.lane, str(problem))
        if isinstance(problem, SluicewayError):
            logger.error("lane %d is parked: %s", self.lane, problem)
        else:
            logger.error("lane %d is parked: %r", self.lane, problem, exc_info=problem)

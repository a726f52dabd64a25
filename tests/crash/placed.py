"""Deaths in places where it hurts: in a lane's commit, or while it is opened."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sluiceway.flows.lane_run import Attempt
from sluiceway.flows.worker import Worker
from sluiceway.topics import directory_store
from sluiceway.topics.directory_store import DirectoryLane
from sluiceway.topics.directory_writer import DirectoryWriter, _PartitionFile
from sluiceway.topics.kafka_store import KafkaLane, _Batch
from sluiceway.topics.kafka_writer import TransactionalWriter
from sluiceway.topics.state_records import COMMIT, OPEN, RUN
from sluiceway.topics.state_topic import StateReader
from tests.crash.seams import Report, wrap

IN_COMMIT, SOON = 0.012, 0.03
FLUSH_SECONDS = 30.0
HOLD_SECONDS = 20.0
"""Less than a lane's own watchdog allows a commit."""


def _chunk(key: bytes) -> int:
    """Of a state record, which chunk it is."""
    at = {b"s": 1, b"p": 9}.get(key[:1])
    return 0 if at is None else int.from_bytes(key[at : at + 4])


class PlacedError(Exception):
    """What `--how raise` raises."""


class Placed:
    """A death at the N-th time that any lane of this process comes by a point.

    In a commit, on Kafka:
        produced    the output is with the broker, no state is
        chunk       a chunk of a state in several is with the broker, the next is not: counts chunks, not commits
        states      all states are with the broker, the commit record is not
        record      the commit record is too; the transaction is not committed
        in-commit   some time into the call that commits it
    with directories:
        synced      the output is synced, the SQLite transaction has not begun
        in-sql      in that transaction, everything written
        torn        (before a commit) half of a line stands in a partition file, nothing after it
    with both:
        committed   right after the commit, before the lane knows
        soon        up to 30 ms after it
        one-lane    all lanes of the process but one have committed, or are done with their run
        end         `committed` of a commit with final snapshots
    Any of them with `final-` before it is about a commit with final snapshots, with `first-` about the one in which a
    lane notes where its directories begin.

    While a lane is opened:
        fenced      its predecessor is fenced, the open record is not written
        opened      the open record is there, nothing is read
        restore     on Kafka half of the store is read, in a directory nothing is
        run         (lane 0) the run record is written; on Kafka it is not committed
    """

    def __init__(self, point: str, at: int, how: str, seconds: float, report: Report) -> None:
        kind, _, rest = point.partition("-")
        self._kind = kind if kind in ("final", "first") else "final" if point == "end" else ""
        self._point = "committed" if point == "end" else rest if kind in ("final", "first") else point
        self._at = at
        self._how = how
        self._seconds = seconds
        self._report = report
        self._came = 0
        self._commits = 0
        self._lanes: set[int] = set()
        """That commit in this process."""
        self._committed_since: set[int] | None = None
        """By the other lanes, once one is held."""
        self._changed = threading.Condition()
        self._here = threading.local()

    def patch(self) -> None:
        wrap(Worker, "_gained", self._around_gained)
        wrap(Worker, "_lost", self._around_lost)
        wrap(Attempt, "_open", self._around_attempt)
        for lane in (KafkaLane, DirectoryLane):
            wrap(lane, "open", self._around_open)
            wrap(lane, "commit", self._around_commit)
        wrap(KafkaLane, "_agree", self._around_agree)
        wrap(StateReader, "_take", self._around_take)
        wrap(TransactionalWriter, "fence", self._around_fence)
        wrap(TransactionalWriter, "announce", self._around_announce)
        wrap(TransactionalWriter, "commit", self._around_transaction)
        wrap(_Batch, "add", self._around_add)
        wrap(directory_store, "_put", self._around_put)
        wrap(DirectoryWriter, "sync", self._around_sync)
        wrap(_PartitionFile, "append", self._around_append)
        wrap(directory_store, "_records", self._around_records)

    # -- whose turn it is ----------------------------------------------------------------------------------------

    def _is(self, flag: str) -> bool:
        """Of the thread, which is a lane's own."""
        return bool(getattr(self._here, flag, False))

    def _comes(self, point: str) -> bool:
        """Whether this is the time to die at a point."""
        if point != self._point:
            return False
        with self._changed:
            self._came += 1
            return self._came == self._at

    def _arrives(self, point: str) -> None:
        if self._comes(point):
            self._act()

    def _act(self) -> None:
        self._report("placed", point=self._point)
        if self._how == "raise":
            raise PlacedError(f"placed at {self._point}")
        if self._how == "stall":
            time.sleep(self._seconds)
        else:
            os.kill(os.getpid(), signal.SIGSTOP if self._how == "stop" else signal.SIGKILL)

    def _act_within(self, seconds: float) -> None:
        self._report("placed", point=self._point)
        pause = random.Random().uniform(0, seconds)
        threading.Timer(pause, os.kill, (os.getpid(), signal.SIGKILL)).start()

    # -- lanes ---------------------------------------------------------------------------------------------------

    def _around_gained(self, original: Any) -> Any:
        def gained(worker: Any, lane: int) -> None:
            self._lanes.add(lane)
            original(worker, lane)

        return gained

    def _around_lost(self, original: Any) -> Any:
        def lost(worker: Any, lane: int, thrown_out: bool) -> None:
            self._leave_out(lane)
            original(worker, lane, thrown_out)

        return lost

    def _around_attempt(self, original: Any) -> Any:
        def opened(attempt: Any, store: Any) -> Any:
            found = original(attempt, store)
            if found.ended:
                self._leave_out(attempt.lane)
            return found

        return opened

    def _leave_out(self, lane: int) -> None:
        """It will commit nothing more here."""
        with self._changed:
            self._lanes.discard(lane)
            self._changed.notify_all()

    # -- a commit ------------------------------------------------------------------------------------------------

    def _around_commit(self, original: Any) -> Any:
        def commit(lane: Any, positions: Mapping[str, int], changes: Any, *, final: bool) -> None:
            kind = "final" if final else "" if positions else "first"
            counts = kind == self._kind if self._kind else kind != "first"
            self._here.armed = counts and self._is_the_one()
            self._commits += 1
            try:
                if self._is("armed"):
                    self._before(lane)
                original(lane, positions, changes, final=final)
                if self._is("armed") and isinstance(lane, DirectoryLane):
                    self._after()
            finally:
                self._here.armed = False
            with self._changed:
                if self._committed_since is not None:
                    self._committed_since.add(lane._lane)
                    self._changed.notify_all()
            if final:
                self._leave_out(lane._lane)

        return commit

    def _is_the_one(self) -> bool:
        in_a_commit = ("produced", "states", "record", "in-commit", "synced", "in-sql", "committed", "soon")
        if self._point == "one-lane":
            return len(self._lanes) > 1 and self._comes("one-lane")
        return self._point in in_a_commit and self._comes(self._point)

    def _before(self, lane: Any) -> None:
        if self._point == "produced":
            lane._writer._producer.flush(FLUSH_SECONDS)
            self._act()
        elif self._point == "one-lane":
            self._hold(lane._lane)
            self._act()

    def _hold(self, lane: int) -> None:
        with self._changed:
            self._committed_since = set()
            come = self._changed.wait_for(
                lambda: self._committed_since is not None and self._committed_since >= self._lanes - {lane},
                timeout=HOLD_SECONDS,
            )
        if not come:
            raise PlacedError("the other lanes did not commit")

    def _after(self) -> None:
        if self._point == "committed":
            self._act()
        elif self._point == "soon":
            self._act_within(SOON)

    def _around_transaction(self, original: Any) -> Any:
        def commit(writer: Any, size: int = 0) -> None:
            armed = self._is("armed")
            if (armed and self._point == "record") or (self._is("agreeing") and self._comes("run")):
                writer._producer.flush(FLUSH_SECONDS)
                self._act()
            if armed and self._point == "in-commit":
                self._act_within(IN_COMMIT)
            original(writer, size)
            if armed:
                self._after()

        return commit

    def _around_add(self, original: Any) -> Any:
        def add(batch: Any, key: bytes, value: bytes | None) -> None:
            if self._is("armed") and self._point == "states" and key == COMMIT:
                batch.writer._producer.flush(FLUSH_SECONDS)
                self._act()
            original(batch, key, value)
            if self._point == "chunk" and value is not None and _chunk(key):
                batch.send()
                batch.writer._producer.flush(FLUSH_SECONDS)
                self._arrives("chunk")

        return add

    def _around_sync(self, original: Any) -> Any:
        def sync(writer: Any) -> Any:
            sizes = original(writer)
            if self._is("armed") and self._point == "synced":
                self._act()
            return sizes

        return sync

    def _around_append(self, original: Any) -> Any:
        def append(file: Any, data: bytes) -> None:
            if self._point == "torn" and self._commits + 1 >= self._at:
                last_line = len(data) - data.rfind(b"\n", 0, -1) - 1
                half = len(data) - max(last_line // 2, 1)
                if file._position + half > file._standing:  # else it would stand whole, from before
                    original(file, data[:half])
                    self._act()
            original(file, data)

        return append

    # -- opening -------------------------------------------------------------------------------------------------

    def _around_open(self, original: Any) -> Any:
        return self._flagged(original, "opening")

    def _around_agree(self, original: Any) -> Any:
        return self._flagged(original, "agreeing")

    def _flagged(self, original: Any, flag: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            setattr(self._here, flag, True)
            try:
                return original(*given)
            finally:
                setattr(self._here, flag, False)

        return call

    def _around_fence(self, original: Any) -> Any:
        def fence(writer: Any) -> None:
            original(writer)
            self._arrives("fenced")

        return fence

    def _around_announce(self, original: Any) -> Any:
        def announce(*given: Any) -> int:
            offset: int = original(*given)
            if self._is("opening"):
                self._here.middle = offset // 2
                self._arrives("opened")
            return offset

        return announce

    def _around_take(self, original: Any) -> Any:
        def take(reader: Any, offset: int, *given: Any) -> None:
            original(reader, offset, *given)
            if self._is("opening") and offset >= getattr(self._here, "middle", offset + 1):
                del self._here.middle
                self._arrives("restore")

        return take

    def _around_put(self, original: Any) -> Any:
        def put(file: Any, key: bytes, value: bytes) -> None:
            original(file, key, value)
            if key == COMMIT and self._is("armed") and self._point == "in-sql":
                self._act()
            elif key == OPEN and self._is("opening"):
                self._arrives("opened")
            elif key == RUN:
                self._arrives("run")

        return put

    def _around_records(self, original: Any) -> Any:
        def records(*given: Any) -> Any:
            if self._is("opening"):
                self._arrives("restore")
            return original(*given)

        return records

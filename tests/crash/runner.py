"""Sluiceway in a process that dies when told to: `python -m tests.crash.runner [options] -- run flow.toml ...`.

The production code has no hooks for tests. This program patches its seams from outside, then calls the command line:
- `--die POINT:N --how kill|raise|stop`: at the N-th epoch in which POINT comes, see `Placed`;
- `--pace RECORDS`, `--rhythm SEED`, `--awake LANES`: few records a poll, lanes fed in bursts or not at all, so that
  the input lasts and some lanes stay untouched for whole epochs;
- `--keep-unfinished`: the store keeps the state of epochs that never closed, as Bytewax by itself does;
- `--unguarded`: a model learns from whatever input comes, also if it does not go on where the model stands;
- `--transaction-seconds S`: a shorter transaction time-out;
- `--report FILE`: a line of JSON for each event: commits, records skipped because they are out already.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from sluiceway import cli
from sluiceway.flows import graph, recovery, sink
from sluiceway.operators.stages.lane import Lane
from sluiceway.schemas.lane import LaneOutput
from sluiceway.topics import directory_reader, directory_writer
from sluiceway.topics import kafka_reader as kafka_source
from sluiceway.topics import kafka_writer as kafka_sink

DEADLINE = 600.0
"""No run takes this long: one that hangs shows where, and ends."""
POLL_GAP = 0.04
BURST = 0.3


class PlacedError(Exception):
    """What `--how raise` raises."""


class Report:
    """Events, each on disk before the next thing happens."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)

    def __call__(self, event: str, **details: object) -> None:
        if self._file is not None:
            os.write(self._file, orjson.dumps({"event": event, "at": round(time.monotonic(), 3), **details}) + b"\n")


def wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Put a wrapper around a method or function: `around(original) -> replacement`."""
    setattr(owner, name, around(getattr(owner, name)))


class Placed:
    """A death in the N-th epoch that comes by a point.

    produced    all lanes' records are with the broker (in the file), no lane has committed (synced)
    committed   all lanes have committed (synced), the store has not
    soon        as `committed`, and up to 30 ms later: around the moment when the store commits
    one-lane    all lanes but one have committed; comes in epochs with at least two lanes
    end         as `committed`, in an epoch in which a lane's input ends: its final snapshots are out
    torn        half of a line stands in a partition file, nothing after it
    creating    (not in an epoch) the store's partitions are made, its manifest is not
    """

    def __init__(self, point: str, at: int, how: str, report: Report) -> None:
        self._point = point
        self._at = at
        self._how = how
        self._report = report
        self._lanes = 0
        self._arrived = 0
        self._came = 0
        self._armed = False
        self._ended = False
        self._changed = threading.Condition()

    def patch(self) -> None:
        wrap(sink.LaneSink, "write_batch", self._around_write)
        wrap(sink._Epoch, "committed", self._around_epoch)
        for writer, commit in (
            (kafka_sink.TransactionalLane, "_commit"),
            (kafka_sink.IdempotentLane, "commit"),
            (directory_writer.DirectoryLane, "commit"),
        ):
            wrap(writer, commit, self._around_commit)
        wrap(directory_writer._PartitionFile, "append", self._around_append)
        wrap(recovery, "init_db_dir", self._around_creation)

    def _around_creation(self, original: Any) -> Any:
        def init_db_dir(*given: Any) -> None:
            original(*given)
            if self._point == "creating":
                self._act()

        return init_db_dir

    def _around_write(self, original: Any) -> Any:
        def write_batch(lane: Any, items: list[LaneOutput]) -> None:
            self._ended = self._ended or any(item.end for item in items)
            original(lane, items)

        return write_batch

    def _around_epoch(self, original: Any) -> Any:
        def committed(epoch: Any, lane: Any) -> Any:
            if epoch._touched:
                self._lanes, self._arrived = len(epoch._touched), 0
                comes = {"one-lane": self._lanes > 1, "end": self._ended}.get(self._point, True)
                self._came += comes
                self._armed = comes and self._came == self._at
            return original(epoch, lane)

        return committed

    def _around_commit(self, original: Any) -> Any:
        def commit(writer: Any) -> Any:
            if not self._armed or not threading.current_thread().name.startswith("lane-commit"):
                return original(writer)
            if self._point == "produced":
                if hasattr(writer, "_producer"):
                    writer._producer.flush(30)
                self._gather(last=self._act)
            elif self._point == "one-lane":
                with self._changed:
                    self._arrived += 1
                    chosen = self._arrived == 1
                if chosen:
                    self._wait_until(lambda: self._arrived == 2 * self._lanes - 1)
                    self._act()
                else:
                    state = original(writer)
                    with self._changed:
                        self._arrived += 1
                        self._changed.notify_all()
                    return state
            state = original(writer)
            if self._point in ("committed", "soon", "end"):
                self._gather(last=self._act)
            return state

        return commit

    def _around_append(self, original: Any) -> Any:
        def append(file: Any, data: bytes) -> None:
            if self._point == "torn" and self._came + 1 >= self._at:
                last_line = len(data) - data.rfind(b"\n", 0, -1) - 1
                half = len(data) - max(last_line // 2, 1)
                if file._position + half > file._standing:  # else it would stand whole, from before
                    original(file, data[:half])
                    self._act()
            original(file, data)

        return append

    def _gather(self, last: Callable[[], None]) -> None:
        """Wait for the lanes of the epoch; the last to come acts for all."""
        with self._changed:
            self._arrived += 1
            if self._arrived == self._lanes:
                last()
                self._changed.notify_all()
        self._wait_until(lambda: self._arrived == self._lanes)

    def _wait_until(self, come: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(come, timeout=60):
                raise PlacedError(f"the lanes did not come to {self._point}")

    def _act(self) -> None:
        self._armed = False
        self._report("placed", point=self._point)
        if self._point == "soon":
            pause = random.Random(self._at).uniform(0, 0.03)
            threading.Timer(pause, os.kill, (os.getpid(), signal.SIGKILL)).start()
        elif self._how == "raise":
            raise PlacedError(f"placed at {self._point}")
        else:
            os.kill(os.getpid(), signal.SIGSTOP if self._how == "stop" else signal.SIGKILL)


class Pace:
    """Few records a poll, and lanes that sleep."""

    def __init__(self, records: int, rhythm: int | None, awake: set[int] | None) -> None:
        self._records = records
        self._rhythm = rhythm
        self._awake = awake
        self._began = time.monotonic()
        self._last: dict[int, float] = {}

    def patch(self) -> None:
        for module in (kafka_source, directory_reader):
            wrap(module, "RECORDS_A_POLL", lambda original: self._records)
        for reader in (kafka_source.KafkaReader, directory_reader.DirectoryReader):
            wrap(reader, "poll", self._around_poll)

    def _around_poll(self, original: Any) -> Any:
        def poll(reader: Any) -> Any:
            lane, now = reader._partition, time.monotonic()
            if self._sleeps(lane, now) or now - self._last.get(lane, 0.0) < POLL_GAP:
                return None
            self._last[lane] = now
            return original(reader)

        return poll

    def _sleeps(self, lane: int, now: float) -> bool:
        if self._awake is not None:
            return lane not in self._awake
        if self._rhythm is None:
            return False
        burst = int((now - self._began) / BURST)
        return random.Random(f"{self._rhythm}/{lane}/{burst}").random() < 0.5


def tell_of_skipped(report: Report) -> None:
    """Report output records that are not written because they are out already."""

    def around_send(original: Any) -> Any:
        def send(lane: Any, producer: Any, output: LaneOutput, *, done: int, finals: bool) -> None:
            records = [record for name in lane._output.topics for record in getattr(output, name)]
            skipped = sum(record.offset < done for record in records) + (0 if finals else len(output.finals))
            if skipped:
                report("skipped", records=skipped)
            original(lane, producer, output, done=done, finals=finals)

        return send

    def around_append(original: Any) -> Any:
        def append(file: Any, data: bytes) -> None:
            again = min(max(file._standing - file._position, 0), len(data))
            original(file, data)
            if again:
                report("skipped", records=data.count(b"\n", 0, again))

        return append

    wrap(kafka_sink._Producing, "_send", around_send)
    wrap(directory_writer._PartitionFile, "append", around_append)


def tell_of_commits(report: Report) -> None:
    def around(original: Any) -> Any:
        def committed(epoch: Any, lane: Any) -> Any:
            if epoch._touched:
                report("epoch", lanes=len(epoch._touched))
            state = original(epoch, lane)
            if not epoch._commits:
                report("committed")
            return state

        return committed

    wrap(sink._Epoch, "committed", around)


def forget_where_models_stand() -> None:
    def around(original: Any) -> Any:
        def process(lane: Any, batch: Any) -> LaneOutput:
            lane._position = None
            output: LaneOutput = original(lane, batch)
            return output

        return process

    wrap(Lane, "process", around)


def shorten_transactions(seconds: float) -> None:
    def around(original: Any) -> Any:
        return lambda **given: original(**{**given, "transaction_seconds": seconds})

    wrap(graph, "KafkaOutput", around)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.runner")
    parser.add_argument("--die", metavar="POINT:N")
    parser.add_argument("--how", choices=["kill", "raise", "stop"], default="kill")
    parser.add_argument("--pace", type=int)
    parser.add_argument("--rhythm", type=int)
    parser.add_argument("--awake")
    parser.add_argument("--keep-unfinished", action="store_true")
    parser.add_argument("--unguarded", action="store_true")
    parser.add_argument("--transaction-seconds", type=float)
    parser.add_argument("--report", type=Path)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    report = Report(given.report)
    tell_of_skipped(report)
    tell_of_commits(report)
    if given.die:
        point, _, at = given.die.partition(":")
        Placed(point, int(at), given.how, report).patch()
    if given.pace:
        awake = None if given.awake is None else {int(lane) for lane in given.awake.split(",")}
        Pace(given.pace, given.rhythm, awake).patch()
    if given.keep_unfinished:
        wrap(recovery.Store, "_purge", lambda original: lambda store: None)
    if given.unguarded:
        forget_where_models_stand()
    if given.transaction_seconds:
        shorten_transactions(given.transaction_seconds)
    sys.argv = ["sluiceway", *given.command]
    report("started")
    cli.main()


if __name__ == "__main__":
    main()

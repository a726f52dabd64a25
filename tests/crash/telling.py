"""What a run writes into its report: lanes gained and lost, opened, read, committed, failed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sluiceway.flows.lane_run import Attempt, LaneRun
from sluiceway.flows.worker import Worker
from sluiceway.topics.directory_reader import DirectoryReader
from sluiceway.topics.directory_store import DirectoryLane
from sluiceway.topics.kafka_reader import KafkaReader
from sluiceway.topics.kafka_store import KafkaLane
from tests.crash.seams import Report, wrap


def tell(report: Report) -> None:
    def around_lane(event: str) -> Any:
        def around(original: Any) -> Any:
            def call(worker: Any, lane: int, *more: bool) -> None:
                report(event, lane=lane)
                original(worker, lane, *more)

            return call

        return around

    def around_open(original: Any) -> Any:
        def opening(attempt: Any, store: Any) -> Any:
            opened = original(attempt, store)
            report("opened", lane=attempt.lane, position=opened.reader.position, ended=opened.ended)
            return opened

        return opening

    def around_poll(original: Any) -> Any:
        def poll(reader: Any) -> Any:
            found = original(reader)
            if found is not None and found.values:
                report("polled", lane=found.lane, start=found.start, stop=found.stop, records=len(found.values))
            return found

        return poll

    def around_commit(original: Any) -> Any:
        def commit(lane: Any, positions: Mapping[str, int], changes: Any, *, final: bool) -> None:
            began = time.monotonic()
            original(lane, positions, changes, final=final)
            if positions:
                position = positions.get("instances", next(iter(positions.values())))
                took = time.monotonic() - began
                report("committed", lane=lane._lane, position=position, final=final, took=took)

        return commit

    def around_failed(original: Any) -> Any:
        def failed(run: Any, problem: BaseException) -> None:
            report("failed", lane=run.lane, problem=str(problem))
            original(run, problem)

        return failed

    wrap(Worker, "_gained", around_lane("gained"))
    wrap(Worker, "_lost", around_lane("lost"))
    wrap(Attempt, "_open", around_open)
    wrap(LaneRun, "_failed", around_failed)
    for reader in (KafkaReader, DirectoryReader):
        wrap(reader, "poll", around_poll)
    for lane in (KafkaLane, DirectoryLane):
        wrap(lane, "commit", around_commit)

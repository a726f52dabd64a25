"""What is looked at now and then while a flow runs: where its input ends, and whether anybody answers that question.

From this come lag and health; and once a minute the log is told how the flow does.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from sluiceway.errors import SluicewayError
from sluiceway.flows.progress import LaneProgress, Progress
from sluiceway.topics import kafka
from sluiceway.topics.ends import Ends
from sluiceway.topics.url import Topic
from sluiceway.wording import counted

logger = logging.getLogger("sluiceway.flow")

LOOK_SECONDS = 3.0
SUMMARY_SECONDS = 60.0
LOST_SECONDS = 4.0
"""A broker that has neither answered nor committed for so long is said to be lost."""


class Pulse:
    """A thread of its own, which ends with the process or with `close`."""

    def __init__(self, name: str, topic: Topic, config: kafka.Config, progress: Progress) -> None:
        self._name = name
        self._topic = topic
        self._config = config
        self._progress = progress
        self._seen: dict[LaneProgress, tuple[int, int]] = {}
        self._ends: Ends | None = None
        self._lost_since: float | None = None
        self._told_at, self._told_records = time.monotonic(), 0
        self._over = threading.Event()
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._look()
            if time.monotonic() - self._told_at >= SUMMARY_SECONDS:
                self._summarise()

    def _look(self) -> None:
        progress = self._progress
        lanes = progress.lanes.copy()
        asked = time.monotonic()
        try:
            self._ends = self._ends or Ends(self._topic, self._config)
            ends = self._ends.look(lanes)
        except SluicewayError as problem:
            self._missed(asked, problem)
            return
        progress.heard = time.monotonic()
        if self._lost_since is not None:
            logger.info("the broker answers again, after %.0f s", progress.heard - self._lost_since)
            self._lost_since = None
        for number, end in ends.items():
            lane = lanes[number]
            lane.end = end
            if not lane.lag:
                progress.failing.pop(number, None)
        self._watch_for_standstill(lanes)

    def _missed(self, asked: float, problem: SluicewayError) -> None:
        silent = time.monotonic() - self._progress.heard
        if self._lost_since is None and silent > LOST_SECONDS:
            self._lost_since = self._progress.heard
            logger.warning("the broker has not answered for %.0f s: %s", silent, problem)
        self._watch_for_standstill(self._progress.lanes.copy())

    def _watch_for_standstill(self, lanes: dict[int, LaneProgress]) -> None:
        now = time.monotonic()
        seen, self._seen = self._seen, {}
        for lane in lanes.values():
            at = lane.position, lane.committed
            moved = seen.get(lane) != at
            self._seen[lane] = at
            if not lane.lag:
                lane.behind_since = None
            elif moved or lane.behind_since is None:
                lane.behind_since = now

    def _summarise(self) -> None:
        now, records = time.monotonic(), self._progress.records
        rate = (records - self._told_records) / (now - self._told_at)
        self._told_at, self._told_records = now, records
        about = summary(self._progress, rate)
        logger.info("%s: %s", self._name, _sentence(about), extra={"fields": about})


def summary(progress: Progress, rate: float) -> dict[str, Any]:
    """How the flow does, in numbers."""
    lanes = progress.lanes.copy()
    lags = [lane.lag for lane in lanes.values()]
    newest = [counts.newest for number, counts in progress.counts.copy().items() if number in lanes and counts.newest]
    return {
        "records": progress.records,
        "records_per_second": round(rate, 1),
        "dead_letters": progress.total.dead_letters.total(),
        "lanes": len(lanes),
        "parked": len(progress.parked),
        "lag": None if None in lags else sum(lag or 0 for lag in lags),
        "checkpoint_age_seconds": round(max(time.time() - min(newest), 0.0), 1) if newest else None,
    }


def _sentence(about: dict[str, Any]) -> str:
    lag = "lag unknown" if about["lag"] is None else f"lag {about['lag']:,}"
    age = about["checkpoint_age_seconds"]
    parts = [
        f"{counted(about['records'], 'record')} ({about['records_per_second']:,.0f}/s)",
        counted(about["dead_letters"], "dead letter"),
        f"{lag} in {counted(about['lanes'], 'lane')}",
        *([f"{about['parked']} parked"] if about["parked"] else []),
        "no commit yet" if age is None else f"oldest checkpoint {age:.1f} s ago",
    ]
    return ", ".join(parts)

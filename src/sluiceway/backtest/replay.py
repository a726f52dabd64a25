"""The pass over the window: each poll is read and decoded once, and every variant learns from what was decoded."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from sluiceway.backtest.delay import Delay, LabelDelay
from sluiceway.backtest.labelled_rows import LabelledRows
from sluiceway.backtest.narrow import names_of, only
from sluiceway.backtest.seen_features import SeenFeatures
from sluiceway.backtest.start import Start
from sluiceway.backtest.stream_numbers import StreamNumbers
from sluiceway.backtest.variant_lane import VariantLane, folder_of
from sluiceway.backtest.variants import Variant
from sluiceway.backtest.window import Window
from sluiceway.flows.progress import Progress as FlowProgress
from sluiceway.flows.select import SELECTING
from sluiceway.operators.stages.shared_rows import SharedRows
from sluiceway.schemas.columns import ColumnRecord, ColumnTable
from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.topics import recorded

COMMIT_SECONDS = 5.0
OTHERS = 10


@dataclass(slots=True)
class Progress:
    """How far the pass is, for whoever shows it."""

    size: int
    done: int = 0
    records: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of processor time, by variant."""
    decoding: float = 0.0


@dataclass(slots=True)
class Counted:
    """What the records were, the same for all variants; kept from commit to commit."""

    records: int = 0
    """Read, of whichever stream."""
    instances: int = 0
    labelled: int = 0
    targets: int = 0
    """Of columns."""
    dead_letters: Counter[str] = field(default_factory=Counter)
    others: list[str] = field(default_factory=list)
    """Some streams that were not asked for."""

    def meet(self, batch: LaneBatch, wanted: frozenset[str]) -> None:
        if len(self.others) < OTHERS:
            names = names_of(batch) - wanted - set(self.others)
            self.others += sorted(names)[: OTHERS - len(self.others)]

    def add(self, poll: RawPoll, batch: LaneBatch) -> None:
        self.records += len(poll.values)
        self.dead_letters.update(letter.error_class for letter in batch.dead_letters)
        columns = batch.columns
        if columns is None:
            read = [record for _, records in batch.streams for record in records]
            self.targets += sum(isinstance(record, ColumnRecord) and record.name is None for record in read)
            self.targets += sum(isinstance(record, ColumnTable) and record.target is not None for record in read)
            self.instances += len(read)
            self.labelled = self.instances
        else:
            self.instances += len(columns) - int(columns.label_only.sum())
            self.labelled += int((columns.y != 0).sum())

    def to_json(self) -> dict[str, Any]:
        dead = dict(sorted(self.dead_letters.items()))
        return {
            "records": self.records, "instances": self.instances, "labelled": self.labelled, "dead_letters": dead,
            "others": self.others, "targets": self.targets,
        }  # fmt: skip

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Counted:
        dead = Counter(content["dead_letters"])
        return cls(
            content["records"], content["instances"], content["labelled"], content["targets"], dead, content["others"]
        )


def counted_of(out: Path, lanes: int) -> Counted:
    """Of all lanes, as kept at their last commits."""
    whole = Counted()
    for lane in range(lanes):
        path = _counted_at(out, lane)
        if path.exists():
            own = Counted.from_json(json.loads(path.read_text()))
            whole.records += own.records
            whole.instances += own.instances
            whole.labelled += own.labelled
            whole.targets += own.targets
            whole.dead_letters += own.dead_letters
            whole.others += own.others
    return whole


def labels_of(out: Path, lane: int) -> Path:
    return out / f"labels-{lane:05d}.bin"


def features_of(out: Path, lane: int) -> Path:
    return out / f"features-{lane:05d}.npz"


def _counted_at(out: Path, lane: int) -> Path:
    return out / f"counted-{lane:05d}.json"


@dataclass(frozen=True, slots=True)
class Pass:
    """What all lanes of a backtest have in common."""

    variants: Sequence[Variant]
    window: Window
    out: Path
    delay: Delay | None
    streams: frozenset[str] | None
    """None: all of them."""
    stopping: Callable[[], bool]
    tell: Callable[[Progress], None]
    progress: Progress
    jobs: int
    start: Start | None = None
    """Models to begin with."""

    def run(self) -> bool:
        """To the end, or until it is to stop; whether it came to the end. What is done is kept either way."""
        decode = SELECTING.decode(self.variants[0].settings, self.window.around, FlowProgress())
        with ThreadPoolExecutor(self.jobs) as workers:
            for lane in range(self.window.lanes):
                if not LanePass(self, lane, decode, workers if self.jobs > 1 else None).run():
                    return False
        return True


class LanePass:
    """One lane, all variants."""

    def __init__(
        self, whole: Pass, lane: int, decode: Callable[[RawPoll], LaneBatch], workers: ThreadPoolExecutor | None
    ) -> None:
        self._whole = whole
        self._lane = lane
        self._decode = decode
        self._workers = workers
        window, out = whole.window, whole.out
        self._names = StreamNumbers(out / f"streams-{lane:05d}.txt")
        self._shared = SharedRows()
        self._counted_at = _counted_at(out, lane)
        self._seen = SeenFeatures(features_of(out, lane))
        self._delay = None if whole.delay is None else LabelDelay(whole.delay)
        self._counted, self._position = Counted(), window.starts[lane]
        if self._counted_at.exists():
            kept = json.loads(self._counted_at.read_text())
            self._counted, self._position = Counted.from_json(kept), kept["position"]
        self._labelled = LabelledRows(labels_of(out, lane), self._names, self._position)
        self._lanes = [
            VariantLane(
                variant, lane, window, folder_of(out, variant.number), self._names, self._labelled, self._shared,
                None if whole.start is None else whole.start.lanes[lane],
            )
            for variant in whole.variants
        ]  # fmt: skip

    def run(self) -> bool:
        """To the lane's end, or until it is to stop; whether it came to the end."""
        progress, begin, stop = self._whole.progress, self._whole.window.starts[self._lane], self._stop
        starts = sorted({self._position, *(lane.position for lane in self._lanes)})
        if self._delay is not None and starts[0] > begin:
            starts.insert(0, begin)  # what it withholds follows from all records
        progress.done += starts[0] - begin
        try:
            for start, end in pairwise([*starts, stop]):
                if start < end and not self._segment(start, end):
                    self._commit(final=False)
                    return False
            self._tell_rest()
            self._commit(final=True)
        finally:
            for lane in self._lanes:
                lane.close()
            self._labelled.close()
            self._names.close()
        return True

    @property
    def _stop(self) -> int:
        return self._whole.window.stops[self._lane]

    def _segment(self, start: int, stop: int) -> bool:
        """A commit of some variants lies at its ends, so that no poll reaches across it."""
        whole = self._whole
        committed = time.monotonic()
        polls = recorded.read(whole.window.source, whole.variants[0].settings.kafka, self._lane, start, stop)
        with closing(polls):
            for poll in polls:
                self._step(poll)
                if time.monotonic() - committed > COMMIT_SECONDS:
                    self._commit(final=False)
                    committed = time.monotonic()
                if whole.stopping() and poll.stop < self._stop:
                    return False
        return True

    def _step(self, poll: RawPoll) -> None:
        progress, streams = self._whole.progress, self._whole.streams
        began = time.thread_time()
        poll.end = False
        batch = self._decode(poll)
        if streams is not None:
            self._counted.meet(batch, streams)
            batch = only(batch, streams)
        new = poll.start >= self._position
        if new:
            self._counted.add(poll, batch)
            columns = batch.columns
            names = [name.encode() for name, _ in batch.streams] if columns is None else columns.streams
            self._seen.look(batch, self._names.of(names))
            self._position = poll.stop
        if self._delay is not None:
            batch = self._delay.apply(batch)
        progress.decoding += time.thread_time() - began
        self._process(batch, new=new)
        progress.done += poll.stop - poll.start
        progress.records += len(poll.values)
        self._whole.tell(progress)

    def _tell_rest(self) -> None:
        """Labels that are withheld still."""
        if self._delay is not None:
            nothing = RawPoll(self._lane, self._stop, self._stop, False, [], [], [], [])
            self._process(self._delay.rest(self._decode(nothing)), new=True)

    def _process(self, batch: LaneBatch, *, new: bool) -> None:
        self._shared.look(batch.columns)
        self._labelled.look(batch.columns, new=new)
        if self._workers is None:
            for lane in self._lanes:
                lane.process(batch)
        else:
            shares = (self._lanes[at :: self._whole.jobs] for at in range(self._whole.jobs))

            def process(share: Sequence[VariantLane]) -> None:
                for lane in share:
                    lane.process(batch)

            for _ in self._workers.map(process, shares):  # a task a thread: handing one over takes long
                pass

    def _commit(self, *, final: bool) -> None:
        """What all variants share goes first: it may be ahead of them, never behind."""
        self._names.sync()
        self._labelled.sync()
        self._seen.save()
        fresh = self._counted_at.with_suffix(".new")
        fresh.write_text(json.dumps({**self._counted.to_json(), "position": self._position}))
        fresh.replace(self._counted_at)
        for number, lane in enumerate(self._lanes):
            lane.commit(final=final)
            self._whole.progress.seconds[number] += lane.seconds
            lane.seconds = 0.0

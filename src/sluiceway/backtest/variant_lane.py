"""One lane of one variant: the flow's own processing, with a store and snapshots in a folder of the variant's own."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluiceway.backtest.judgements import Judgements
from sluiceway.backtest.labelled_rows import LabelledRows
from sluiceway.backtest.start import WINDOW
from sluiceway.backtest.stream_numbers import StreamNumbers
from sluiceway.backtest.variants import Variant
from sluiceway.backtest.window import Window
from sluiceway.flows.process import belongs_to
from sluiceway.flows.progress import Progress
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.operators.stages.shared_rows import SharedRows
from sluiceway.schemas.asleep import AsleepInMemory
from sluiceway.schemas.lane import LaneBatch, OutRecord, RawPoll
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.directory_store import DirectoryStore, lane_path, write_new
from sluiceway.topics.state_records import CommitRecord, Contents, RunRecord
from sluiceway.topics.store import BelongsTo, Restored, Wanted
from sluiceway.topics.url import DirectoryTopic

RUN = 1


def folder_of(out: Path, number: int) -> Path:
    """What a variant leaves behind: `state`, `selections`, and what it is judged by, a file a lane."""
    return out / "variants" / f"{number:04d}"


def selections_of(folder: Path) -> DirectoryTopic:
    return DirectoryTopic((folder / "selections").absolute())


class VariantLane:
    """It goes on where its own last commit was."""

    def __init__(
        self,
        variant: Variant,
        lane: int,
        window: Window,
        folder: Path,
        streams: StreamNumbers,
        labelled: LabelledRows,
        shared: SharedRows,
        start: Contents | None = None,
    ) -> None:
        settings = with_finals(variant.settings, final=False)  # the state is to be the one before them
        topic = selections_of(folder)
        create_directory_topic(topic, window.lanes)
        belongs = {**belongs_to(settings, window.around, SELECTING), WINDOW: window.to_json()}
        store = DirectoryStore(settings.flow.name, folder / "state", {"selections": topic}, belongs)
        store.make()
        if start is not None:
            _put(start, lane_path(store.directory, lane), belongs, {topic.identity: 0}, window.starts[lane], settings)
        self._store = store.lane(lane, lambda: True)
        restored = self._store.open(Wanted(RUN, window.lanes, "backtest", lambda before: window.bounds()))
        self._reads = settings.source_role
        self._processor: Any = SELECTING.processor(settings, window.around)(lane, restored)
        commit = restored.commit
        self.position = window.starts[lane]
        if commit is not None:
            self.position = commit.positions.get(self._reads, self.position)
        self.done = commit is not None and commit.ends(RUN)
        self.seconds = 0.0
        """Of processor time, in this process."""
        self._judgements: Judgements | None = None
        if "predictions" in settings.kind.writes:
            kept = None if self.done else self.position
            self._judgements = Judgements(folder, lane, streams, labelled, kept)
            settings.kind.tell(self._processor, self._judgements.observe, self._judgements.note)
        settings.kind.share(self._processor, shared)

    def process(self, batch: LaneBatch) -> None:
        """What is decoded, unless the variant has had it already."""
        if batch.start < self.position or self.done:
            return
        began = time.thread_time()
        output = self._processor.process(batch)
        if self._judgements is not None:
            self._judgements.settle()
        self.seconds += time.thread_time() - began
        self._store.write(output)
        self.position = batch.stop

    def commit(self, *, final: bool) -> None:
        """Judgements first: what is beyond the commit is cut off when the backtest goes on."""
        if self.done:
            return
        if self._judgements is not None:
            self._judgements.sync()
        began = time.thread_time()
        changes = self._processor.changes()
        self.seconds += time.thread_time() - began
        self._store.commit({self._reads: self.position}, changes, final=final)
        self.done = final

    def close(self) -> None:
        if self._judgements is not None:
            self._judgements.close()
        self._store.close()


def _put(
    start: Contents, path: Path, belongs: BelongsTo, sizes: Mapping[str, int], position: int, settings: Settings
) -> None:
    """Models to begin with, unless the lane has begun."""
    if path.exists():
        return
    before = CommitRecord.of(
        RunRecord.none(), {settings.source_role: position}, json.loads(json.dumps(belongs)), sizes, final=False
    )
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    write_new(fresh, replace(start, opened=None, run=None, commit=before))
    fresh.rename(path)


def finals(variant: Variant, lane: int, window: Window, folder: Path) -> tuple[list[OutRecord], int]:
    """What the flow would say of every stream at the end, and the bytes of their states; nothing is changed."""
    store = DirectoryStore(variant.settings.flow.name, folder / "state", {}, {})
    contents = store.read(lane)
    settings = with_finals(variant.settings, final=True)
    restored = Restored(RunRecord(RUN, window.bounds()), contents.commit, AsleepInMemory(contents.streams))
    size = contents.size
    processor = SELECTING.processor(settings, window.around)(lane, restored)
    at = window.stops[lane]
    nothing = SELECTING.decode(settings, window.around, Progress())(RawPoll(lane, at, at, True, [], [], [], []))
    return processor.process(nothing).finals, size


def with_finals(settings: Settings, *, final: bool) -> Settings:
    return settings.model_copy(update={"emit": settings.emit.model_copy(update={"final": final})})

"""Whether a flow gives a snapshot again: the records up to its `source` offset, replayed with the flow's settings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from sluiceway.backtest.replay import Pass, Progress
from sluiceway.backtest.snapshot_file import SnapshotFile, unlike
from sluiceway.backtest.start import Start, read_start, refuse_unfit
from sluiceway.backtest.variant_lane import finals, folder_of, selections_of
from sluiceway.backtest.variants import Variant
from sluiceway.backtest.window import Window, part_of, surroundings
from sluiceway.errors import SettingsError
from sluiceway.flows.reach import reach
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.topics.directory import partition_path
from sluiceway.topics.reader import resolve_bounds

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What came of it."""

    same: bool
    to_the_byte: bool
    sentence: str
    records: int


def reproduce(
    snapshot: SnapshotFile,
    settings: Settings,
    *,
    start: str | None = None,
    state: Path | None = None,
    on_start: Callable[[Window], None] = lambda window: None,
    on_compile: Callable[[], None] | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Reproduced:
    """Replay what the snapshot's stream had been told by then; from where the flow began, or `start`, or a `state`."""
    content = snapshot.content
    partition, offset = _source(content, settings)
    lanes = surroundings(settings, settings.source).lanes
    if partition >= lanes:
        raise SettingsError(f"the snapshot is of partition {partition}, {settings.source} has {lanes}")
    variant, begun = Variant(0, {}, settings), None if state is None else read_start(state)
    if begun is not None:
        if start is not None:
            raise SettingsError("--state and --from do not go together: models go on where they stand in the topic")
        refuse_unfit(begun, [variant], lanes)
        begin = begun.positions(settings.source_role)[partition]
    else:
        begin = _beginning(settings, start, lanes, partition)
    window = part_of(settings, partition, begin, offset)
    on_start(window)
    SELECTING.prepare(settings, on_compile)
    progress = Progress(window.size, seconds=[0.0])
    with tempfile.TemporaryDirectory(prefix="sluiceway-") as place:
        folder = Path(place)
        chosen = frozenset([content["stream"]])
        Pass([variant], window, folder, None, chosen, lambda: False, tell, progress, 1, begun).run()
        found, end = _of_stream(folder, variant, window, partition, content["stream"])
    if content["reason"] == "final":
        found += end
    version = orjson.loads([*found, *end][-1])["version"] if found or end else 0
    return _compared(snapshot, found, version, begin, progress.records, begun)


def _source(content: Any, settings: Settings) -> tuple[int, int]:
    if content["flow"] != settings.flow.name:
        raise SettingsError(f"the snapshot is of flow {content['flow']!r}, the file is of {settings.flow.name!r}")
    reads = settings.source_role
    if reads not in content["source"]:
        raise SettingsError(f"the snapshot was made from {', '.join(content['source'])}, the flow reads {reads}")
    source = content["source"][reads]
    return source["partition"], source["offset"]


def _beginning(settings: Settings, start: str | None, lanes: int, partition: int) -> int:
    """Where the flow began, if it knows."""
    if start is None:
        store = reach(settings).store
        run = None if store is None else store.read(0).run
        if run is not None and partition < len(run.bounds):
            return run.bounds.starts[partition]
    begin = start or settings.input.start
    return resolve_bounds(settings.source, settings.kafka, lanes, begin, None).starts[partition]


def _of_stream(
    folder: Path, variant: Variant, window: Window, lane: int, stream: str
) -> tuple[list[bytes], list[bytes]]:
    """The stream's snapshots, in order, and the one that the end of the input would give, if it gave one."""
    own = folder_of(folder, 0)
    lines = partition_path(selections_of(own), lane).read_bytes().splitlines()
    ends = [record.value or b"" for record in finals(variant, lane, window, own)[0]]
    found, end = ([line for line in part if orjson.loads(line)["stream"] == stream] for part in (lines, ends))
    return found, end


def _compared(
    snapshot: SnapshotFile, found: list[bytes], version: int, begin: int, records: int, begun: Start | None
) -> Reproduced:
    content, wanted = snapshot.content, snapshot.content["version"]
    made = {_when(orjson.loads(line)): line for line in found}
    line = made.get(_when(content))
    if line is None:
        sentence = f"the replay from {begin:,} has no snapshot of {content['stream']!r} at version {wanted:,}"
        return Reproduced(False, False, f"{sentence}{_why(wanted, version, begun)}", records)
    if line == snapshot.text:
        return Reproduced(True, True, "identical, byte for byte", records)
    again = orjson.loads(line)
    places = list(unlike(dict(content), again))
    if not places:
        return Reproduced(True, False, "identical, but for how it is written down", records)
    told = "; ".join(map(str, places[:SHOWN]))
    more = f"; and {len(places) - SHOWN} places more" if len(places) > SHOWN else ""
    hint = ""
    if {place.place.split("[")[0] for place in places} <= {"entered", "left"}:
        hint = ": another snapshot came before it, as the final one of an earlier run, or of before a promotion"
    return Reproduced(False, False, f"it differs: {told}{more}{hint}", records)


def _when(snapshot: Any) -> tuple[Any, ...]:
    """Tells the snapshots of a stream apart."""
    return snapshot["generation"], snapshot["version"], *(one["offset"] for one in snapshot["source"].values())


def _why(wanted: int, version: int, begun: Start | None) -> str:
    if version == wanted:
        return ", though it comes to that version there: does the flow emit as it did then?"
    comes = f", it comes to version {version:,} by there"
    if begun is not None:
        return f"{comes}: the flow did not begin with that state"
    return (
        f"{comes}: the flow did not begin from nothing there; if it was promoted, forked or restored, --state names"
        f" what it began with"
    )

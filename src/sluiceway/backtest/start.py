"""Beginning with models that have learnt already: a live flow's, a backup's, or those an earlier backtest ended with.

A start is kept as a backup in the backtest's own folder, since a flow goes on: what is replayed again begins alike.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluiceway.backtest.variants import Variant
from sluiceway.errors import SettingsError
from sluiceway.flows.backup import read_all
from sluiceway.flows.fork import decided, refuse_other_models
from sluiceway.flows.reach import load, reach
from sluiceway.flows.select import model_settings
from sluiceway.topics.backup_files import MANIFEST, begin, finish, read_lane, read_manifest, write_lane
from sluiceway.topics.directory_store import DirectoryStore
from sluiceway.topics.state_records import Contents
from sluiceway.topics.store import BelongsTo
from sluiceway.wording import counted

WINDOW = "window_replayed"
"""What a backtest's own stores belong to beside what a flow's do."""


@dataclass(frozen=True, slots=True)
class Start:
    """All lanes, each as of some commit."""

    lanes: Sequence[Contents]
    belongs_to: BelongsTo
    what: str
    """What it is called in sentences."""

    def positions(self, reads: str) -> tuple[int, ...]:
        """Where each lane goes on."""
        found = []
        for number, contents in enumerate(self.lanes):
            known: Mapping[str, int] = {} if contents.commit is None else contents.commit.positions
            found.append(known.get(reads, decided(number, contents.run, reads).get(reads, 0)))
        return tuple(found)


def read_start(path: Path) -> Start:
    """From a flow's file, a backup's folder, or the folder of a variant of a backtest."""
    if (path / MANIFEST).exists():
        manifest = read_manifest(path)
        lanes = [read_lane(path, entry) for entry in manifest.lanes]
        return Start(lanes, manifest.belongs_to, f"the backup {path}")
    if (path / "state").is_dir():
        return of_variant(path)
    if path.is_dir() or not path.exists():
        raise SettingsError(
            f"{path} holds no state: name a flow's TOML file, a backup, or a variant's folder of a backtest"
            f" (DIR/variants/0000)"
        )
    copy = read_all(reach(load(path)), lambda: None)
    return Start(copy.lanes, copy.belongs_to, f"the flow in {path}")


def of_variant(folder: Path) -> Start:
    """What a variant had learnt at the end of its window, before final snapshots."""
    store = DirectoryStore("", folder / "state", {}, {})
    lanes = [store.read(lane) for lane in range(store.lanes())]
    commits = [contents.commit for contents in lanes if contents.commit is not None]
    if not commits:
        raise SettingsError(f"{folder} holds no state: its backtest has not come so far")
    belongs = {name: value for name, value in commits[0].belongs_to.items() if name != WINDOW}
    return Start(lanes, belongs, f"the variant {folder}")


def refuse_unfit(start: Start, variants: Sequence[Variant], lanes: int) -> None:
    """Variants may differ in what comes after learning, not in what the models depend on."""
    if len(start.lanes) != lanes:
        raise SettingsError(
            f"{start.what} has {counted(len(start.lanes), 'lane')}, the input has {counted(lanes, 'partition')}: its"
            f" models cannot go on"
        )
    for variant in variants:
        settings = variant.settings
        wanted = {**start.belongs_to, "input": settings.source.identity, **model_settings(settings)}
        refuse_other_models(start.what, f"variant {variant.label}", start.belongs_to, wanted)


def keep(start: Start, folder: Path) -> None:
    """As a backup; one that was not finished is made again."""
    if not (folder / MANIFEST).exists():
        shutil.rmtree(folder, ignore_errors=True)
        begin(folder)
        entries = [write_lane(folder, lane, contents) for lane, contents in enumerate(start.lanes)]
        flow = str(start.belongs_to.get("flow"))
        finish(folder, flow=flow, belongs_to=start.belongs_to, state=start.what, lanes=entries)

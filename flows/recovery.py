"""The checkpoint store: Bytewax's recovery partitions, and beside them what makes a restart exact.

A store directory holds
- `part-N.sqlite3`      Bytewax's checkpoints;
- `sluiceway.json`      what the store belongs to: flow, operator, parameters, input;
- `run.json`            the bounds of a run under way; gone after a clean end, so its presence says "unclean";
- `process-N.lock`      held by the running process N of the flow;
- `stop`                asks every process to stop, touched by the one that was told to;
- `creating`            there while the store is made or removed: a process that died then left nothing of worth.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import orjson
from bytewax.recovery import RecoveryConfig, init_db_dir

from sluiceway.errors import FlowError, SettingsError
from sluiceway.topics.bounds import Bounds

STORE_VERSION = 1
MANIFEST = "sluiceway.json"
FIRST_EPOCH = 1
"""Bytewax's."""
LOOKS, LOOK_AGAIN_SECONDS = 4, 0.05


class Store:
    """One recovery directory, held by this process until it ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.is_new = False
        self._held: TextIO | None = None

    # -- opening -------------------------------------------------------------------------------------------------

    def open(self, belongs_to: Mapping[str, Any], *, partitions: int, process: int, cluster: tuple[str, ...]) -> None:
        """Take the lock, create what is missing, refuse what is another flow's, drop unfinished epochs."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SettingsError(f"the recovery directory {self.directory} cannot be made: {problem.strerror}") from None
        try:
            self._open(belongs_to, partitions, process, cluster)
        except OSError as problem:
            raise SettingsError(
                f"the recovery directory {self.directory} cannot be used: {problem.filename}: {problem.strerror}"
            ) from None

    def _open(self, belongs_to: Mapping[str, Any], partitions: int, process: int, cluster: tuple[str, ...]) -> None:
        with self._gate():
            self._lock(process, cluster, flow=str(belongs_to["flow"]))
            manifest = self.directory / MANIFEST
            if self._creating.exists():
                self._remove()
            if not manifest.exists():
                if any(self.directory.glob("part-*.sqlite3")):
                    raise SettingsError(f"{self.directory} holds a recovery store that is not Sluiceway's")
                self.is_new = True
                self._creating.touch()
                self._make_partitions(partitions)
                _replace(manifest, {"store_version": STORE_VERSION, **belongs_to})
                self._creating.unlink()
            else:
                self._refuse_foreign(read_json(manifest), belongs_to)
                self._purge()

    def _make_partitions(self, partitions: int) -> None:
        try:
            init_db_dir(self.directory, partitions)
        except BaseException as problem:
            if is_panic(problem):
                reason = str(problem).splitlines()[0]
                raise FlowError(f"the recovery store {self.directory} cannot be made: {reason}") from problem
            raise

    @property
    def _creating(self) -> Path:
        return self.directory / "creating"

    def _remove(self) -> None:
        self._creating.touch()
        (self.directory / MANIFEST).unlink(missing_ok=True)
        for path in self.directory.glob("part-*.sqlite3*"):
            path.unlink()
        self._creating.unlink()

    @contextmanager
    def _gate(self) -> Iterator[None]:
        """One process at a time through `open`."""
        with (self.directory / "gate.lock").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            yield

    def _lock(self, process: int, cluster: tuple[str, ...], flow: str) -> None:
        """Hold `process-N.lock`; refuse if a process of another run holds any."""
        first = True
        for path in sorted(self.directory.glob("process-*.lock")):
            with path.open("r") as other:
                try:
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    holder = _holder(path)
                    if tuple(holder.get("cluster", ())) == cluster and path.name != f"process-{process}.lock":
                        first = False
                        continue
                    raise FlowError(
                        f"the recovery store {self.directory} is in use by process {holder.get('pid', '?')}"
                        f" on {holder.get('host', '?')} (flow {holder.get('flow', '?')!r},"
                        f" since {holder.get('since', '?')}); stop it first"
                    ) from None
        stop = self.directory / "stop"
        if first:
            stop.unlink(missing_ok=True)  # a past run's
        elif stop.exists():
            raise FlowError(f"the flow {flow!r} is being stopped; start it again when all its processes have ended")
        self._held = (self.directory / f"process-{process}.lock").open("a+")
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._held.truncate(0)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        holder = {"pid": os.getpid(), "host": os.uname().nodename, "flow": flow, "since": since, "cluster": cluster}
        self._held.write(orjson.dumps(holder).decode())
        self._held.flush()

    def _refuse_foreign(self, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        if found.get("store_version") != STORE_VERSION:
            raise FlowError(
                f"the recovery store {self.directory} has version {found.get('store_version')}, this program knows"
                f" {STORE_VERSION}; use the program that wrote it, or another directory"
            )
        for name, value in orjson.loads(orjson.dumps(wanted)).items():
            if found.get(name) != value:
                raise SettingsError(
                    f"the recovery store {self.directory} was made with {name.replace('_', ' ')} ="
                    f" {_shown(found.get(name))}, the flow now has {_shown(value)}; give the flow another name and"
                    f" another recovery directory, or undo the change"
                )

    # -- what the checkpoints hold -------------------------------------------------------------------------------

    def _purge(self) -> None:
        """Drop the state of epochs that never closed, which Bytewax 0.21.1 would load later (two deaths are enough)."""
        stores = [sqlite3.connect(path) for path in sorted(self.directory.glob("part-*.sqlite3"))]
        try:
            self._refuse_incomplete(stores)
            resume = resume_epoch(stores)
            for store in stores:
                store.execute("delete from snaps where snap_epoch >= ?", (resume,))
                store.commit()
        except sqlite3.DatabaseError as problem:
            raise FlowError(f"the recovery store {self.directory} is damaged: {problem}") from problem
        finally:
            for store in stores:
                store.close()

    def _refuse_incomplete(self, stores: list[sqlite3.Connection]) -> None:
        """Which epochs closed stands in one partition: without it, a purge would take all that the others hold."""
        parts = [row for store in stores for row in store.execute("select part_index, part_count from parts")]
        wanted = set(range(max((count for _, count in parts), default=1)))
        missing = sorted(wanted - {index for index, _ in parts})
        if missing:
            names = ", ".join(f"part-{index}.sqlite3" for index in missing)
            raise FlowError(
                f"the recovery store {self.directory} lacks {names}; put it back, or start anew with another flow name"
                f" and another recovery directory"
            )

    def positions(self, step: str) -> dict[int, int]:
        """Where the last whole checkpoint says that reading goes on, by partition; also while a flow writes others."""
        states = read_checkpoint(self.directory, step).states
        return {int(key): pickle.loads(state) for (_, key), state in states.items()}

    def keys(self, step: str) -> set[int]:
        """The partitions of which the last whole checkpoint holds a state of this step."""
        return {int(key) for _, key in read_checkpoint(self.directory, step).states}

    def config(self) -> RecoveryConfig:
        return RecoveryConfig(str(self.directory))

    # -- one run -------------------------------------------------------------------------------------------------

    @property
    def is_clean(self) -> bool:
        """The last run, if any, ended by itself or was stopped: nothing is out that the checkpoint does not know."""
        return not (self.directory / "run.json").exists()

    def pin(self, bounds: Bounds) -> None:
        """Begin a run, or go on with an interrupted one: from here on the store has run."""
        self.is_new = False
        _replace(self.directory / "run.json", bounds.to_json())

    def bounds(self) -> Bounds:
        """What the first process has pinned, before any other is connected to it; an interrupted run's are kept."""
        path = self.directory / "run.json"
        try:
            return Bounds.from_json(read_json(path))
        except (KeyError, TypeError) as problem:
            raise FlowError(f"{path} cannot be read: it lacks {problem}") from None

    def mark_clean(self) -> None:
        (self.directory / "run.json").unlink(missing_ok=True)

    def undo(self) -> None:
        """Leave no store where none was found: the flow was refused before it began."""
        if self.is_new:
            self._remove()

    def close(self) -> None:
        if self._held is not None:
            self._held.close()


class Checkpoint(NamedTuple):
    """What a store holds of the epochs that closed."""

    epoch: int
    """The next to begin."""
    states: dict[tuple[str, str], bytes]
    """The newest of each step and key, pickled."""


def read_checkpoint(directory: Path, step: str | None = None) -> Checkpoint:
    """The last whole checkpoint, of one step or of all, without disturbing whoever writes the next."""
    for _ in range(LOOKS):
        try:
            return _read_checkpoint(directory, step)
        except sqlite3.DatabaseError as problem:  # a flow that begins or ends just now replaces the files beside it
            damage = problem
            time.sleep(LOOK_AGAIN_SECONDS)
    raise FlowError(f"the recovery store {directory} is damaged: {damage}")


def _read_checkpoint(directory: Path, step: str | None) -> Checkpoint:
    newest: dict[tuple[str, str], tuple[int, bytes | None]] = {}
    columns = "step_id, state_key, snap_epoch, ser_change"
    query = f"select {columns} from snaps where snap_epoch < ? and step_id = ifnull(?, step_id)"
    with ExitStack() as open_:
        stores = [open_.enter_context(closing(_open(path))) for path in sorted(directory.glob("part-*.sqlite3"))]
        whole = resume_epoch(stores)
        for place, key, epoch, state in (row for store in stores for row in store.execute(query, (whole, step))):
            if epoch >= newest.get((place, key), (-1, None))[0]:
                newest[place, key] = epoch, state
    return Checkpoint(whole, {place: state for place, (_, state) in newest.items() if state is not None})


def _open(path: Path) -> sqlite3.Connection:
    # a reader would leave the files of a write-ahead log behind where there are none, unless nothing can change
    at_rest = not path.with_name(path.name + "-wal").exists()
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if at_rest else ''}", uri=True)


def resume_epoch(stores: list[sqlite3.Connection]) -> int:
    """Where Bytewax will resume: the slowest worker's frontier in the newest execution."""
    query = "select ex_num, worker_count, resume_epoch from exs"
    executions = [row for store in stores for row in store.execute(query)]
    if not executions:
        return FIRST_EPOCH
    number, workers, resumed = max(executions)
    frontiers: dict[int, int] = dict.fromkeys(range(workers), resumed)
    for store in stores:
        for worker, frontier in store.execute(
            "select worker_index, worker_frontier from fronts where ex_num = ?", (number,)
        ):
            frontiers[worker] = max(frontiers[worker], frontier)
    return min(frontiers.values())


def is_panic(problem: BaseException) -> bool:
    """Whether the engine itself broke off; the kind it raises then has no name that could be imported."""
    return type(problem).__name__ == "PanicException"


def read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise FlowError(f"{path} cannot be read: {problem}") from None
    return content


def _holder(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except FlowError:
        return {}


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file so that it is there whole or not at all."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()

"""A flow's store beside directory topics: one SQLite file a lane, one SQLite transaction a commit.

Output is appended, and seen, at once. Before a commit it is synced, and the commit says how much of it is written; what
stands beyond that after a crash is compared with what the lane writes again. One process has a lane, which a lock says
that dies with its holder.
"""

from __future__ import annotations

import fcntl
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO, TypeVar
from uuid import uuid4

from sluiceway.errors import FlowError, SettingsError
from sluiceway.schemas.lane import LaneOutput
from sluiceway.schemas.state import StoredChange, StoredStream
from sluiceway.topics.asleep_file import TABLES, AsleepInStore
from sluiceway.topics.directory_writer import DirectoryWriter
from sluiceway.topics.state_records import COMMIT, OPEN, RUN, CommitRecord, Contents, OpenRecord, RunRecord
from sluiceway.topics.store import (
    BelongsTo,
    Glance,
    LaneStore,
    Restored,
    Wanted,
    choices,
    refuse_changed,
)
from sluiceway.topics.url import DirectoryTopic

logger = logging.getLogger("sluiceway.store")

FILE_VERSION = 1
RECORDS = "create table if not exists record (key blob primary key, value blob not null) without rowid;"
CACHE = 2 << 20
"""Bytes of a lane's file that are kept in memory to look for streams, unless the flow says otherwise."""
WAIT_SECONDS = 0.01
LOOKS, LOOK_AGAIN_SECONDS = 5, 0.05
_Found = TypeVar("_Found")


def lane_path(directory: Path, lane: int) -> Path:
    return directory / f"lane-{lane:05d}.sqlite3"


class DirectoryStore:
    """The store of a flow whose output goes to directories alone."""

    def __init__(
        self,
        flow: str,
        directory: Path,
        topics: Mapping[str, DirectoryTopic],
        belongs_to: BelongsTo,
        cache: int = CACHE,
    ) -> None:
        self.flow = flow
        self.directory = directory
        self.topics = topics
        """The outputs, by what they carry."""
        self.belongs_to = belongs_to
        self.cache = cache

    def __str__(self) -> str:
        return f"the store {self.directory}"

    def make(self) -> None:
        """The directory; what goes into it comes with each lane."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SettingsError(f"{self} cannot be made: {problem.strerror}") from None

    def lanes(self) -> int:
        """How many have ever been opened."""
        return len(list(self.directory.glob("lane-*.sqlite3")))

    def glance(self, lane: int) -> Glance:
        found = self._look(lane, lambda file: _records(file))
        return Glance(None, None) if found is None else Glance(found.opened, found.commit)

    def read(self, lane: int) -> Contents:
        return self._look(lane, _contents) or Contents()

    def holds_streams(self, lane: int) -> bool:
        return self._look(lane, _holds_streams) or False

    def run(self) -> RunRecord | None:
        """The run under way, which lane 0 keeps."""
        found = self._look(0, lambda file: _records(file))
        return None if found is None else found.run

    def _look(self, lane: int, read: Callable[[sqlite3.Connection], _Found]) -> _Found | None:
        """Without disturbing whoever writes; a flow that begins or ends just now replaces the files beside it."""
        path = lane_path(self.directory, lane)
        problem: sqlite3.Error | None = None
        for _ in range(LOOKS):
            if not path.exists():
                return None
            try:
                with closing(_open_to_read(path)) as file:
                    if not file.execute("select 1 from sqlite_master where name = 'piece'").fetchone():
                        return None
                    file.execute("begin")
                    return read(file)
            except sqlite3.Error as found:
                problem = found
                time.sleep(LOOK_AGAIN_SECONDS)
        raise FlowError(f"{path} cannot be read: {problem}; {choices(self.flow)}")

    def lane(self, lane: int, alive: Callable[[], bool]) -> LaneStore:
        return DirectoryLane(lane, self, alive)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Every lane's lock; refused while somebody else has one."""
        with ExitStack() as held:
            for lane in range(self.lanes()):
                held.enter_context(lock(self, lane))
            yield

    def remove(self) -> None:
        """Every lane's file, unless one is in use; what else lies in the directory is not ours."""
        with self.held():
            files = [*self.directory.glob("lane-?????.sqlite3*"), *self.directory.glob("lane-?????.lock")]
            for path in sorted(files, reverse=True):  # lane 0, which keeps the run, last
                path.unlink(missing_ok=True)
            with suppress(OSError):
                self.directory.rmdir()


class DirectoryLane:
    """One lane of it, to be written."""

    def __init__(self, lane: int, store: DirectoryStore, alive: Callable[[], bool]) -> None:
        self._lane = lane
        self._store = store
        self._alive = alive
        self._member = uuid4().hex
        self._path = lane_path(store.directory, lane)
        self._run = RunRecord.none()
        self._lock: TextIO | None = None
        self._file: sqlite3.Connection | None = None
        self._outputs: DirectoryWriter | None = None
        self._asleep: AsleepInStore | None = None

    def open(self, wanted: Wanted) -> Restored:
        self._lock = lock(self._store, self._lane)
        with self._told():
            self._file = file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            version = file.execute("pragma user_version").fetchone()[0]
            made = file.execute("select count(*) from sqlite_master").fetchone()[0]
            if made and version != FILE_VERSION:
                raise FlowError(
                    f"{self._path} has version {version}, this program knows {FILE_VERSION}; use the program that wrote"
                    f" it, or {choices(self._store.flow)}"
                )
            _prepare(file)
            opened = OpenRecord.of_this_process(self._store.flow, self._member)
            _put(file, OPEN, opened.dump())
            found = _records(file)
        if found.commit is not None:
            store = self._store
            refuse_changed(
                str(store), store.flow, found.commit.belongs_to, store.belongs_to, lambda: _holds_streams(file)
            )
        run = self._agree(wanted, found.run)
        self._run = run
        self._outputs = DirectoryWriter(self._lane, self._store.topics, found.commit)
        if self._outputs.is_new:  # from where on they are written must be known before anything is
            before = found.commit
            self.commit({} if before is None else before.positions, (), final=before is not None and before.final)
        with self._told():
            looking = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._asleep = AsleepInStore(looking, str(self._path), self._store.cache)
        return Restored(run, found.commit, self._asleep)

    def _agree(self, wanted: Wanted, before: RunRecord | None) -> RunRecord:
        """The run that all lanes are about: lane 0 keeps it, the others wait for it."""
        if self._lane == 0:
            if before is not None and wanted.accepts(before):
                return before
            run = wanted.begin(before)
            assert self._file is not None
            with self._told():
                _put(self._file, RUN, run.dump())
            return run
        while True:
            found = self._store.run()
            if found is not None and wanted.accepts(found):
                return found
            if not self._alive():
                raise FlowError(f"lane {self._lane} is no longer wanted")
            time.sleep(WAIT_SECONDS)

    def write(self, output: LaneOutput) -> None:
        assert self._outputs is not None
        self._outputs.write(output)

    def commit(self, positions: Mapping[str, int], changes: Sequence[StoredChange], *, final: bool) -> None:
        assert self._outputs is not None
        file = self._file
        assert file is not None
        record = CommitRecord.of(
            self._run, positions, self._store.belongs_to, self._outputs.sync(), final=final
        )
        with self._told():
            file.execute("begin immediate")
            _put_commit(file, changes, record)
            file.execute("commit")
        if self._asleep is not None:
            self._asleep.committed()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite meets, as a sentence."""
        try:
            yield
        except sqlite3.Error as problem:
            if self._file is not None and self._file.in_transaction:
                self._file.rollback()
            raise FlowError(f"{self._path} cannot be written: {problem}") from problem

    def park(self, reason: str) -> None:
        try:
            parked = replace(OpenRecord.of_this_process(self._store.flow, self._member), parked=reason)
            if self._file is not None:
                with self._told():
                    _put(self._file, OPEN, parked.dump())
        except FlowError as problem:
            logger.debug("lane %d is parked, but its store does not know: %s", self._lane, problem)

    def close(self) -> None:
        if self._outputs is not None:
            self._outputs.close()
        if self._asleep is not None:
            self._asleep.close()
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.close()


def lock(store: DirectoryStore, lane: int) -> TextIO:
    """Be the lane's only owner; the lock goes when its holder does."""
    try:
        file = lane_path(store.directory, lane).with_suffix(".lock").open("a+")
    except OSError as problem:
        raise FlowError(f"{store} cannot be written: {problem.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        owner = store.glance(lane).opened
        who = "another process" if owner is None else f"process {owner.pid} on {owner.host}"
        raise FlowError(
            f"{store} is in use by {who}: a flow that writes directories is one process; stop it first"
        ) from None
    return file


# -- a file's contents ------------------------------------------------------------------------------------------------


def _prepare(file: sqlite3.Connection) -> None:
    file.execute("pragma journal_mode = wal")
    file.execute("pragma synchronous = full")
    # it looks and then writes: SQLite lets nobody wait who began by looking, if somebody who dies still has the file
    file.executescript(f"begin immediate; {RECORDS} {TABLES} pragma user_version = {FILE_VERSION}; commit;")


def _put(file: sqlite3.Connection, key: bytes, value: bytes) -> None:
    file.execute("insert into record values (?, ?) on conflict do update set value = excluded.value", (key, value))


def _put_commit(file: sqlite3.Connection, changes: Sequence[StoredChange], record: CommitRecord) -> None:
    put_changes(file, changes)
    _put(file, COMMIT, record.dump())


def put_changes(file: sqlite3.Connection, changes: Sequence[StoredChange]) -> None:
    """Into the tables of streams and their pieces."""
    file.executemany(
        "insert into stream values (?, ?, ?) on conflict do update set head = excluded.head",
        ((change.stream, change.birth, change.head) for change in changes),
    )
    file.executemany(
        "insert into piece values (?, ?, ?) on conflict do update set value = excluded.value",
        ((change.stream, number, value) for change in changes for number, value in change.added.items()),
    )
    file.executemany(
        "delete from piece where name = ? and number = ?",
        ((change.stream, number) for change in changes for number in change.dropped),
    )


def write_new(path: Path, contents: Contents) -> None:
    """A lane's file that holds what another store held."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            _prepare(file)
            file.execute("begin immediate")
            if contents.run is not None:
                _put(file, RUN, contents.run.dump())
            if contents.commit is not None:
                _put_commit(file, list(contents.changes()), contents.commit)
            file.execute("commit")
    except sqlite3.Error as problem:
        raise FlowError(f"{path} cannot be written: {problem}") from problem


def _open_to_read(path: Path) -> sqlite3.Connection:
    # a reader would leave the files of a write-ahead log behind where there are none, unless nothing can change
    at_rest = not path.with_name(path.name + "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if at_rest else ''}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _records(file: sqlite3.Connection) -> Contents:
    found: dict[bytes, bytes] = dict(file.execute("select key, value from record"))
    return Contents(
        OpenRecord.load(found[OPEN]) if OPEN in found else None,
        RunRecord.load(found[RUN]) if RUN in found else None,
        CommitRecord.load(found[COMMIT]) if COMMIT in found else None,
    )


def _holds_streams(file: sqlite3.Connection) -> bool:
    return file.execute("select 1 from stream limit 1").fetchone() is not None


def _contents(file: sqlite3.Connection) -> Contents:
    contents = _records(file)
    for name, birth, head in file.execute("select name, birth, head from stream order by birth"):
        contents.streams[name] = StoredStream(birth, head)
    for name, number, value in file.execute("select name, number, value from piece order by name, number"):
        contents.streams[name].pieces[number] = value
    return contents

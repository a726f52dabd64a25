"""Streams of a lane that lie on this machine's disk: in the lane's own store beside directories, else in a file that
is made for the time being.

Neither is read as a whole: what is asked for comes from the disk, through a small cache.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sluiceway.errors import FlowError
from sluiceway.schemas.state import StoredStream
from sluiceway.topics.state_records import FIRST, Place, damaged, part_of, whole

TABLES = """
create table if not exists stream (name text primary key, birth integer not null, head blob not null);
create index if not exists stream_birth on stream (birth);
create table if not exists piece (
    name text not null, number integer not null, value blob not null, primary key (name, number)
) without rowid;
"""
SMALLEST_CACHE = 256 << 10
_PARTS = "create table part (key blob primary key, value blob not null) without rowid"
_INSTEAD = "insert or replace into stream values (?, ?, ?)"
_AGAIN = "insert into stream values (?, ?, ?) on conflict (name) do update set head = excluded.head"
"""Of a stream that keeps its birth, as all do while a lane is open: indices are left alone, which halves the cost."""
_AT_ONCE = 512
"""Names in one question; a power of two."""


class AsleepInStore:
    """In a lane's file beside directories, which each commit brings up to date: there is no second copy."""

    def __init__(self, file: sqlite3.Connection, where: str, cache: int) -> None:
        """`cache`: so many bytes of the file are kept in memory."""
        self._file = file
        self._where = where
        self.landed: int | None = 0
        self._has_pieces = True
        with self._told():
            file.execute(f"pragma cache_size = {-(max(cache, SMALLEST_CACHE) >> 10)}")
            last = file.execute("select max(birth) from stream").fetchone()[0]
        self.next_birth: int = 0 if last is None else last + 1

    def find(self, names: Sequence[str]) -> dict[str, StoredStream]:
        found: dict[str, StoredStream] = {}
        with self._told():
            for some in _some(names):
                rows = self._file.execute(f"select name, birth, head from stream where name in {_marks(some)}", some)
                found |= self._with_pieces(rows)
        return found

    def born(self, first: int, stop: int) -> dict[str, StoredStream]:
        with self._told():
            rows = self._file.execute(
                "select name, birth, head from stream where birth >= ? and birth < ? order by birth", (first, stop)
            )
            return self._with_pieces(rows)

    def _with_pieces(self, rows: Iterable[tuple[str, int, bytes]]) -> dict[str, StoredStream]:
        streams = {name: StoredStream(birth, head) for name, birth, head in rows}
        for some in _some([*streams]) if self._has_pieces else ():
            pieces = self._file.execute(
                f"select name, number, value from piece where name in {_marks(some)} order by name, number", some
            )
            for name, number, value in pieces:
                streams[name].pieces[number] = value
        return streams

    def woke(self, names: Iterable[str]) -> None:
        """They stay where they are."""

    def put(self, streams: Mapping[str, StoredStream]) -> None:
        """Commits have done that."""

    def committed(self) -> None:
        """A commit of the lane is in here."""
        self.landed = (self.landed or 0) + 1

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite meets, as a sentence."""
        try:
            yield
        except sqlite3.Error as problem:
            raise FlowError(f"sleeping streams cannot be kept in {self._where}: {problem}") from problem
        except OverflowError:  # a number that no lane gives
            raise damaged() from None


class AsleepInFile(AsleepInStore):
    """In a file that is no state: it is filled from the state topic when a lane is opened, and goes when its process
    does, however that ends, since the file has lost its name by then.

    All of it is one transaction that never ends: nothing is ever synced or undone.
    """

    def __init__(self, cache: int) -> None:
        directory = os.environ.get("TMPDIR") or tempfile.gettempdir()
        where = f"{directory} (TMPDIR may name another directory)"
        try:
            number, name = tempfile.mkstemp(prefix="sluiceway-", dir=directory)
        except OSError as problem:
            raise FlowError(f"sleeping streams cannot be kept in {where}: {problem.strerror}") from None
        os.close(number)
        try:
            file = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode = off", "synchronous = off", "locking_mode = exclusive"):
                file.execute(f"pragma {setting}")
            file.executescript(f"begin exclusive; {TABLES} {_PARTS}")
        except sqlite3.Error as problem:
            raise FlowError(f"sleeping streams cannot be kept in {where}: {problem}") from None
        finally:
            Path(name).unlink()
        super().__init__(file, where, cache)
        self.landed = None
        self._has_pieces = self._has_parts = False

    def put(self, streams: Mapping[str, StoredStream]) -> None:
        with self._told():
            self._put_heads([(name, stored.birth, stored.head) for name, stored in streams.items()], _AGAIN)
            if self._has_pieces:
                self._file.executemany("delete from piece where name = ?", [(name,) for name in streams])
            self._put_pieces(
                [(name, number, value) for name, one in streams.items() for number, value in one.pieces.items()]
            )

    def _put_heads(self, heads: list[tuple[str, int, bytes]], how: str = _INSTEAD) -> None:
        self._file.executemany(how, heads)
        self.next_birth = max(self.next_birth, max((birth + 1 for _, birth, _ in heads), default=0))

    def _put_pieces(self, pieces: list[tuple[str, int, bytes]]) -> None:
        if pieces:
            self._has_pieces = True
            self._file.executemany("insert or replace into piece values (?, ?, ?)", pieces)

    # -- filled from state records -------------------------------------------------------------------------------

    def take(self, records: Mapping[bytes, bytes | None]) -> None:
        """The newest record of each key; what comes in several chunks waits for the end."""
        heads: list[tuple[str, int, bytes]] = []
        pieces: list[tuple[str, int, bytes]] = []
        parts: list[tuple[bytes, bytes]] = []
        no_parts: list[tuple[bytes]] = []
        dropped: list[Place] = []
        try:
            for key, value in records.items():
                place, chunk = part_of(key)
                birth = _birth_of_single(value) if value is not None and chunk == 0 else None
                if value is not None and birth is None:
                    parts.append((key, value))
                else:
                    no_parts.append((key,))
                if value is not None and birth is not None:
                    data = value[FIRST.size :]
                    if place.piece is None:
                        heads.append((place.stream, birth, data))
                    else:
                        pieces.append((place.stream, place.piece, data))
                elif chunk == 0:
                    dropped.append(place)
        except (struct.error, UnicodeDecodeError):
            raise damaged() from None
        with self._told():
            self._put_heads(heads)
            self._put_pieces(pieces)
            for stream, piece in dropped:
                if piece is None:
                    self._file.execute("delete from stream where name = ?", (stream,))
                else:
                    self._file.execute("delete from piece where name = ? and number = ?", (stream, piece))
            if self._has_parts:
                self._file.executemany("delete from part where key = ?", no_parts)
            if parts:
                self._has_parts = True
                self._file.executemany("insert or replace into part values (?, ?)", parts)

    def finish(self) -> tuple[Self, dict[Place, int]]:
        many: dict[Place, int] = {}
        with self._told():
            for (key,) in self._file.execute("select key from part").fetchall():
                place, chunk = part_of(key)
                if self._part(place.key(0)) is None:
                    raise damaged()
                if chunk == 0:
                    birth, data, many[place] = whole(place, self._part)
                    if place.piece is None:
                        self._put_heads([(place.stream, birth, data)])
                    else:
                        self._put_pieces([(place.stream, place.piece, data)])
            self._file.execute("delete from part")
            orphan = "select 1 from piece where name not in (select name from stream) limit 1"
            if self._has_pieces and self._file.execute(orphan).fetchone():
                raise damaged()
        return self, many

    def _part(self, key: bytes) -> bytes | None:
        found = self._file.execute("select value from part where key = ?", (key,)).fetchone()
        return None if found is None else found[0]


def _birth_of_single(first: bytes) -> int | None:
    """Of a state that is one chunk."""
    count, birth = FIRST.unpack_from(first)
    return int(birth) if count <= 1 else None


def _some(names: Sequence[str]) -> Iterator[list[str]]:
    """So many at a time, the last ones repeated up to a power of two: few different questions have to be prepared."""
    for start in range(0, len(names), _AT_ONCE):
        some = [*names[start : start + _AT_ONCE]]
        room = 1 << (len(some) - 1).bit_length()
        yield some + some[-1:] * (room - len(some))


def _marks(names: Sequence[str]) -> str:
    return f"({','.join('?' * len(names))})"

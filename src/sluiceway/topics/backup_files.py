"""A backup of a flow's state: a directory with one file a lane, and a manifest that is written last.

A lane's file is a line that says what it is, then records as a state topic holds them (`state_records`), each as

    length of key, length of value (4 bytes each, big endian), key, value

with every state in one chunk. The manifest has the size and the SHA-256 of each file, so a backup that is not whole, or
not what was written, is refused. Nothing in it can run code.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from sluiceway.errors import FlowError, SettingsError
from sluiceway.topics.state_records import (
    COMMIT,
    RUN,
    CommitRecord,
    Contents,
    Place,
    RunRecord,
    assemble,
    chunks,
    is_state,
)

BACKUP_VERSION = 1
MANIFEST = "manifest.json"
MAGIC = b"sluiceway lane backup 1\n"
_LENGTHS = struct.Struct(">II")
WHOLE = 1 << 32
"""No state is cut here."""


@dataclass(frozen=True, slots=True)
class LaneEntry:
    """A lane in the manifest."""

    file: str
    bytes: int
    sha256: str
    streams: int
    positions: Mapping[str, int] | None
    """None: the lane had not committed yet."""
    at: int | None
    """When its last commit was, in milliseconds."""
    final: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    flow: str
    belongs_to: Mapping[str, Any]
    state: str
    """Where the state lay."""
    at: int
    """When the backup was made, in milliseconds."""
    lanes: list[LaneEntry]
    version: int = field(default=BACKUP_VERSION)


def begin(directory: Path) -> None:
    """A place for a backup: new, or empty."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise SettingsError(f"{directory} is not empty: a backup goes into a directory of its own")
    except OSError as problem:
        raise SettingsError(f"{directory} cannot be made: {(problem.strerror or str(problem)).lower()}") from None


def write_lane(directory: Path, lane: int, contents: Contents) -> LaneEntry:
    path = directory / f"lane-{lane:05d}.backup"
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("xb") as file:
            for part in _frames(contents):
                file.write(part)
                digest.update(part)
                size += len(part)
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        raise FlowError(f"{path} cannot be written: {problem.strerror}") from None
    commit = contents.commit
    return LaneEntry(
        file=path.name,
        bytes=size,
        sha256=digest.hexdigest(),
        streams=len(contents.streams),
        positions=None if commit is None else commit.positions,
        at=None if commit is None else commit.at,
        final=commit is not None and commit.final,
    )


def finish(
    directory: Path, *, flow: str, belongs_to: Mapping[str, Any], state: str, lanes: Sequence[LaneEntry]
) -> Manifest:
    """The manifest: only with it is there a backup."""
    manifest = Manifest(flow, belongs_to, state, round(time.time() * 1000), list(lanes))
    fresh = directory / f"{MANIFEST}.new"
    try:
        with fresh.open("xb") as file:
            file.write(orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(directory / MANIFEST)
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        raise FlowError(f"{directory / MANIFEST} cannot be written: {problem.strerror}") from None
    return manifest


def _frames(contents: Contents) -> Iterator[bytes]:
    yield MAGIC
    for key, value in _records(contents):
        yield _LENGTHS.pack(len(key), len(value))
        yield key
        yield value


def _records(contents: Contents) -> Iterator[tuple[bytes, bytes]]:
    if contents.run is not None:
        yield RUN, contents.run.dump()
    for change in contents.changes():
        parts = {Place(change.stream, None): change.head}
        parts |= {Place(change.stream, number): piece for number, piece in change.added.items()}
        for place, data in parts.items():
            for part in chunks(data, change.birth, WHOLE):
                yield place.key(0), part
    if contents.commit is not None:
        yield COMMIT, contents.commit.dump()


# -- reading ----------------------------------------------------------------------------------------------------------


def read_manifest(directory: Path) -> Manifest:
    path = directory / MANIFEST
    try:
        content = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        hint = "it was not written to its end" if any(directory.glob("lane-*.backup")) else "it is none"
        raise SettingsError(f"{directory} is no whole backup: there is no {MANIFEST}, so {hint}") from None
    except (OSError, orjson.JSONDecodeError) as problem:
        raise FlowError(f"{path} cannot be read: {problem}") from None
    version = content.get("version") if isinstance(content, dict) else None
    if version != BACKUP_VERSION:
        raise SettingsError(f"{directory} is a backup of version {version}, this program knows {BACKUP_VERSION}")
    try:
        return Manifest(**{**content, "lanes": [LaneEntry(**lane) for lane in content["lanes"]]})
    except (KeyError, TypeError):
        raise FlowError(f"{path} is damaged, or not Sluiceway's") from None


def read_lane(directory: Path, entry: LaneEntry) -> Contents:
    """Checked before anything of it is used."""
    path = directory / Path(entry.file).name
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise FlowError(f"{path} cannot be read: {problem.strerror}") from None
    if len(data) != entry.bytes or hashlib.sha256(data).hexdigest() != entry.sha256:
        raise FlowError(f"{path} is damaged: it is not what {MANIFEST} says; nothing was restored")
    try:
        return _contents(data)
    except (FlowError, struct.error) as problem:
        raise FlowError(f"{path} cannot be used: {problem}; nothing was restored") from None


def _contents(data: bytes) -> Contents:
    if not data.startswith(MAGIC):
        raise FlowError("it is no lane's backup, or one of another version")
    contents = Contents()
    states: dict[bytes, bytes] = {}
    at = len(MAGIC)
    while at < len(data):
        key_size, value_size = _LENGTHS.unpack_from(data, at)
        at += _LENGTHS.size
        key, value = data[at : at + key_size], data[at + key_size : at + key_size + value_size]
        at += key_size + value_size
        if key == RUN:
            contents.run = RunRecord.load(value)
        elif key == COMMIT:
            contents.commit = CommitRecord.load(value)
        elif is_state(key):
            states[key] = value
        else:
            raise FlowError(f"a record of it with key {key[:40]!r} is not Sluiceway's")
    contents.streams, _ = assemble(states)
    return contents

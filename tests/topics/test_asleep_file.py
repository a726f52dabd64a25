"""Streams in a file of their own: filled from state records as they come, and gone with the process."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sluiceway.errors import FlowError
from sluiceway.schemas.state import StoredStream
from sluiceway.topics.asleep_file import AsleepInFile
from sluiceway.topics.state_records import DamagedError, Place, chunks
from sluiceway.topics.state_topic import GatheredInMemory

SMALL = 40
"""Bytes of a chunk."""


def records(rng: np.random.Generator, rows: int) -> list[tuple[bytes, bytes | None]]:
    """Heads and pieces of some streams, rewritten, cut and removed again, as a lane writes them."""
    many: dict[Place, int] = {}
    written: list[tuple[bytes, bytes | None]] = []
    births = {f"ströme-{number}": number for number in range(12)}
    pieces: dict[str, set[int]] = {name: set() for name in births}
    heads = set[str]()
    for number in range(rows):
        name = f"ströme-{rng.integers(12)}"
        if name in heads and pieces[name] and rng.random() < 0.3:
            gone = Place(name, int(rng.choice(sorted(pieces[name]))))
            pieces[name].discard(gone.piece or 0)
            written += [(gone.key(chunk), None) for chunk in range(many.pop(gone, 1))]
        if rng.random() < 0.4:
            pieces[name].add(number)
            written += _put(Place(name, number), rng.bytes(int(rng.integers(100))), births[name], many)
        written += _put(Place(name, None), rng.bytes(int(rng.integers(100))), births[name], many)
        heads.add(name)
    return written


def _put(place: Place, data: bytes, birth: int, many: dict[Place, int]) -> list[tuple[bytes, bytes | None]]:
    parts: list[tuple[bytes, bytes | None]] = [
        (place.key(chunk), part) for chunk, part in enumerate(chunks(data, birth, SMALL))
    ]
    gone = range(len(parts), many.pop(place, 1))
    many[place] = len(parts)
    return parts + [(place.key(chunk), None) for chunk in gone]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_file_gathers_what_memory_does(batch: int) -> None:
    rng = np.random.default_rng(batch)
    for _ in range(5):
        written = records(rng, 60)
        memory = GatheredInMemory()
        with closing(AsleepInFile(0)) as file:
            for start in range(0, len(written), batch):
                some = dict(written[start : start + batch])
                file.take(some)
                memory.take(some)
            _, many = file.finish()
            asleep, many_in_memory = memory.finish()
            assert many == many_in_memory
            assert len(many) > 3
            assert file.next_birth == asleep.next_birth
            assert file.born(0, 99) == asleep.born(0, 99) == memory.streams
            assert [*file.born(0, 99)] == [*asleep.born(0, 99)]
            names = ["ströme-3", "nobody", "ströme-7", *(f"strange-{number}" for number in range(1100)), "ströme-0"]
            assert file.find(names) == asleep.find(names)
            assert file.born(2, 5) == asleep.born(2, 5)


@pytest.mark.parametrize("lacking", ["first", "second", "head"])
def test_what_lacks_a_part_is_damaged(lacking: str) -> None:
    many: dict[Place, int] = {}
    whole = dict(_put(Place("a", None), bytes(100), 0, many) + _put(Place("a", 4), bytes(100), 0, many))
    gone = {"first": Place("a", None).key(0), "second": Place("a", 4).key(1), "head": None}[lacking]
    left = {key: value for key, value in whole.items() if (key[:1] == b"p" if gone is None else key != gone)}
    for gathering in (AsleepInFile(0), GatheredInMemory()):
        gathering.take(left)
        with pytest.raises(DamagedError, match="parts of it are missing"):
            gathering.finish()


def test_who_goes_to_sleep_again_is_as_he_was_last() -> None:
    with closing(AsleepInFile(0)) as file:
        file.put({"a": StoredStream(0, b"A", {1: b"1", 2: b"2"}), "b": StoredStream(1, b"B")})
        file.put({"a": StoredStream(0, b"AA", {2: b"2", 3: b"3"})})
        assert file.born(0, 5) == {"a": StoredStream(0, b"AA", {2: b"2", 3: b"3"}), "b": StoredStream(1, b"B")}
        assert file.next_birth == 2


def test_nothing_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with closing(AsleepInFile(0)) as file:
        file.put({f"s{number}": StoredStream(number, bytes(5000)) for number in range(500)})
        assert not [*tmp_path.iterdir()]
        assert os.fstat(_descriptor(tmp_path)).st_size > 0
        assert len(file.find(["s7"])) == 1


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(FlowError, match=r"sleeping streams cannot be kept in .*nowhere \(TMPDIR .*No such file"):
        AsleepInFile(0)


def test_a_disk_that_is_full() -> None:
    with closing(AsleepInFile(0)) as file:
        file._file.execute("pragma max_page_count = 40")
        with pytest.raises(FlowError, match=r"sleeping streams cannot be kept in .*: database or disk is full"):
            file.put({f"s{number}": StoredStream(number, bytes(5000)) for number in range(500)})


def test_a_cache_is_all_that_it_keeps_in_memory() -> None:
    with closing(AsleepInFile(1 << 20)) as file:
        assert file._file.execute("pragma cache_size").fetchone() == (-1024,)
        for start in range(0, 20_000, 1000):
            file.put({f"s{number}": StoredStream(number, bytes(1000)) for number in range(start, start + 1000)})
        assert os.fstat(_descriptor(Path("/"))).st_size > 18_000_000


def _descriptor(place: Path) -> int:
    """Of the newest file of this process in there that has no name."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if name.startswith(str(place)) and "sluiceway-" in name and name.endswith("(deleted)"):
            found.append(number)
    return max(found, key=lambda number: os.fstat(number).st_mtime_ns)

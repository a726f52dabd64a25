"""The numbers that a lane's streams have in the files of a backtest."""

from __future__ import annotations

import os
from pathlib import Path

from sluiceway.backtest.stream_numbers import StreamNumbers, names_in


def test_they_are_kept_and_a_half_written_name_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "streams.txt"
    numbers = StreamNumbers(path)
    assert numbers.of([b"b", b"a", b"b"]).tolist() == [0, 1, 0]
    numbers.close()
    with path.open("a") as file:
        file.write('"hal')
    again = StreamNumbers(path)
    assert [again.number(name) for name in ("a", "new", "b")] == [1, 2, 0]
    again.close()
    assert names_in(path) == ["b", "a", "new"]


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    """Who is killed while it begins must leave the numbers that other files count on."""
    path = tmp_path / "streams.txt"
    path.write_text('"a"\n"b"\n')
    os.utime(path, (1, 1))
    StreamNumbers(path).close()
    assert path.stat().st_mtime == 1

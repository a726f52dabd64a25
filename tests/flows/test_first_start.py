"""A first start says how long it compiles: as it took last time, or a guess."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluiceway.flows import first_start


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "first-starts.json"
    monkeypatch.setattr(first_start, "_path", lambda: path)
    return path


def test_it_takes_as_long_as_last_time(kept: Path) -> None:
    assert first_start.how_long("run ofs") == "about 10 s"
    first_start.remember("run ofs", 7.44)
    first_start.remember("run stsd", 0.2)
    first_start.remember("run ofs", 12.6)
    assert first_start.how_long("run ofs") == "13 s last time"
    assert first_start.how_long("run stsd") == "1 s last time"
    assert first_start.how_long("apply ofs") == "about 10 s"


def test_of_an_operator_that_was_never_compiled_others_tell(kept: Path) -> None:
    first_start.remember("run ofs", 31.0)
    first_start.remember("run stsd", 45.0)
    first_start.remember("run pa", 36.0)
    assert first_start.how_long("run norma") == "about 36 s, as other operators took here"
    assert first_start.how_long("apply norma") == "about 10 s"


@pytest.mark.parametrize("content", ["", "[]", '{"run ofs": "long"}', "{"])
def test_what_cannot_be_read_is_not_believed(kept: Path, content: str) -> None:
    kept.write_text(content)
    assert first_start.how_long("run ofs") == "about 10 s"
    first_start.remember("run ofs", 5.0)
    assert first_start.how_long("run ofs") == "5 s last time"


def test_where_nothing_can_be_written_it_is_a_guess(kept: Path) -> None:
    kept.mkdir()
    first_start.remember("run ofs", 5.0)
    assert first_start.how_long("run ofs") == "about 10 s"

"""What the harness itself must bear: on a busy machine a death comes sooner than one thinks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.crash.harness import closed_epochs, positions


def test_a_store_whose_maker_died_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "creating").touch()
    sqlite3.connect(tmp_path / "part-0.sqlite3").close()
    assert closed_epochs(tmp_path) == 0
    assert positions(tmp_path, "flow") == {}

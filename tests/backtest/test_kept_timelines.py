"""Timelines are read once, as long as there is room for them in memory."""

from __future__ import annotations

import orjson
import pytest

from sluiceway.backtest import selections
from sluiceway.backtest.selections import KeptTimelines


def lines(features: int) -> list[bytes]:
    selected = [{"feature": f"f-{number}", "weight": 1.0} for number in range(features)]
    return [orjson.dumps({"stream": "s", "version": 1, "seen": 1, "ts": 0, "n_selected": 1, "selected": selected})]


def test_what_there_is_room_for_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "KEPT", 5)
    kept, read = KeptTimelines(), list[int]()

    def ask(variant: int, features: int) -> int:
        def told() -> list[bytes]:
            read.append(variant)
            return lines(features)

        return len(kept.of(variant, told)["s"].features)

    for _ in range(2):
        assert [ask(0, 3), ask(1, 3), ask(2, 2)] == [3, 3, 2]
    assert read == [0, 1, 2, 1]  # the second is more than what was left

"""The README's tour on Kafka, typed as written into one shell, on a broker of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, checkout, run, script
from tests.support import Broker, read_committed


@pytest.mark.timeout(600)
def test_ten_minutes_on_kafka(own_broker: Broker, tmp_path: Path) -> None:
    bootstrap = own_broker.bootstrap
    typed = script(ROOT / "README.md", needs="kafka")
    assert typed.count("kill -9 %1") == 1
    said = run(typed.replace("localhost:9092", bootstrap), checkout(tmp_path), timeout=500)
    assert "spam: stopped, everything committed" in said
    assert "named by key" in said, "`sluiceway inspect` says how the flow stands"
    versions: dict[str, list[int]] = {}
    partitions = read_committed(bootstrap, "selections")
    assert all(partitions.values()), "the streams lie in both partitions"
    for record in (record for records in partitions.values() for record in records):
        snapshot = json.loads(record.value or b"")
        versions.setdefault(snapshot["stream"], []).append(snapshot["version"])
    assert set(versions) == {f"mail-{number}" for number in range(1, 5)}
    for stream, found in versions.items():
        assert found == list(range(1000, found[-1] + 1, 1000))
        assert found[-1] == 25_000, "the tour's pauses are too short for the flow to come to the end"
        assert f"{stream} {found[-1]} {{" in said
    assert "is best, with" in said, "`sluiceway backtest` compares"

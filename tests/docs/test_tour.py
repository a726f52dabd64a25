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
    versions: dict[int, list[int]] = {}
    for partition, records in read_committed(bootstrap, "selections").items():
        versions[partition] = [json.loads(record.value or b"")["version"] for record in records]
    (found,) = filter(None, versions.values())  # one stream, so one partition
    assert found == list(range(1000, found[-1] + 1, 1000))
    assert found[-1] == 100_000, "the tour's pauses are too short for the flow to come to the end"
    assert f"mail {found[-1]} {{" in said

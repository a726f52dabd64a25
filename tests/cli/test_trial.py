"""A new user's first topics and commands: taken as they are, or refused in a sentence that helps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from sklearn.datasets import load_iris

import sluiceway
from sluiceway.flows.settings import Settings
from sluiceway.schemas.batch import UNLABELLED
from tests.cli.calling import Call
from tests.schemas.polls import poll_of, rows_by_stream
from tests.support.flow import sluiceway as command
from tests.support.flow import toml

FLOW: dict[str, dict[str, Any]] = {
    "flow": {"name": "f"},
    "topics": {name: f"dir:{name}" for name in ("instances", "selections", "dead_letters")},
    "input": {"stop": "end"},
    "operator": {"name": "ofs", "k": 5},
}


def read(record: Any, **input_: Any) -> tuple[dict[str, float], int, int]:
    """Features, label and time of a record, as a flow with these settings reads it."""
    settings = Settings.parse({**FLOW, "input": input_})
    batch = settings.kind.decoder(settings.plan, 1, "key").decode(poll_of([orjson.dumps(record)]))
    assert not batch.dead_letters, batch.dead_letters[0].message
    [[row]] = rows_by_stream(batch).values()
    return dict(row.x), row.y, row.ts


@pytest.mark.parametrize(
    ("record", "where", "found"),
    [
        ({"age": 61, "pulse": 88.5, "y": 1}, {}, ({"age": 61, "pulse": 88.5}, 1, 0)),
        ({"age": 61, "pulse": None, "y": None}, {}, ({"age": 61}, UNLABELLED, 0)),
        ({"age": 61, "smoker": True, "y": False}, {}, ({"age": 61, "smoker": 1}, -1, 0)),
        ({"age": 61, "y": 1.0}, {}, ({"age": 61}, 1, 0)),
        ({"age": 61, "y": "1"}, {}, ({"age": 61}, 1, 0)),
        ({"age": 61, "y": 0, "ts": "1970-01-01T00:00:01Z"}, {}, ({"age": 61}, -1, 1000)),
        ({"age": 61, "y": 0, "ts": 1.5}, {"time_unit": "s"}, ({"age": 61}, -1, 1500)),
        ({"a": {"b": 2}, "y": 1}, {}, ({"a.b": 2}, 1, 0)),
        (
            {"schema": {"type": "struct"}, "payload": {"age": 61, "y": 1}},
            {"features": "payload", "label": "payload.y"},
            ({"age": 61}, 1, 0),
        ),
        ({"city": "Paris", "y": 1}, {"texts": "one-hot"}, ({"city=Paris": 1}, 1, 0)),
    ],
    ids=["flat", "null", "boolean", "1.0", "text", "iso-time", "seconds", "nested", "connect", "one-hot"],
)
def test_records_as_they_are(record: Any, where: dict[str, str], found: object) -> None:
    assert read(record, map=where) == found


@pytest.mark.parametrize(
    ("record", "input_", "sentence"),
    [
        (
            {"after": {"amount": 2}, "op": "c", "y": 1},
            {"map": {"features": "payload.after"}},
            "there is no payload.after, where the features are, and no later label either: id or y is missing too; the"
            " record has after, op, y, after.amount",
        ),
        (
            {"age": 61, "grade": 2},
            {"map": {"label": "grade"}},
            "the label grade is 2; accepted are true, false, 1, 0, -1; input.classes names others",
        ),
        (
            {"age": 61, "grade": "high"},
            {"map": {"label": "grade"}, "classes": ["low", "mid"]},
            'the label grade is the string "high"; accepted are "low", "mid"',
        ),
    ],
    ids=["no-such-path", "three-values", "a-third-class"],
)
def test_a_map_that_does_not_fit(record: Any, input_: dict[str, Any], sentence: str) -> None:
    settings = Settings.parse({**FLOW, "input": input_})
    batch = settings.kind.decoder(settings.plan, 1, "key").decode(poll_of([orjson.dumps(record)]))
    assert [letter.message for letter in batch.dead_letters] == [sentence]


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "instances").mkdir()
    (tmp_path / "instances" / "_topic.json").write_text('{"partitions": 1}')
    (tmp_path / "f.toml").write_text(toml({**FLOW, "registry": {"url": "http://127.0.0.1:9"}}))
    done = command("run", "f.toml", cwd=tmp_path, timeout=240)
    assert done.code == 2
    assert done.sentence.startswith("no schema registry answers at http://127.0.0.1:9 (registry.url): ")
    assert "Warning" not in done.stderr, "of a library"


def test_operators_are_found_by_name() -> None:
    code = "from sluiceway import OFS; print(OFS(k=3))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "OFS" in done.stdout
    with pytest.raises(ValueError, match="saola as it is set measures numbers"):
        sluiceway.Saola().begin(load_iris().target)


def test_help_in_plain_words(call: Call) -> None:
    for arguments in (["watch"], ["produce"], []):
        assert "bool" not in call(*arguments, "--help").stdout.lower(), "of an option that takes no value"

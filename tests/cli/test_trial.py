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

FLOW = """
[flow]
name = "f"

[topics]
instances = "dir:instances"
selections = "dir:selections"
predictions = "dir:predictions"
dead_letters = "dir:dead-letters"

[input]
stop = "end"

[operator]
name = "ofs"
k = 5
"""


def flow(directory: Path, records: list[Any], more: str = "", given: str = "") -> Path:
    """A flow's file as somebody writes it, and its input; `given` goes into [input]."""
    (directory / "instances").mkdir(exist_ok=True)
    (directory / "instances" / "_topic.json").write_text('{"partitions": 1}')
    (directory / "instances" / "part-00000.jsonl").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records))
    file = directory / "f.toml"
    file.write_text(FLOW.replace('stop = "end"\n', f'stop = "end"\n{given}') + more)
    return file


AT = "1970-01-01T00:00:01Z"
MAP = "\n[input.map]\n"
IN_X = f'{MAP}features = "x"\n'
TRIED: dict[str, tuple[Any, str, object]] = {
    "flat": ({"age": 61, "pulse": 88.5, "y": 1}, MAP, ({"age": 61, "pulse": 88.5}, 1, 0)),
    "null": ({"age": 61, "pulse": None, "y": None}, MAP, ({"age": 61}, UNLABELLED, 0)),
    "boolean": ({"x": {"age": 61, "smoker": True}, "y": False}, IN_X, ({"age": 61, "smoker": 1}, -1, 0)),
    "1.0": ({"x": {"age": 61}, "y": 1.0}, IN_X, ({"age": 61}, 1, 0)),
    "text": ({"x": {"age": 61}, "y": "1"}, IN_X, ({"age": 61}, 1, 0)),
    "iso-time": ({"x": {"age": 61}, "y": 0, "ts": AT}, IN_X, ({"age": 61}, -1, 1000)),
    "seconds": ({"x": {"age": 61}, "y": 0, "ts": 1.5}, f'{IN_X}time_unit = "s"\n', ({"age": 61}, -1, 1500)),
    "micros": ({"age": 61, "y": 0, "ts": 1_500_000}, f'{MAP}time_unit = "µs"\n', ({"age": 61}, -1, 1500)),
    "nested": ({"x": {"a": {"b": 2}}, "y": 1}, IN_X, ({"a.b": 2}, 1, 0)),
    "connect": (
        {"schema": {"type": "struct"}, "payload": {"age": 61, "y": 1}},
        f'{MAP}features = "payload"\nlabel = "payload.y"\n',
        ({"age": 61}, 1, 0),
    ),
    "one-hot": ({"x": {"city": "Paris"}, "y": 1}, f'{IN_X}texts = "one-hot"\n', ({"city=Paris": 1}, 1, 0)),
}


@pytest.mark.parametrize("what", TRIED)
def test_records_as_they_are(tmp_path: Path, what: str) -> None:
    """Features, label and time, as the flow with the map reads them."""
    record, more, found = TRIED[what]
    settings = Settings.load(flow(tmp_path, [record], more))
    batch = settings.kind.decoder(settings.plan, 1, "member").decode(poll_of([orjson.dumps(record)]))
    assert not batch.dead_letters, batch.dead_letters[0].message
    [[row]] = rows_by_stream(batch).values()
    assert (dict(row.x), row.y, row.ts) == found


def test_without_a_map_each_is_refused_in_a_sentence_that_leads_to_it(tmp_path: Path) -> None:
    flow(tmp_path, [record for record, _, _ in TRIED.values()])
    done = command("run", "f.toml", cwd=tmp_path, timeout=240)
    assert done.code == 1
    letters = (tmp_path / "dead-letters" / "part-00000.jsonl").read_bytes().splitlines()
    said = dict(zip(TRIED, [orjson.loads(letter)["error"]["message"] for letter in letters], strict=True))
    assert all("[input.map]" in sentence for sentence in said.values()), said
    missing = "there is no x, and for a later label id or y is missing; the record has"
    assert said["flat"] == f"{missing} age, pulse, y: see [input.map]"
    assert said["connect"] == f"{missing} schema, payload, schema.type, payload.age, payload.y: see [input.map]"


def test_a_flow_with_the_map_learns_from_flat_records(tmp_path: Path) -> None:
    """From a file with texts as labels, which were 569 dead letters of 569."""
    rows = [{"radius": 10 + at % 9, "smooth": None, "diagnosis": "BM"[at % 2]} for at in range(50)]
    flow(tmp_path, rows, f'{MAP}label = "diagnosis"\n', 'classes = ["B", "M"]\n')
    done = command("run", "f.toml", "--json", cwd=tmp_path, timeout=240)
    assert (done.code, orjson.loads(done.stdout)["dead_letters"]) == (0, {}), done.stderr
    last = (tmp_path / "selections" / "part-00000.jsonl").read_bytes().splitlines()[-1]
    assert orjson.loads(last)["version"] == 50


@pytest.mark.parametrize(
    ("record", "more", "given", "sentence"),
    [
        (
            {"after": {"amount": 2}, "op": "c", "y": 1},
            f'{MAP}features = "payload.after"\n',
            "",
            "there is no payload.after, where the features are, and no later label either: id or y is missing too; the"
            " record has after, op, y, after.amount",
        ),
        (
            {"age": 61, "grade": 2},
            f'{MAP}label = "grade"\n',
            "",
            "the label grade is 2; accepted are true, false, 1, 0, -1; input.classes names others",
        ),
        (
            {"age": 61, "grade": "high"},
            f'{MAP}label = "grade"\n',
            'classes = ["low", "mid"]\n',
            'the label grade is the string "high"; accepted are "low", "mid"',
        ),
    ],
    ids=["no-such-path", "three-values", "a-third-class"],
)
def test_a_map_that_does_not_fit(tmp_path: Path, record: Any, more: str, given: str, sentence: str) -> None:
    settings = Settings.load(flow(tmp_path, [record], more, given))
    batch = settings.kind.decoder(settings.plan, 1, "member").decode(poll_of([orjson.dumps(record)]))
    assert [letter.message for letter in batch.dead_letters] == [sentence]


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    flow(tmp_path, [], '\n[registry]\nurl = "http://127.0.0.1:9"\n')
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

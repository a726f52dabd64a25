"""A map that looks where nothing is: the flow goes on, and says so once, with what the records do have."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from sluiceway.flows.watched_paths import WatchedPaths
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.url import DirectoryTopic
from tests.schemas.polls import poll_of
from tests.support.flow import Done, sluiceway, toml

RECORD = {"radius": 1, "diagnosis": 1, "visit": {"id": "v", "at": 5}}


def said(watched: dict[str, str], count: int, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of three polls of so many records."""
    warnings: list[str] = []
    watch = WatchedPaths("f", watched, None, warnings)
    with caplog.at_level(logging.WARNING, "sluiceway"):
        for _ in range(3):
            watch.look(poll_of([orjson.dumps(RECORD)] * count))
    assert [record.getMessage() for record in caplog.records] == [f"f: {sentence}" for sentence in warnings]
    return warnings


def test_a_path_that_is_never_there_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    has = "they have radius, diagnosis, visit, visit.id, visit.at"
    assert said({"input.map.label": "diagnosys"}, 200, caplog) == [
        "none of the first 100 records has a label at input.map.label = 'diagnosys'; "
        f"{has}: did you mean 'diagnosis'?"
    ]
    caplog.clear()
    assert said({"input.map.label": "target"}, 60, caplog)[0].endswith(f"'target'; {has}")
    caplog.clear()
    others = {"input.map.id": "visit.ide", "input.map.time": "when", "input.map.stream": "who"}
    assert len(said(others, 99, caplog)) == 3


def test_nothing_is_said_where_all_is_there_or_of_too_few_records(caplog: pytest.LogCaptureFixture) -> None:
    assert said({"input.map.label": "diagnosis", "input.map.id": "visit.id"}, 200, caplog) == []
    assert said({"input.map.label": "target"}, 30, caplog) == []


def run(directory: Path, records: list[Any], input_map: dict[str, Any], *arguments: str, **tables: Any) -> Done:
    create_directory_topic(DirectoryTopic(directory / "in"), 1)
    (directory / "in" / "part-00000.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    topics = {"instances": "dir:in", "selections": "dir:out", "predictions": "dir:p", "dead_letters": "dir:dead"}
    content = {
        "flow": {"name": "f"}, "topics": topics, "input": {"stop": "end"}, "input.map": input_map,
        "operator": {"name": "ofs", "k": 2}, **tables,
    }  # fmt: skip
    (directory / "f.toml").write_text(toml({name: table for name, table in content.items() if table}))
    return sluiceway("run", "f.toml", "--json", *arguments, cwd=directory)


FLAT = [{"key": at, "when": at, "age": at % 9, "ill": at % 2} for at in range(40)]


def test_each_wrong_path_is_told_in_the_log_and_to_programs(tmp_path: Path) -> None:
    wrong = {"label": "sick", "id": "kee", "time": "when.at", "stream": "ward"}
    done = run(tmp_path, FLAT, wrong, "--log-format", "json")
    assert done.code == 0, done.stderr
    warnings = json.loads(done.stdout)["warnings"]
    has = "they have key, when, age, ill"
    assert warnings == [
        f"none of the first 40 records has a label at input.map.label = 'sick'; {has}",
        f"none of the first 40 records has an id at input.map.id = 'kee'; {has}",
        f"none of the first 40 records has a time at input.map.time = 'when.at'; {has}: did you mean 'when'?",
        f"none of the first 40 records has a name of its stream at input.map.stream = 'ward'; {has}",
    ]
    logged = [json.loads(line) for line in done.stderr.splitlines()]
    assert [one["message"] for one in logged if one["level"] == "warning"] == [f"f: {one}" for one in warnings]


def test_labels_that_are_no_two_classes_are_named(tmp_path: Path) -> None:
    """The third value makes dead letters; what there is besides is said, too."""
    records = [{"age": at % 7, "grade": 1 + at % 3} for at in range(40)]
    told = json.loads(run(tmp_path, records, {"label": "grade"}).stdout)
    assert told["warnings"] == [
        "the first 40 records have the labels 1, 2, 3 at 'grade': input.classes must name all that there are"
    ]
    assert told["dead_letters"]["bad-label"]["count"] == 26


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"features": "payload.aftre"}, "there is no payload.aftre, where the features are"),
        ({"include": ["amonut"]}, "none of its members is a feature"),
    ],
)
def test_wrong_features_are_no_later_label(tmp_path: Path, given: dict[str, Any], sentence: str) -> None:
    """The records have an id and a label: what is missing is told though each could be a later label."""
    records = [{"id": at, "y": at % 2, "payload": {"after": {"amount": at}}} for at in range(5)]
    done = run(tmp_path, records, given)
    assert done.code == 1
    letters = [json.loads(line)["error"] for line in (tmp_path / "dead" / "part-00000.jsonl").read_text().splitlines()]
    assert [letter["class"] for letter in letters] == ["orphan-label"] * 5
    assert letters[0]["message"] == (
        f"no unlabelled instance of this id is waiting for a label, and {sentence}; the record has id, y, payload,"
        " payload.after, payload.after.amount"
    )

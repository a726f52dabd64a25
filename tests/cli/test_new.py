"""`sluiceway new`: the flow that is proposed for a topic or a file runs as it is."""

from __future__ import annotations

import contextlib
import csv
import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaException
from sklearn.datasets import load_breast_cancer

from sluiceway.flows.proposal import propose
from tests.cli.calling import Call
from tests.kafka.test_shapes import flat, instances
from tests.registry.formats import AVRO, avro, framed
from tests.support import Topics, produce
from tests.support.flow import Running, sluiceway
from tests.support.kafka import read_committed
from tests.support.registry import SchemaRegistry


def cells(path: Path) -> None:
    """Breast cancer as a table, with an id and a label of text."""
    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "diagnosis", *names])
        for at, (row, label) in enumerate(zip(data.data.tolist(), data.target, strict=True)):
            table.writerow([842302 + at, "BM"[1 - label], *row])


def test_a_table_of_cells(tmp_path: Path) -> None:
    cells(tmp_path / "cells.csv")
    done = sluiceway("new", "cells.toml", "--from", "cells.csv", cwd=tmp_path)
    assert done.code == 0, done.stderr
    flow = tomllib.loads((tmp_path / "cells.toml").read_text())
    assert flow["input"] == {"stop": "end", "scale": "standard", "classes": ["B", "M"]}
    assert flow["emit"] == {"every": 100}
    _, produce, run = (line.strip() for line in done.stderr.strip().splitlines())
    assert produce == "sluiceway produce cells.csv dir:./cells-instances --label diagnosis --id id"
    assert sluiceway(*shlex.split(produce)[1:], cwd=tmp_path).code == 0
    ran = sluiceway(*shlex.split(run)[1:], cwd=tmp_path, timeout=200)
    assert ran.code == 0, ran.stderr
    snapshots = (tmp_path / "cells-selections" / "part-00000.jsonl").read_bytes().splitlines()
    assert len(snapshots) == 6
    snapshot = orjson.loads(snapshots[-1])
    assert (snapshot["version"], snapshot["n_selected"]) == (569, 10)
    assert snapshot["metrics"]["error_rate"] < 0.372 / 2  # half of what "always B" gets


def rows_of(count: int, row: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    return [row(at) for at in range(count)]


CITIES = ("Paris", "Rome", "Oslo")
FLAT = rows_of(
    60, lambda at: {"visit_id": f"v{at}", "age": 20 + at % 50, "city": CITIES[at % 3], "smoker": at % 4 < 2,
                    "pulse": None if at % 5 == 0 else 60.5 + at, "ill": at % 3 == 0}
)  # fmt: skip
NESTED = rows_of(
    40, lambda at: {"at": "2025-11-16T10:00:00Z", "geo": {"lat": 47.5 + at % 7, "city": CITIES[at % 3]},
                    "tags": [at % 2, at % 5], "outcome": ("won", "lost")[at % 2]}
)  # fmt: skip
CONNECT = [{"schema": {"type": "struct", "name": "orders"}, "payload": row} for row in FLAT]
TABLE = "size,kind,mass\n" + "".join(f"{at % 7},{'ABC'[at % 3]},{at * 1.5}\n" for at in range(45))


@pytest.mark.parametrize(
    ("file", "content", "given", "count"),
    [
        ("flat.jsonl", FLAT, {"map": {"label": "ill", "id": "visit_id", "texts": "one-hot"}}, 60),
        ("nested.jsonl", NESTED, {"map": {"label": "outcome", "time": "at", "texts": "one-hot"},
                                  "classes": ["lost", "won"]}, 40),
        ("connect.jsonl", CONNECT, {"map": {"features": "payload", "label": "payload.ill", "id": "payload.visit_id",
                                            "texts": "one-hot"}}, 60),
        ("species.csv", TABLE, {"classes": ["A", "B", "C"], "scale": "standard"}, 45),
        ("semicolons.csv", TABLE.replace(",", ";"), {"classes": ["A", "B", "C"]}, 45),
        ("cities.csv", "city,age,y\n" + "".join(f"{CITIES[at % 3]},{at},{at % 2}\n" for at in range(30)),
         {"map": {"label": "y", "texts": "one-hot"}}, 30),
        ("one-two.jsonl", rows_of(24, lambda at: {"a": at * 0.5, "label": 1 + at % 2}), {"classes": [1, 2]}, 24),
        ("native.jsonl", rows_of(24, lambda at: {"x": {"a": at * 0.5, "b": 1}, "y": at % 2}), {}, 24),
        ("floats.jsonl", rows_of(24, lambda at: {"x": {"a": at * 0.5, "b": 1}, "y": at % 2 * 1.0}),
         {"map": {"features": "x", "label": "y"}}, 24),
        ("uneven.jsonl", rows_of(24, lambda at: {"ab"[at % 2]: at * 1000, "cd"[at % 2]: 0.1, "y": at % 2}),
         {"scale": "rms-l2"}, 24),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value[-6:] else "",
)  # fmt: skip
def test_the_flow_for_a_file_runs_as_it_is(
    tmp_path: Path, file: str, content: Any, given: dict[str, Any], count: int
) -> None:
    text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
    (tmp_path / file).write_text(text)
    done = sluiceway("new", "flow.toml", "--from", file, cwd=tmp_path)
    assert done.code == 0, done.stderr
    input_ = tomllib.loads((tmp_path / "flow.toml").read_text())["input"]
    assert {name: input_[name] for name in given} == given, input_
    for command in done.stderr.strip().splitlines()[1:]:
        ran = sluiceway(*shlex.split(command.strip())[1:], cwd=tmp_path, timeout=200)
        assert ran.code == 0, ran.stderr
    assert (tmp_path / "flow-dead-letters" / "part-00000.jsonl").read_bytes() == b""
    last = orjson.loads((tmp_path / "flow-selections" / "part-00000.jsonl").read_bytes().splitlines()[-1])
    assert (last["version"], last["n_selected"] > 0) == (count, True)


def test_numbers_are_no_classes(tmp_path: Path, call: Call) -> None:
    (tmp_path / "prices.csv").write_text("rooms,target\n" + "".join(f"{at % 5},{at * 0.37}\n" for at in range(40)))
    done = call("new", "-", "--from", tmp_path / "prices.csv")
    assert "# - target holds numbers such as 0.37, which are no classes, and instances are learnt by" in done.stdout
    assert "next, once it is saved as flow.toml:" in done.stderr
    refused = call("new", "-", "--from", tmp_path / "prices.csv", "--label", "target")
    assert refused.code == 2
    assert refused.sentence == (
        "target holds numbers such as 0.37, which are no classes, and instances are learnt by classes: name a member of"
        " few values with --label"
    )


def test_keys_that_name_no_stream() -> None:
    rows = [{"a": at * 0.5, "label": at % 2} for at in range(50)]
    assert propose(rows, keys=[b'{"id":%d}' % at for at in range(50)]).stream == "partition"
    assert propose(rows, keys=[b"s%d" % (at % 3) for at in range(50)]).stream is None


def test_features_that_keep_appearing() -> None:
    rows = [{"x": {f"word-{at * 3 + more}": 1 for more in range(3)}, "y": at % 2} for at in range(60)]
    made = propose(rows)
    assert (made.operator, made.scale, made.native) == ("stsd", "l2", True)


def test_as_is_leaves_nothing_out(tmp_path: Path, call: Call) -> None:
    (tmp_path / "t.csv").write_text("stream,zip,age,note\ns,00123,7,\n")
    assert call("produce", tmp_path / "t.csv", f"dir:{tmp_path}/t", "--as-is").code == 0
    [line] = (tmp_path / "t" / "part-00000.jsonl").read_text().splitlines()
    assert json.loads(line) == {"stream": "s", "zip": "00123", "age": 7}
    refused = call("produce", tmp_path / "t.csv", f"dir:{tmp_path}/t", "--as-is", "--label", "age")
    assert refused.sentence == "--label does not go with --as-is: [input.map] of the flow says what a member is"


def test_a_flat_topic(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "visits"
    folder.mkdir()
    (folder / "_topic.json").write_text('{"partitions": 1}')
    wards = ("A", "B", "C")
    rows = [
        {"visit_id": f"v{at}", "at": f"2025-11-16T10:{at % 60:02d}:00Z", "age": 20 + at % 50, "ward": wards[at % 3],
         "note": f"text {at}", "fee": at * 0.5, "ill": at % 4 == 0}
        for at in range(120)
    ]  # fmt: skip
    (folder / "part-00000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("new", tmp_path / "visits.toml", "--from", f"dir:{folder}")
    assert done.code == 0, done.stderr
    assert tomllib.loads((tmp_path / "visits.toml").read_text())["input"]["map"] == {
        "label": "ill", "id": "visit_id", "time": "at", "exclude": ["note"], "texts": "one-hot",
    }  # fmt: skip
    assert call("check", tmp_path / "visits.toml").code == 0
    again = call("new", tmp_path / "visits.toml", "--from", f"dir:{folder}")
    assert (again.code, again.sentence) == (2, f"{tmp_path / 'visits.toml'} exists already")


def test_changes_of_a_database() -> None:
    after = [{"id": at, "amount": at * 1.5, "fraud": at % 2, "created_at": 1763251200000 + at} for at in range(50)]
    made = propose([{"payload": {"before": None, "after": one, "op": "c", "ts_ms": 1763251200000}} for one in after])
    assert made.map == {
        "features": "payload.after", "label": "payload.after.fraud", "id": "payload.after.id",
        "time": "payload.ts_ms",
    }  # fmt: skip


def test_native_records_need_no_map(tmp_path: Path) -> None:
    made = propose([{"x": {"a": at, "b": 1}, "y": at % 2, "id": at} for at in range(30)])
    assert (made.native, made.map, made.classes) == (True, {}, None)


@pytest.mark.parametrize("url", ["dir:./nothing", "kafka://127.0.0.1:9/x"])
def test_a_topic_that_is_not_there(url: str, tmp_path: Path, call: Call) -> None:
    assert call("new", tmp_path / "f.toml", "--from", url).code in (1, 2)


def asked(folder: Path, *answers: str, file: str = "asked.toml") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluiceway", "new", file]
    given = "".join(f"{one}\n" for one in answers)
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True)


def test_by_asking(tmp_path: Path) -> None:
    """What is not answered is as it was found."""
    cells(tmp_path / "cells.csv")
    done = asked(tmp_path, "cells.csv", "", "M", "", "5")
    assert done.returncode == 0, done.stderr
    for question in ("Where are the instances?", "label? [diagnosis]", "Which of B, M comes first", "[ofs]", "[10]"):
        assert question in done.stderr
    flow = tomllib.loads((tmp_path / "asked.toml").read_text())
    assert (flow["input"]["classes"], flow["operator"]) == (["M", "B"], {"name": "ofs", "k": 5})
    unanswered = asked(tmp_path, "cells.csv", file="other.toml")
    assert unanswered.returncode == 2
    assert unanswered.stderr.splitlines()[-1].endswith(
        "nobody answers 'Which member is the label?': give --from URL, which asks nothing"
    )


def test_more_than_two_classes() -> None:
    rows = [{"a": at * 0.5, "kind": ("ant", "bee", "wasp")[at % 3]} for at in range(30)]
    assert propose(rows, "kind").classes == ["ant", "bee", "wasp"]
    assert propose([{"a": at * 0.5, "digit": at % 10} for at in range(50)], "digit").classes == [*range(10)]


@pytest.mark.parametrize("written", ["flat", "avro"])
def test_the_flow_for_a_topic_on_a_broker_runs_as_it_is(
    topics: Topics, request: pytest.FixtureRequest, tmp_path: Path, written: str
) -> None:
    registry: SchemaRegistry | None = request.getfixturevalue("registry") if written == "avro" else None
    given = instances(200)
    if registry is None:
        values = [orjson.dumps(flat(one)) for one in given]
        looking: list[str] = []
    else:
        number = registry.register(f"new-{written}-value", "AVRO", orjson.dumps(AVRO).decode())
        values = [framed(number, avro({**one, "x": _plain(one["x"])})) for one in given]
        looking = ["--registry", registry.url]
    topic, name = topics(f"new-{written}"), topics.group(f"new-{written}")
    produce(topics.bootstrap, topic, [(None, value, 0) for value in values])
    url = f"kafka://{topics.bootstrap}/{topic}"
    file = tmp_path / f"{name}.toml"
    done = sluiceway("new", file, "--from", url, *looking)
    assert done.code == 0, done.stderr
    topics.also(*(f"{name}-{role}" for role in ("selections", "predictions", "dead-letters")), f"{name}.state")
    topics.also(groups=[name, f"{name}.members"])
    with Running("run", file, "--create-topics", "--checkpoint-every", "0.2") as running:
        predictions: list[Any] = []

        def predicted() -> bool:
            with contextlib.suppress(KeyError, KafkaException):
                predictions[:] = read_committed(topics.bootstrap, f"{name}-predictions", [0])[0]
            return len(predictions) >= 200

        running.until(predicted, timeout=240)
        assert running.stop().code == 0
    assert read_committed(topics.bootstrap, f"{name}-dead-letters", [0])[0] == []
    assert {orjson.loads(one.value or b"")["id"] for one in predictions} == {one["id"] for one in given}


def _plain(x: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in x.items() if "=" not in name}

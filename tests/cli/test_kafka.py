"""The verbs on a real broker: produce, watch, inspect, retire; and a broker that is not there."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluiceway.topics.partitioner import partition_of
from tests.cli.calling import Call
from tests.cli.test_watch import HISTORY, snapshot
from tests.support import Topics, produce, read_committed

KEYS = ["", "a", "mail", "mail-7", "ключ", "😀", *(f"user-{at}" for at in range(200))]


def test_produce_partitions_keys_as_librdkafka_does(topics: Topics, tmp_path: Path, call: Call) -> None:
    """And as our own function for directories does."""
    made = topics("instances", partitions=7)
    keys = KEYS[1:]  # an empty name is no stream
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"stream": key, "x": {"a": 1}}) + "\n" for key in keys))
    done = call("produce", tmp_path / "t.jsonl", f"kafka://{topics.bootstrap}/{made}", "--json")
    assert json.loads(done.stdout)["records"] == len(keys)
    found = read_committed(topics.bootstrap, made)
    where = {record.key: partition for partition, records in found.items() for record in records}
    assert where == {key.encode(): partition_of(key.encode(), 7) for key in keys}
    assert {record.value for records in found.values() for record in records} == {b'{"x":{"a":1}}'}


def test_librdkafka_itself_agrees(topics: Topics) -> None:
    made = topics("keys", partitions=5)
    produce(topics.bootstrap, made, [(key, b"v") for key in KEYS], {"partitioner": "murmur2"})
    found = read_committed(topics.bootstrap, made)
    where = {record.key or b"": partition for partition, records in found.items() for record in records}
    assert where == {key.encode(): partition_of(key.encode(), 5) for key in KEYS}


def test_produce_makes_a_topic_only_when_told(topics: Topics, tmp_path: Path, call: Call) -> None:
    (tmp_path / "t.csv").write_text("stream,a,y\ns,1,0\n")
    name = topics.group("made-by-produce")
    url = f"kafka://{topics.bootstrap}/{name}"
    refused = call("produce", tmp_path / "t.csv", url)
    assert refused.code == 2
    assert f"topic {name!r} does not exist on {topics.bootstrap}; create it, or let --partitions N" in refused.sentence
    try:
        assert call("produce", tmp_path / "t.csv", url, "--partitions", "3").code == 0
        found = read_committed(topics.bootstrap, name)
        assert len(found) == 3
        assert [record[:2] for part in found.values() for record in part] == [(b"s", b'{"x":{"a":1},"y":0}')]
        other = call("produce", tmp_path / "t.csv", url, "--partitions", "2")
        assert (other.code, "has 3 partitions already, not 2" in other.sentence) == (2, True)
    finally:
        topics.admin.delete_topics([name])[name].result(30)


def send(topics: Topics, topic: str, *records: tuple[str, bytes | None, int]) -> None:
    produce(topics.bootstrap, topic, list(records))


def test_retiring_mends_a_split(topics: Topics, call: Call) -> None:
    """At once: the stale snapshots still stand in the topic, and nothing has been compacted."""
    made = topics("selections", partitions=2, config={"cleanup.policy": "compact"})
    url = f"kafka://{topics.bootstrap}/{made}"
    for partition in (0, 1):
        send(topics, made, *[("spam/mail", snapshot(version, "a").strip(), partition) for version in (5, 6)])
    split = call("watch", url, "--once")
    assert (split.code, "stand in the partitions 0 and 1" in split.sentence) == (1, True)
    done = call("retire", "spam/mail", url, "--json")
    assert json.loads(done.stdout)["partitions"] == [0, 1]
    assert call("watch", url, "--once").stdout == "There is no snapshot in it.\n"
    send(topics, made, ("spam/mail", snapshot(7, "a").strip(), 1))
    [line] = call("watch", url, "--once", "--json").stdout.splitlines()
    assert json.loads(line)["version"] == 7


def test_watch_and_inspect(topics: Topics, call: Call) -> None:
    made = topics("selections", partitions=2, config={"cleanup.policy": "compact"})
    older, newer = HISTORY.splitlines()
    send(topics, made, ("spam/mail", older, 1), ("spam/mail", newer, 1))
    url = f"kafka://{topics.bootstrap}/{made}"
    assert "version 200, seen 205" in call("watch", url, "--once").stdout
    [line] = call("watch", url, "--once", "--json").stdout.splitlines()
    assert json.loads(line) == json.loads(newer)
    report: dict[str, Any] = json.loads(call("inspect", url, "--json").stdout)
    assert [(part["start"], part["end"]) for part in report["partitions"]] == [(0, 0), (0, 2)]
    assert report["partitions"][0]["first"] is None
    assert report["partitions"][1]["last"]["key"] == "spam/mail"
    assert json.loads(report["partitions"][1]["last"]["value"])["version"] == 200
    assert "2 partitions, at most 2 records" in call("inspect", url).stdout
    missing = call("inspect", url + "-not")
    assert (missing.code, "does not exist" in missing.sentence) == (2, True)


def test_retire_of_a_flow_is_of_all_its_streams_and_of_no_other(topics: Topics, call: Call) -> None:
    made = topics("selections", partitions=2, config={"cleanup.policy": "compact"})
    url = f"kafka://{topics.bootstrap}/{made}"
    for at, (flow, stream) in enumerate((("spam", "mail"), ("spam", "mail/eu"), ("spam", "news"), ("spam-2", "mail"))):
        record = snapshot(5 + at, "a", flow=flow, stream=stream).strip()
        send(topics, made, (f"{flow}/{stream}", record, at % 2))

    def left() -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in call("watch", url, "--once", "--json").stdout.splitlines()]
        return [(one["flow"], one["stream"]) for one in lines]

    assert len(left()) == 4
    one = call("retire", "spam/mail", url)
    assert (one.code, one.stderr) == (0, f"spam/mail: retired from {url} (1 tombstone, partition 0)\n")
    assert ("spam", "mail/eu") in left(), "which is another stream"
    rest = call("retire", "spam", url)
    assert (rest.code, rest.stderr) == (0, f"spam: retired from {url} (2 streams, 2 tombstones, partitions 0, 1)\n")
    assert left() == [("spam-2", "mail")]
    again = call("retire", "spam", url)
    assert (again.code, again.sentence) == (2, f"{url} holds no snapshot of 'spam'; did you mean 'spam-2'?")


def test_retire_writes_the_tombstone_where_the_snapshots_are(topics: Topics, call: Call) -> None:
    made = topics("selections", partitions=3, config={"cleanup.policy": "compact"})
    url = f"kafka://{topics.bootstrap}/{made}"
    send(
        topics,
        made,
        ("spam/mail", snapshot(5, "a").strip(), 2),
        ("spam/news", snapshot(7, "a", stream="news").strip(), 1),
    )
    wrong = call("retire", "spam/mall", url)
    assert wrong.code == 2
    assert "holds no snapshot of 'spam/mall'; did you mean 'spam/mail'?" in wrong.sentence
    done = call("retire", "spam/mail", url)
    assert (done.code, done.stderr) == (0, f"spam/mail: retired from {url} (1 tombstone, partition 2)\n")
    found = read_committed(topics.bootstrap, made)
    assert [(record.key, record.value) for record in found[2]][1:] == [(b"spam/mail", None)]
    assert (len(found[0]), len(found[1])) == (0, 1)
    [left] = call("watch", url, "--once", "--json").stdout.splitlines()
    assert json.loads(left)["stream"] == "news"
    again = call("retire", "spam/mail", url)
    assert (again.code, "holds no snapshot of 'spam/mail'" in again.sentence) == (2, True)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address where nothing listens."""
    monkeypatch.setattr("sluiceway.topics.kafka.ANSWER_SECONDS", 1.0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_broker_that_is_not_there(nobody: str, tmp_path: Path, call: Call) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,0\n")
    flow = f"""
        flow.name = "f"
        operator = {{name = "ofs", k = 1}}
        [topics]
        instances = "kafka://{nobody}/in"
        selections = "kafka://{nobody}/out"
        dead_letters = "kafka://{nobody}/dead"
        """
    (tmp_path / "flow.toml").write_text(flow)
    for arguments in (
        ["watch", f"kafka://{nobody}/t"],
        ["watch", f"kafka://{nobody}/t", "--once"],
        ["inspect", f"kafka://{nobody}/t"],
        ["retire", "f/s", f"kafka://{nobody}/t"],
        ["produce", str(tmp_path / "t.csv"), f"kafka://{nobody}/t"],
        ["check", str(tmp_path / "flow.toml")],
        ["run", str(tmp_path / "flow.toml")],
    ):
        done = call(*arguments)
        assert done.code == 2, arguments
        assert f"no Kafka broker answers at {nobody} within 1 s" in done.sentence
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", [["watch"], ["watch", "--once"], ["inspect"], ["retire", "f/s"]])
def test_a_broker_that_is_not_there_is_one_line(nobody: str, verb: list[str]) -> None:
    """In a process of its own: what the client library logs goes to the same place."""
    code = "import sluiceway.cli, sluiceway.topics.kafka as k; k.ANSWER_SECONDS = 1.0; sluiceway.cli.main()"
    command = [sys.executable, "-c", code, *verb, f"kafka://{nobody}/t"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith(f"sluiceway: no Kafka broker answers at {nobody} within 1 s")

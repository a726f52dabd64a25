"""`sluiceway produce` into directories."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sluiceway.topics.partitioner import partition_of
from tests.cli.calling import Call, Terminal
from tests.support.flow import Running, sluiceway, toml


def lines(topic: Path) -> list[list[Any]]:
    """The records of each partition."""
    return [[json.loads(line) for line in part.read_text().splitlines()] for part in sorted(topic.glob("part-*"))]


def mails(path: Path, number: int) -> list[dict[str, Any]]:
    made = [{"stream": f"s{at % 7}", "x": {"a": at}, "y": at % 2} for at in range(number)]
    path.write_text("".join(json.dumps(record) + "\n" for record in made))
    return made


def test_a_stream_goes_to_the_partition_of_its_key_in_order(tmp_path: Path, call: Call) -> None:
    made = mails(tmp_path / "mails.jsonl", 100)
    topic = tmp_path / "topic"
    done = call("produce", tmp_path / "mails.jsonl", f"dir:{topic}", "--partitions", "4")
    assert (done.code, done.stdout, done.stderr) == (0, "", f"100 records to dir:{topic} (4 partitions)\n")
    expected: list[list[Any]] = [[], [], [], []]
    for record in made:
        expected[partition_of(record["stream"].encode(), 4)].append(record)
    assert lines(topic) == expected
    again = call("produce", tmp_path / "mails.jsonl", f"dir:{topic}", "--json")
    assert json.loads(again.stdout) == {"topic": f"dir:{topic}", "partitions": 4, "records": 100}
    assert lines(topic) == [part * 2 for part in expected]


def test_records_without_a_stream_go_round(tmp_path: Path, call: Call) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n3\n")
    assert call("produce", tmp_path / "t.csv", f"dir:{tmp_path}/t", "--partitions", "2").code == 0
    assert lines(tmp_path / "t") == [[{"x": {"a": 1}}, {"x": {"a": 3}}], [{"x": {"a": 2}}]]


def test_targets_and_columns_go_as_they_are_and_select(tmp_path: Path, call: Call) -> None:
    columns: list[dict[str, Any]] = [
        {"stream": "genes", "target": [1, -1] * 30, "ts": 5},
        {"stream": "genes", "name": "telling", "values": [1.0, -1.0] * 30},
        {"stream": "genes", "name": "dull", "values": [0.5, 0.5, 2.0] * 20, "note": "kept"},
        {"stream": "genes", "name": "rare", "size": 60, "at": [3], "values": [1]},
    ]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(record) + "\n" for record in columns))
    assert call("produce", tmp_path / "c.jsonl", f"dir:{tmp_path}/in").code == 0
    assert lines(tmp_path / "in") == [columns]
    flow = {
        "flow": {"name": "f"},
        "topics": {"features": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
        "input": {"stop": "end"},
        "operator": {"name": "saola"},
    }
    (tmp_path / "flow.toml").write_text(toml(flow))
    assert sluiceway("run", "flow.toml", cwd=tmp_path).code == 0
    assert [entry["feature"] for entry in lines(tmp_path / "out")[0][-1]["selected"]] == ["telling"]


def test_a_malformed_column_is_a_sentence(tmp_path: Path, call: Call) -> None:
    (tmp_path / "c.jsonl").write_text('{"target": [0.5, 1]}\n{"name": "a", "values": [1, "b"]}\n')
    done = call("produce", tmp_path / "c.jsonl", f"dir:{tmp_path}/t")
    assert done.code == 2
    assert "line 2: it is no target and no column: values: " in done.sentence
    assert len(done.stderr.splitlines()) == 1


def test_half_a_line_of_a_killed_writer_is_cut(tmp_path: Path, call: Call) -> None:
    mails(tmp_path / "one.jsonl", 1)
    call("produce", tmp_path / "one.jsonl", f"dir:{tmp_path}/t")
    part = tmp_path / "t" / "part-00000.jsonl"
    whole = part.read_bytes()
    part.write_bytes(whole + b'{"x": {"to')
    call("produce", tmp_path / "one.jsonl", f"dir:{tmp_path}/t")
    assert part.read_bytes() == whole * 2


def test_mistakes(tmp_path: Path, call: Call) -> None:
    mails(tmp_path / "m.jsonl", 1500)
    topic = f"dir:{tmp_path}/t"
    with (tmp_path / "m.jsonl").open("a") as more:
        more.write("nonsense\n")
    done = call("produce", tmp_path / "m.jsonl", topic)
    assert done.code == 2
    assert "line 1501: it is not JSON" in done.sentence
    assert "what stands before it was sent: 1,500 records" in done.sentence
    assert len(lines(tmp_path / "t")[0]) == 1500
    packed = bytearray(gzip.compress(b"a\n" + b"".join(b"%d\n" % (at * at) for at in range(5000))))
    packed[500:600] = bytes(100)
    (tmp_path / "torn.csv.gz").write_bytes(packed)
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00")
    cases: list[tuple[list[str | Path], str]] = [
        (["nope.csv", topic], "nope.csv cannot be read: no such file or directory"),
        ([tmp_path, topic, "--format", "csv"], "cannot be read: is a directory"),
        ([tmp_path / "bad.csv", f"dir:{tmp_path}/u"], "bad.csv, line 1: byte 1 is not UTF-8"),
        ([tmp_path / "m.jsonl", topic, "--partitions", "2"], "has 1 partition already, not 2"),
        ([tmp_path / "m.jsonl", topic, "--partitions", "0"], "--partitions must lie between 1 and 100000, not 0"),
        ([tmp_path / "m.jsonl", topic, "--rate", "0"], "--rate must lie above 0 and below a billion, not 0"),
        ([tmp_path / "m.jsonl", topic, "--rate", "2e9"], "--rate must lie above 0 and below a billion, not 2e+09"),
        ([tmp_path / "m.jsonl", topic, "--key", "b", "--label", "b"], "column 'b' cannot be two things at once"),
        ([tmp_path / "m.jsonl", topic, "--id", "b", "--drop", "b"], "column 'b' cannot be two things at once"),
        ([tmp_path / "m.jsonl", f"dir:{tmp_path}/m.jsonl"], "m.jsonl is a file: a topic is a directory of files"),
        ([tmp_path / "m.jsonl", f"dir:{tmp_path}/m.jsonl/t"], "m.jsonl, which is a file: a topic"),
        ([tmp_path / "torn.csv.gz", topic], "torn.csv.gz cannot be read: Error -3 while decompressing"),
        ([tmp_path / "m.jsonl", topic, "--format", "xml"], "--format"),
        ([tmp_path / "m.jsonl", "nowhere"], "'nowhere' is no topic"),
    ]
    for arguments, sentence in cases:
        done = call("produce", *arguments)
        assert done.code == 2, done
        assert sentence in done.sentence
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "u").exists()  # a file that cannot be read makes no topic


def test_a_rate_is_held(tmp_path: Path, call: Call) -> None:
    mails(tmp_path / "m.jsonl", 60)
    began = time.monotonic()
    assert call("produce", tmp_path / "m.jsonl", f"dir:{tmp_path}/t", "--rate", "100").code == 0
    assert time.monotonic() - began >= 0.55


def test_standard_input_arrives_while_it_is_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sluiceway", "produce", "-", "dir:t"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"x": {"a": 1}}\n{"x": {"a"')
        process.stdin.flush()
        part = tmp_path / "t" / "part-00000.jsonl"
        deadline = time.monotonic() + 30
        while not (part.exists() and part.read_bytes() == b'{"x":{"a":1}}\n'):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        _, said = process.communicate(b': 2}}\n')
    assert process.returncode == 0, said
    assert lines(tmp_path / "t") == [[{"x": {"a": 1}}, {"x": {"a": 2}}]]


def test_a_followed_file_is_waited_at(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("a\n1\n")
    part = tmp_path / "t" / "part-00000.jsonl"
    with Running("produce", file, "dir:t", "--follow", cwd=tmp_path) as running:
        running.until(lambda: part.exists() and part.read_bytes().count(b"\n") == 1)
        with file.open("a") as more:
            more.write("2\n3")
        running.until(lambda: part.read_bytes().count(b"\n") == 2)
        with file.open("a") as more:
            more.write("4\n")
        running.until(lambda: part.read_bytes().count(b"\n") == 3)
        running.send(signal.SIGINT)
        done = running.wait()
    assert (done.code, done.stderr) == (0, f"3 records to dir:{tmp_path}/t (1 partition)\n")
    assert lines(tmp_path / "t") == [[{"x": {"a": value}} for value in (1, 2, 34)]]


def test_on_a_terminal_it_shows_a_bar(tmp_path: Path) -> None:
    mails(tmp_path / "m.jsonl", 300)
    with Terminal("produce", "m.jsonl", "dir:t", "--rate", "300", cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
        assert "m.jsonl" in terminal.text
        assert " records 0:00:0" in terminal.text
        assert "300 records to dir:" in terminal.text

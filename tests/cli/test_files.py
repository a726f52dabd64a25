"""Records from files: every format, and a sentence with the line for what cannot be read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import SettingsError
from sluiceway.files import Columns, Lines, Row, format_of, read_rows
from sluiceway.topics.partitioner import murmur2, partition_of


def rows(tmp_path: Path, name: str, text: str | bytes, **columns: Any) -> list[Row]:
    path = tmp_path / name
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    lines = Lines(str(path))
    try:
        return list(read_rows(lines, format_of(str(path)), Columns(**columns)))
    finally:
        lines.close()


VISITS = "user,name,age,len,bought\nanna,Anna,31,1.5,1\nbob,\"Bob,\nJr.\",,2e3,0\n\nanna,A.,NaN,-0.0,true\n"


@pytest.mark.parametrize("name", ["v.csv", "v.CSV", "v.csv.gz"])
def test_csv(tmp_path: Path, name: str) -> None:
    found = rows(tmp_path, name, VISITS, stream="user", y="bought", drop=("name",))
    assert found == [
        Row("anna", {"x": {"age": 31, "len": 1.5}, "y": 1}),
        Row("bob", {"x": {"len": 2000.0}, "y": 0}),
        Row("anna", {"x": {"len": -0.0}, "y": True}),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_columns_mean_what_members_mean(tmp_path: Path, delimiter: str) -> None:
    text = "\ufeffstream,id,ts,a,y\r\ns,7,2026-01-01T00:00:00Z,1,spam\r\ns,8,5,0,\r\n".replace(",", delimiter)
    assert rows(tmp_path, "t.tsv", text) == [
        Row("s", {"id": "7", "ts": 1_767_225_600_000, "x": {"a": 1}, "y": "spam"}),
        Row("s", {"id": "8", "ts": 5, "x": {"a": 0}}),
    ]


def test_labels_may_stay_text(tmp_path: Path) -> None:
    assert [row.record["y"] for row in rows(tmp_path, "t.csv", "a,y\n1,1\n1,true\n")] == [1, True]
    assert [row.record["y"] for row in rows(tmp_path, "t.csv", "a,y\n1,1\n1,true\n", text_labels=True)] == ["1", "true"]


def test_svmlight(tmp_path: Path) -> None:
    text = "# made by hand\n+1 qid:3 1:0.5 7:2 # first\n\n-1.0 qid:4 2:1e-3\n"
    assert rows(tmp_path, "t.svm", text) == [
        Row(None, {"x": {"1": 0.5, "7": 2}, "y": 1}),
        Row(None, {"x": {"2": 0.001}, "y": -1}),
    ]
    assert [row.stream for row in rows(tmp_path, "t.svm", text, stream="qid")] == ["3", "4"]


def test_json_lines(tmp_path: Path) -> None:
    text = (
        '{"stream": "s", "id": "e", "ts": 5, "x": {"a": 1}, "y": true, "more": [1]}\n'
        '{"x": [1, 2]}\n'
        '{"id": "e", "y": 0}\n'
        '{"stream": 3, "a": 1.5, "b": null, "y": "spam"}'
    )
    assert rows(tmp_path, "t.jsonl", text) == [
        Row("s", {"id": "e", "ts": 5, "x": {"a": 1}, "more": [1], "y": True}),
        Row(None, {"x": [1, 2]}),
        Row(None, {"id": "e", "y": 0}),
        Row("3", {"x": {"a": 1.5}, "y": "spam"}),
    ]


def test_a_column_is_what_it_was_named_for_and_nothing_else(tmp_path: Path) -> None:
    text = "id,y,a\n1,2,3\n"
    assert rows(tmp_path, "t.csv", text, y="id") == [Row(None, {"x": {"y": 2, "a": 3}, "y": 1})]
    assert rows(tmp_path, "t.csv", text, stream="y") == [Row("2", {"id": "1", "x": {"a": 3}})]
    assert rows(tmp_path, "t.csv", text, drop=("id", "y")) == [Row(None, {"x": {"a": 3}})]


@pytest.mark.parametrize(
    ("name", "text", "columns", "sentence"),
    [
        ("t.csv", VISITS, {}, "line 2: feature 'user' is 'anna', which is no number; if it is the label, say --label"),
        ("t.csv", VISITS, {"y": "bought"}, "line 2: feature 'user' is 'anna', which is no number; leave it out with"),
        ("t.csv", VISITS, {"stream": "usr"}, "line 1: there is no column 'usr'; did you mean 'user'?"),
        ("t.csv", "a,b\n1\n", {}, "line 2: it has 1 cell, the header has 2"),
        ("t.csv", "a,a\n1,2\n", {}, "line 1: two columns are called 'a'"),
        ("t.csv", "a,,b\n", {}, "line 1: column 2 has no name"),
        ("t.csv", "1,2.5\n3,4\n", {}, "line 1: it holds no names"),
        ("t.csv", 'a,b\n1,"2\n3', {}, "it is not CSV: unexpected end of data"),
        ("t.csv", b"a,b\n1,\xff\n", {}, "line 2: byte 3 is not UTF-8"),
        ("t.csv", "a\n1e999\n", {}, "line 2: feature 'a' is '1e999', which is not finite"),
        ("t.csv", "stream,a\n,1\n", {}, "line 2: 'stream' is to name the stream, but holds ''"),
        ("t.csv", "ts,a\nnoon,1\n", {}, "line 2: 'ts' is 'noon', neither milliseconds since 1970 nor"),
        ("t.jsonl", '{"x": {}}\n{"x":', {}, "line 2: it is not JSON"),
        ("t.jsonl", "[1]\n", {}, "line 1: it is JSON, but not an object"),
        ("t.jsonl", '{"a": "b"}\n', {}, "line 1: feature 'a' is 'b', which is no number"),
        ("t.svm", "1 2\n", {}, "line 1: '2' is no feature; svmlight has index:value"),
        ("t.svm", "1 2:x\n", {}, "line 1: feature '2' is 'x', which is no number"),
        ("t.svm", "1 2:1\n", {"y": "label"}, "svmlight has no column 'label'"),
        ("t.txt", "a\n1\n", {}, "the name does not tell the format"),
    ],
)
def test_what_cannot_be_read(
    tmp_path: Path, name: str, text: str | bytes, columns: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        rows(tmp_path, name, text, **columns)
    assert sentence in str(refused.value)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert [rows(tmp_path, name, "") for name in ("t.csv", "t.jsonl", "t.svm")] == [[], [], []]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_as_in_kafkas_own_tests(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32
    assert partition_of(key, 1000) == (expected & 0x7FFFFFFF) % 1000

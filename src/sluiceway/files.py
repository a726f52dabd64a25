"""Records from files: JSON lines, CSV, svmlight, Parquet.

A row of a table becomes an instance: its columns are features, but for the four that mean what the members of a record
mean (`stream`, `id`, `ts`, `y`, or the columns that `Columns` names instead) and those to drop. JSON lines may be
whole records, which have an `x`, or later labels, or rows of a table; or targets and columns for a topic of features.
What cannot be read is a `SettingsError` that names the line.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import re
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import orjson

from sluiceway.errors import SettingsError

Format = Literal["jsonl", "csv", "svmlight", "parquet"]
SUFFIXES: Mapping[str, Format] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight",
    ".parquet": "parquet",
}  # fmt: skip
ABSENT = frozenset({"", "na", "nan", "null"})
CHUNK = 1 << 16
PARQUET_ROWS = 4096
"""Of one piece, which is held as Python's objects."""
LOOK_EVERY = 0.2
"""Seconds between looks for more, where a file is followed."""


class Row(NamedTuple):
    """A record for a topic of instances or of features, and the stream it belongs to."""

    stream: str | None
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table are called that are not features."""

    stream: str | None = None
    id: str | None = None
    ts: str | None = None
    y: str | None = None
    drop: tuple[str, ...] = ()
    text_labels: bool = False
    """Labels stay the text they are; otherwise 1, -1, 0, true and false are taken for numbers and truth values."""
    as_is: bool = False
    """A row is a record, for a flow that has a map: nothing is left out or called by another name."""

    def __post_init__(self) -> None:
        others = {"--id": self.id, "--ts": self.ts, "--label": self.y, "--drop": self.drop}
        for option, given in others.items():
            if self.as_is and given:
                raise SettingsError(f"{option} does not go with --as-is: [input.map] of the flow says what a member is")
        named = [column for column in (self.stream, self.id, self.ts, self.y) if column is not None]
        for column in named:
            if named.count(column) > 1 or column in self.drop:
                raise SettingsError(f"column {column!r} cannot be two things at once")

    @property
    def roles(self) -> tuple[str | None, str | None, str | None, str | None]:
        """The columns of stream, id, ts and y; one that is named for another is not what its own name says."""
        named = self.named
        stream, id_, ts, y = (None if name in named else name for name in ("stream", "id", "ts", "y"))
        return self.stream or stream, self.id or id_, self.ts or ts, self.y or y

    @property
    def named(self) -> list[str]:
        return [column for column in (self.stream, self.id, self.ts, self.y, *self.drop) if column is not None]


def format_of(name: str) -> Format:
    """By the file's name; standard input is JSON lines."""
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if name == "-":
        return "jsonl"
    if suffix not in SUFFIXES:
        raise SettingsError(f"{name}: the name does not tell the format; say --format jsonl, csv, svmlight or parquet")
    return SUFFIXES[suffix]


def read_rows(lines: Lines, format_: Format, columns: Columns) -> Iterator[Row]:
    """The rows of an open file."""
    reading = {"jsonl": _json_lines, "csv": _csv, "svmlight": _svmlight, "parquet": _parquet}[format_](lines, columns)
    while True:
        try:
            row = next(reading, None)
        except _BadLine as problem:
            raise SettingsError(f"{lines.name}, line {lines.number}: {problem}") from None
        if row is None:
            return
        yield row


class _BadLine(ValueError):
    pass


class _NoNumber(_BadLine):
    """A cell of a table that is to be a feature."""

    def __init__(self, name: str, value: Any) -> None:
        self._name = name
        super().__init__(f"feature {name!r} is {_shown(value)}, which is no number")

    def advised(self, *, labelled: bool) -> _BadLine:
        drop = f"leave it out with --drop {self._name}"
        return _BadLine(f"{self}; {drop if labelled else f'if it is the label, say --label {self._name}, else {drop}'}")


# -- lines -----------------------------------------------------------------------------------------------------------


class Lines:
    """The lines of a file or of standard input ("-"), counted; with `follow` its end is waited at.

    `idle` is called whenever there is nothing to read for the moment.
    """

    def __init__(self, name: str, *, follow: bool = False) -> None:
        self.name = name
        self.number = 0
        self.idle: Callable[[], None] = lambda: None
        self.size: int | None = None
        self._follow = follow
        try:
            self._raw: BinaryIO = sys.stdin.buffer if name == "-" else Path(name).open("rb", buffering=0)  # noqa: SIM115
        except OSError as problem:
            raise SettingsError(f"{name} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
        self._waits = not stat.S_ISREG(os.fstat(self._raw.fileno()).st_mode)
        if not self._waits:
            self.size = os.fstat(self._raw.fileno()).st_size
        if name.endswith(".gz") and follow:
            raise SettingsError(f"{name}: a compressed file cannot be followed")
        self._file: Any = gzip.GzipFile(fileobj=self._raw) if name.endswith(".gz") else self._raw

    @property
    def position(self) -> int:
        """Bytes read of `size`."""
        return self._raw.tell() if self.size is not None else 0

    def __iter__(self) -> Iterator[str]:
        rest = b""
        for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield self._text(line)
        if rest:
            yield self._text(rest)

    def _text(self, line: bytes) -> str:
        self.number += 1
        try:
            return line.decode("utf-8-sig" if self.number == 1 else "utf-8").removesuffix("\r")
        except UnicodeDecodeError as problem:
            raise _BadLine(f"byte {problem.start + 1} is not UTF-8") from None

    def _chunks(self) -> Iterator[bytes]:
        while True:
            if self._waits and not select.select([self._raw], [], [], LOOK_EVERY)[0]:
                self.idle()
                continue
            try:
                chunk = os.read(self._raw.fileno(), CHUNK) if self._waits else self._file.read(CHUNK)
            except (OSError, EOFError, zlib.error) as problem:
                raise SettingsError(f"{self.name} cannot be read: {problem}") from None
            if chunk:
                yield chunk
            elif self._follow and not self._waits:
                self.idle()
                time.sleep(LOOK_EVERY)
            else:
                return

    def close(self) -> None:
        if self._raw is not sys.stdin.buffer:
            self._raw.close()


# -- formats ---------------------------------------------------------------------------------------------------------


def _json_lines(lines: Lines, columns: Columns) -> Iterator[Row]:
    rows = _Rows(columns, from_text=False)
    for line in lines:
        if not line.strip():
            continue
        try:
            content = orjson.loads(line)
        except orjson.JSONDecodeError as problem:
            raise _BadLine(f"it is not JSON: {problem.msg} at character {problem.pos + 1}") from None
        if not isinstance(content, dict):
            raise _BadLine("it is JSON, but not an object")
        yield rows.column(content) if _is_column(content) and not columns.as_is else rows.row(content)


def _is_column(content: Mapping[str, Any]) -> bool:
    """A target or a column, which hold a list where a row of a table would hold a number."""
    return isinstance(content.get("target"), list) or isinstance(content.get("values"), list)


def _csv(lines: Lines, columns: Columns) -> Iterator[Row]:
    texts = iter(lines)
    first = next((line for line in texts if line.strip()), None)
    if first is None:
        return
    delimiter = max(",;\t", key=first.count)
    header = _cells([first], delimiter)
    _check_header(header, columns)
    rows = _Rows(columns, from_text=True)
    for cells in _records(texts, delimiter):
        if not cells:
            continue
        if len(cells) != len(header):
            raise _BadLine(f"it has {len(cells)} cell{'s' if len(cells) != 1 else ''}, the header has {len(header)}")
        yield rows.row(dict(zip(header, cells, strict=True)))


def _cells(lines: Iterable[str], delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(_records(lines, delimiter))]


def _records(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """A quoted cell may span lines, and then keeps their ends."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as problem:
            raise _BadLine(f"it is not CSV: {problem}") from None
        if cells is None:
            return
        yield cells


def _check_header(header: list[str], columns: Columns) -> None:
    if all(re.fullmatch(r"[-+.\deE]*", name) for name in header):
        raise _BadLine("it holds no names; a CSV file begins with the names of its columns")
    if "" in header:
        raise _BadLine(f"column {header.index('') + 1} has no name")
    if twice := next((name for name in header if header.count(name) > 1), None):
        raise _BadLine(f"two columns are called {twice!r}")
    for name in columns.named:
        if name not in header:
            near = get_close_matches(name, header, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(header[:10])}"
            raise _BadLine(f"there is no column {name!r}; {hint}")


def _svmlight(lines: Lines, columns: Columns) -> Iterator[Row]:
    wrong = [name for name in columns.named if name != "qid"]
    if wrong:
        raise _BadLine(f"svmlight has no column {wrong[0]!r}; only qid may be the key")
    if columns.as_is:
        raise SettingsError(f"{lines.name}: --as-is is for tables and JSON lines; svmlight has a form of its own")
    rows = _Rows(columns, from_text=True)
    for line in lines:
        label, *pairs = line.partition("#")[0].split() or [""]
        if not label and not pairs:
            continue
        content: dict[str, Any] = {"y": label}
        features: dict[str, float] = {}
        for pair in pairs:
            name, colon, value = pair.partition(":")
            if not (name and colon):
                raise _BadLine(f"{pair!r} is no feature; svmlight has index:value")
            if name != "qid":
                features[name] = _number(name, value)
            elif columns.stream is not None:
                content["qid"] = value
        yield rows.row({**content, "x": features})


def _parquet(lines: Lines, columns: Columns) -> Iterator[Row]:
    """Rows of a table; a column `x` of maps, structs or lists holds the features, if there is one."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise SettingsError(f"{lines.name}: Parquet needs pyarrow (pip install sluiceway[arrow])") from None
    try:
        file = parquet.ParquetFile(lines.name)
    except (OSError, pa.ArrowException) as problem:
        raise SettingsError(f"{lines.name} cannot be read: {str(problem).splitlines()[0]}") from None
    _check_header(file.schema_arrow.names, columns)
    rows = _Rows(columns, from_text=False)
    schema = file.schema_arrow
    of_features = "x" in schema.names and pa.types.is_nested(schema.field("x").type)
    for batch in file.iter_batches(batch_size=PARQUET_ROWS):
        for content in batch.to_pylist():
            lines.number += 1
            if of_features and content["x"] is None:
                del content["x"]  # a later label
            yield rows.row({name: _json_like(name, value) for name, value in content.items()})


def _json_like(name: str, value: Any) -> Any:
    """As a line of JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if name == "x" and isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)  # a map, as Arrow tells it: it has what it names, if only a null
    if name == "x" and isinstance(value, dict):
        return {feature: number for feature, number in value.items() if number is not None}
    return value


# -- cells -----------------------------------------------------------------------------------------------------------


class _Rows:
    """Makes rows of what a line holds."""

    def __init__(self, columns: Columns, *, from_text: bool) -> None:
        self._columns = columns
        self._stream, self._id, self._ts, self._y = columns.roles
        self._from_text = from_text

    def row(self, content: dict[str, Any]) -> Row:
        """Take the four roles out; what is left is a record with its `x`, or the features themselves."""
        if self._columns.as_is:
            stream = _stream(self._stream, content.get(self._stream or ""))
            return Row(stream, _cells_as_they_are(content) if self._from_text else content)
        stream, id_, ts, y = (_take(content, role) for role in (self._stream, self._id, self._ts, self._y))
        for name in self._columns.drop:
            _take(content, name)
        labelled = y is not None
        record: dict[str, Any] = {}
        if id_ is not None and id_ != "":
            record["id"] = id_
        if ts is not None and ts != "":
            record["ts"] = ts if type(ts) is int else _milliseconds(self._ts, ts)
        if isinstance(content.get("x"), dict | list):
            _take(content, "stream")
            record.update(content)
        elif content or id_ is None or y is None:
            try:
                features = {name: _feature(name, value, from_text=self._from_text) for name, value in content.items()}
            except _NoNumber as problem:
                raise problem.advised(labelled=labelled) from None
            record["x"] = {name: value for name, value in features.items() if value is not None}
        if y is not None and y != "":
            record["y"] = _label(y, self._columns) if self._from_text else y
        return Row(_stream(self._stream, stream), record)


    def column(self, content: dict[str, Any]) -> Row:
        """As it is, if it is what a topic of features holds: classes or numbers, only the flow knows which."""
        from pydantic import ValidationError

        from sluiceway.schemas.records import Rules, read_column

        stream = _stream(self._stream, _take(content, self._stream))
        kind: Literal["class", "number"] = "class"
        if any(type(value) is float for value in content.get("target") or ()):
            kind = "number"
        try:
            read_column(content, Rules(target_type=kind))
        except ValidationError as problem:
            first = problem.errors()[0]
            where = f"{first['loc'][0]}: " if first["loc"] else ""
            raise _BadLine(f"it is no target and no column: {where}{first['msg']}") from None
        return Row(stream, content)


def _take(content: dict[str, Any], column: str | None) -> Any:
    return None if column is None else content.pop(column, None)


def _stream(column: str | None, value: Any) -> str | None:
    if value is None:
        return None
    if type(value) is int or (isinstance(value, str) and value):
        return str(value)
    raise _BadLine(f"{column!r} is to name the stream, but holds {_shown(value)}")


def _feature(name: str, value: Any, *, from_text: bool) -> float | None:
    if from_text:
        return None if value.strip().lower() in ABSENT else _number(name, value.strip())
    if value is None:
        return None
    if type(value) is int or type(value) is float:
        return value
    raise _NoNumber(name, value)


def _number(name: str, text: str) -> float:
    try:
        number = int(text) if text.isdecimal() and len(text) < 16 else float(text)
    except ValueError:
        raise _NoNumber(name, text) from None
    if not math.isfinite(number):
        raise _BadLine(f"feature {name!r} is {_shown(text)}, which is not finite")
    return number


def _cells_as_they_are(content: Mapping[str, str]) -> dict[str, Any]:
    """Of a table of text: a number where one is plainly meant (007 is none), nothing for a cell that is empty."""
    record: dict[str, Any] = {}
    for name, cell in content.items():
        text = cell.strip()
        if text.lower() in ABSENT:
            continue
        try:
            record[name] = text if re.match(r"[-+]?0\d", text) else _number(name, text)
        except _BadLine:
            record[name] = text
    return record


def _milliseconds(column: str | None, value: Any) -> int:
    if isinstance(value, str):
        if value.isdecimal():
            return int(value)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    raise _BadLine(f"{column!r} is {_shown(value)}, neither milliseconds since 1970 nor an ISO-8601 time")


def _label(text: str, columns: Columns) -> str | int | bool:
    """
    >>> [_label(text, Columns()) for text in ("+1", "0", "-1.0", "True", "spam")]
    [1, 0, -1, True, 'spam']
    """
    text = text.strip()
    if columns.text_labels:
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if number := re.fullmatch(r"([-+]?\d{1,9})(\.0*)?", text):
        return int(number[1])
    return text


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."

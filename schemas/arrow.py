"""Arrow: one Kafka message carries many columns, or many instances, as an Arrow IPC stream.

The message's header decides: `content-type: application/vnd.apache.arrow.stream`; without it a value is JSON. Both may
stand in one topic. Directory topics are lines of JSON and know no Arrow. A message is used as a whole, or is one dead
letter, which keeps the header. It needs pyarrow: `pip install sluiceway[arrow]`.

Columns (topic `features`): each field is a column of numbers, its name the feature's, in the order of the fields.
Metadata of the schema:

    sluiceway.target   the name of the field that is the target: a new one, against which the others are judged
    sluiceway.ts       milliseconds, in decimal digits

    table = pa.table({"y": target, "gene:TP53": [...], ...}).replace_schema_metadata({"sluiceway.target": "y"})

Instances (topic `instances`): each row is an instance, each field a feature, a null an absent one (or, for operators
that tell the two apart, one that is not known). Fields called `id`,
`ts` and `y` are what they are in JSON, not features. There are no later labels here: they go in records of JSON.

Numbers are floats and integers of any width; columns of float64 reach the operator without being copied. `ts` may also
be timestamps, as long as they are whole milliseconds since 1970. Targets, labels and ids are integers or strings, and
what else JSON allows them to be, dictionary-encoded or not. The stream is the message's key, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.arrow_numbers import numbers, refuse_types
from sluiceway.schemas.refusal import MAX_TS, ErrorClass, Refused, cut, refuse_ts, show

if TYPE_CHECKING:
    import pyarrow as pa

CONTENT_TYPE = "content-type"
ARROW = b"application/vnd.apache.arrow.stream"
ARROW_HEADERS = ((CONTENT_TYPE, ARROW),)
TARGET = b"sluiceway.target"
TS = b"sluiceway.ts"
RESERVED = ("id", "ts", "y")
MAX_NUMBERS = 2**27
"""In one message, a GiB as float64: rows of some types take no bytes, so that a short message can claim any number."""
_TS_DIGITS = len(str(MAX_TS))


def arrow_rows(headers: Sequence[list[tuple[str, bytes | None]] | None]) -> frozenset[int]:
    """The messages whose header says Arrow."""
    said = ((row, name, value) for row, given in enumerate(headers) if given for name, value in given)
    return frozenset(row for row, name, value in said if value == ARROW and name.lower() == CONTENT_TYPE)


class Columns(NamedTuple):
    """What a message of columns holds."""

    ts: int
    target: list[Any] | None
    names: list[str]
    values: NDArray[np.float64]
    """A row for each column."""


def read_columns(value: bytes | None) -> Columns:
    """The columns of a message, or `Refused`."""
    value, batch, names = _read(value)
    metadata = batch.schema.metadata or {}
    target = None
    _refuse_repeats(names, "bad-column")
    if TARGET in metadata:
        called = metadata[TARGET].decode(errors="replace")
        if called not in names:
            raise Refused("bad-column", f"sluiceway.target names {show(called)}, which is no field")
        if batch.num_rows == 0:
            raise Refused("bad-column", "the target has no rows")
        target = _plain(batch, names.index(called), "bad-column", "the target")
        names.remove(called)
        batch = batch.select(names)
    elif not names:
        raise Refused("bad-column", "the message has no columns")
    values = numbers(value, batch, names, "bad-column", nulls=False)
    return Columns(_ts_of(metadata.get(TS)), target, names, values)


class Instances(NamedTuple):
    """What a message of instances holds, as compressed sparse rows."""

    names: list[str]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    y: NDArray[np.int8]
    ts: NDArray[np.int64]
    ids: list[str | None] | None


def read_instances(
    value: bytes | None,
    target_of: Callable[[object], int],
    id_of: Callable[[object], str],
    limit: int,
    *,
    keep_zeros: bool = False,
    keep_nulls: bool = False,
) -> Instances:
    """The instances of a message, or `Refused`.

    `target_of` gives what a label is in a batch and `id_of` the text of an id; `limit` is how many features an instance
    may have; `keep_zeros` tells a zero from a null, `keep_nulls` a null from an absent feature: as NaN.
    """
    value, batch, names = _read(value)
    _refuse_repeats(names, "bad-feature")
    names = [name for name in names if name not in RESERVED]
    features = batch.select(names)
    refuse_types(features, names, "bad-feature")
    if len(names) > limit:
        present = sum(one.is_valid().to_numpy(zero_copy_only=False).astype(np.int64) for one in features.columns)
        if batch.num_rows and int(np.max(present)) > limit:
            found = int(np.max(present))
            raise Refused("too-many-features", f"an instance has {found} features, more than the {limit} allowed")
    ids, ts, y = (_optional(batch, name) for name in RESERVED)
    rows = np.ascontiguousarray(numbers(value, features, names, "bad-feature", nulls=True).T)
    there = rows != 0
    if (keep_zeros or keep_nulls) and names:
        valid = np.column_stack([one.is_valid().to_numpy(zero_copy_only=False) for one in features.columns])
        if keep_nulls and not valid.all():
            rows = np.where(valid, rows, np.nan)
        there = (valid | keep_nulls) if keep_zeros else rows != 0
    indptr = np.zeros(batch.num_rows + 1, dtype=np.int64)
    np.cumsum(np.count_nonzero(there, axis=1), out=indptr[1:])
    return Instances(
        names=names,
        indptr=indptr,
        indices=np.nonzero(there)[1].astype(np.int32),
        values=rows[there],
        y=np.array(_each(y, target_of), dtype=np.int8) if y else np.zeros(batch.num_rows, dtype=np.int8),
        ts=np.array(_each(ts, _milliseconds), dtype=np.int64) if ts else np.zeros(batch.num_rows, dtype=np.int64),
        ids=None if ids is None else [None if one is None else id_of(one) for one in ids],
    )


def _read(value: bytes | None) -> tuple[bytes, pa.RecordBatch, list[str]]:
    """The message, all its rows as one batch, and the names of its fields; whatever its bytes, safe to look at."""
    try:
        import pyarrow as pa
    except ImportError:
        from sluiceway.errors import FlowError

        raise FlowError(
            "the input holds Arrow batches, and pyarrow is not installed: nothing of them was used; install it"
            " (pip install 'sluiceway[arrow]') and start the flow again"
        ) from None
    if value is None:
        raise Refused("tombstone", "the message has no value")
    if not value:
        raise Refused("empty", "the message is empty")
    try:
        with pa.ipc.open_stream(pa.py_buffer(value)) as reader:
            batches = list(reader)
            if len(batches) == 1:
                [batch] = batches
            else:
                table = pa.Table.from_batches(batches, reader.schema)
                columns = [column.combine_chunks() for column in table.columns]
                batch = pa.record_batch(columns, schema=reader.schema)
        batch.validate(full=True)
        names: list[str] = batch.schema.names  # which may not be UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise Refused("bad-arrow", f"the value is not an Arrow stream: {cut(str(problem), 200)}") from None
    if batch.num_rows * max(batch.num_columns, 1) > MAX_NUMBERS:
        claimed = f"{batch.num_rows} rows of {batch.num_columns} fields"
        raise Refused("bad-arrow", f"{claimed}: a message has at most {MAX_NUMBERS} values")
    return value, batch, names


def _refuse_repeats(names: list[str], error_class: ErrorClass) -> None:
    if "" in names:
        raise Refused(error_class, "a field's name is empty")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(error_class, f"two fields are called {show(twice)}")


def _optional(batch: pa.RecordBatch, name: str) -> list[Any] | None:
    if name not in batch.schema.names:
        return None
    at = batch.schema.names.index(name)
    if name == "ts":
        return _times(batch, at)
    return _plain(batch, at, "bad-label" if name == "y" else "bad-id", name)


def _plain(batch: pa.RecordBatch, at: int, error_class: ErrorClass, what: str) -> list[Any]:
    """A field's values as JSON could hold them; what is allowed of them is for others to say."""
    import pyarrow as pa

    found = batch.schema.field(at).type
    held = found.value_type if pa.types.is_dictionary(found) else found
    tests = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string)
    if not any(test(held) for test in (*tests, pa.types.is_string_view, pa.types.is_floating, pa.types.is_decimal)):
        raise Refused(error_class, f"{what} is of type {cut(str(found), 80)}, not of strings or numbers")
    values: list[Any] = batch.column(at).to_pylist()
    return values


def _times(batch: pa.RecordBatch, at: int) -> list[int | None]:
    """Milliseconds; a timestamp, whatever its time zone, is counted from 1970 in its unit."""
    import pyarrow as pa

    found = batch.schema.field(at).type
    if not (pa.types.is_integer(found) or pa.types.is_timestamp(found)):
        raise Refused("bad-ts", f"ts is of type {cut(str(found), 80)}, neither integers nor timestamps")
    if pa.types.is_integer(found):
        given: list[int | None] = batch.column(at).to_pylist()
        return given
    values: list[int | None] = batch.column(at).view(pa.int64()).to_pylist()
    times, parts = (1000, 1) if found.unit == "s" else (1, {"ms": 1, "us": 1000, "ns": 1_000_000}[found.unit])
    if any(value is not None and value % parts for value in values):
        raise Refused("bad-ts", f"ts is of type {cut(str(found), 80)} and not in whole milliseconds")
    return [None if value is None else value * times // parts for value in values]


def _each(values: list[Any], found: Callable[[object], int]) -> list[int]:
    """A column has one type, so equal values are the same value."""
    known: dict[object, int] = {None: 0}
    for one in values:
        if one not in known:
            known[one] = found(one)
    return [known[one] for one in values]


def _milliseconds(ts: object) -> int:
    if type(ts) is not int or not 0 <= ts <= MAX_TS:
        refuse_ts(ts)
    return ts


def _ts_of(digits: bytes | None) -> int:
    if digits is None:
        return 0
    if not digits.isdigit() or len(digits) > _TS_DIGITS or int(digits) > MAX_TS:
        raise Refused("bad-ts", f"sluiceway.ts is {cut(repr(digits), 80)}, not an integer from 0 to {MAX_TS}")
    return int(digits)

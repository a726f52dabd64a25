"""Arrow: the same columns and instances as in JSON give the same; a bad batch is one dead letter; nothing is copied."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.arrow import arrow_rows, read_columns
from sluiceway.schemas.columns import ColumnTable
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.decode_columns import ColumnDecoder
from sluiceway.schemas.encode import dead_letter, dead_letter_line
from sluiceway.schemas.lane import OutRecord, RawPoll
from sluiceway.schemas.records import DeadLetterLine
from tests.columns.lanes import Given, Kind, columns, selecting, windows
from tests.columns.messages import CONTENT_TYPE, stream, table
from tests.columns.test_laws import SELECTORS, column_kinds, cuts, dense, law, restores, targets
from tests.schemas.polls import batches_of, rows_of
from tests.stages.lanes import STEP, TOPIC, Message, config, message, new_lane, parsed, polls

Sent = Message | bytes
"""A record of JSON with its stream, or a message of Arrow."""


def arrow_polls(sent: list[Sent], cut: list[int]) -> list[RawPoll]:
    plain = [one if isinstance(one, Message) else Message(b"s", one) for one in sent]
    made = polls(plain, cut)
    for poll in made:
        rows = range(poll.start // STEP, poll.stop // STEP)
        poll.arrow = frozenset(at for at, row in enumerate(rows) if not isinstance(sent[row], Message))
    return made


def apart_from_places(given: Given) -> Any:
    """Snapshots and verdicts without offsets."""
    snapshots, verdicts = parsed(given.selections + given.finals), parsed(given.verdicts)
    for record in snapshots:
        del record["source"]
    for record in verdicts:
        del record["at"]
    return snapshots, verdicts


def poll_of_arrow(*values: bytes | None) -> RawPoll:
    count = len(values)
    return RawPoll(
        0, 0, count, False, [b"s"] * count, list(values), list(range(count)), list(range(1, count + 1)),
        frozenset(range(count)),
    )  # fmt: skip


def whole(kind: Kind, sent: list[Sent]) -> Given:
    return kind.run(arrow_polls(sent, []))


FAR, NOWHERE = pa.timestamp("s"), pa.timestamp("s", tz="Nowhere/City")
DATES: dict[str, Any] = {
    "dates in ns": pa.array([1, 2], pa.timestamp("ns")),
    "dates beyond the calendar": pa.array([10**15, 2], FAR),
    "dates of no known zone": pa.array([1, 2], NOWHERE),
    "lists": pa.array([[1], [2]]),
    "nothing": pa.array([None, None]),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([1])),
}
"""Fields of two rows that are no target, label or id."""


def claiming(rows: int) -> dict[str, Any]:
    """Columns that take no bytes however long they say they are."""
    return {
        "of nothing": pa.Array.from_buffers(pa.null(), rows, [None]),
        "of runs": pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int64()), pa.array([1.0])),
    }


def short(array: Any) -> bytes:
    """One field, of which the message may take any number of rows."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["a"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


# -- columns ----------------------------------------------------------------------------------------------------------

types = st.sampled_from([pa.float64(), pa.float64(), pa.float32(), pa.int8(), pa.int64(), pa.uint16()])


@st.composite
def groups(draw: st.DrawFn) -> list[Any]:
    """Runs of columns, some with a target before them; no name comes twice."""
    made: list[Any] = []
    number = 0
    for at in range(draw(st.integers(1, 5))):
        target = draw(targets) if at == 0 or draw(st.integers(0, 3)) == 0 else None
        run = []
        for _ in range(draw(st.integers(0 if target else 1, 6))):
            run.append((f"f{number}", draw(dense)))
            number += 1
        made.append((target, run))
    return made


def as_json(made: list[Any]) -> list[Sent]:
    records: list[Any] = []
    for target, run in made:
        records += [] if target is None else [{"target": target, "ts": 7}]
        records += [{"name": name, "values": values, "ts": 7} for name, values in run]
    return [message("s", record) for record in records]


def as_arrow(made: list[Any], draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Sent]:
    sent: list[Sent] = []
    for target, run in made:
        fields = [(name, _array(values, draw(types))) for name, values in run]
        metadata = {"sluiceway.ts": "7"}
        if target is not None:
            fields.insert(draw(st.integers(0, len(fields))), ("the target", pa.array(target)))
            metadata["sluiceway.target"] = "the target"
        compression = draw(st.sampled_from([None, None, "lz4", "zstd"]))
        rows = draw(st.sampled_from([None, None, 3]))
        sent.append(stream(table(fields, metadata), rows_a_batch=rows, compression=compression))
    return sent


def _array(values: list[float], kind: Any) -> Any:
    whole_numbers = all(float(value).is_integer() for value in values)
    return pa.array(values, pa.float64() if pa.types.is_integer(kind) and not whole_numbers else kind)


@law
@given(column_kinds(), groups(), st.data())
def test_the_same_columns_give_the_same(kind: Kind, made: list[Any], data: st.DataObject) -> None:
    got = whole(kind, as_arrow(made, data.draw))
    assert not got.dead_letters
    assert apart_from_places(got) == apart_from_places(whole(kind, as_json(made)))


@law
@given(column_kinds(), groups(), groups(), st.data(), cuts, restores)
def test_cutting_and_restoring_change_no_byte(
    kind: Kind, made: list[Any], more: list[Any], data: st.DataObject, cut: list[int], restored: set[int]
) -> None:
    """Arrow and JSON in turn, and batches that do not fit."""
    sent: list[Sent] = [*as_arrow(made, data.draw), *as_json(more), *as_arrow(more, data.draw), b"no arrow"]
    sent.insert(data.draw(st.integers(0, len(sent))), stream(table([("short", [1.0, 2.0])])))
    got = whole(kind, sent)
    assert kind.run(arrow_polls(sent, cut), sorted(restored)) == got
    versions = [(record["stream"], record["version"]) for record in parsed(got.selections + got.finals)]
    assert len(set(versions)) == len(versions)


@pytest.mark.parametrize("operator", SELECTORS)
@pytest.mark.parametrize("emit", [Emit(every=7), Emit(every=0, on_change=True)])
def test_a_batch_is_used_as_a_whole_or_not_at_all(operator: str, emit: Emit) -> None:
    """The last of its columns is selected already: none is learnt, whatever snapshots would have been due before."""
    rng = np.random.default_rng(1)
    target = [0, 1] * 20
    tells = np.array([1.0, *target[1:]])
    fields = [(f"f{number}", pa.array(rng.integers(0, 2, size=40))) for number in range(20)]
    begun = [message("s", {"target": target}), message("s", {"name": "tells", "values": tells.tolist()})]
    bad, good = stream(table([*fields, ("tells", pa.array(tells))])), stream(table(fields))
    kind = columns(operator, emit=emit)
    got = whole(kind, [*begun, bad, good])
    [dead] = got.dead_letters
    assert (dead.offset, dead.value) == (2 * STEP, bad)
    assert dead.headers[0] == CONTENT_TYPE
    assert b"'tells' is selected already" in dict(dead.headers)["sluiceway.error.message"]
    assert apart_from_places(got) == apart_from_places(whole(kind, [*begun, good]))
    assert len(got.verdicts) == 21
    assert {record.offset for record in got.verdicts[1:]} == {3 * STEP}


REFUSED_COLUMNS: dict[str, tuple[bytes | None, str, str]] = {
    "no value": (None, "tombstone", "no value"),
    "no bytes": (b"", "empty", "empty"),
    "JSON": (b'{"target": [1]}', "bad-arrow", "not an Arrow stream"),
    "cut short": (stream(table([("a", [1.0] * 99)]))[:-300], "bad-arrow", "not an Arrow stream"),
    "no fields": (stream(table([])), "bad-column", "no columns"),
    "empty name": (stream(table([("", [1.0])])), "bad-column", "name is empty"),
    "name twice": (stream(table([("a", [1.0]), ("a", [2.0])])), "bad-column", 'two fields are called "a"'),
    "null": (stream(table([("a", [1.0, None])])), "bad-column", 'column "a" holds null'),
    "NaN": (stream(table([("a", [1.0]), ("b", [float("nan")])])), "bad-column", 'field "b" is nan in row 0'),
    "infinity": (stream(table([("a", [1.0, float("-inf")])])), "bad-column", 'field "a" is -inf in row 1'),
    "booleans": (stream(table([("a", [True])])), "bad-column", "of type bool, not of numbers"),
    "text": (stream(table([("a", ["1"])])), "bad-column", "of type string, not of numbers"),
    "no such target": (
        stream(table([("a", [1.0])], {"sluiceway.target": "y"})), "bad-column", 'names "y", which is no field',
    ),
    "target of fractions": (
        stream(table([("y", [1.5])], {"sluiceway.target": "y"})), "bad-column", "not an array of classes",
    ),
    "target of nulls": (
        stream(table([("y", pa.array([None, 1]))], {"sluiceway.target": "y"})), "bad-column", "not an array of classes",
    ),
    "target without rows": (
        stream(table([("y", pa.array([], pa.int64()))], {"sluiceway.target": "y"})), "bad-column", "no rows",
    ),
    "ts": (stream(table([("a", [1.0])], {"sluiceway.ts": "-1"})), "bad-ts", "sluiceway.ts is b'-1'"),
    "ts of 5,000 digits": (
        stream(table([("a", [1.0])], {"sluiceway.ts": "9" * 5000})), "bad-ts", "sluiceway.ts is b'999",
    ),
    "a date as a column": (stream(table([("a", DATES["dates in ns"])])), "bad-column", "of type timestamp"),
    **{
        f"target of {what}": (
            stream(table([("y", array), ("a", [1.0, 2.0])], {"sluiceway.target": "y"})),
            "bad-column", "the target is of type (timestamp|list|null|run_end)",
        )
        for what, array in DATES.items()
    },
    **{
        f"{rows} {what}": (short(array), *refused)
        for rows, refused in (
            (2**50, ("bad-arrow", "1125899906842624 rows of 1 fields: a message has at most")),
            (2**20, ("bad-column", 'field "a" is of type (null|run_end)')),
        )
        for what, array in claiming(rows).items()
    },
}  # fmt: skip


@pytest.mark.parametrize(("value", "error_class", "words"), REFUSED_COLUMNS.values(), ids=REFUSED_COLUMNS)
def test_a_bad_batch_of_columns_is_one_dead_letter(value: bytes | None, error_class: str, words: str) -> None:
    batch = ColumnDecoder(1).decode(poll_of_arrow(value))
    assert batch.streams == []
    _check_refused(batch.dead_letters, value, error_class, words)


@pytest.mark.parametrize("array", DATES.values(), ids=DATES)
def test_so_is_a_target_that_holds_no_numbers(array: Any) -> None:
    value = stream(table([("y", array), ("a", [1.0, 2.0])], {"sluiceway.target": "y"}))
    batch = ColumnDecoder(1, target_type="number").decode(poll_of_arrow(value))
    _check_refused(batch.dead_letters, value, "bad-column", "the target is of type")


@pytest.mark.parametrize("kind", [pa.float16(), pa.float64(), pa.int32(), pa.decimal128(30, 3)])
def test_a_target_of_numbers(kind: Any) -> None:
    value = stream(table([("y", pa.array([1, 2, 7]).cast(kind))], {"sluiceway.target": "y"}))
    [(_, [read])] = ColumnDecoder(1, target_type="number").decode(poll_of_arrow(value)).streams
    assert read.target.tolist() == [1.0, 2.0, 7.0]


def _check_refused(letters: list[Any], value: bytes | None, error_class: str, words: str) -> None:
    [letter] = letters
    assert (letter.value, letter.error_class, letter.stage) == (value, error_class, "decode")
    assert letter.headers == (CONTENT_TYPE,)
    assert re.search(words, letter.message), letter.message
    line = dead_letter_line(dead_letter(letter, TOPIC, 0))
    model = DeadLetterLine.model_validate_json(line)
    assert model.content_type == CONTENT_TYPE[1].decode()
    assert model.model_dump_json().encode() == line


@pytest.mark.parametrize("target", [["b", "a", "b"], [1, -1, 7], [True, False, True]])
@pytest.mark.parametrize("encoded", [False, True])
def test_targets_are_those_of_json(target: list[Any], encoded: bool) -> None:
    array = pa.array(target)
    if encoded and pa.types.is_string(array.type):
        array = array.dictionary_encode()
    read = ColumnDecoder(1).decode(poll_of_arrow(stream(table([("y", array)], {"sluiceway.target": "y"}))))
    other = ColumnDecoder(1).decode(RawPoll(0, 0, 1, False, [b"s"], [orjson.dumps({"target": target})], [0], [1]))
    [(_, [by_arrow])], [(_, [by_json])] = read.streams, other.streams
    assert isinstance(by_arrow, ColumnTable)
    assert by_arrow.target is not None
    assert by_arrow.target.tolist() == by_json.values.tolist()
    assert by_arrow.names == []


@pytest.mark.parametrize("rows", [1, 3, 8, 1000, 1001])
def test_floats_are_not_copied(rows: int) -> None:
    values = np.random.default_rng(0).normal(size=(5, rows))
    sent = stream(table([(str(at), pa.array(one)) for at, one in enumerate(values)]))
    read = read_columns(sent).values
    assert np.array_equal(read, values)
    assert np.shares_memory(read, np.frombuffer(sent, dtype=np.uint8))
    assert read.flags.c_contiguous
    assert not read.flags.writeable


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_bytes_are_read_or_refused(data: st.DataObject) -> None:
    """A damaged batch never ends the flow."""
    fields: list[tuple[str, Any]] = [("a", [1.0, 2.0, 3.0]), ("y", [1, -1, 1]), ("id", ["e1", "e2", "e3"])]
    good = stream(table(fields, {"sluiceway.target": "y"}))
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    for decoder in (ColumnDecoder(1), Decoder(1)):
        batch = decoder.decode(poll_of_arrow(bytes(damaged[: data.draw(st.integers(1, len(good)))])))
        assert len(batch.dead_letters) + len(batch.streams) <= 1


# -- instances --------------------------------------------------------------------------------------------------------


def instances(seed: int, count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    records = []
    for number in range(count):
        y = int(rng.choice([-1, 1]))
        x = {name: round(float(rng.normal() + y * (name == "a")), 3) for name in "abcd" if rng.random() < 0.8}
        record: dict[str, Any] = {"x": x, "ts": number}
        record |= {"id": f"e-{number}"} if number % 3 else {}
        record |= {"y": y} if number % 5 else {}
        records.append(record)
    return records


def instance_batch(records: list[dict[str, Any]]) -> bytes:
    names = sorted({name for record in records for name in record["x"]})
    fields: list[tuple[str, Any]] = [
        (name, pa.array([record["x"].get(name) for record in records], pa.float64())) for name in names
    ]
    fields += [
        (name, pa.array([record.get(name) for record in records], kind))
        for name, kind in (("ts", pa.int64()), ("y", pa.int8()), ("id", pa.string()))
    ]
    return stream(table(fields))


def test_a_null_is_absent_or_not_known() -> None:
    value = stream(table([("a", [1.0, None, 0.0]), ("b", pa.array([2, 0, 3], pa.int32()))]))
    kept = {(False, False): "a b b", (True, False): "a b b a b", (False, True): "a b a b", (True, True): "a b a b a b"}
    for (zeros, nulls), names in kept.items():
        decoded = Decoder(1, keep_zeros=zeros, keep_nulls=nulls).decode(poll_of_arrow(value))
        assert decoded.columns is not None
        [(_, batch)] = decoded.columns.batches()
        assert [batch.names[place] for place in batch.indices] == names.split()
        assert np.flatnonzero(np.isnan(batch.values)).tolist() == ([2] if nulls else [])


def kinds() -> list[Kind]:
    learner = Kind(config("ofs", {"k": 2}, Emit(every=7), predictions=False), lambda: Decoder(8))
    doubly = selecting({"refresh": 5}, Emit(every=7, on_change=True))
    return [learner, doubly, windows(size=20, slide=6)]


@pytest.mark.parametrize("kind", kinds(), ids=["learner", "doubly", "windows"])
def test_the_same_instances_give_the_same(kind: Kind) -> None:
    records = instances(3, 120)
    ordered = [{**record, "x": dict(sorted(record["x"].items()))} for record in records]
    sent: list[Sent] = [instance_batch(ordered[at : at + 30]) for at in range(0, 120, 30)]
    got = whole(kind, sent)
    assert len(got.selections) > 5
    assert apart_from_places(got) == apart_from_places(whole(kind, [message("s", record) for record in ordered]))
    mixed = [sent[0], *(message("s", record) for record in ordered[30:60]), sent[2], b"no", sent[3]]
    assert apart_from_places(whole(kind, mixed)) == apart_from_places(got)
    assert kind.run(arrow_polls(mixed, [1, 7, 32]), [1, 3]) == whole(kind, mixed)


def test_rows_are_those_of_json() -> None:
    records = instances(4, 40)
    [(name, batch)] = batches_of(Decoder(1).decode(poll_of_arrow(instance_batch(records))))
    values = [orjson.dumps({**record, "x": dict(sorted(record["x"].items()))}) for record in records]
    poll = RawPoll(0, 0, 40, False, [b"s"] * 40, list(values), list(range(40)), list(range(1, 41)))
    [(other, plain)] = batches_of(Decoder(1).decode(poll))
    assert name == other == "s"
    assert {(row.offset, row.next_offset) for row in rows_of(batch)} == {(0, 1)}
    assert [row[2:] for row in rows_of(batch)] == [row[2:] for row in rows_of(plain)]


def test_later_labels_in_json_find_instances_of_arrow() -> None:
    kind = Kind(config("ofs", {"k": 2}, Emit(every=1)), lambda: Decoder(8))
    waiting = stream(table([("a", [1.0, 2.0]), ("id", ["e1", "e2"])]))
    later: list[Sent] = [waiting, message("s", {"id": "e2", "y": 1})]
    at_once: list[Sent] = [message("s", {"id": "e2", "x": {"a": 2}, "y": 1})]
    assert _selected(kind, arrow_polls(later, [])) == _selected(kind, arrow_polls(at_once, []))


def _selected(kind: Kind, inputs: list[RawPoll]) -> list[Any]:
    lane, decoder = new_lane(kind.config), kind.decoder()
    made: list[OutRecord] = []
    for raw in inputs:
        output = lane.process(decoder.decode(raw))
        assert not output.dead_letters
        made += output.selections
    return [one["selected"] for one in parsed(made)]


REFUSED_INSTANCES: dict[str, tuple[bytes | None, str, str]] = {
    "no value": (None, "tombstone", "no value"),
    "JSON": (b'{"x": {"a": 1}}', "bad-arrow", "not an Arrow stream"),
    "name twice": (stream(table([("a", [1.0]), ("a", [2.0])])), "bad-feature", 'called "a"'),
    "NaN": (stream(table([("a", [1.0, float("nan")])])), "bad-feature", 'field "a" is nan in row 1'),
    "text": (stream(table([("a", ["high"])])), "bad-feature", "of type string"),
    "dates": (stream(table([("a", pa.array([1], pa.timestamp("ms")))])), "bad-feature", "of type timestamp"),
    "label": (stream(table([("a", [1.0, 2.0]), ("y", [1, 2])])), "bad-label", "y is 2"),
    "fraction": (stream(table([("a", [1.0]), ("y", [1.0])])), "bad-label", "y is 1.0"),
    "ts": (stream(table([("ts", [-1])])), "bad-ts", "ts is -1"),
    "ts of fractions": (stream(table([("ts", [1.0])])), "bad-ts", "ts is of type double"),
    "ts of lists": (stream(table([("ts", [[1]])])), "bad-ts", "ts is of type list"),
    "ts before 1970": (stream(table([("ts", pa.array([-1], pa.timestamp("ms")))])), "bad-ts", "ts is -1"),
    "ts beyond 64 bits": (stream(table([("ts", pa.array([10**17], FAR))])), "bad-ts", "ts is 100000000000000000000"),
    "ts of less than ms": (
        stream(table([("ts", pa.array([1_000_001], pa.timestamp("ns")))])), "bad-ts", "not in whole milliseconds",
    ),
    **{f"id of {what}": (stream(table([("id", array)])), "bad-id", "id is of type") for what, array in DATES.items()},
    **{f"y of {what}": (stream(table([("y", array)])), "bad-label", "y is of type") for what, array in DATES.items()},
    **{
        f"{rows} {what}": (short(array), *refused)
        for rows, refused in (
            (2**50, ("bad-arrow", "1125899906842624 rows of 1 fields: a message has at most")),
            (2**20, ("bad-feature", 'field "a" is of type (null|run_end)')),
        )
        for what, array in claiming(rows).items()
    },
    "id": (stream(table([("id", [1.5])])), "bad-id", "id is 1.5"),
    "empty id": (stream(table([("id", ["e", ""])])), "bad-id", 'id is the string ""'),
    "many": (stream(table([(name, [1.0]) for name in "abcd"])), "too-many-features", "4 features, more than the 3"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "error_class", "words"), REFUSED_INSTANCES.values(), ids=REFUSED_INSTANCES)
def test_a_bad_batch_of_instances_is_one_dead_letter(value: bytes | None, error_class: str, words: str) -> None:
    batch = Decoder(1, max_features_per_instance=3).decode(poll_of_arrow(value))
    assert batches_of(batch) == []
    _check_refused(batch.dead_letters, value, error_class, words)


def test_absent_features_do_not_count() -> None:
    fields = [(name, pa.array([1.0 if place == at else None for place in range(4)])) for at, name in enumerate("abcd")]
    batch = Decoder(1, max_features_per_instance=1).decode(poll_of_arrow(stream(table(fields))))
    [(_, rows)] = batches_of(batch)
    assert [row.x for row in rows_of(rows)] == [((name, 1.0),) for name in "abcd"]


def test_classes_and_ids() -> None:
    sent = stream(table([("y", ["spam", None, "ham"]), ("id", [7, None, 9]), ("ts", [None, 5, 6])]))
    [(_, batch)] = batches_of(Decoder(1, classes=["ham", "spam"]).decode(poll_of_arrow(sent)))
    assert batch.y.tolist() == [1, 0, -1]
    assert batch.ids == ["7", None, "9"]
    assert batch.ts.tolist() == [0, 5, 6]


@pytest.mark.parametrize("zone", [None, "UTC", "Nowhere/City"])
@pytest.mark.parametrize(("unit", "parts"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_are_milliseconds(unit: str, parts: int, zone: str | None) -> None:
    times = pa.array([0, None, 1_700_000_000 * parts], pa.timestamp(unit, tz=zone))
    sent = stream(table([("ts", times), ("a", [1.0] * 3)]))
    [(_, batch)] = batches_of(Decoder(1).decode(poll_of_arrow(sent)))
    assert batch.ts.tolist() == [0, 0, 1_700_000_000_000]


def test_a_batch_without_rows_is_nothing() -> None:
    batch = Decoder(1).decode(poll_of_arrow(stream(table([("a", pa.array([], pa.float64()))]))))
    assert (batches_of(batch), batch.dead_letters) == ([], [])


# -- what decides -----------------------------------------------------------------------------------------------------


def test_the_header_decides() -> None:
    name, value = CONTENT_TYPE
    headers: list[list[tuple[str, bytes | None]] | None] = [
        None,
        [],
        [("content-type", b"application/json")],
        [("traceparent", b"00"), (name, value)],
        [("Content-Type", value)],
        [("accept", value)],
        [(name, None)],
    ]
    assert arrow_rows(headers) == {3, 4}


def test_without_pyarrow_the_flow_stops_with_a_sentence() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from sluiceway.errors import FlowError\n"
        "from sluiceway.schemas.decode_columns import ColumnDecoder\n"
        "from sluiceway.schemas.lane import RawPoll\n"
        "poll = RawPoll(0, 0, 2, False, [None] * 2, [b'{\"target\": [1]}'] * 2, [0, 1], [1, 2])\n"
        "assert len(ColumnDecoder(1).decode(poll).streams[0][1]) == 2\n"
        "poll.arrow = frozenset([1])\n"
        "try:\n    ColumnDecoder(1).decode(poll)\n"
        "except FlowError as problem:\n    assert 'sluiceway[arrow]' in str(problem), problem\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})

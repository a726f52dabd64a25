"""What goes out: exact bytes, and the same through the typed models and back."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.operators.kernels.joint.advancing import new_decided
from sluiceway.schemas import encode
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.encode_decisions import DecisionEncoder
from sluiceway.schemas.instance_columns import Columns
from sluiceway.schemas.lane import DeadLetter, OutRecord
from sluiceway.schemas.prediction_rows import PredictionEncoder
from sluiceway.schemas.records import DeadLetterLine, Prediction, Snapshot
from tests.schemas.polls import poll_of

DESIGN_SNAPSHOT = (
    b'{"schema":1,"flow":"spam-eu","stream":"mail","operator":"ofs","version":12000,"seen":12400,"generation":0,'
    b'"ts":1763251200000,"reason":"interval","n_selected":10,'
    b'"selected":[{"feature":"free","weight":1.32,"since":800}],"entered":["free"],"left":["len"],'
    b'"metrics":{"mistakes":913,"error_rate":0.0761},"params":{"k":10,"eta":0.2},'
    b'"source":{"instances":{"partition":0,"offset":12400}}}'
)
SNAPSHOT: dict[str, Any] = {
    "offset": 12399,
    "flow": "spam-eu",
    "stream": "mail",
    "operator": "ofs",
    "version": 12000,
    "seen": 12400,
    "generation": 0,
    "ts": 1763251200000,
    "reason": "interval",
    "n_selected": 10,
    "selected": [("free", 1.32, 800)],
    "entered": ["free"],
    "left": ["len"],
    "metrics": {"mistakes": 913, "error_rate": 0.0761},
    "params": {"k": 10, "eta": 0.2},
    "source": {"instances": (0, 12400)},
}

texts = st.text(min_size=1, max_size=8)
finite = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**53)


def test_the_snapshot_of_the_design() -> None:
    assert encode.snapshot(**SNAPSHOT) == OutRecord(12399, b"spam-eu/mail", DESIGN_SNAPSHOT)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="'free'"):
        encode.snapshot(**{**SNAPSHOT, "selected": [("free", weight, 0)]})


def test_a_metric_that_is_not_finite_is_null() -> None:
    value = encode.snapshot(**{**SNAPSHOT, "metrics": {"error_rate": math.nan}}).value
    assert value is not None
    assert Snapshot.model_validate_json(value).metrics == {"error_rate": None}


def test_numpy_numbers_are_numbers() -> None:
    selected = [("free", np.float64(1.32), np.int64(800))]
    metrics = {"mistakes": np.int64(913), "error_rate": np.float64(0.0761)}
    record = encode.snapshot(**{**SNAPSHOT, "selected": selected, "metrics": metrics})
    assert record.value == DESIGN_SNAPSHOT


@settings(max_examples=100, deadline=None)
@given(
    flow=texts,
    stream=texts,
    selected=st.lists(st.tuples(texts, finite, counts), max_size=4),
    left=st.lists(texts, max_size=3),
    wanted=st.none() | st.lists(texts, max_size=3),
    metrics=st.dictionaries(texts, counts | finite | st.none(), max_size=3),
    params=st.dictionaries(texts, st.none() | st.booleans() | counts | finite | texts | st.lists(texts), max_size=3),
    reason=st.sampled_from(["interval", "change", "final"]),
    source=st.dictionaries(texts, st.tuples(counts, counts), max_size=2),
)
def test_snapshots_pass_through_the_model_unchanged(**values: Any) -> None:
    given_values = {**SNAPSHOT, **values, "n_selected": len(values["selected"])}
    record = encode.snapshot(**given_values)
    assert record.key == f"{values['flow']}/{values['stream']}".encode()
    assert record.value is not None
    model = Snapshot.model_validate_json(record.value)
    assert [(s.feature, s.weight, s.since) for s in model.selected] == values["selected"]
    assert model.wanted == (None if values["wanted"] is None else tuple(values["wanted"]))
    assert {role: (at.partition, at.offset) for role, at in model.source.items()} == values["source"]
    assert orjson.dumps(model.model_dump(mode="json", exclude_unset=True)) == record.value


def test_a_prediction_has_its_members_in_order() -> None:
    record = encode.prediction(
        flow="spam-eu", stream="mail", id_=None, seq=41, partition=0, offset=41, score=-0.5, label="ham"
    )
    start = b'{"flow":"spam-eu","stream":"mail","id":null,"seq":41,"at":{"partition":0,"offset":41},'
    assert record == OutRecord(41, b"mail", start + b'"score":-0.5,"label":"ham"}')


@given(
    classes=st.sampled_from([(-1, 1), ("ham", "spam", 'a"%d'), (7, 8, 9, 10)]),
    ids=st.none() | st.lists(st.none() | st.text(min_size=1), min_size=3, max_size=3),
    chances=st.lists(st.floats(0, 1), min_size=6, max_size=6),
    flow=texts | st.just("50%d%%"),
)
def test_decisions_are_written_as_the_models_have_them(
    classes: tuple[Any, ...], ids: list[str | None] | None, chances: list[float], flow: str
) -> None:
    """Of classes some may not have been met, and nothing may have been decided."""
    encoder, known = DecisionEncoder(flow, 3, classes), [0, len(classes) - 1]
    numbers, posterior = np.arange(3), np.array(chances).reshape(3, 2)
    decided, costs = np.array([0, len(classes) - 1, 0]), np.array([0.0, 0.1, 0.2])
    columns, order = of_one_stream(ids or [None, None, None], 10 * numbers), np.array([2, 0, 1])
    of_all = np.full((3, len(classes)), np.nan)
    of_all[:, known] = posterior
    label = (2 * decided - 1 if len(classes) == 2 else decided + 1).astype(np.int8)
    made = encoder.encode(columns, order, new_decided(3, 0)._replace(
        label=label[order], used=numbers[order], cost=costs[order], chances=of_all[order], number=numbers[order] + 5,
    ))  # fmt: skip
    none = encoder.encode(columns, order, new_decided(3, 0, len(classes))._replace(number=numbers[order]))
    for row, records in enumerate(zip(made, none, strict=True)):
        for record in records:
            assert (record.offset, record.key) == (10 * row, b"mail")
            model = Prediction.model_validate_json(record.value or b"")
            assert orjson.dumps(model.model_dump(mode="json", exclude={"scores"})) == record.value
            assert (model.id, model.flow, model.at.offset) == (None if ids is None else ids[row], flow, 10 * row)
        told = Prediction.model_validate_json(records[0].value or b"")
        assert (told.seq, told.label, told.features_used) == (row + 5, classes[decided[row]], row)
        assert list((told.posterior or {}).values()) == posterior[row].tolist()
        assert told.score == posterior[row, int(decided[row] > 0)]


def of_one_stream(ids: list[str | None], offset: Any) -> Columns:
    """Instances of one stream, without features."""
    spelt = [(id_ or "").encode() for id_ in ids]
    sizes, rows = np.array([*map(len, spelt)], dtype=np.int32), len(ids)
    none, longs = np.zeros(0, dtype=np.int64), np.zeros(rows + 1, dtype=np.int64)
    return Columns(
        np.frombuffer(b"".join(spelt) + bytes(8), dtype=np.uint8), [b"mail"] * rows, longs,
        np.zeros(rows, dtype=np.int8), longs[1:], offset, offset + 1, np.cumsum(sizes) - sizes, sizes,
        np.zeros(rows, dtype=np.bool_), none.astype(np.uint64), none, none, none.astype(np.int32), np.zeros(0),
    )  # fmt: skip


names_of_streams = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(
    flow=texts | st.just("50%d%%"),
    rows=st.lists(
        st.tuples(names_of_streams, st.none() | st.text(st.characters(codec="utf-8"), min_size=1), counts, st.floats()),
        max_size=6,
    ),
    labels=st.sampled_from([(-1, 1), ("ham", "spam"), (False, True), ("a%b", 'a"b')]),
    offset=counts,
    data=st.data(),
)
def test_the_predictions_of_a_poll_are_as_one_by_one(
    flow: str, rows: list[tuple[str, str | None, int, float]], labels: tuple[Any, Any], offset: int, data: st.DataObject
) -> None:
    """Also of some of its rows, and with letters that must be escaped."""
    values: list[bytes | None] = [orjson.dumps({"id": id_, "x": {}}) for _, id_, _, _ in rows]
    columns = Decoder(1).decode(poll_of(values, [stream.encode() for stream, _, _, _ in rows], first=offset)).columns
    assert columns is not None
    seq = np.array([number for _, _, number, _ in rows], dtype=np.int64)
    scores = np.array([score for _, _, _, score in rows], dtype=np.float64)
    chosen = data.draw(st.none() | st.lists(st.sampled_from(range(len(rows))), unique=True) if rows else st.none())
    these = None if chosen is None else np.array(sorted(chosen), dtype=np.int64)
    made = PredictionEncoder(flow, 3, labels).encode(columns, these, seq, scores)
    one_by_one = [
        encode.prediction(
            flow=flow,
            stream=stream,
            id_=id_,
            seq=number,
            partition=3,
            offset=offset + 10 * at,
            score=score,
            label=labels[score > 0],
        )
        for at, (stream, id_, number, score) in enumerate(rows)
        if chosen is None or at in chosen
    ]
    assert list(made) == one_by_one
    assert [made[at] for at in range(len(made))] == list(made[:]) == one_by_one
    for record, score in zip(made, scores if these is None else scores[these], strict=True):
        assert record.value is not None
        model = Prediction.model_validate_json(record.value)
        assert model.score == (score if math.isfinite(score) else None)
        unset = {"scores", "features_used", "cost", "posterior"}
        assert orjson.dumps(model.model_dump(mode="json", exclude=unset)) == record.value


def test_a_dead_letter_is_the_message_and_headers() -> None:
    letter = DeadLetter(41, b"\xff", b"\x00\xff", "bad-key", "the key is not UTF-8: ÿ", "decode")
    record = encode.dead_letter(letter, "instances", 3)
    assert record == OutRecord(
        41,
        b"\xff",
        b"\x00\xff",
        (
            ("sluiceway.error.class", b"bad-key"),
            ("sluiceway.error.message", "the key is not UTF-8: ÿ".encode()),
            ("sluiceway.error.stage", b"decode"),
            ("sluiceway.error.topic", b"instances"),
            ("sluiceway.error.partition", b"3"),
            ("sluiceway.error.offset", b"41"),
        ),
    )
    assert (
        encode.dead_letter_line(record)
        == (
            '{"error":{"class":"bad-key","message":"the key is not UTF-8: ÿ","stage":"decode","topic":"instances",'
            '"partition":3,"offset":41},"key_base64":"/w==","value_base64":"AP8="}'
        ).encode()
    )


@settings(max_examples=100, deadline=None)
@given(key=st.none() | st.binary(max_size=8), value=st.none() | st.binary(max_size=30))
def test_what_the_decoder_refuses_can_be_got_back_from_its_line(key: bytes | None, value: bytes | None) -> None:
    for letter in Decoder(1).decode(poll_of([value], [key])).dead_letters:
        line = encode.dead_letter_line(encode.dead_letter(letter, "instances", 0))
        model = DeadLetterLine.model_validate_json(line)
        back = [None if part is None else base64.b64decode(part) for part in (model.key_base64, model.value_base64)]
        assert back == [key, value]
        assert (model.error.class_, model.error.message) == (letter.error_class, letter.message)
        assert orjson.dumps(model.model_dump(mode="json")) == line

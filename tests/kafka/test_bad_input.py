"""Input that cannot be used goes to dead-letters as it came, and changes nothing else."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.support import Topics, produce
from tests.support.flow import KafkaFlow
from tests.support.kafka import Bytes

LIMIT = 100_000
Sent = tuple[Bytes, Bytes]

BAD: list[tuple[Bytes, Bytes, str]] = [
    ("mail", b"x = 1", "not-json"),
    ("mail", b'{"x": {"a": 1}', "not-json"),
    ("mail", b'{"x": {"caf\xe9": 1}, "y": 1}', "not-utf8"),
    ("mail", b'[{"x": {"a": 1}, "y": 1}]', "not-an-object"),
    ("mail", b'"text"', "not-an-object"),
    ("mail", b'{"y": 1}', "missing-x"),
    ("mail", b'{"x": null, "y": 1, "ts": 4}', "missing-x"),
    ("mail", b'{"x": "a", "y": 1}', "bad-x"),
    ("mail", b'{"x": {"a": "1"}, "y": 1}', "bad-feature"),
    ("mail", b'{"x": {"a": NaN}, "y": 1}', "not-json"),
    ("mail", b'{"x": {"a": -Infinity}, "y": 1}', "not-json"),
    ("mail", b'{"x": {"b": 1, "a": 1e999}, "y": 1}', "bad-feature"),
    ("mail", b'{"x": {"a": {"b": 1}}, "y": 1}', "bad-feature"),
    ("mail", b'{"x": {"a": true}, "y": 1}', "bad-feature"),
    ("mail", b'{"x": {"": 1}, "y": 1}', "bad-feature"),
    ("mail", b'{"x": {"a": 1}, "y": 7}', "bad-label"),
    ("mail", b'{"x": {"a": 1}, "y": 1, "id": 1.5}', "bad-id"),
    ("mail", b'{"x": {"a": 1}, "y": 1, "ts": -1}', "bad-ts"),
    ("mail", b"garbage " * 125_000, "not-json"),
    ("mail", random.Random(1).randbytes(1_000_000), "not-utf8"),
    ("mail", None, "tombstone"),
    (None, None, "tombstone"),
    ("mail", b"", "empty"),
    (b"\xff\xfe", b'{"x": {"a": 1}, "y": 1}', "bad-key"),
    ("mail", b'{"x": [' + b"1," * LIMIT + b'1], "y": 1}', "too-many-features"),
    ("mail", b'{"id": "nobody", "y": 1}', "orphan-label"),
    ("other", b'{"id": "late-1", "y": 1}', "orphan-label"),  # waits in the stream `mail`
    ("mail", b"[" * 5_000, "not-json"),
]


def good_input() -> list[Sent]:
    """Labelled, unlabelled and later labelled instances of two streams; one with as many features as may be."""
    rng = random.Random(7)
    sent: list[Sent] = []
    for n in range(120):
        x: Any = {f"f{rng.randrange(9)}": rng.uniform(-1, 1) for _ in range(3)}
        if n == 50:
            x = [1.0] * LIMIT
        record = {"id": f"e{n}", "x": x, "y": rng.choice((-1, 1))}
        if n % 10 == 0:
            late = f"late-{n // 10}"
            sent.append(("mail", json.dumps({"id": late, "x": x})))
            if n:
                sent.append(("mail", json.dumps({"id": late, "y": 1})))
        sent.append((("mail", "news")[n % 4 == 0], json.dumps(record)))
    sent.append(("mail", b'{"id": "late-0", "y": -1}'))
    return sent


def without_place(records: list[Any]) -> list[Any]:
    return [{name: value for name, value in one.items() if name not in ("flow", "source", "at")} for one in records]


def test_bad_input_is_set_apart_and_changes_nothing(topics: Topics, tmp_path: Path) -> None:
    good = good_input()
    mixed: list[tuple[Sent, str | None]] = [(record, None) for record in good]
    rng = random.Random(3)
    for key, value, error in BAD:
        mixed.insert(rng.randrange(len(mixed)), ((key, value), error))
    clean, dirty = (KafkaFlow(topics, tmp_path, emit={"every": 7, "on_change": True}) for _ in range(2))
    produce(clean.bootstrap, clean.instances, good)
    produce(dirty.bootstrap, dirty.instances, [record for record, _ in mixed], {"message.max.bytes": 1_040_000})
    with clean.start() as one, dirty.start() as other:
        for done in (one.wait(), other.wait()):
            assert done.code == 0, done.stderr

    assert clean.out("dead_letters") == []
    letters = dirty.out("dead_letters")
    wanted = [(at, *record, error) for at, (record, error) in enumerate(mixed) if error is not None]
    for letter, (offset, key, value, error) in zip(letters, wanted, strict=True):
        headers = {name.removeprefix("sluiceway.error."): (text or b"").decode() for name, text in letter.headers}
        assert (letter.key, letter.value) == (_bytes(key), _bytes(value))
        assert headers.pop("message")
        assert headers == {
            "class": error,
            "stage": "label" if error == "orphan-label" else "decode",
            "topic": dirty.instances,
            "partition": "0",
            "offset": str(offset),
        }

    for role in ("selections", "predictions"):
        assert without_place(dirty.values(role)) == without_place(clean.values(role)), role
    place = {at: offset for offset, at in enumerate(at for at, (_, error) in enumerate(mixed) if error is None)}
    offsets = [one["at"]["offset"] for one in clean.values("predictions")]
    assert [place[one["at"]["offset"]] for one in dirty.values("predictions")] == offsets

    # later labels on the same topic were learnt, and everything was seen once
    newest = {one["stream"]: one for one in clean.values("selections")}
    assert {name: one["version"] for name, one in newest.items()} == {"news": 30, "mail": 90 + 12}
    assert len(offsets) == 120 + 12


def _bytes(given: Bytes) -> bytes | None:
    return given.encode() if isinstance(given, str) else given

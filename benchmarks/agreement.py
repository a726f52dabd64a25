"""Random records, usual and spoilt, read by the decoder's compiled code and by orjson and the rules in Python.

Acceptance, reasons, names and the bits of values must never differ. Run with
`python -m benchmarks.agreement [records] [seed]`; a million records take some minutes.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson

from sluiceway.schemas import decode
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.schemas.read_rows import DONE, ODD, Desk

POLL = 200
USUAL_NAMES = ["a", "b", "free", "len", "0", "1", "17", "018", "ß", "日本", "😀", "x", "feature-000123"]
NAMES = [*USUAL_NAMES, "a\n", '"', "\\", "\x7f", "a rather long name of a feature"]
LABELS: list[Any] = [True, False, 1, 0, -1, None, 2, 1.0, "ham", "spam", "1", [], {}, 10**20]
BITS = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b" ", b"\n", b"0", b"-", b".", b"e"]
BITS += [b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80"]
BITS += [b'"x":{},', b'"x":[1],', b'"y":1,', b'"id":"e",', b"null", b"true"]
BITS += [b'\\"', b"\\u0078", b"1e999", b"\xf0\x9f\x98\x80"]
MORE: list[Any] = [
    "text", 'a\\b"c/\n', "日", [[], {}, {"a": [1, {"b": None}]}], {"x": [1, 2]}, True, None, -1.5e-7, 10**30
]
NO_RECORDS: list[Any] = [7, None, "x", [{"x": [1]}], {}]
KEYS = [b"mail", b"web", "søk".encode(), None, b"", b"\xff"]
RULES: list[dict[str, Any]] = [
    {},
    {"classes": ["ham", "spam"], "feature_names": ["free", "len", "caps"]},
    {"classes": [0, 1, True, "1", 10]},
    {"stream": "member"},
    {"max_features_per_instance": 3},
]


def number(rng: random.Random) -> Any:
    kind = rng.randrange(12)
    if kind < 5:
        return rng.gauss(0, 1)
    if kind < 8:
        return rng.randint(-20, 20)
    if kind == 8:
        return rng.choice([0, 0.0, -0.0, 1e308, 5e-324, 2.2250738585072014e-308, 2**53 + 1, 2**64 - 1, -(2**63)])
    if kind == 9:
        return np.frombuffer(rng.randbytes(8), dtype=np.float64).item()
    if kind == 10:
        return rng.randint(-(10**25), 10**25)
    return magnitude(rng, 305) if rng.random() < 0.9 else rng.choice([True, None, "1", [1], {}])


def magnitude(rng: random.Random, most: int) -> float:
    return rng.random() * 10.0 ** rng.randint(-most - 15, most)


def mostly(rng: random.Random, usual: list[Any], unusual: list[Any]) -> Any:
    return rng.choice(usual if rng.random() < 0.9 else unusual)


def usual(rng: random.Random, labels: list[Any]) -> Any:
    made: dict[str, Any] = {"id": f"e-{rng.randrange(100)}", "ts": rng.randrange(10**13)}
    names = rng.sample(USUAL_NAMES, rng.randint(0, 3))
    numbers = [rng.choice([rng.gauss(0, 1), rng.randint(-3, 3), magnitude(rng, 20)]) for _ in names]
    made["x"] = dict(zip(names, numbers, strict=True)) if rng.random() < 0.7 else numbers
    made["y"] = rng.choice(labels)
    for name in rng.sample(list(made), rng.randint(0, 2)):
        if name != "x" or rng.random() < 0.2:
            del made[name]
    if rng.random() < 0.3:
        made["stream"] = rng.choice(["mail", "søk"])
    if rng.random() < 0.1:
        made["more"] = {"x": [1, -2.5e-7, {"text": 'a "quoted" \\ \n 日'}], "none": [None, {}, []]}
    return made


def record(rng: random.Random, labels: list[Any]) -> Any:
    if rng.random() < 0.7:
        return usual(rng, labels)
    made: dict[str, Any] = {}
    names = rng.sample(NAMES, rng.randint(0, 5))
    if rng.random() < 0.1:
        names = [f"n{rng.randrange(10**6)}" for _ in range(30)]
    if rng.random() < 0.92:
        is_object = rng.random() < 0.7
        made["x"] = {name: number(rng) for name in names} if is_object else [number(rng) for _ in names]
    if rng.random() < 0.7:
        made["y"] = rng.choice(LABELS[: 6 if rng.random() < 0.8 else None])
    if rng.random() < 0.6:
        made["id"] = mostly(rng, ["e-1", "é", "a\tb", 17, 0, -3, 10**19, 2**63, None], ["", 1.5, True])
    if rng.random() < 0.6:
        made["ts"] = mostly(rng, [0, 5, 1763251200000, 2**63 - 1, None], [-1, 1.0, 2**63, "0", True])
    if rng.random() < 0.3:
        made["stream"] = mostly(rng, ["mail", "søk", None], ["", 3, []])
    if rng.random() < 0.2:
        made["more"] = rng.choice(MORE)
    return made if rng.random() < 0.98 else rng.choice(NO_RECORDS)


def written(rng: random.Random, labels: list[Any]) -> bytes:
    made = record(rng, labels)
    if rng.random() < 0.5:
        try:
            value = orjson.dumps(made)
        except TypeError:
            value = json.dumps(made).encode()
    else:
        space = rng.choice(["", " ", "\n", "\t", "\r  "])
        separators = (space + "," + space, space + ":" + space)
        value = json.dumps(made, separators=separators, ensure_ascii=rng.random() < 0.1).encode()
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(value))
            stop = min(len(value), at + rng.randint(0, 4))
            value = value[:at] + rng.choice([*BITS, rng.randbytes(1), value[at:stop] * 2, b""]) + value[stop:]
    return value


def content(read: LaneBatch) -> list[Any]:
    """All that a poll says, by value."""
    columns = read.columns
    assert columns is not None
    text = columns.text.tobytes()
    said: list[Any] = [read.dead_letters, read.raw, columns.streams]
    arrays = (columns.indptr, columns.y, columns.ts, columns.offset, columns.next_offset, columns.label_only)
    said += [array.tolist() for array in (*arrays, columns.id_size, columns.address, columns.key)]
    said.append(columns.values.view(np.int64).tolist())
    for at, size in ((columns.id_at, columns.id_size), (columns.name_at, columns.name_size)):
        said.append([text[a : a + s] for a, s in zip(at.tolist(), size.tolist(), strict=True) if s])
    return said


def read_nothing(desk: Any, stop: int) -> int:
    return ODD if desk[Desk.NEXT_RECORD] < stop else DONE


def main(records: int, seed: int) -> None:
    rng = random.Random(seed)
    decoders = [(Decoder(2, **rules), Decoder(2, **rules)) for rules in RULES]
    different = refused = by_hand = 0
    for done in range(0, records, POLL):
        labels = RULES[done // POLL % len(RULES)].get("classes", [True, False, 1, 0, -1, None])
        values: list[bytes | None] = [written(rng, labels) if rng.random() < 0.999 else None for _ in range(POLL)]
        keys = [b"mail" if rng.random() < 0.8 else rng.choice(KEYS) for _ in values]
        poll = RawPoll(0, 0, POLL, False, keys, values, list(range(POLL)), list(range(1, POLL + 1)))
        reading, parsing = decoders[done // POLL % len(RULES)]
        with patch.object(reading, "_add_json", wraps=reading._add_json) as called:  # noqa: SLF001  # to count
            ours = reading.decode(poll)
            said = content(ours)
        by_hand += called.call_count
        refused += len(ours.dead_letters)
        with patch.object(decode, "read_rows", read_nothing):
            if content(parsing.decode(poll)) != said:
                different += 1
                print(f"a poll differs: seed {seed}, records {done} to {done + POLL}", flush=True)
    print(f"{records} records, {refused} refused, {by_hand} not by compiled code alone: {different} polls differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(given[0] if given else 1_000_000, given[1] if len(given) > 1 else 0)

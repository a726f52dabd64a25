"""Random records, usual and spoilt, read three ways: by the decoder's compiled code, by orjson and the rules in Python,
and by orjson and the typed models.

Acceptance, names and the bits of values must never differ, nor the reasons, which the first two give. Run with
`python -m benchmarks.agreement [records] [seed]`; a million records take some minutes.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import orjson
from pydantic import ValidationError
from rich.console import Console
from rich.progress import track

from sluiceway.schemas import decode
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.schemas.read_rows import DONE, ODD, Desk
from sluiceway.schemas.records import Instance, LaterLabel, Rules, read_instance

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


class Row(NamedTuple):
    """What a record says to those who learn from it."""

    x: tuple[tuple[bytes, bytes], ...]
    """Names and the bytes of values, in the record's order."""
    y: int
    ts: int
    id: bytes
    label_only: bool


def rows_of(read: LaneBatch) -> dict[int, Row]:
    """By offset."""
    columns = read.columns
    assert columns is not None
    text = columns.text.tobytes()
    rows = {}
    for row, offset in enumerate(columns.offset.tolist()):
        features = range(columns.indptr[row], columns.indptr[row + 1])
        at, size = columns.name_at, columns.name_size
        x = tuple((text[at[i] : at[i] + size[i]], columns.values[i].tobytes()) for i in features)
        id_at = columns.id_at[row]
        id_ = text[id_at : id_at + columns.id_size[row]] if columns.id_size[row] else b""
        rows[offset] = Row(x, int(columns.y[row]), int(columns.ts[row]), id_, bool(columns.label_only[row]))
    return rows


def row_by_model(value: bytes | None, rules: Rules, *, line: bool) -> Row | None:
    """What the typed model makes of the record; None = refused."""
    try:
        record: Instance | LaterLabel = read_instance(orjson.loads(value or b""), rules, line=line)
    except (orjson.JSONDecodeError, ValidationError):
        return None
    given = record.features(rules.feature_names) if isinstance(record, Instance) else {}
    x = tuple((name.encode(), np.float64(number).tobytes()) for name, number in given.items())
    id_ = b"" if record.id is None else str(record.id).encode()
    return Row(x, target_of(record.y, rules), record.ts or 0, id_, isinstance(record, LaterLabel))


def target_of(y: Any, rules: Rules) -> int:
    if y is None:
        return 0
    if rules.classes is None:
        return 1 if y == 1 else -1
    place = [(type(label), label) for label in rules.classes].index((type(y), y))
    return (-1, 1)[place] if len(rules.classes) == 2 else place + 1


def read_nothing(desk: Any, stop: int) -> int:
    return ODD if desk[Desk.NEXT_RECORD] < stop else DONE


@dataclass(slots=True)
class Found:
    """How often the readers disagreed, and what kind of records it was tried on."""

    records: int = 0
    refused: int = 0
    by_hand: int = 0
    differ_from_rules: int = 0
    differ_from_models: int = 0

    @property
    def differences(self) -> int:
        return self.differ_from_rules + self.differ_from_models


class Readers:
    """The readers under one set of rules; they see the same polls."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._labels = given.get("classes", [True, False, 1, 0, -1, None])
        self._line = given.get("stream") == "member"
        self._rules = Rules(**{name: value for name, value in given.items() if name != "stream"})
        self._compiled, self._parsing = Decoder(2, **given), Decoder(2, **given)

    def compare(self, rng: random.Random, count: int, found: Found) -> None:
        """A poll of random records; what the readers do not agree on is printed."""
        values: list[bytes | None] = [
            written(rng, self._labels) if rng.random() < 0.999 else None for _ in range(count)
        ]
        keys = [b"mail" if rng.random() < 0.8 else rng.choice(KEYS) for _ in values]
        poll = RawPoll(0, 0, count, False, keys, values, list(range(count)), list(range(1, count + 1)))
        with patch.object(self._compiled, "_add_json", wraps=self._compiled._add_json) as called:  # noqa: SLF001
            ours = self._compiled.decode(poll)
            said, rows = content(ours), rows_of(ours)
        found.records += count
        found.refused += len(ours.dead_letters)
        found.by_hand += called.call_count
        with patch.object(decode, "read_rows", read_nothing):
            theirs = self._parsing.decode(poll)
            if content(theirs) != said:
                there, letters = rows_of(theirs), {letter.offset: letter for letter in theirs.dead_letters}
                here = {letter.offset: letter for letter in ours.dead_letters}
                differing = [
                    at for at in range(count) if rows.get(at) != there.get(at) or here.get(at) != letters.get(at)
                ]
                found.differ_from_rules += max(len(differing), 1)
                print("compiled code and the rules in Python differ on", [values[at] for at in differing], flush=True)
        for at, value in enumerate(values):
            named = self._line or keys[at] != b"\xff"
            expected = row_by_model(value, self._rules, line=self._line) if named else None
            if rows.get(at) != expected:
                found.differ_from_models += 1
                print("compiled code and the typed models differ on", value, flush=True)


def differences(records: int, seed: int, *, show: bool = False) -> Found:
    rng, found = random.Random(seed), Found()
    readers = [Readers(rules) for rules in RULES]
    polls = range(0, records, POLL)
    for start in track(polls, f"seed {seed}", console=Console(stderr=True), disable=not show):
        readers[start // POLL % len(readers)].compare(rng, min(POLL, records - start), found)
    return found


def main(records: int, seed: int) -> None:
    found = differences(records, seed, show=True)
    print(
        f"{found.records:,} records (seed {seed}): {found.refused:,} refused, {found.by_hand:,} not by compiled code"
        f" alone; {found.differ_from_rules} differ from orjson and the rules in Python,"
        f" {found.differ_from_models} from orjson and the typed models"
    )
    sys.exit(found.differences > 0)


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(given[0] if given else 1_000_000, given[1] if len(given) > 1 else 0)

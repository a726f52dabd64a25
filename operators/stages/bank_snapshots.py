"""Snapshots of models in a bank, as many at a time as are due together.

They are the same records as `Snapshots` makes one by one, which also makes those that must be cut because they are too
large, and those with a name in which a letter must be escaped. What a snapshot says of each feature is written by
compiled code; what it says once, here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway import compiling
from sluiceway.compiling import kernel
from sluiceway.operators.bank.arena import Arena
from sluiceway.operators.bank.bank import Bank
from sluiceway.operators.bank.book import ENTRIES, Book
from sluiceway.operators.bank.chosen import Chosen
from sluiceway.operators.bank.last_snapshot import last_names, remember
from sluiceway.operators.stages.emission import Reason
from sluiceway.operators.stages.snapshots import SnapshotConfig, Snapshots
from sluiceway.operators.stages.stored_model import named
from sluiceway.schemas.batch import Label
from sluiceway.schemas.encode import SNAPSHOT_SCHEMA, snapshot_key
from sluiceway.schemas.json_writing import (
    MOST_DIGITS,
    is_plain,
    next_comma,
    octets,
    phrases,
    put,
    put_number,
    put_phrase,
)
from sluiceway.schemas.lane import OutRecord
from sluiceway.schemas.swar import READABLE_BEYOND, pointer_to

_MOST_STAMPS = 1 << 30
_COUNTS = ("version", "seen", "mistakes", "evicted", "ts")
SELECTED, NEXT, FEATURE, WEIGHT, SINCE, FEATURE_END, ENTERED, LEFT, END, QUOTE = range(10)
_PHRASES = phrases(
    (
        b',"selected":[', b",", b'{"feature":"', b'","weight":', b',"since":', b"}", b'],"entered":[', b'],"left":[',
        b"]", b'"',
    )
)  # fmt: skip
_OF_A_FEATURE = len(_PHRASES) + MOST_DIGITS
"""More bytes than are written of a feature beside its weight and its name, or of a model beside its features."""


class BankSnapshots:
    """Makes the snapshots of a lane's streams; the bank remembers of each what it held."""

    def __init__(
        self, config: SnapshotConfig, lane: int, params: Mapping[str, Any], classes: Sequence[Label] = ()
    ) -> None:
        self._config, self._lane, self._params, self._classes = config, lane, params, classes
        self._begin = orjson.dumps({"schema": SNAPSHOT_SCHEMA, "flow": config.flow})[:-1] + b',"stream":'
        self._operator = b',"operator":' + orjson.dumps(config.operator)
        self._end = b',"params":' + orjson.dumps(params, option=orjson.OPT_SERIALIZE_NUMPY)
        self._held, self._stamp = np.zeros(0, dtype=np.int32), 0
        """By number of a name, marks of `_write_features`; those above the stamp are of the present call."""
        self._end += b',"source":{%b:{"partition":%d,"offset":' % (orjson.dumps(config.source), lane)

    def make(
        self, bank: Bank, models: Sequence[int], names: Sequence[str], more: Sequence[Mapping[str, float]],
        reason: Reason, offset: int, position: int,
    ) -> list[OutRecord]:  # fmt: skip
        """After the record at `offset`; reading goes on at `position`. `names` are those of the streams, `more` what
        their metrics say beside what the bank knows."""
        if not models:
            return []
        numbers = np.array(models, dtype=np.int64)
        chosen = bank.choose(numbers)
        counts = list(zip(*(bank.heads[count][numbers].tolist() for count in _COUNTS), strict=True))
        made = []
        for at, features in enumerate(self._features(bank, numbers, chosen)):
            model, name = models[at], names[at]
            version, seen, mistakes, evicted, ts = counts[at]
            metrics: dict[str, float] = {"mistakes": mistakes, "error_rate": mistakes / version}
            if evicted:
                metrics["pending_evicted"] = evicted
            metrics |= more[at]
            metrics |= bank.metrics(model)
            wanted = bank.wanted_features(model)
            record = None
            if features is not None:
                how_many = int(chosen.ends[at] - (chosen.ends[at - 1] if at else 0))
                told = (self._begin, orjson.dumps(name), self._operator, version, seen, ts, reason.encode(), how_many)
                value = b"".join(
                    (
                        b'%b%b%b,"version":%d,"seen":%d,"generation":0,"ts":%d,"reason":"%b","n_selected":%d' % told,
                        features,
                        b"" if wanted is None else b',"wanted":' + orjson.dumps(wanted),
                        b',"metrics":',
                        orjson.dumps(metrics),
                        self._end,
                        b"%d}}}" % position,
                    )
                )
                record = OutRecord(offset, snapshot_key(self._config.flow, name), value)
            limit = self._config.max_snapshot_bytes
            if record is None or (limit is not None and record.size > limit):
                record = self._by_itself(
                    bank, model, name, reason,
                    offset=offset, position=position, version=version, seen=seen, ts=ts,
                    selected=[named(entry, self._classes) for entry in bank.selected(model)],
                    wanted=wanted, metrics=metrics, params=self._params,
                )  # fmt: skip
            made.append(record)
        remember(bank, numbers, chosen)
        return made

    def _features(self, bank: Bank, models: NDArray[np.int64], chosen: Chosen) -> list[bytes | None]:
        """What snapshots of these models say of their features; None where compiled code cannot tell it."""
        if bank.by_class or not np.isfinite(chosen.weight).all():
            return [None] * len(models)
        told = orjson.dumps(chosen.weight.tolist())
        size = len(told) + _room_for_features(models, bank.heads, bank.arena, bank.book, chosen, _OF_A_FEATURE)
        out = np.empty(size + len(READABLE_BEYOND), dtype=np.uint8)
        begins, ends = (np.empty(len(models), dtype=np.int64) for _ in range(2))
        if len(self._held) < bank.book.counts[ENTRIES] or self._stamp > _MOST_STAMPS:
            self._held, self._stamp = np.zeros(len(bank.book.entry), dtype=np.int32), 0
        _write_features(
            models, bank.heads, bank.arena, bank.book, chosen, self._config.emit.top, _PHRASES,
            octets(told[1:-1] + b","), self._held, self._stamp, out, begins, ends,
        )  # fmt: skip
        self._stamp += 2 * len(models)
        text = out[: max(ends.max(), 0)].tobytes()
        return [
            None if end < 0 else text[begin:end]
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]

    def _by_itself(self, bank: Bank, model: int, name: str, reason: Reason, **told: Any) -> OutRecord:
        snapshots = Snapshots(name, self._lane, self._config)
        snapshots.restore({"version": int(bank.heads["emitted"][model]), "names": last_names(bank, model)})
        return snapshots.make(reason, **told)


def is_compiled() -> bool:
    """Whether the first snapshot need not wait."""
    return compiling.is_compiled(_write_features)


@kernel
def _room_for_features(
    models: NDArray[np.int64], heads: NDArray[Any], arena: Arena, book: Book, chosen: Chosen, of_each: int
) -> int:
    """More than what is written of the features but their weights: each is named twice at most."""
    size = 2 * of_each * (len(models) + len(chosen.number))
    for number in chosen.number:
        size += 2 * book.entry[number].size
    for model in models:
        start, count = 2 * heads[model].snapshot, heads[model].snapshot_size
        size += of_each * count
        for i in range(start, start + count):
            size += book.entry[arena.ints[i]].size
    return int(size)


@kernel
def _write_features(
    models: NDArray[np.int64], heads: NDArray[Any], arena: Arena, book: Book, chosen: Chosen, top: int,
    known: NDArray[np.uint8], told: NDArray[np.uint8], held: NDArray[np.int32], stamp: int,
    out: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64],
) -> None:  # fmt: skip
    """From where to where they are written of each model; an end below 0 says that a letter must be escaped."""
    begin, of = pointer_to(out), pointer_to(known)
    to, weight, first = begin, pointer_to(told), np.int64(0)
    for at in range(len(models)):
        start, count = 2 * heads[models[at]].snapshot, heads[models[at]].snapshot_size
        last, now = stamp + 2 * at + 1, stamp + 2 * at + 2  # what `held` says of names held before and now
        begins[at], stop = to - begin, chosen.ends[at]
        plain = True
        for i in range(count):
            number = arena.ints[start + i]
            held[number] = last
            plain &= _has_plain_name(book, number)
        to = put_phrase(to, of, SELECTED)
        for i in range(first, stop):
            comma = next_comma(weight)
            plain &= _has_plain_name(book, chosen.number[i])
            if i - first < top:
                to = put_phrase(to, of, NEXT) if i > first else to
                to = _put_name(put_phrase(to, of, FEATURE), book, chosen.number[i])
                to = put(put_phrase(to, of, WEIGHT), weight, comma - weight)
                to = put_number(put_phrase(to, of, SINCE), chosen.since[i])
                to = put_phrase(to, of, FEATURE_END)
            weight = comma + 1
        to = put_phrase(to, of, ENTERED)
        written = 0
        for i in range(first, stop):
            number = chosen.number[i]
            if held[number] != last:
                to = put_phrase(to, of, NEXT) if written > 0 else to
                to = put_phrase(_put_name(put_phrase(to, of, QUOTE), book, number), of, QUOTE)
                written += 1
            held[number] = now
        to = put_phrase(to, of, LEFT)
        written = 0
        for i in range(count):
            number = arena.ints[start + i]
            if held[number] == last:
                to = put_phrase(to, of, NEXT) if written > 0 else to
                to = put_phrase(_put_name(put_phrase(to, of, QUOTE), book, number), of, QUOTE)
                written += 1
        to = put_phrase(to, of, END)
        ends[at] = to - begin if plain else -1
        first = stop


@kernel
def _has_plain_name(book: Book, number: int) -> bool:
    return is_plain(pointer_to(book.letters) + book.entry[number].at, book.entry[number].size)


@kernel
def _put_name(to: int, book: Book, number: int) -> int:
    return put(to, pointer_to(book.letters) + book.entry[number].at, book.entry[number].size)

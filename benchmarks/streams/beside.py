"""Beside what a user would write instead: a dictionary of River models, and models in the state of a stream processor.

1,000 streams, the same records, decoded by orjson. The second keeps each stream's River model in RocksDB as Quix
Streams does: read, unpickled, used and pickled for every record, and written as one batch when a checkpoint is due,
which is after a turn. It stands on rocksdict, the library that Quix Streams keeps its state with, and does less than
its `State`: there is no changelog. Run with `python -m benchmarks streams.beside`.
"""

from __future__ import annotations

import pickle
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
from river import linear_model
from rocksdict import Options, Rdict, WriteBatch

from benchmarks.measure import Result, cpu_seconds, median
from benchmarks.streams.lane import (
    FEATURES,
    KEPT,
    PRESENT,
    RECORDS,
    TURN_SECONDS,
    Cycle,
    key,
    numbered,
    operator,
    values,
)
from benchmarks.streams.many import Visiting
from benchmarks.turns import take_turns

STREAMS, WARM_RECORDS, ROUNDS = 1_000, 20_000, 9


class WithRiver(ABC):
    """Records of streams at random, each decoded, predicted and learnt from by its stream's model."""

    about: dict[str, float]

    def __init__(self) -> None:
        self.about = {}
        self._values, self._rng = Cycle(values(numbered(FEATURES))), np.random.default_rng(11)
        for _ in range(WARM_RECORDS // RECORDS):
            self.process(*next(self._polls()))
        self.commit()

    def turn(self) -> float:
        spent, records = 0.0, 0
        while spent < TURN_SECONDS:
            keys, given = next(self._polls())
            start = cpu_seconds()
            self.process(keys, given)
            spent += cpu_seconds() - start
            records += RECORDS
        start = cpu_seconds()
        self.commit()
        return (spent + cpu_seconds() - start) * 1e6 / records

    @abstractmethod
    def process(self, keys: list[bytes], given: list[bytes]) -> None: ...

    def commit(self) -> None:  # noqa: B027  # one of the two has nothing to keep
        """What was learnt is to be kept."""

    def _polls(self) -> Iterator[tuple[list[bytes], list[bytes]]]:
        while True:
            chosen = self._rng.integers(0, STREAMS, RECORDS).tolist()
            yield list(map(key, chosen)), self._values.take(RECORDS)


class RiverDictionary(WithRiver):
    def __init__(self) -> None:
        self._models: dict[bytes, Any] = {}
        super().__init__()

    def process(self, keys: list[bytes], given: list[bytes]) -> None:
        models = self._models
        for name, value in zip(keys, given, strict=True):
            record = orjson.loads(value)
            model = models.get(name)
            if model is None:
                model = models[name] = linear_model.PAClassifier()
            model.predict_one(record["x"])
            model.learn_one(record["x"], record["y"] > 0)


class RiverInRocksDB(WithRiver):
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._db, self._changed = Rdict(self._folder.name, Options(raw_mode=True)), dict[bytes, bytes]()
        super().__init__()

    def process(self, keys: list[bytes], given: list[bytes]) -> None:
        changed = self._changed
        for name, value in zip(keys, given, strict=True):
            record = orjson.loads(value)
            kept = changed.get(name) or self._db.get(name)
            model = linear_model.PAClassifier() if kept is None else pickle.loads(kept)
            model.predict_one(record["x"])
            model.learn_one(record["x"], record["y"] > 0)
            changed[name] = pickle.dumps(model)

    def commit(self) -> None:
        batch = WriteBatch(raw_mode=True)
        for name, model in self._changed.items():
            batch.put(name, model)
        self._db.write(batch)
        self._changed.clear()


def main() -> list[Result]:
    others = {
        "a dictionary of River's PAClassifier": (RiverDictionary, 5.0),
        "the same models pickled in RocksDB, as in Quix Streams' state": (RiverInRocksDB, 20.0),
    }
    works: dict[str, tuple[Any, ...]] = {"ofs": (Visiting, operator("ofs"), STREAMS)}
    works |= {"pa": (Visiting, operator("pa"), STREAMS), **{name: (work,) for name, (work, _) in others.items()}}
    costs = take_turns(works, ROUNDS)
    result = Result(f"Beside others: {STREAMS:,} streams, {PRESENT} features of {FEATURES} names, decode and learn")
    for name, taken in costs.items():
        ratio = median([cost / ours for cost, ours in zip(taken, costs["ofs"], strict=True)])
        bound = others[name][1] if name in others else None
        result.rows.append(
            {
                "what": name,
                "CPU µs an instance": median(taken),
                f"times ofs, k = {KEPT}": ratio,
                "times pa": median([cost / ours for cost, ours in zip(taken, costs["pa"], strict=True)]),
                "target": "" if bound is None else f"at least {bound:g}",
                "met": "" if bound is None else "yes" if ratio >= bound else "NO",
            }
        )
    result.notes.append("Quix Streams itself wants an older client of Kafka than ours; rocksdict is what it stands on")
    return [result]

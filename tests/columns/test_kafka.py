"""Flows of selectors on the real broker: killed and resumed, their output is that of an undisturbed run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sluiceway.operators import registry
from tests.columns.messages import CONTENT_TYPE, stream, table
from tests.columns.worlds import SelectorWorld, Sent
from tests.support import Topics

Headers = Sequence[tuple[str, bytes]]
DEATHS: list[str | float] = ["produced:2", "states:2", "committed:2", 0.3, "one-lane:2", "soon:3"]
FEW_DEATHS: list[str | float] = ["states:2", 0.3, "one-lane:2"]
BAD = (
    b'{"name": "short", "values": [1, 2]}',
    b'{"name": "yes", "values": [true]}',
    b'{"name": "large", "values": [1e999]}',
    b"{",
    None,
)


class Table:
    """Columns of one stream: a few tell the target, some of them nearly the same as another."""

    def __init__(self, stream: str, columns: int, rows: int) -> None:
        rng = np.random.default_rng(list(stream.encode()))
        self.stream = stream
        self.target = rng.integers(0, 2, size=rows)
        hidden = rng.normal(size=(12, rows)) + np.linspace(0.2, 1.2, 12)[:, None] * self.target
        self.columns = rng.normal(size=(columns, rows))
        for at in range(0, columns, 7):
            self.columns[at] = hidden[rng.integers(12)] + 0.3 * self.columns[at]
        self.columns = self.columns.round(3)
        self.names = [f"gene:{at}" for at in range(columns)]


def column_messages(made: Table, lane: int) -> Iterator[Sent]:
    """The target, then columns, a twentieth of them not usable, and the target again when a fifth is left."""
    key, count = made.stream.encode(), len(made.names)
    targets = [orjson.dumps({"target": made.target.tolist(), "ts": ts}) for ts in (0, count * 4 // 5)]
    yield key, targets[0], lane
    for at, (name, values) in enumerate(zip(made.names, made.columns, strict=True)):
        if at == count * 4 // 5:
            yield key, targets[1], lane
        if at % 20 == 13:
            yield key, BAD[at // 20 % len(BAD)], lane
        yield key, orjson.dumps({"name": name, "values": values.tolist(), "ts": at // 40 * 40}), lane


def last_generation(made: Table) -> tuple[list[str], NDArray[np.float64]]:
    start = len(made.names) * 4 // 5
    return made.names[start:], made.columns[start:]


def column_world(topics: Topics, place: Path, sent: Iterator[Sent], headers: Headers = ()) -> SelectorWorld:
    return SelectorWorld(
        topics,
        place,
        "features",
        sent,
        lanes=2,
        carries=("selections", "verdicts", "dead_letters"),
        headers=headers,
        sections={"operator": {"name": "saola"}, "emit": {"every": 50, "on_change": True, "min_gap": 10}},
    )


def check_finals(world: SelectorWorld, tables: Sequence[Table]) -> None:
    """The last snapshot is what the selector itself says of the last generation."""
    finals = {one["stream"]: one for one in world.values("selections")}
    for made in tables:
        model = registry.get("saola").cls()
        model.begin(made.target)
        model.learn_features(*last_generation(made))
        final = finals[made.stream]
        assert (final["version"], final["generation"]) == (len(made.names), 1)
        selected = [(entry["feature"], entry["weight"]) for entry in final["selected"]]
        assert selected == [(entry.feature, entry.weight) for entry in model.selected]
        assert len(selected) > 3


def check_columns(topics: Topics, place: Path, columns: int, rows: int, pace: int) -> None:
    tables = [Table(f"study-{number}", columns // 2, rows) for number in range(2)]
    world = column_world(
        topics, place, (sent for lane, made in enumerate(tables) for sent in column_messages(made, lane))
    )
    assert len(world.values("verdicts")) == columns
    check_finals(world, tables)
    assert len(world.expected["dead_letters"][0]) == len([at for at in range(columns // 2) if at % 20 == 13])
    assert world.survives(DEATHS, pace=pace) > 0


def arrow_messages(made: Table, lane: int) -> Iterator[Sent]:
    """The same without what cannot be used: batches of 40 columns, two with a target; and two that cannot be used.

    A batch has one time, that of its first column.
    """
    key, half = made.stream.encode(), len(made.names) * 4 // 5
    for first, last in ((0, half), (half, len(made.names))):
        for start in range(first, last, 40):
            part = range(start, min(start + 40, last))
            fields = [(made.names[at], pa.array(made.columns[at])) for at in part]
            metadata = {"sluiceway.ts": str(part[0])}
            if start == first:
                fields.append(("the target", pa.array(made.target)))
                metadata["sluiceway.target"] = "the target"
            yield key, stream(table(fields, metadata)), lane
        yield key, stream(table([("short", [1.0])])), lane


@pytest.mark.crash
def test_arrow_gives_the_same_and_survives(topics: Topics, tmp_path: Path) -> None:
    tables = [Table(f"study-{number}", 800, 200) for number in range(2)]
    by_json = column_world(
        topics,
        _folder(tmp_path, "json"),
        (
            sent
            for lane, made in enumerate(tables)
            for sent in column_messages(made, lane)
            if sent[1] is not None and sent[1] not in BAD
        ),
    )
    arrow = column_world(
        topics,
        _folder(tmp_path, "arrow"),
        (sent for lane, made in enumerate(tables) for sent in arrow_messages(made, lane)),
        [CONTENT_TYPE],
    )
    check_finals(arrow, tables)
    for carries in ("selections", "verdicts"):
        assert _apart_from_places(arrow, carries) == _apart_from_places(by_json, carries)
    for lane in range(2):
        dead = arrow.expected["dead_letters"][lane]
        assert [record.headers[0] for record in dead] == [CONTENT_TYPE] * 2
        assert {dict(record.headers)["sluiceway.error.class"] for record in dead} == {b"bad-column"}
    assert arrow.survives(FEW_DEATHS, pace=1) > 0


def _folder(place: Path, name: str) -> Path:
    (place / name).mkdir()
    return place / name


def _apart_from_places(world: SelectorWorld, carries: str) -> list[dict[str, Any]]:
    records = world.values(carries)
    for record in records:
        for member in ("source", "at", "flow"):
            record.pop(member, None)
    return records


@pytest.mark.crash
def test_columns_killed_and_resumed(topics: Topics, tmp_path: Path) -> None:
    check_columns(topics, tmp_path, columns=1500, rows=200, pace=10)


@pytest.mark.crash(full=True)
@pytest.mark.timeout(1800)
def test_twenty_thousand_columns_killed_and_resumed(topics: Topics, tmp_path: Path) -> None:
    check_columns(topics, tmp_path, columns=20_000, rows=1000, pace=100)


def instance_messages(stream: str, count: int, lane: int) -> Iterator[Sent]:
    """Instances of 30 features of which 5 tell the label, other ones in the second half; some have no label."""
    rng = np.random.default_rng(list(stream.encode()))
    for number in range(count):
        y = int(rng.choice([-1, 1]))
        x = rng.normal(size=30).round(3)
        first = 0 if number < count // 2 else 10
        x[first : first + 5] += y * np.array([0.2, 0.4, 0.6, 0.8, 1.0])
        record: dict[str, Any] = {"x": dict(zip(map(str, range(30)), x.tolist(), strict=True)), "ts": number}
        if number % 9:
            record["y"] = y
        value = b"{" if number % 50 == 49 else orjson.dumps(record)
        yield stream.encode(), value, lane


def check_instances(
    topics: Topics, place: Path, instances: int, pace: int, sections: dict[str, dict[str, Any]]
) -> SelectorWorld:
    world = SelectorWorld(
        topics,
        place,
        "instances",
        (sent for lane in range(2) for sent in instance_messages(f"stream-{lane}", instances // 2, lane)),
        lanes=2,
        carries=("selections", "dead_letters"),
        sections=sections,
    )
    assert len(world.expected["dead_letters"][1]) == instances // 2 // 50
    assert world.survives(FEW_DEATHS, pace=pace) > 0
    return world


WINDOWED: dict[str, dict[str, Any]] = {"operator": {"name": "saola"}, "window": {"size": 120, "slide": 10}}
DOUBLY: dict[str, dict[str, Any]] = {
    "operator": {"name": "saola-stream", "refresh": 50},
    "emit": {"every": 8, "on_change": True},  # so often that no commit is without one
}


@pytest.mark.crash
def test_windows_killed_and_resumed(topics: Topics, tmp_path: Path) -> None:
    world = check_instances(topics, tmp_path, 3000, 20, WINDOWED)
    told = [one["version"] for one in world.values("selections") if one["stream"] == "stream-0"]
    assert told == list(range(120, told[-1] + 1, 10))
    features = [{entry["feature"] for entry in one["selected"]} for one in world.values("selections")]
    assert {"3", "4"} <= features[0]
    assert {"13", "14"} <= features[-1]


@pytest.mark.crash
def test_a_doubly_streaming_selector_killed_and_resumed(topics: Topics, tmp_path: Path) -> None:
    world = check_instances(topics, tmp_path, 3000, 20, DOUBLY)
    reasons = {one["reason"] for one in world.values("selections")}
    assert reasons == {"interval", "change", "final"}


@pytest.mark.crash(full=True)
@pytest.mark.timeout(1800)
def test_many_windows_killed_and_resumed(topics: Topics, tmp_path: Path) -> None:
    check_instances(topics, tmp_path, 100_000, 400, {**WINDOWED, "window": {"size": 1000, "slide": 100}})

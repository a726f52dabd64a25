"""What is remembered of streams, and what somebody who looks is told."""

from __future__ import annotations

import json

import pytest

from sluiceway.client import StreamName
from sluiceway.schemas.records import Snapshot
from sluiceway.serve import store as module
from sluiceway.serve.store import Store
from tests.client.snapshots import value

MAIL, NEWS = StreamName("spam", "mail"), StreamName("spam", "news")


def snapshot(version: int, name: StreamName = MAIL) -> Snapshot:
    return Snapshot.model_validate_json(value(version, flow=name.flow, stream=name.stream))


def take(store: Store, *versions: int, name: StreamName = MAIL, partition: int = 0) -> None:
    for version in versions:
        store.take(snapshot(version, name), partition, live=True)


def versions(store: Store, name: StreamName = MAIL, after: int = -1) -> list[int]:
    return [json.loads(point)[0] for point in store.history(name, after, store.revision)]


def test_only_what_has_changed_is_told() -> None:
    store = Store()
    take(store, 10, 20)
    take(store, 7, name=NEWS)
    first = store.since(None)
    assert first.anew
    assert {each.name: each.version for each in first.changed} == {MAIL: 20, NEWS: 7}
    nothing = store.since(first.revision)
    assert (nothing.anew, nothing.changed, nothing.ended) == (False, (), ())
    take(store, 30)
    second = store.since(first.revision)
    assert [each.version for each in second.changed] == [30]
    assert versions(store, after=first.revision) == [30]
    store.end(NEWS, 0)
    third = store.since(second.revision)
    assert (third.changed, third.ended) == ((), (NEWS,))
    assert store.since(store.revision + 1).anew, "of another life"


def test_a_stream_that_ends_and_begins_anew() -> None:
    store = Store()
    take(store, 10, 20)
    before = store.revision
    store.end(MAIL, 0)
    assert store.get(*MAIL) is None
    take(store, 5)
    told = store.since(before)
    assert ([each.version for each in told.changed], told.ended) == ([5], ())
    assert versions(store) == [5]


def test_what_stands_in_two_partitions_is_what_has_not_ended() -> None:
    """Whichever was read last."""
    store = Store()
    take(store, 30, partition=1)
    take(store, 10, 20, partition=0)
    store.end(MAIL, 0)
    newest = store.get(*MAIL)
    assert newest is not None
    assert (newest.version, versions(store)) == (30, [30])
    store.end(MAIL, 1)
    assert len(store) == 0


def test_who_was_away_for_too_long_is_told_everything() -> None:
    store = Store()
    take(store, 1)
    before = store.revision
    for number in range(module.REMEMBERED_ENDS + 1):
        name = StreamName("spam", f"s-{number}")
        store._places[name] = {0: next(iter(store._places[MAIL].values()))}
        store._shown[name] = store._places[name][0]
        store.end(name, 0)
    assert store.since(before).anew
    assert not store.since(store.revision - 1).anew


def test_memory_is_bounded_and_the_newest_always_stays() -> None:
    store = Store(history_bytes=2000)
    for version in range(1, 200):
        take(store, version)
        take(store, version, name=NEWS)
    assert store._kept <= 2000
    kept = versions(store)
    assert kept == list(range(kept[0], 200))
    assert 5 < len(kept) < 20
    tiny = Store(history_bytes=0)
    take(tiny, 1, 2, 3)
    take(tiny, 1, name=NEWS)
    assert versions(tiny) == [3]
    assert versions(tiny, NEWS) == [1]
    tiny.end(MAIL, 0)
    take(tiny, 1, 2)
    assert versions(tiny) == [2]


def test_a_long_history_is_told_from_its_newest_part(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    take(store, *range(1, 200))
    monkeypatch.setattr(module, "TOLD_BYTES", 1000)
    told = versions(store)
    assert told == list(range(told[0], 200))
    assert 5 < len(told) < 20
    monkeypatch.setattr(module, "TOLD_BYTES", 1)
    assert versions(store) == [199]


def test_the_error_between_two_snapshots() -> None:
    store = Store()
    for version, mistakes in ((100, 30), (200, 40), (300, 5)):
        content = json.loads(value(version))
        content["metrics"] = {"mistakes": mistakes, "error_rate": mistakes / version}
        store.take(Snapshot.model_validate(content), 0, live=True)
        newest = store.get(*MAIL)
        assert newest is not None
        assert newest.summary["error_lately"] == {100: None, 200: 0.1, 300: None}[version]

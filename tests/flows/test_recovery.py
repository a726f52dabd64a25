"""The checkpoint store: whose it is, who holds it, what a death leaves in it."""

from __future__ import annotations

import pickle
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import orjson
import pytest
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, cluster_main

from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows.preflight import look_around
from sluiceway.flows.recovery import Store
from sluiceway.flows.run import _bounds
from sluiceway.flows.settings import Settings
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.directory import create_directory_topic, partition_path
from sluiceway.topics.url import DirectoryTopic

OURS: dict[str, Any] = {
    "flow": "f", "input": "dir:/t", "input_partitions": 1, "operator": "ofs", "params": {"k": 3, "eta": 0.2},
}  # fmt: skip


def opened(directory: Path, process: int = 0, cluster: tuple[str, ...] = (), **changes: Any) -> Store:
    store = Store(directory)
    try:
        store.open({**OURS, **changes}, partitions=2, process=process, cluster=cluster)
    except BaseException:
        store.close()
        raise
    return store


def test_a_store_is_made_once_and_opened_again(tmp_path: Path) -> None:
    first = opened(tmp_path / "a" / "store")
    assert first.is_new
    first.close()
    assert sorted(path.name for path in first.directory.glob("part-*.sqlite3")) == ["part-0.sqlite3", "part-1.sqlite3"]
    second = opened(first.directory)
    assert not second.is_new
    second.close()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"flow": "g"}, r'was made with flow = "f", the flow now has "g"'),
        ({"operator": "perceptron-truncated"}, r'made with operator = "ofs", the flow now has "perceptron-truncated"'),
        ({"params": {"k": 4, "eta": 0.2}}, r'made with params = \{"k":3,"eta":0.2\}, the flow now has \{"k":4'),
        ({"input_partitions": 2}, r"made with input partitions = 1, the flow now has 2"),
        ({"input": "dir:/u"}, r'made with input = "dir:/t"'),
    ],
)
def test_another_flows_store_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    opened(tmp_path).close()
    with pytest.raises(SettingsError, match=sentence) as caught:
        opened(tmp_path, **changes)
    assert "another name and another recovery directory, or undo the change" in str(caught.value)
    opened(tmp_path).close()


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    manifest = tmp_path / "sluiceway.json"
    manifest.write_bytes(orjson.dumps({**orjson.loads(manifest.read_bytes()), "store_version": 99}))
    with pytest.raises(FlowError, match="has version 99, this program knows 1; use the program that wrote it"):
        opened(tmp_path)


def test_a_foreign_or_broken_store_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    sqlite3.connect(foreign / "part-0.sqlite3").close()
    (foreign / "part-0.sqlite3").touch()
    with pytest.raises(SettingsError, match="holds a recovery store that is not Sluiceway's"):
        opened(foreign)
    broken = opened(tmp_path / "broken")
    broken.close()
    (broken.directory / "sluiceway.json").write_text("{")
    with pytest.raises(FlowError, match=r"sluiceway\.json cannot be read"):
        opened(broken.directory)
    damaged = opened(tmp_path / "damaged")
    damaged.close()
    (damaged.directory / "part-0.sqlite3").write_bytes(b"no database at all, but long enough to look like one" * 99)
    with pytest.raises(FlowError, match="is damaged"):
        opened(damaged.directory)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be made"):
        opened(tmp_path / "file" / "store")


def test_one_store_serves_one_running_flow(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(FlowError, match=r"in use by process \d+ on .* \(flow 'f', since 2.*Z\); stop it first"):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_processes_of_one_cluster_share_a_store(tmp_path: Path) -> None:
    cluster = ("a:1", "b:1")
    first, second = opened(tmp_path, 0, cluster), opened(tmp_path, 1, cluster)
    with pytest.raises(FlowError, match="in use by process"):
        opened(tmp_path, 1, cluster)
    with pytest.raises(FlowError, match="in use by process"):
        opened(tmp_path, 2, ("a:1", "b:1", "c:1"))
    first.close()
    second.close()


def test_bounds_are_pinned_until_a_clean_end(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.is_clean
    bounds = Bounds((0, 5), (None, 17))
    store.pin(bounds)
    assert not store.is_clean
    store.close()
    again = opened(tmp_path)
    assert not again.is_clean
    assert again.bounds() == bounds
    again.mark_clean()
    assert again.is_clean
    again.close()


def test_a_refused_start_leaves_no_new_store(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.undo()
    store.close()
    another = opened(tmp_path, flow="g")
    assert another.is_new
    another.undo()
    another.close()
    old = opened(tmp_path)
    old.close()
    old = opened(tmp_path)
    old.undo()
    old.close()
    again = opened(tmp_path)
    assert not again.is_new
    again.close()


# -- purging, on Bytewax's own files -----------------------------------------------------------------------------------


def sums(items: list[int], out: list[tuple[str, int]]) -> Dataflow:
    def add(state: int | None, item: int) -> tuple[int, int]:
        total = (state or 0) + item
        return total, total

    flow = Dataflow("f")
    keyed = op.key_on("key", op.input("source", flow, TestingSource(items)), lambda _: "k")
    op.output("sink", op.stateful_map("sum", keyed, add), TestingSink(out))
    return flow


def run(store: Store, items: list[int], out: list[tuple[str, int]]) -> None:
    cluster_main(sums(items, out), [], 0, epoch_interval=timedelta(0), recovery_config=store.config())  # type: ignore[no-untyped-call]


def snaps(directory: Path) -> list[tuple[str, str, int, bytes]]:
    found = []
    for path in sorted(directory.glob("part-*.sqlite3")):
        with sqlite3.connect(path) as database:
            found += database.execute("select step_id, state_key, snap_epoch, ser_change from snaps").fetchall()
        database.close()
    return sorted(found)


def test_state_of_epochs_that_never_closed_is_dropped(tmp_path: Path) -> None:
    store = opened(tmp_path)
    out: list[tuple[str, int]] = []
    items: list[Any] = [1, 2, 3]
    run(store, items, out)
    assert [total for _, total in out] == [1, 3, 6]
    store.close()
    whole = snaps(tmp_path)
    resume = max(epoch for _, _, epoch, _ in whole) + 1

    # what a death in the middle of a later epoch leaves behind: state that nobody has closed
    for path in sorted(tmp_path.glob("part-*.sqlite3")):
        with sqlite3.connect(path) as database:
            for epoch in (resume + 1, resume + 2):
                database.execute(
                    "insert into snaps (step_id, state_key, snap_epoch, ser_change)"
                    " select step_id, state_key, ?, ? from snaps where step_id like '%stateful%'"
                    " and snap_epoch = (select max(snap_epoch) from snaps s where s.step_id = snaps.step_id)",
                    (epoch, pickle.dumps(1000)),
                )
        database.close()
    assert len(snaps(tmp_path)) > len(whole)

    again = opened(tmp_path)
    assert snaps(tmp_path) == whole
    items.append(10)
    run(again, items, out)
    again.close()
    assert out[-1] == ("k", 16)


def test_a_damaged_store_is_a_sentence(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.close()
    for path in tmp_path.glob("part-*.sqlite3"):
        path.write_bytes(b"no database" * 1000)
    with pytest.raises(FlowError, match="is damaged"):
        store.positions("f.source")


def test_a_store_without_one_of_its_partitions_is_left_alone(tmp_path: Path) -> None:
    """In it stands, perhaps, which epochs closed: none, one would think without it, and purge them all."""
    store = opened(tmp_path)
    run(store, [1, 2, 3], [])
    store.close()
    whole = snaps(tmp_path)
    assert whole
    for name in ("part-0.sqlite3", "part-1.sqlite3"):
        away = (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(FlowError, match=f"lacks {name}; put it back"):
            opened(tmp_path)
        away.rename(tmp_path / name)
        assert snaps(tmp_path) == whole
    opened(tmp_path).close()
    assert snaps(tmp_path) == whole


def test_a_directory_that_cannot_be_used_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "gate.lock").mkdir()
    with pytest.raises(SettingsError, match=r"cannot be used: .*gate.lock: Is a directory"):
        opened(tmp_path)


def test_what_the_engine_cannot_make_is_a_sentence(tmp_path: Path) -> None:
    """It panics, over a full disk for example; here over partitions that are there already."""
    opened(tmp_path).close()
    with pytest.raises(FlowError, match=r"the recovery store .* cannot be made: .*UNIQUE constraint"):
        Store(tmp_path)._make_partitions(2)


def test_bounds_that_are_none_are_a_sentence(tmp_path: Path) -> None:
    store = opened(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(FlowError, match=r"run.json cannot be read: it lacks 'starts'"):
        store.bounds()
    store.close()


def test_positions_are_those_of_the_last_whole_checkpoint(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.positions("f.source") == {}
    with sqlite3.connect(tmp_path / "part-0.sqlite3") as database:
        database.execute("insert into exs (ex_num, worker_count, resume_epoch) values (0, 1, 1)")
        database.execute("insert into fronts (ex_num, worker_index, worker_frontier) values (0, 0, 3)")
        for epoch, position in ((1, 10), (2, 25), (3, 40)):  # the last of which never closed
            row = ("f.source", "00000", epoch, pickle.dumps(position))
            database.execute("insert into snaps (step_id, state_key, snap_epoch, ser_change) values (?, ?, ?, ?)", row)
    database.close()
    assert store.positions("f.source") == {0: 25}
    assert store.positions("f.other") == {}
    store.close()


def test_an_interrupted_run_keeps_its_bounds_until_the_stop_setting_changes(tmp_path: Path) -> None:
    topic = DirectoryTopic(tmp_path / "in")
    create_directory_topic(topic, 1)
    partition_path(topic, 0).write_bytes(b"{}\n" * 4)
    urls = {name: f"dir:{tmp_path / name}" for name in ("selections", "dead_letters")}
    sections = {
        "flow": {"name": "f"},
        "topics": {"instances": f"dir:{topic.path}", **urls},
        "operator": {"name": "ofs", "k": 2},
    }
    store = Store(tmp_path / "store")
    store.directory.mkdir()
    ended = Settings.parse({**sections, "input": {"start": "3", "stop": "end"}})
    store.pin(_bounds(store, ended, look_around(ended), ran=False))
    partition_path(topic, 0).write_bytes(b"{}\n" * 9)
    partition_path(DirectoryTopic(tmp_path / "selections"), 0).write_bytes(b"{}\n")  # uncheckpointed, so still to come
    outputs, begins = tuple(urls.values()), dict.fromkeys(urls.values(), (0,))
    assert _bounds(store, ended, look_around(ended), ran=False) == Bounds((3,), (12,), "end", outputs, begins)
    endless = Settings.parse({**sections, "input": {"start": "beginning"}})
    assert _bounds(store, endless, look_around(endless), ran=False) == Bounds((3,), (None,), None, outputs, begins)

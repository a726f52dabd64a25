"""Backtests of flows on the real broker: the same bytes, nothing live touched, and a variant that goes live."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from sluiceway.backtest.run import backtest
from sluiceway.backtest.variant_lane import folder_of, selections_of
from sluiceway.errors import SettingsError
from sluiceway.topics.directory import partition_path
from tests.backtest.test_replay import KINDS
from tests.backtest.worlds import PARTITIONS, columns, instances
from tests.cli.calling import Call
from tests.support import Topics
from tests.support.flow import sluiceway, toml
from tests.support.kafka import produce, read_committed

Sent = tuple[str, str, int]


def messages(records: Iterable[Mapping[str, Any]]) -> Iterable[Sent]:
    for record in records:
        stream = record["stream"]
        yield stream, json.dumps({name: part for name, part in record.items() if name != "stream"}), int(stream == "s1")


class Live:
    """A flow on topics of its own."""

    def __init__(self, topics: Topics, place: Path, kind: str, **sections: Mapping[str, Any]) -> None:
        self.topics, self.place = topics, place
        self.source, self.operator, self.tables = KINDS[kind]
        self.input = topics(self.source, partitions=PARTITIONS)
        self.sections: dict[str, Any] = {"input": {"stop": "end"}, **self.tables, **sections}

    def flow(self, name: str) -> Path:
        name = self.topics.group(name)
        roles = {role: f"{name}.{role}" for role in ("selections", "dead_letters")}
        self.topics.also(*roles.values(), f"{name}.state", groups=[f"{name}.members"])
        urls = {role: f"kafka://{self.topics.bootstrap}/{topic}" for role, topic in roles.items()}
        urls[self.source] = f"kafka://{self.topics.bootstrap}/{self.input}"
        file = self.place / f"{name}.toml"
        file.write_text(toml({"flow": {"name": name}, "topics": urls, "operator": self.operator, **self.sections}))
        return file

    def send(self, sent: Iterable[Sent]) -> None:
        produce(self.topics.bootstrap, self.input, sent)

    def run(self, file: Path) -> None:
        done = sluiceway("run", file, "--create-topics", "--checkpoint-every", "0.2", timeout=250)
        assert done.code == 0, done.stderr

    def snapshots(self, file: Path) -> list[list[bytes]]:
        found = read_committed(self.topics.bootstrap, f"{file.stem}.selections")
        return [[record.value or b"" for record in found[lane]] for lane in range(PARTITIONS)]

    def everything(self, file: Path) -> dict[str, Any]:
        """Where its topics end, and what its groups have committed."""
        admin, name = self.topics.admin, file.stem
        names = [self.input, *(f"{name}.{role}" for role in ("selections", "dead_letters", "state"))]
        places = {f"{topic}/{lane}": self.topics.end(topic, lane) for topic in names for lane in range(PARTITIONS)}
        wanted = [ConsumerGroupTopicPartitions(name, [TopicPartition(self.input, lane) for lane in range(PARTITIONS)])]
        told = next(iter(admin.list_consumer_group_offsets(wanted).values())).result(30)
        groups = admin.list_consumer_groups().result(30)
        known = {group.group_id for group in groups.valid or () if group.group_id.startswith(name)}
        readers = self._groups_that_read({group.group_id for group in groups.valid or ()})
        offsets = [place.offset for place in told.topic_partitions]
        return {**places, "offsets": offsets, "groups": known, "readers": readers}

    def _groups_that_read(self, groups: set[str]) -> dict[str, Any]:
        """Of all groups that the broker knows: those that have members or offsets on the input, and which."""
        found: dict[str, Any] = {}
        for group in groups:
            wanted = [ConsumerGroupTopicPartitions(group)]
            told = next(iter(self.topics.admin.list_consumer_group_offsets(wanted).values())).result(30)
            offsets = {place.partition: place.offset for place in told.topic_partitions if place.topic == self.input}
            about = next(iter(self.topics.admin.describe_consumer_groups([group]).values())).result(30)
            assigned = [place for member in about.members for place in member.assignment.topic_partitions]
            members = [place.partition for place in assigned if place.topic == self.input]
            if offsets or members:
                found[group] = offsets, members
        return found


def replayed(folder: Path, lanes: int = PARTITIONS) -> list[list[bytes]]:
    topic = selections_of(folder_of(folder, 0))
    return [partition_path(topic, lane).read_bytes().splitlines() for lane in range(lanes)]


def without_finals(found: list[list[bytes]]) -> list[list[bytes]]:
    return [[line for line in part if json.loads(line)["reason"] != "final"] for part in found]


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_those_of_the_live_topic_and_nothing_is_touched(
    kind: str, topics: Topics, tmp_path: Path, call: Call
) -> None:
    live = Live(topics, tmp_path, kind)
    live.send(messages(columns(60) if live.source == "features" else instances(1_000)))
    file = live.flow("live")
    live.run(file)
    before, found = live.everything(file), live.snapshots(file)
    results = backtest(file, out=tmp_path / "out")
    assert replayed(results.folder) == without_finals(found)
    assert any(replayed(results.folder))
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_bytes(found[0][-1])
    done = call("reproduce", snapshot, file)
    assert (done.code, "identical, byte for byte" in done.stdout) == (0, True), done
    assert live.everything(file) == before


def test_promoted_on_the_broker(topics: Topics, tmp_path: Path, call: Call) -> None:
    live = Live(topics, tmp_path, "learner", emit={"every": 50, "on_change": True, "final": False})
    sent = iter(messages(instances(1_000)))
    live.send(islice(sent, 500))
    tried, new, undisturbed = live.flow("tried"), live.flow("promoted"), live.flow("undisturbed")
    out = backtest(tried, out=tmp_path / "out").folder
    missing = call("promote", out, 0, new)
    assert (missing.code, "--create-topics makes what is missing" in missing.sentence) == (2, True)
    done = call("promote", out, 0, new, "--create-topics")
    assert done.code == 0, done.stderr
    told = live.snapshots(new)
    assert [len(part) for part in told] == [1, 1]
    again = call("promote", out, 0, new)
    assert (again.code, "holds a state already" in again.sentence) == (2, True)
    live.send(sent)
    live.run(new)
    live.run(undisturbed)
    mine, theirs, tested = live.snapshots(new), live.snapshots(undisturbed), replayed(out)
    for lane in range(PARTITIONS):
        after = [line.replace(new.stem.encode(), undisturbed.stem.encode()) for line in mine[lane][1:]]
        assert after == theirs[lane][len(tested[lane]) :]
        assert len(after) > 3
        first, newest = json.loads(told[lane][0]), json.loads(tested[lane][-1])
        aside = {"flow": "", "entered": [], "left": []}
        assert {**first, **aside} == {**newest, **aside}


def test_a_window_in_a_directory(topics: Topics, tmp_path: Path, call: Call) -> None:
    """The same flow on it selects the same."""
    live = Live(topics, tmp_path, "learner")
    live.send(messages(instances(600)))
    live.send([("s0", "no JSON", 0), ("s0", '{"x": {"a": 1},\n "y": 1}', 0)])
    file = live.flow("live")
    done = call("capture", f"kafka://{topics.bootstrap}/{live.input}", tmp_path / "week", "--json")
    assert done.code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["left_out"] == 1
    assert told["records"] == sum(topics.end(live.input, lane) for lane in range(PARTITIONS)) - 1
    local = tmp_path / "local.toml"
    address = f"kafka://{topics.bootstrap}/{live.input}"
    local.write_text(file.read_text().replace(address, f"dir:{tmp_path / 'week'}"))
    one, other = (backtest(path, out=tmp_path / path.stem).folder for path in (file, local))
    for mine, theirs in zip(replayed(one), replayed(other), strict=True):
        assert [{**json.loads(line), "source": None} for line in mine] == [
            {**json.loads(line), "source": None} for line in theirs
        ]
    twice = call("capture", address, tmp_path / "week")
    assert (twice.code, "exists already" in twice.sentence) == (2, True)
    empty = call("capture", address, tmp_path / "none", "--from", "end")
    assert (empty.code, "is empty" in empty.sentence) == (2, True)
    slow = call("capture", address, tmp_path / "slow", "--from", "-20", "--rate", "200")
    assert slow.code == 0
    lines = (tmp_path / "slow" / "part-00001.jsonl").read_bytes().splitlines()
    assert len(lines) == 20
    assert all(json.loads(line)["stream"] == "s1" for line in lines)


def test_a_window_in_a_file(topics: Topics, tmp_path: Path, call: Call) -> None:
    """Keys are its streams; the same flow on it selects the same."""
    pytest.importorskip("pyarrow")
    live = Live(topics, tmp_path, "learner")
    live.send(messages(record for record in instances(600) if record.get("y") != "neither"))
    file, week = live.flow("live"), tmp_path / "week.parquet"
    done = call("capture", f"kafka://{topics.bootstrap}/{live.input}", week)
    assert done.code == 0, done.stderr
    of_topic, of_file = (
        sorted(
            ({**json.loads(line), "source": None} for lines in replayed(folder, lanes) for line in lines),
            key=lambda one: (one["stream"], one["version"]),
        )
        for folder, lanes in (
            (backtest(file, out=tmp_path / "one").folder, PARTITIONS),
            (backtest(file, input=week, out=tmp_path / "other").folder, 1),
        )
    )
    assert len({one["stream"] for one in of_topic}) == PARTITIONS
    assert of_file == of_topic


def test_a_window_that_is_gone(topics: Topics, tmp_path: Path, call: Call) -> None:
    live = Live(topics, tmp_path, "learner")
    live.send(messages(instances(100)))
    file = live.flow("live")
    topics.admin.delete_records([TopicPartition(live.input, 0, 30)])[TopicPartition(live.input, 0)].result(30)
    done = call("backtest", file, "--from", "10", "--out", tmp_path / "out")
    assert (done.code, "the broker holds records from 30 on" in done.sentence) == (2, True), done
    address = f"kafka://{topics.bootstrap}/{live.input}"
    done = call("capture", address, tmp_path / "week", "--from", "0")
    assert (done.code, "the broker holds records from 30 on" in done.sentence) == (2, True), done
    assert not any("week" in path.name for path in tmp_path.iterdir())
    missing = tmp_path / "missing.toml"
    missing.write_text(file.read_text().replace(live.input, "nosuch"))
    done = call("backtest", missing, "--out", tmp_path / "out")
    assert (done.code, "does not exist" in done.sentence) == (2, True), done


def test_retention_overtakes_a_pass(topics: Topics, tmp_path: Path) -> None:
    """Of the live flow nothing is said: it is not its records that are missing."""
    live = Live(topics, tmp_path, "learner")
    live.send(messages(instances(100)))
    file = live.flow("live")

    def gone(*_: Any) -> None:
        topics.admin.delete_records([TopicPartition(live.input, 0, 30)])[TopicPartition(live.input, 0)].result(30)

    with pytest.raises(SettingsError, match=r"has deleted the records from offset 0 to 30 before they were read"):
        backtest(file, out=tmp_path / "out", on_start=gone)
    assert not (tmp_path / "out").exists()

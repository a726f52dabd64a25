"""What joining makes of records of all kinds, and which settings it refuses; without a broker."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from sluiceway.errors import SettingsError
from sluiceway.flows.join import Joiner, JoinSettings
from sluiceway.flows.pair_reader import PairPoll
from sluiceway.flows.preflight import look_around
from sluiceway.flows.settings import Settings
from sluiceway.operators.stages.pairs import INSTANCES, LABELS, Side
from sluiceway.schemas.asleep import AsleepInMemory
from sluiceway.schemas.encode import reason
from sluiceway.schemas.lane import OutRecord
from sluiceway.schemas.paths import find, place
from sluiceway.schemas.state import StoredStream
from sluiceway.topics.bounds import Bounds
from sluiceway.topics.state_records import CommitRecord, RunRecord
from sluiceway.topics.store import Restored
from tests.support.flow import sluiceway, toml

TOPICS = {
    "instances": "kafka://b:1/instances",
    "labels": "kafka://b:1/labels",
    "labelled": "kafka://b:1/labelled",
    "selections": "kafka://b:1/selections",
    "dead_letters": "kafka://b:1/dead",
}
RUN = RunRecord(1, Bounds((0,), (None,), None, {"labels": Bounds((0,), (None,))}))


def settings(folder: Path, topics: Mapping[str, str | None] | None = None, **tables: Any) -> JoinSettings:
    file = folder / "flow.toml"
    content = {
        "flow": {"name": "f"},
        "topics": {**TOPICS, **(topics or {})},
        "operator": {"name": "ofs", "k": 2},
        **{name.replace("_", "."): table for name, table in tables.items()},
    }
    file.write_text(toml(content).replace('["input.map"]', "[input.map]"))
    return JoinSettings.load(file)


class Lane:
    """One lane of a join, without its topics and store."""

    def __init__(self, given: JoinSettings) -> None:
        self.settings = given
        self.joiner = Joiner(given, 0, 1, Restored(RUN, None, AsleepInMemory({})))
        self.labelled: list[OutRecord] = []
        self.dead: list[OutRecord] = []
        self._at = [0, 0]
        self._stored: dict[str, StoredStream] = {}

    def give(
        self, side: Side, *records: Any, key: bytes | None = b"s", settled: Mapping[Side, int] | None = None
    ) -> None:
        values: list[bytes | None] = [one if isinstance(one, bytes) else orjson.dumps(one) for one in records]
        first, self._at[side] = self._at[side], self._at[side] + len(values)
        offsets = range(first, self._at[side])
        following = range(first + 1, self._at[side] + 1)
        poll = PairPoll(
            0, self._at[0], self._at[0], False, [key] * len(values), values, offsets, following,
            side=side, labels_stop=self._at[1], settled=settled or {},
        )  # fmt: skip
        self._take(poll)

    def _take(self, poll: PairPoll) -> None:
        output = self.joiner.process(poll)
        self.labelled += output.labelled
        self.dead += output.dead_letters
        assert output.positions("instances") == {"instances": self._at[0], "labels": self._at[1]}

    def nothing(self) -> None:
        self.give(INSTANCES)

    def settle(self, side: Side) -> None:
        """The other topic has been read to its end."""
        self.give(INSTANCES, settled={side: self.joiner.pairs.due(side) or 0})

    def commit(self) -> None:
        for change in self.joiner.changes():
            stored = self._stored.setdefault(change.stream, StoredStream(change.birth, b""))
            stored.head = change.head
            stored.pieces |= change.added
            for number in change.dropped:
                del stored.pieces[number]

    def restart(self) -> None:
        """From what was committed last."""
        positions = dict(zip(("instances", "labels"), self._at, strict=True))
        commit = CommitRecord.of(RUN, positions, {}, {}, final=False)
        self.joiner = Joiner(self.settings, 0, 1, Restored(RUN, commit, AsleepInMemory(self._stored)))

    @property
    def out(self) -> list[Any]:
        return [orjson.loads(one.value or b"") for one in self.labelled]

    @property
    def reasons(self) -> list[tuple[str, str, str]]:
        told = [reason(one) for one in self.dead]
        return [(one["class"], one["topic"], one["message"]) for one in told]


def test_native_records(tmp_path: Path) -> None:
    lane = Lane(settings(tmp_path))
    lane.give(INSTANCES, {"id": 1, "x": {"a": 1.5}}, {"id": "2", "x": [1, 2], "y": None}, {"id": 3, "x": {}, "y": 0})
    lane.give(LABELS, {"id": "2", "y": "spam"}, {"id": "1", "y": True})
    assert lane.out == [
        {"id": 3, "x": {}, "y": 0},
        {"id": "2", "x": [1, 2], "y": "spam"},
        {"id": 1, "x": {"a": 1.5}, "y": True},
    ]
    assert lane.labelled[0].value == orjson.dumps({"id": 3, "x": {}, "y": 0}), "as it came"
    assert [one.key for one in lane.labelled] == [b"s"] * 3
    assert not lane.dead


def test_ids_are_told_apart_by_key(tmp_path: Path) -> None:
    lane = Lane(settings(tmp_path))
    lane.give(INSTANCES, {"id": 1, "x": {"a": 1}}, key=b"one")
    lane.give(LABELS, {"id": 1, "y": 1}, key=b"other")
    assert lane.out == []
    lane.give(LABELS, {"id": 1, "y": 0}, key=b"one")
    assert lane.out == [{"id": 1, "x": {"a": 1}, "y": 0}]


def test_records_of_another_shape(tmp_path: Path) -> None:
    """The label goes where the map says that it is."""
    where = {"features": "payload.after", "label": "payload.after.fraud", "id": "payload.after.id"}
    lane = Lane(settings(tmp_path, join={"id": "of.id", "label": "found.fraud"}, input_map=where))
    row = {"id": 17, "amount": 12.5, "fraud": None, "number": 12345678901234567890123}
    text = b'{"payload":{"before":null,"after":{"id":17,"amount":12.5,"fraud":null,"number":12345678901234567890123}}}'
    lane.give(INSTANCES, text)
    lane.give(LABELS, {"of": {"id": 17}, "found": {"fraud": "yes"}, "note": "x"})
    [record] = lane.labelled
    assert record.value == text.replace(b'"fraud":null', b'"fraud":"yes"'), "long integers as they came"
    assert row["id"] == 17


def test_what_cannot_be_used_is_a_dead_letter_of_its_own_topic(tmp_path: Path) -> None:
    lane = Lane(settings(tmp_path, join={"id": "order_id", "label": "paid"}))
    lane.give(INSTANCES, b"{ no", {"id": 1.5, "x": {}}, [1], b"")
    lane.give(LABELS, {"order": 1, "paid": 1}, {"order_id": 1, "payed": 1}, {"order_id": 1, "paid": {"a": 1}})
    given, said = [f"{name} {topic}" for name, topic, _ in lane.reasons], [message for _, _, message in lane.reasons]
    assert given == [
        "not-json instances", "bad-id instances", "not-an-object instances", "empty instances",
        "bad-id labels", "bad-label labels", "bad-label labels",
    ]  # fmt: skip
    assert said[4] == "the label's record has no id at order_id (join.id): it has order, paid"
    assert said[5] == "the label's record has no label at paid (join.label): it has order_id, payed"
    assert said[6].startswith("the label's record has an object at paid (join.label)")
    assert not lane.out


@pytest.mark.parametrize("unlabelled", ["keep", "dead-letters"])
def test_what_is_given_up(tmp_path: Path, unlabelled: str) -> None:
    lane = Lane(settings(tmp_path, join={"max_waiting": 1, "unlabelled": unlabelled}))
    lane.give(INSTANCES, *({"id": number, "x": {"a": number}} for number in range(3)), {"x": {"b": 1}})
    assert len(lane.out) + len(lane.dead) == 1, "without an id there is no label to wait for"
    lane.settle(INSTANCES)
    lane.give(LABELS, {"id": 1, "y": 1}, {"id": 2, "y": 1}, {"id": 7, "y": 1}, {"id": 8, "y": 1})
    lane.settle(LABELS)
    late = ("late-label", "labels", "the instance '1' that this label is for was given up before it came")
    orphan = ("orphan-label", "labels", "no instance '7' came for this label in time")
    labelled = {"id": 2, "x": {"a": 2}, "y": 1}
    alone: list[Any] = [{"x": {"b": 1}}, *({"id": number, "x": {"a": number}} for number in range(2))]
    if unlabelled == "keep":
        assert lane.out == [*alone, labelled]
        assert lane.reasons == [late, orphan]
    else:
        assert lane.out == [labelled]
        assert [one[0] for one in lane.reasons] == ["unlabelled"] * 3 + ["late-label", "orphan-label"]
        assert lane.dead[1].value == orjson.dumps(alone[1])


def test_times_are_those_of_the_records(tmp_path: Path) -> None:
    lane = Lane(settings(tmp_path, join={"max_wait_seconds": 60}, input_map={"time": "at", "features": "x"}))
    lane.give(INSTANCES, {"id": 1, "at": "2025-11-16T10:00:00Z", "x": {"a": 1}})
    lane.give(INSTANCES, {"id": 2, "at": "2025-11-16T10:00:50Z", "x": {"a": 2}})
    lane.settle(INSTANCES)
    assert not lane.out
    lane.give(LABELS, {"id": 3, "y": 1, "ts": "2025-11-16T10:01:01Z"})
    lane.settle(INSTANCES)
    assert [one["id"] for one in lane.out] == [1]


def test_what_goes_to_a_directory_is_committed_before_it_is_written(tmp_path: Path) -> None:
    """And comes again after a restart, in the same order, first of all."""
    topics = {"labelled": f"dir:{tmp_path}/labelled", "dead_letters": f"dir:{tmp_path}/dead", "selections": "dir:s"}
    lane = Lane(settings(tmp_path, topics))
    assert str(lane.settings.outputs["dead_letters"]) == f"dir:{tmp_path}/dead-join"
    lane.give(INSTANCES, {"id": 1, "x": {"a": 1}, "y": 1}, b"no")
    lane.give(INSTANCES, {"id": 2, "x": {"a": 2}})
    assert not lane.labelled
    lane.commit()
    lane.give(LABELS, {"id": 2, "y": 0})
    first = [{"id": 1, "x": {"a": 1}, "y": 1, "stream": "s"}]
    assert lane.out == first
    lane.restart()
    lane.labelled.clear()
    lane.dead.clear()
    assert lane.joiner.unfinished
    lane.nothing()
    assert (lane.out, [one[0] for one in lane.reasons]) == (first, ["not-json"])
    lane.give(LABELS, {"id": 2, "y": 0})  # it was not committed, so it is read again
    lane.commit()
    lane.nothing()
    assert lane.out == [*first, {"id": 2, "x": {"a": 2}, "y": 0, "stream": "s"}]
    lane.commit()
    assert not lane.joiner.unfinished


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"topics": {"labels": None}}, "topics.labels is missing: labels on a topic of their own need"),
        ({"topics": {"labelled": None}}, "topics.labelled is missing"),
        ({"topics": {"labelled": TOPICS["labels"]}}, "topics.labels and topics.labelled are the same topic"),
        ({"topics": {"labelled": TOPICS["dead_letters"]}}, "topics.labelled and topics.dead_letters are the same"),
        ({"join": {"id": "a..b"}}, "join: id = 'a..b' is no path"),
        ({"join": {"max_waiting": -1}}, "join.max_waiting = -1"),
        ({"input": {"start": "5"}}, "the offset 5 of [input] means two things: use beginning, end or a time"),
        ({"topics": {"labels": None, "labelled": None}}, "the setting topics.labels is missing: it says where"),
        ({"topics": {"labels": None, "labelled": None}, "join": {"max_waiting": 3}}, "topics.labels is missing"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings(tmp_path, **tables)
    assert sentence in str(refused.value)


def test_the_learning_flow_reads_what_joining_writes(tmp_path: Path) -> None:
    joining = settings(tmp_path)
    learning = Settings.load(tmp_path / "flow.toml")
    assert (str(learning.source), learning.source_role) == (TOPICS["labelled"], "instances")
    assert (joining.flow.name, str(joining.state)) == ("f-join", "kafka://b:1/f-join.state")
    assert {name: str(topic) for name, topic in joining.all_topics.items()} == {
        name: TOPICS[name] for name in ("instances", "labels", "labelled", "dead_letters")
    }


def test_topics_that_are_not_partitioned_alike_are_refused(tmp_path: Path) -> None:
    for name, count in (("instances", 2), ("labels", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_topic.json").write_text(f'{{"partitions": {count}}}')
    given = settings(tmp_path, {name: f"dir:{tmp_path}/{name}" for name in TOPICS})
    with pytest.raises(SettingsError, match=r"\(labels\) has 3 partitions, '.*' \(instances\) has 2: records that"):
        look_around(given)


def test_the_example_is_valid() -> None:
    text = (Path(__file__).resolve().parents[2] / "flows" / "examples" / "labels.toml").read_text()
    assert Settings.parse(tomllib.loads(text)).join is not None


@pytest.mark.parametrize(
    ("record", "path", "found"),
    [
        ({"a": {"b": 1}}, "a.b", 1),
        ({"a.b": 1}, "a.b", 1),
        ({"a": {"b.c": 2}}, "a.b.c", 2),
        ({"a": [5, {"b": 6}]}, "a.1.b", 6),
        ({"a": {"b": None}}, "a.b", None),
        ({"a": 1}, "a.b", None),
        ({}, "a", None),
    ],
)
def test_paths(record: dict[str, Any], path: str, found: object) -> None:
    assert find(record, path) == found
    if found is None:
        place(record, path, "here")
        assert find(record, path) == "here"


def test_an_id_that_is_never_there(tmp_path: Path) -> None:
    """No instance could get its label: that is told, in words for people and for programs, and in the dead letters."""
    records: dict[str, list[Any]] = {"labels": [{"id": 2, "y": 1}]}
    records["instances"] = [{"order": at, "x": {"a": 1}} for at in range(3)]
    for name, given in records.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "_topic.json").write_text('{"partitions": 1}')
        (tmp_path / name / "part-00000.jsonl").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in given))
    topics: dict[str, str | None] = {name: f"dir:{name}" for name in TOPICS}
    settings(tmp_path, topics, input={"stop": "end"}, join={"unlabelled": "dead-letters", "max_waiting": 5})
    done = sluiceway("join", "flow.toml", "--json", cwd=tmp_path)
    assert done.code == 1
    assert done.sentence.startswith("f-join: nothing was joined, every record of instances that was read became a dead")
    sentence = "none of the first 3 records has an id at input.map.id = 'id'; they have order, x, x.a"
    assert orjson.loads(done.stdout)["warnings"] == [sentence]
    assert f"f-join: {sentence}" in done.stderr
    letters = (tmp_path / "dead_letters-join" / "part-00000.jsonl").read_bytes().splitlines()
    assert orjson.loads(letters[0])["error"]["message"] == (
        "it has no id at id (input.map.id), so no label: it has order, x, x.a"
    )


def test_joining_is_reset_by_itself(tmp_path: Path) -> None:
    for name, record in (("instances", {"id": 1, "x": {"a": 1}}), ("labels", {"id": 2, "y": 1})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "_topic.json").write_text('{"partitions": 1}')
        (tmp_path / name / "part-00000.jsonl").write_bytes(orjson.dumps(record) + b"\n")
    settings(tmp_path, {name: f"dir:{name}" for name in TOPICS}, input={"stop": "end"})
    done = sluiceway("join", "flow.toml", cwd=tmp_path)
    assert done.code == 0, done.stderr
    told = sluiceway("reset", "flow.toml", "--join", "--dry-run", "--json", cwd=tmp_path).stdout
    [part] = orjson.loads(told)["removed"]
    assert (part["flow"], part["exists"], part["lanes"]) == ("f-join", True, 1)
    done = sluiceway("reset", "flow.toml", "--join", "--yes", cwd=tmp_path)
    assert done.stderr.rstrip().endswith("f-join: reset; `sluiceway join flow.toml` begins anew"), done.stderr
    assert sluiceway("reset", "flow.toml", "--join", "--snapshots", "--yes", cwd=tmp_path).code == 2

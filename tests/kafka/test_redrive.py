"""Dead letters on a broker: counted, and sent again in transactions, each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import FlowError
from sluiceway.topics import redrive_kafka
from sluiceway.topics.redrive import Choice, Ledger
from sluiceway.topics.redrive_kafka import LEDGER, MARK, redrive
from sluiceway.topics.url import KafkaTopic
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow, sluiceway
from tests.support.kafka import read_committed

GOOD = json.dumps({"x": {"a": 1.0}, "y": 1})
BAD_LABEL, NOT_JSON = b'{"x":{"a":1.0},"y":"B"}', b"\xc3\xa4 no json"


def nothing() -> None: ...


def flow_with_dead_letters(topics: Topics, directory: Path) -> KafkaFlow:
    flow = KafkaFlow(topics, directory, partitions=2)
    sent: list[Any] = [(f"s{at % 7}", GOOD if at % 3 else BAD_LABEL) for at in range(40)]
    produce(flow.bootstrap, flow.instances, [*sent, ("s1", NOT_JSON), ("s4", NOT_JSON)])
    return flow


def test_they_are_sent_again_each_once(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = flow_with_dead_letters(topics, tmp_path)
    flow.ends()
    dead, to = (KafkaTopic(flow.bootstrap, flow.topic[role]) for role in ("dead_letters", "instances"))
    before = read_committed(flow.bootstrap, to.name, [0, 1])

    dry = redrive(dead, to, {}, Choice(frozenset()), dry=True, tick=nothing)
    assert {name: tally.sent for name, tally in dry.classes.items()} == {"bad-label": 14, "not-json": 2}

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr(redrive_kafka, "BATCH", 5)
    with monkeypatch.context() as patch:  # after the records were handed over, before the note of them
        patch.setattr(Ledger, "dump", killed)
        with pytest.raises(KilledError):
            redrive(dead, to, {}, Choice(frozenset({"bad-label"})), dry=False, tick=nothing)
    first = redrive(dead, to, {}, Choice(frozenset({"bad-label"})), dry=False, tick=nothing)
    assert (first.sent, list(first.classes)) == (14, ["bad-label"])
    rest = redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing)
    assert (rest.classes["bad-label"].sent_before, rest.classes["not-json"].sent) == (14, 2)
    assert redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing).sent == 0

    after = read_committed(flow.bootstrap, to.name, [0, 1])
    letters = read_committed(flow.bootstrap, dead.name, [0, 1])
    for partition in (0, 1):
        new = after[partition][len(before[partition]) :]
        unused = [one for one in before[partition] if one.value in (BAD_LABEL, NOT_JSON)]
        assert sorted((one.key, one.value) for one in new) == sorted((one.key, one.value) for one in unused)
        marks = {dict(one.headers)[MARK] for one in new}
        assert len(marks) == len(new)
        assert all((mark or b"").startswith(b"%b/%d@" % (dead.name.encode(), partition)) for mark in marks)
    assert any(name == LEDGER for one in letters[0] for name, _ in one.headers)

    done = flow.run("--again", "--json")
    assert done.code == 1, "all that was sent again is refused again"
    assert json.loads(done.stdout)["dead_letters"]["bad-label"]["count"] == 14
    held = redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing)
    assert (held.sent, held.came_back) == (0, 16)
    assert redrive(dead, to, {}, Choice(frozenset({"not-json"}), again=True), dry=False, tick=nothing).sent == 2

    url = f"kafka://{flow.bootstrap}/{dead.name}"
    told = json.loads(sluiceway("inspect", url, "--json").stdout)["dead_letters"]
    assert {name: found["count"] for name, found in told["classes"].items()} == {"bad-label": 28, "not-json": 4}
    assert told["others"] > 0
    shown = sluiceway("inspect", url).stdout
    assert "newest bad-label, offset " in shown
    assert "records of `sluiceway redrive`" in shown


def test_another_redrive_fences(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = flow_with_dead_letters(topics, tmp_path)
    flow.ends()
    dead, to = (KafkaTopic(flow.bootstrap, flow.topic[role]) for role in ("dead_letters", "instances"))
    read, calls = redrive_kafka._ledger, [0]

    def ledger(entries: Any) -> Ledger:
        calls[0] += 1
        found = read(entries)
        if calls[0] == 1:  # between fencing and sending
            assert redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing).sent == 16
        return found

    monkeypatch.setattr(redrive_kafka, "_ledger", ledger)
    with pytest.raises(FlowError, match=r"another redrive of kafka://.* has begun meanwhile"):
        redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing)
    sent = read_committed(flow.bootstrap, to.name, [0, 1])
    assert sum(any(name == MARK for name, _ in one.headers) for part in sent.values() for one in part) == 16


def test_what_goes_round_by_two_topics_is_known_by_its_header(topics: Topics, tmp_path: Path) -> None:
    """From one flow's dead letters to another flow, whose dead letters go back to the first: each ledger knows half."""
    flows = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        flows.append(KafkaFlow(topics, tmp_path / name, partitions=1))
    first, second = flows
    produce(first.bootstrap, first.instances, [("s", BAD_LABEL), ("s", GOOD)])
    produce(second.bootstrap, second.instances, [("s", GOOD)])

    def sent(source: KafkaFlow, target: KafkaFlow, **choice: Any) -> tuple[int, int]:
        dead, to = (KafkaTopic(source.bootstrap, one) for one in (source.topic["dead_letters"], target.instances))
        report = redrive(dead, to, {}, Choice(frozenset(), **choice), dry=False, tick=nothing)
        return report.sent, report.came_back

    first.ends()
    assert sent(first, second) == (1, 0)
    second.ends()
    [letter] = second.out("dead_letters")
    assert dict(letter.headers)[MARK] == b"%b/0@0" % first.topic["dead_letters"].encode()
    assert sent(second, first) == (0, 1)
    assert sent(second, first, again=True) == (1, 0)
    first.run("--again")
    assert sent(first, second) == (0, 1)


def test_redrive_of_one_topic_leaves_the_others_to_be_sent(topics: Topics, tmp_path: Path) -> None:
    """Two flows that share a topic of dead letters."""
    flow = flow_with_dead_letters(topics, tmp_path)
    flow.ends()
    dead, to = (KafkaTopic(flow.bootstrap, flow.topic[role]) for role in ("dead_letters", "instances"))
    of_another = [
        (f"sluiceway.error.{name}", value.encode())
        for name, value in {
            "class": "bad-label", "message": "m", "stage": "decode", "topic": "other", "partition": "0", "offset": "0",
        }.items()
    ]  # fmt: skip
    produce(flow.bootstrap, dead.name, [("s", BAD_LABEL, 0)], headers=of_another)
    only = Choice(frozenset(), topics=frozenset({"other"}))
    assert redrive(dead, to, {}, only, dry=False, tick=nothing).sent == 1
    assert redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing).sent == 16, "though they came before"
    assert redrive(dead, to, {}, Choice(frozenset()), dry=False, tick=nothing).sent == 0

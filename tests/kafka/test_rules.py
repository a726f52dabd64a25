"""What docs/operations.md says that the broker must allow is enough, and no less is: on a broker with TLS and passwords
that allows nothing else. Who misses a right hears which, at once; nobody hears a password."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from sluiceway.client import latest
from sluiceway.errors import UnreachableError
from sluiceway.topics import kafka
from tests.cli.calling import Call, calling
from tests.kafka.expected import assert_exact, instances
from tests.kafka.test_positions import committed
from tests.support import BrokerUnavailable, Topics, produce
from tests.support.flow import OUTPUTS, STATE, Done, KafkaFlow, sluiceway
from tests.support.secure import PASSWORD, Right, Rights, SecureBroker

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
ANSWER_SECONDS = 30.0
"""By which a missing right must be named; it takes about one second."""


class Row(NamedTuple):
    """Of the table of what the broker must allow."""

    resource: str
    operations: tuple[AclOperation, ...]
    what_for: str


def table() -> list[Row]:
    section = OPERATIONS.read_text().partition("### What the broker must allow")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (.+?) \| ([A-Z_, ]+) \| (.+) \|$", section, re.MULTILINE)
    return [
        Row(resource, tuple(AclOperation[name] for name in names.split(", ")), what_for)
        for resource, names, what_for in rows
    ]


def always() -> list[Row]:
    """Those that every flow needs."""
    return [row for row in table() if not re.search(r"only$|^optional", row.what_for)]


def needed(name: str, inputs: list[str], outputs: list[tuple[str, str]]) -> dict[Right, str]:
    """What a flow of this name needs by the table, and what it says without; outputs by role and name."""
    found: dict[Right, str] = {}
    for row in always():
        for operation in row.operations:
            denies = f"the broker denies this client {operation.name}"
            match row.resource.replace("<flow>", name).replace("`", ""):
                case "input topic":
                    sentence = f"may not be read: the broker denies {operation.name}"
                    found |= {(TOPIC, topic, operation): f"topic {topic!r} {sentence}" for topic in inputs}
                case "output topics":
                    found |= {
                        (TOPIC, topic, operation): f"topic {topic!r} ({role}) may not be written: {denies}"
                        for role, topic in outputs
                    }
                case state if state.startswith("topic "):
                    topic = f"{name}.state"
                    assert topic in state
                    sentence = f"the state topic {topic!r} needs READ and WRITE: the broker denies {operation.name}"
                    found[TOPIC, topic, operation] = sentence
                case group if group.startswith("group "):
                    group = group.removeprefix("group ")
                    found[GROUP, group, operation] = f"{denies} of the consumer group {group!r}"
                case ids:
                    assert ids == f"transactional ids that begin with {name}/"
                    sentence = f"{denies} to transactional ids that begin with '{name}/'"
                    found[TRANSACTIONAL_ID, f"{name}/", operation] = sentence
    return found


@pytest.fixture
def secure(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecureBroker]:
    monkeypatch.setenv("FLOW_PASSWORD", PASSWORD)
    broker = SecureBroker(tmp_path / "broker")
    try:
        broker.start()
    except BrokerUnavailable as problem:
        request.getfixturevalue("kafka")  # skips, or fails in CI
        pytest.skip(str(problem))
    yield broker
    broker.kill()


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    return calling(capsys, monkeypatch)


def discreet(done: Done) -> Done:
    assert PASSWORD not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.timeout(400)
def test_a_flow_and_applying_it(secure: SecureBroker, tmp_path: Path, call: Call) -> None:
    topics, rights = Topics(secure.bootstrap), Rights(secure)
    flow = KafkaFlow(topics, tmp_path)
    flow.topic["applied"] = topics("applied")
    topics.make(f"{flow.name}-apply.state", 1, STATE)
    flow.address = secure.address
    flow.write(kafka=secure.client)
    sent = instances(50)
    produce(flow.bootstrap, flow.instances, sent)
    whole = needed(flow.name, [flow.instances], [(role, flow.topic[role]) for role in OUTPUTS])
    assert len(whole) == 9
    rights.give(*whole)

    for right, sentence in whole.items():
        rights.take(right)
        began = time.monotonic()
        answers = [discreet(call("check", flow.file))]
        took = time.monotonic() - began
        print(f"{took:.1f} s: {answers[0].sentence}")
        assert took < ANSWER_SECONDS, right
        if right[0] is not TOPIC or right[1] == flow.instances:  # what the other topics need is told by the same lines
            answers.append(discreet(flow.run()))
        for answer in answers:
            assert answer.code == 1, (right, answer.stderr)
            assert sentence in answer.sentence, right
            for misleading in ("timed out", "does not exist", "no Kafka broker"):
                assert misleading not in answer.sentence, right
        rights.give(right)
    assert flow.out("predictions") == []

    checked = discreet(call("check", flow.file))
    assert checked.code == 0, checked.stderr
    done = discreet(flow.run())
    assert done.code == 0, done.stderr
    assert committed(flow) == 50  # lag tools see it
    discreet(call("inspect", flow.file, "--json"))
    for right in whole:
        rights.take(right)

    applying = needed(f"{flow.name}-apply", [flow.instances], [("applied", flow.topic["applied"])])
    reads = [(TOPIC, topic, READ) for topic in (flow.topic["selections"], flow.state)]
    rights.give(*applying, *reads)
    applied = discreet(sluiceway("apply", flow.file, "--checkpoint-every", "0.2"))
    assert applied.code == 0, applied.stderr
    assert len(flow.out("applied")) == 50
    for right in (*applying, *reads):
        rights.take(right)

    # a subscriber, and whoever looks at the flow
    selections = (TOPIC, flow.topic["selections"], READ)
    rights.give(selections)
    client = {**secure.client, "sasl.password": PASSWORD}
    [snapshot] = latest(f"kafka://{secure.address}/{flow.topic['selections']}", kafka=client).values()
    assert snapshot.flow == flow.name
    rights.take(selections)
    rights.give((TOPIC, flow.state, READ), (TOPIC, flow.instances, DESCRIBE), (GROUP, f"{flow.name}.members", DESCRIBE))
    shown = discreet(call("inspect", flow.file, "--json"))
    assert shown.code == 0, shown.stderr
    assert json.loads(shown.stdout)

    assert_exact(flow, sent)
    for topic in (flow.state, *flow.topic.values()):
        kept = topics.everything(topic)
        assert PASSWORD.encode() not in kept, topic


@pytest.mark.timeout(600)
def test_what_is_needed_now_and_then(secure: SecureBroker, tmp_path: Path, call: Call) -> None:
    """Topics made, partitions added, labels joined, a state removed: each refused without its row of the table."""
    topics, rights = Topics(secure.bootstrap), Rights(secure)
    flow = KafkaFlow(topics, tmp_path)
    flow.address = secure.address
    # a member that leaves when it ends, so that nobody seems to run the flow
    flow.write(kafka={**secure.client, "group.instance.id": None}, input={"stream": "partition"})
    outputs = [(role, flow.topic[role]) for role in OUTPUTS]
    rights.give(*needed(flow.name, [flow.instances], outputs))
    rows = {row.what_for: row for row in table()}
    produce(flow.bootstrap, flow.instances, instances(20))

    def refused(done: Done, said: str) -> None:
        assert discreet(done).code == 1, done.stderr
        assert said in done.sentence

    create, where = rows["`--create-topics` only"], (ResourceType.BROKER, "kafka-cluster")
    assert create.resource.startswith("cluster")
    for topic in (flow.topic["predictions"], flow.state):
        topics.remove(topic)
    refused(flow.run("--create-topics"), "could not be created: ")
    assert not json.loads(call("check", flow.file, "--json").stdout)["would_create"]
    rights.give(*((*where, operation) for operation in create.operations))
    assert json.loads(call("check", flow.file, "--json").stdout)["would_create"]
    assert discreet(flow.run("--create-topics")).code == 0

    flow.write(input={"on_new_partitions": "read"})
    topics.grow(flow.instances, 2)
    alter = rows['`input.on_new_partitions = "read"` only']
    assert alter.resource == "output and state topics"
    refused(flow.run("--again"), "could not be given partitions: ")
    rights.give(*((TOPIC, topic, each) for topic in (flow.state, *dict(outputs).values()) for each in alter.operations))
    assert discreet(flow.run("--again")).code == 0

    gone = [(TOPIC, flow.state), (GROUP, flow.name), (GROUP, f"{flow.name}.members")]
    assert "`sluiceway reset` needs DELETE on the state topic and on both groups" in OPERATIONS.read_text()
    [reads] = [row for what_for, row in rows.items() if what_for.endswith("`sluiceway reset` only")]
    refused(call("reset", flow.file, "--yes"), f"topic {flow.topic['selections']!r} cannot be read: ")
    assert reads.resource == "topic of the selections"
    rights.give(*((TOPIC, flow.topic["selections"], operation) for operation in reads.operations))
    refused(call("reset", flow.file, "--yes"), "could not be deleted: ")
    rights.give(*((*each, AclOperation.DELETE) for each in gone))
    reset = discreet(call("reset", flow.file, "--yes"))
    assert reset.code == 0, reset.stderr


@pytest.mark.timeout(600)
def test_labels_joined_and_dead_letters_sent_again(secure: SecureBroker, tmp_path: Path, call: Call) -> None:
    topics, rights = Topics(secure.bootstrap), Rights(secure)
    flow = KafkaFlow(topics, tmp_path)
    name = f"{flow.name}-join"
    flow.topic["labels"], flow.topic["labelled"] = topics("labels"), topics("labelled")
    topics.make(f"{name}.state", 1, STATE)
    flow.address = secure.address
    flow.write(kafka=secure.client)
    produce(flow.bootstrap, flow.instances, [("mail", '{"id": "a", "x": {"a": 1}}'), ("mail", "not json")])
    produce(flow.bootstrap, flow.topic["labels"], [("mail", '{"id": "a", "y": 1}')])
    inputs = [flow.instances, flow.topic["labels"]]
    joining = needed(name, inputs, [(role, flow.topic[role]) for role in ("labelled", "dead_letters")])
    rights.give(*joining)
    for right in ((TOPIC, topic, READ) for topic in inputs):
        rights.take(right)
        refused = discreet(call("check", flow.file, "--join"))
        assert refused.code == 1
        assert joining[right] in refused.sentence
        rights.give(right)
    done = discreet(sluiceway("join", flow.file, "--checkpoint-every", "0.2"))
    assert done.code == 0, done.stderr
    assert len(flow.out("labelled")) == 1
    assert len(flow.out("dead_letters")) == 1
    for right in joining:
        rights.take(right)

    dead, to = flow.topic["dead_letters"], flow.instances
    url = f"kafka://{secure.address}"
    options = [text for item in secure.client.items() for text in ("-X", "=".join(item))]
    again = ("redrive", f"{url}/{dead}", "--to", f"{url}/{to}", *options)
    assert "the transactional id `<dead-letters>.redrive`" in " ".join(OPERATIONS.read_text().split())
    rights.give((TOPIC, dead, READ), (TOPIC, dead, WRITE), (TOPIC, to, WRITE))
    assert discreet(sluiceway(*again)).code == 1
    rights.give((TRANSACTIONAL_ID, f"{dead}.redrive", WRITE))
    sent = discreet(sluiceway(*again))
    assert sent.code == 0, sent.stderr
    assert len(flow.out("instances")) == 3


def test_a_password_that_is_wrong_is_not_shown(secure: SecureBroker, tmp_path: Path) -> None:
    flow = KafkaFlow(Topics(secure.bootstrap), tmp_path)
    flow.address = secure.address
    flow.write(kafka={**secure.client, "sasl.password": PASSWORD + "-not"})
    refused = discreet(flow.run(timeout=60))
    assert refused.code == 2
    assert f"at {secure.address}" in refused.sentence


def test_a_client_that_does_not_speak_as_the_listener_does(secure: SecureBroker) -> None:
    """Each says what the matter is, and which setting it is about; none of the words of a library."""
    trusting = {"security.protocol": "SSL", "ssl.ca.location": str(secure.authority)}
    for address, settings, cause in (
        (secure.address, {}, ': it speaks TLS, and this client does not: "security.protocol" in [kafka] must be "SSL"'),
        (secure.address, {"security.protocol": "SSL"}, ': its certificate is not trusted: "ssl.ca.location" in '),
        (secure.bootstrap, trusting, ' within 15 s: it does not speak TLS: leave "security.protocol" out, or name '),
    ):
        with pytest.raises(UnreachableError) as refused:
            kafka.describe_topics(address, settings, ["t"])
        assert str(refused.value).startswith(f"no Kafka broker answers at {address}{cause}")
        assert "error:" not in str(refused.value)

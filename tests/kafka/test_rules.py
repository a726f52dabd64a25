"""What docs/operations.md says that the broker must allow is enough, and no less is: on a broker with TLS and passwords
that allows nothing else. Who misses a right hears which, at once; nobody hears a password."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

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


def needed(name: str, outputs: list[tuple[str, str]]) -> dict[Right, str]:
    """What a flow of this name needs besides its input, and what it says without; outputs by role and name."""
    state, denies = f"{name}.state", "denies this client"
    return {
        (TOPIC, state, READ): f"the state topic {state!r} needs READ and WRITE: the broker denies READ",
        (TOPIC, state, WRITE): f"the state topic {state!r} needs READ and WRITE: the broker denies WRITE",
        (GROUP, name, READ): f"{denies} READ of the consumer group '{name}'",
        (GROUP, f"{name}.members", READ): f"{denies} READ of the consumer group '{name}.members'",
        (TRANSACTIONAL_ID, f"{name}/", WRITE): f"{denies} WRITE to transactional ids that begin with '{name}/'",
        **{
            (TOPIC, topic, WRITE): f"topic {topic!r} ({role}) may not be written: the broker {denies} WRITE"
            for role, topic in outputs
        },
    }


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
    whole = needed(flow.name, [(role, flow.topic[role]) for role in OUTPUTS])
    whole[TOPIC, flow.instances, READ] = f"topic {flow.instances!r} may not be read: the broker denies READ"
    rights.give(*whole)

    for right, sentence in whole.items():
        rights.take(right)
        began = time.monotonic()
        answers = [discreet(call("check", flow.file))]
        print(f"{time.monotonic() - began:.1f} s: {answers[0].sentence}")
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

    applying = needed(f"{flow.name}-apply", [("applied", flow.topic["applied"])])
    reads = [(TOPIC, topic, READ) for topic in (flow.instances, flow.topic["selections"], flow.state)]
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

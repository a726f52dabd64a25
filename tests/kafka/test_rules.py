"""What docs/operations.md says that the broker must allow is enough, and no less is: here nothing else is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AclOperation, ResourceType

from tests.kafka.expected import assert_exact, instances
from tests.kafka.test_positions import committed
from tests.support import Broker, Topics, produce
from tests.support.flow import OUTPUTS, STATE, KafkaFlow, sluiceway

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
Rights = dict[tuple[ResourceType, str], tuple[AclOperation, ...]]
"""By kind and name; the name of a transactional id is how those of the flow begin."""


def rights(name: str, *outputs: str) -> Rights:
    """What a flow of this name needs besides its input; each right to READ or WRITE is one to DESCRIBE too."""
    return {
        (TOPIC, f"{name}.state"): (READ, WRITE),
        (GROUP, name): (READ,),
        (GROUP, f"{name}.members"): (READ,),
        (TRANSACTIONAL_ID, f"{name}/"): (WRITE,),
        **{(TOPIC, topic): (WRITE,) for topic in outputs},
    }


def allow(topics: Topics, given: Mapping[tuple[ResourceType, str], tuple[AclOperation, ...]]) -> None:
    for (kind, name), operations in given.items():
        topics.allow_only(kind, name, *operations, prefix=kind is TRANSACTIONAL_ID)


READERS = "sluiceway-reader"
"""The group that clients name which only read: nothing is committed to it, but the broker is asked who leads it."""


def test_a_flow_and_applying_it(own_broker: Broker, tmp_path: Path) -> None:
    """On a broker of its own: the readers' group is everybody's."""
    topics = Topics(own_broker.bootstrap)
    flow = KafkaFlow(topics, tmp_path)
    flow.topic["applied"] = topics("applied")
    topics.make(f"{flow.name}-apply.state", 1, STATE)
    flow.write()
    sent = instances(50)
    produce(flow.bootstrap, flow.instances, sent)
    whole = rights(flow.name, *(flow.topic[role] for role in OUTPUTS))
    whole |= {(TOPIC, flow.instances): (READ,), (GROUP, READERS): (DESCRIBE,)}
    for place, sentence in {
        (TOPIC, flow.instances): f"topic {flow.instances!r} may not be read",
        (TOPIC, flow.topic["predictions"]): f"topic {flow.topic['predictions']!r} (predictions) may not be written",
        (TOPIC, flow.state): f"the state topic {flow.state!r} needs READ and WRITE",
        (GROUP, f"{flow.name}.members"): f"denies this client READ of the consumer group '{flow.name}.members'",
        (TRANSACTIONAL_ID, f"{flow.name}/"): f"denies this client WRITE to the transactional id '{flow.name}/0'",
    }.items():
        allow(topics, {**whole, place: (DESCRIBE,)})
        refused = flow.run()
        assert refused.code == 1, refused.stderr
        assert sentence in refused.sentence
        topics.allow_all()
    assert flow.out("predictions") == []
    allow(topics, whole)
    flow.ends()
    assert committed(flow) == 50  # lag tools see it

    topics.allow_all()
    reads = (flow.instances, flow.topic["selections"], flow.state)
    allow(topics, {(TOPIC, topic): (READ,) for topic in reads} | {(GROUP, READERS): (DESCRIBE,)})
    allow(topics, rights(f"{flow.name}-apply", flow.topic["applied"]))
    applied = sluiceway("apply", flow.file, "--checkpoint-every", "0.2")
    assert applied.code == 0, applied.stderr

    topics.allow_all()
    assert_exact(flow, sent)
    assert len(flow.out("applied")) == 50

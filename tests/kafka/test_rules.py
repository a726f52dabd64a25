"""What docs/operations.md says that the broker must allow is enough: here nothing else is allowed."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AclOperation, ResourceType

from tests.kafka.expected import assert_exact, instances
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow, sluiceway

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


def allow_flow(topics: Topics, name: str, *outputs: str) -> None:
    topics.allow_only(ResourceType.GROUP, name, READ)
    topics.allow_only(ResourceType.TRANSACTIONAL_ID, f"{name}/", WRITE, DESCRIBE, prefix=True)
    for topic in outputs:
        topics.allow_only(ResourceType.TOPIC, topic, WRITE, DESCRIBE)


def test_a_flow_and_applying_it(topics: Topics, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path)
    flow.topic["applied"] = topics("applied")
    flow.write()
    sent = instances(50)
    produce(flow.bootstrap, flow.instances, sent)
    topics.allow_only(ResourceType.TOPIC, flow.instances, READ)
    allow_flow(topics, flow.name, *(flow.topic[role] for role in ("selections", "predictions", "dead_letters")))
    flow.ends()

    topics.allow_only(ResourceType.TOPIC, flow.topic["selections"], READ)
    allow_flow(topics, f"{flow.name}-apply", flow.topic["applied"])
    applied = sluiceway("apply", flow.file, "--recovery", tmp_path / "apply-store", "--checkpoint-every", "0.2")
    assert applied.code == 0, applied.stderr

    topics.allow_all()
    assert_exact(flow, sent)
    assert len(flow.out("applied")) == 50

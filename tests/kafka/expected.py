"""What a flow must have sent: the same input through one lane in one piece, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluiceway.operators import registry
from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.lane import RawPoll
from tests.support import Record
from tests.support.flow import KafkaFlow

Sent = Sequence[tuple[str, str]]


def instances(count: int, *, first: int = 0, stream: str = "mail") -> list[tuple[str, str]]:
    """Instances whose selection changes as they go on."""
    return [
        (stream, f'{{"id":"e{n}","ts":{n},"x":{{"f{n % 7}":{n % 5 + 1},"g{n // 40 % 9}":2.5}},"y":{(-1) ** (n // 3)}}}')
        for n in range(first, first + count)
    ]


def expected(flow: KafkaFlow, sent: Sent, *, partition: int = 0, end: bool = True) -> dict[str, list[Record]]:
    """By topic, for one partition whose input lies at offsets 0, 1, 2, ..."""
    params = {name: value for name, value in flow.sections["operator"].items() if name != "name"}
    emit: dict[str, Any] = flow.sections["emit"]
    cls = registry.get(flow.sections["operator"]["name"]).cls
    config = LearnerConfig(
        flow=flow.name,
        operator=flow.sections["operator"]["name"],
        new_learner=lambda: cls(**params),
        emit=Emit(**emit),
        predictions=True,
    )
    offsets = list(range(len(sent)))
    keys: list[bytes | None] = [key.encode() for key, _ in sent]
    values: list[bytes | None] = [value.encode() for _, value in sent]
    poll = RawPoll(partition, 0, len(sent), end, keys, values, offsets, [offset + 1 for offset in offsets])
    given = config.lane(flow.instances, partition).process(Decoder(1).decode(poll))
    records = {"selections": given.selections + given.finals, "predictions": given.predictions}
    return {role: [Record(one.key, one.value, []) for one in made] for role, made in records.items()}


def assert_exact(flow: KafkaFlow, sent: Sent, *, partition: int = 0, end: bool = True) -> None:
    for role, wanted in expected(flow, sent, partition=partition, end=end).items():
        got = flow.out(role, partition=partition)
        assert len(got) == len(wanted), role
        assert got == wanted, role

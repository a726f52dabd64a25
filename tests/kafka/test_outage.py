"""The broker goes away under running flows, twice: killed and restarted, then frozen. Both flows share the outages."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kafka.expected import assert_exact, instances
from tests.support import Broker, Topics, produce
from tests.support.flow import KafkaFlow, Running

AWAY = 20.0


@pytest.mark.timeout(200)
def test_flows_wait_for_the_broker_and_lose_nothing(own_broker: Broker, tmp_path: Path) -> None:
    topics = Topics(own_broker.bootstrap)
    flows = [
        KafkaFlow(topics, tmp_path, output={"delivery": delivery}, input={"stop": None})
        for delivery in ("exactly-once", "at-least-once")
    ]
    exact, repeating = flows
    sent = instances(900)
    with exact.start() as first, repeating.start() as second:
        _send_and_see(flows, sent[:300], (first, second), 300)

        own_broker.kill()
        gone = time.monotonic()
        late = exact.run(store=tmp_path / "late", timeout=60)
        assert late.code == 2  # nobody has found that broker yet: a wrong address, most likely
        assert f"no Kafka broker answers at {own_broker.bootstrap} within 15 s" in late.sentence
        assert "Traceback" not in late.stderr
        time.sleep(max(0.0, gone + AWAY - time.monotonic()))
        assert first.alive
        assert second.alive
        own_broker.restart()
        _send_and_see(flows, sent[300:600], (first, second), 600)

        own_broker.pause()
        time.sleep(AWAY)
        own_broker.resume()
        _send_and_see(flows, sent[600:], (first, second), 900)

        for running in (first, second):
            done = running.stop()
            assert done.code == 0, done.stderr
            assert "stopped at a checkpoint" in done.stderr
            assert "Traceback" not in done.stderr
            assert len(done.stderr.splitlines()) < 100  # an outage is no reason to shout
    for flow in flows:
        assert_exact(flow, sent, end=False)


def _send_and_see(
    flows: list[KafkaFlow], sent: list[tuple[str, str]], running: tuple[Running, ...], total: int
) -> None:
    for flow in flows:
        produce(flow.bootstrap, flow.instances, sent)
    for flow, process in zip(flows, running, strict=True):
        process.until(lambda flow=flow: len(flow.out("predictions")) >= total)  # type: ignore[misc]

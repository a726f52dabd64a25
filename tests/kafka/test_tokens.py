"""A flow that shows a token instead of a password: got from a token server by the Kafka client itself (OIDC)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.expected import assert_exact, instances
from tests.kafka.test_rules import needed
from tests.support import BrokerUnavailable, Topics, produce
from tests.support.flow import OUTPUTS, KafkaFlow
from tests.support.secure import AUDIENCE, Rights, SecureBroker
from tests.support.tokens import CLIENT, CLIENT_SECRET, TokenServer

TOKEN_SECONDS = 8.0


@pytest.fixture
def secure(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path / "broker")
    try:
        broker.start()
    except BrokerUnavailable as problem:
        request.getfixturevalue("kafka")  # skips, or fails in CI
        pytest.skip(str(problem))
    yield broker
    broker.kill()


def flow_with_tokens(secure: SecureBroker, directory: Path, server: TokenServer) -> KafkaFlow:
    flow = KafkaFlow(Topics(secure.bootstrap), directory, input={"stop": None})
    flow.address = secure.address
    Rights(secure).give(*needed(flow.name, [flow.instances], [(role, flow.topic[role]) for role in OUTPUTS]))
    flow.write(
        kafka={
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(secure.authority),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": "${CLIENT_SECRET}",
            "sasl.oauthbearer.token.endpoint.url": server.url,
        }
    )
    return flow


@pytest.mark.timeout(300)
def test_tokens_are_fetched_shown_renewed_and_never_said(
    secure: SecureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENT_SECRET", CLIENT_SECRET)
    sent = instances(60)
    with TokenServer(AUDIENCE, TOKEN_SECONDS) as server:
        flow = flow_with_tokens(secure, tmp_path, server)
        with flow.start() as running:
            running.until(lambda: bool(server.given))
            produce(flow.bootstrap, flow.instances, sent[:30])
            running.until(lambda: len(flow.out("predictions")) == 30, 120)
            fetched, began = len(server.given), time.monotonic()
            running.until(lambda: time.monotonic() > began + TOKEN_SECONDS and len(server.given) > fetched)
            produce(flow.bootstrap, flow.instances, sent[30:])
            running.until(lambda: len(flow.out("predictions")) == 60)
            done = running.stop()
        assert done.code == 0, done.stderr
        assert_exact(flow, sent, end=False)

        monkeypatch.setenv("CLIENT_SECRET", f"{CLIENT_SECRET}-not")
        refused = flow.run()
    assert server.refused
    assert refused.code == 2
    assert f"at {secure.address}: it does not accept this client" in refused.sentence
    said = done.stdout + done.stderr + refused.stdout + refused.stderr
    topics = Topics(secure.bootstrap)
    kept = b"".join(topics.everything(topic) for topic in (flow.state, *flow.topic.values()))
    for secret in (CLIENT_SECRET, *server.given):
        assert secret not in said
        assert secret.encode() not in kept
    print(refused.sentence)


@pytest.mark.timeout(300)
def test_a_token_server_that_is_away_for_longer_than_a_token_lasts(
    secure: SecureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker turns away who has no token any more: an outage like others, after which the flow goes on."""
    monkeypatch.setenv("CLIENT_SECRET", CLIENT_SECRET)
    sent = instances(60)
    with TokenServer(AUDIENCE, TOKEN_SECONDS) as server:
        flow = flow_with_tokens(secure, tmp_path, server)
        with flow.start() as running:
            produce(flow.bootstrap, flow.instances, sent[:30])
            running.until(lambda: len(flow.out("predictions")) == 30, 120)
            server.away, began = True, time.monotonic()
            running.until(lambda: time.monotonic() > began + TOKEN_SECONDS + 1 and server.turned_away > 0)
            produce(flow.bootstrap, flow.instances, sent[30:])
            server.away = False
            running.until(lambda: len(flow.out("predictions")) == 60, 120)
            done = running.stop()
    print(done.stderr)
    assert done.code == 0, done.stderr
    assert "parked" not in done.stderr
    assert_exact(flow, sent, end=False)

"""`sluiceway serve` over the real broker: a flow that runs, a broker that goes away, a stream that is retired."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it has no types
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.client.snapshots import key, record
from tests.kafka.expected import instances
from tests.serve.looking import Page
from tests.serve.serving import Served, serving
from tests.support import Broker, Topics, produce
from tests.support.browser import Browser
from tests.support.flow import KafkaFlow, Running, sluiceway

VIEWERS = 10
COMPILING_SECONDS = 500.0
"""A first start compiles, however busy the machine."""


@contextmanager
def plain_reader(bootstrap: str, topic: str, partitions: int) -> Iterator[Consumer]:
    """Somebody else who reads what is committed, from now on."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "plain", "fetch.wait.max.ms": 10, "enable.auto.commit": False}
    )
    ends = {at: consumer.get_watermark_offsets(TopicPartition(topic, at), timeout=30)[1] for at in range(partitions)}
    consumer.assign([TopicPartition(topic, at, end) for at, end in ends.items()])
    try:
        yield consumer
    finally:
        consumer.close()


def sees(reader: Consumer, stream: str) -> tuple[float, dict[str, Any]]:
    """When it had the stream's next snapshot, in the clock's milliseconds, and the snapshot."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            came, snapshot = time.time() * 1000, json.loads(message.value() or b"")
            if snapshot["stream"] == stream:
                return came, snapshot
    raise TimeoutError(f"no snapshot of {stream}")


def connections(served: Served) -> int:
    """Of the server with brokers: those it has made itself."""
    found = psutil.Process(served.process.pid).net_connections()
    port = int(served.url.rpartition(":")[2])
    return sum(1 for each in found if each.raddr and each.laddr.port != port)


WATCH = """
window.versions = {};
new MutationObserver(() => {
  for (const fact of document.querySelectorAll("#facts > div"))
    if (fact.firstChild.textContent === "version") window.versions[fact.lastChild.textContent] ??= Date.now();
}).observe(document.getElementById("facts"), { subtree: true, childList: true, characterData: true });
"""


@pytest.mark.timeout(700)
def test_a_flow_that_runs_is_seen_at_work(topics: Topics, browser: Browser, tmp_path: Path) -> None:
    flow = KafkaFlow(topics, tmp_path, partitions=2, input={"stop": None}, kafka={"group.instance.id": None})
    streams = [f"s-{number:04d}" for number in range(1000)]
    produce(flow.bootstrap, flow.instances, (one for name in streams for one in instances(5, stream=name)))
    selections = f"kafka://{flow.bootstrap}/{flow.topic['selections']}"
    browser.complaints()
    with flow.start() as running, serving(selections) as served:
        browser.show(served.url)
        page = Page(browser)
        running.until(lambda: page.text("count") == "1,000 streams", COMPILING_SECONDS)
        page.live("1,000 streams")
        page.choose("s-0500", flow.name)
        browser.run(WATCH)
        before = connections(served)
        viewers = [served.events(f"?flow={flow.name}&stream=s-0500") for _ in range(VIEWERS - 1)]
        for viewer in viewers:
            next(viewer)
        delays = []
        with plain_reader(flow.bootstrap, flow.topic["selections"], 2) as reader:
            for first in range(5, 50, 5):
                produce(flow.bootstrap, flow.instances, instances(5, first=first, stream="s-0500"))
                visible, snapshot = sees(reader, "s-0500")
                shown = f"{snapshot['version']:,}"
                page.until(lambda shown=shown: shown in browser.run("return window.versions"))  # type: ignore[misc]
                delays.append(browser.run("return window.versions[arguments[0]]", shown) - visible)
                assert [row[0].removesuffix("entered") for row in page.selected] == [
                    *(each["feature"] for each in snapshot["selected"]),
                    *(f"{name}left" for name in snapshot["left"]),
                ]
        for viewer in viewers:
            versions = (told["snapshot"]["version"] for name, told in viewer if name == "stream")
            assert next(version for version in versions if version == snapshot["version"])
        assert connections(served) == before, "one reader for all of them"
        assert f"{len(delays) + 1} snapshots" in page.at("timeline").text
        print(
            f"from visible to a plain reader to shown: median {statistics.median(delays):.0f} ms, most"
            f" {max(delays):.0f} ms, of {len(delays)} snapshots with {VIEWERS} viewers, {before} connections"
        )
        assert statistics.median(delays) < 1000, "within a second; single ones may be late on a busy machine"
        browser.driver.get("about:blank")
        assert browser.complaints() == []
        assert running.stop().code == 0


@pytest.mark.timeout(300)
def test_a_broker_that_goes_away_and_a_stream_that_is_retired(own_broker: Broker, browser: Browser) -> None:
    topics = Topics(own_broker.bootstrap)
    topics.make("selections", partitions=2)
    url = f"kafka://{own_broker.bootstrap}/selections"
    produce(own_broker.bootstrap, "selections", [record(100), record(7, stream="news", partition=1)])
    with Running("serve", "kafka://127.0.0.1:1/selections", "--listen", "127.0.0.1:0") as unanswered:
        missing = sluiceway("serve", f"kafka://{own_broker.bootstrap}/nothing", "--listen", "127.0.0.1:0")
        assert (missing.code, missing.stdout) == (2, "")
        assert "topic 'nothing' does not exist" in missing.sentence
        with serving(url) as served:
            told = served.events("?flow=spam&stream=mail")
            browser.show(served.url)
            page = Page(browser)
            page.live("2 streams")
            page.choose("mail")
            own_broker.kill()
            assert next(each for name, each in told if name == "status" and each["state"] == "lost")
            assert served.ask("/v1/selections/spam/mail").json["version"] == 100
            assert served.ask("/healthz").status == 200
            page.until(lambda: page.text("state-text").startswith("the broker does not answer"))
            own_broker.restart()
            produce(own_broker.bootstrap, "selections", [record(200)])
            assert next(each for name, each in told if name == "stream" and each["snapshot"]["version"] == 200)
            assert next(each for name, each in told if name == "status")["state"] == "live"
            page.until(lambda: page.text("state-text") == "live" and page.facts["version"] == "200")
            produce(own_broker.bootstrap, "selections", [(key(), None, 0)])
            ended = next(each["ended"] for name, each in told if name == "streams" and each["ended"])
            assert ended == [["spam", "mail"]]
            assert served.ask("/v1/selections/spam/mail").status == 404
            assert served.evaluate("spam/mail/free").json["errorCode"] == "FLAG_NOT_FOUND"
            assert [each["stream"] for each in served.ask("/v1/selections").json["streams"]] == ["news"]
            page.until(lambda: page.at("ended").is_displayed() and page.text("count") == "1 stream")
            assert page.selected == []
            browser.driver.get("about:blank")
            assert browser.complaints() == []
        done = unanswered.wait()
        assert done.code == 2
        assert "no Kafka broker answers at 127.0.0.1:1" in done.stderr

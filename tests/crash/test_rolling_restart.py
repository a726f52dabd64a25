"""Three brokers are restarted one after the other, as an upgrade does it, while records come and a flow runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.crash.test_brokers import BEGIN_SECONDS, NAME, Feed, _compare, running, silences, write_flow
from tests.crash.workload import LANES
from tests.support.cluster import Cluster
from tests.support.flow import OUTPUTS
from tests.support.kafka import Topics

SIZE = 12_000
"""Records a lane: more than a restart of all brokers takes time for, on a slow machine too."""
PAUSE_SECONDS = 60.0
"""No lane's output may stand still for longer."""


class Watched:
    """When something new of each lane became visible, to a reader that is there all the time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._settings = {"bootstrap.servers": bootstrap, "group.id": "watched", "enable.auto.commit": False}
        self.seen: dict[int, list[float]] = {lane: [] for lane in range(LANES)}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        consumer = Consumer({**self._settings, "auto.offset.reset": "earliest", "log_level": 0})
        consumer.assign([TopicPartition(self._topic, lane, 0) for lane in range(LANES)])
        while not self._ending.is_set():
            for message in consumer.consume(1000, 0.1):
                lane = message.partition()
                if message.error() is None and lane is not None:
                    self.seen[lane].append(time.monotonic())
        consumer.close()

    def longest(self, since: float) -> dict[int, float]:
        """The longest time of each lane between two records that became visible."""
        found = {}
        for lane, times in self.seen.items():
            times = [since, *(at for at in times if at > since)]
            found[lane] = max(later - earlier for earlier, later in pairwise(times))
        return found

    def close(self) -> None:
        self._ending.set()
        self._thread.join(30)


@pytest.mark.crash(full=True)
@pytest.mark.timeout(1200)
def test_a_rolling_restart_of_all_brokers(cluster: Cluster, tmp_path: Path, verdict: Callable[[str], None]) -> None:
    topics = Topics(cluster.bootstrap)
    names = {role: topics(role, LANES) for role in ("instances", *OUTPUTS)}
    urls = {role: f"kafka://{cluster.bootstrap}/{name}" for role, name in names.items()}
    file = tmp_path / "rolling.toml"
    write_flow(file, cluster.bootstrap, urls, f"{NAME}.state", SIZE)
    feed = Feed(cluster.bootstrap, names["instances"], SIZE)
    watched = Watched(cluster.bootstrap, names["predictions"])
    with running(file, 2) as flows:
        heard = silences(cluster.bootstrap, names["predictions"], BEGIN_SECONDS)
        assert len(heard) == LANES, [flow.stderr for flow in flows]
        began = time.monotonic()
        for node in cluster.nodes:
            node.stop()
            node.start()
            cluster.wait_until_whole()
        feed.wait(time.monotonic())
        assert len(silences(cluster.bootstrap, names["predictions"], PAUSE_SECONDS)) == LANES
        took = time.monotonic() - began
        pauses = watched.longest(began)
        watched.close()
        assert all(flow.alive for flow in flows), [flow.stderr for flow in flows]
        feed.finish()
        for flow in flows:
            done = flow.wait(240)
            assert done.code == 0, done.stderr
    _compare(cluster, topics, names, tmp_path, SIZE)
    longest = max(pauses.values())
    verdict(
        f"three brokers restarted one after the other in {took:.0f} s under load: {SIZE * LANES:,} records exact;"
        f" longest pause of visible output {longest:.1f} s"
    )
    assert longest < PAUSE_SECONDS, pauses
    topics.clear()

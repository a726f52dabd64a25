"""Three brokers, of which some die, freeze and come back while a flow runs: it goes on, and its output is exact."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.crash.workload import LANES, lane_messages
from tests.support.cluster import Cluster
from tests.support.flow import OUTPUTS, Running, toml
from tests.support.kafka import Topics, read_committed

SILENCE_SECONDS = 45.0
"""No lane may give nothing for longer, once the cluster is whole again."""
STOP_SECONDS = 10.0
"""A process that is asked to stop has gone by then, whatever the brokers do."""
BEGIN_SECONDS = 300.0
"""A first start may have to compile the kernels."""
TAKEN_SECONDS = 120.0
A_LANE_A_SECOND = 20
NAME = "brokers"

Fault = Callable[[Cluster], None]


def kill(find: Callable[[Cluster], int]) -> Fault:
    """kill -9 of the broker that has a part, until its parts have gone to others; then it comes back."""

    def fault(cluster: Cluster) -> None:
        number = _found(find, cluster)
        cluster.nodes[number].kill()
        cluster.wait_until_replaced(number)
        time.sleep(random.uniform(0.0, 5.0))
        cluster.nodes[number].start()

    return fault


def _found(find: Callable[[Cluster], int], cluster: Cluster) -> int:
    """Who has the part; for a moment after the last fault nobody may have it."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return find(cluster)
        except (LookupError, KafkaException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def freeze(cluster: Cluster) -> None:
    node = cluster.nodes[cluster.transaction_coordinator(f"{NAME}/0")]
    node.pause()
    time.sleep(20.0)
    node.resume()


def two_down(cluster: Cluster) -> None:
    for node in cluster.nodes[:2]:
        node.kill()
    time.sleep(15.0)


def faults(inputs: str) -> Iterator[tuple[str, Fault]]:
    """The coordinators of the groups and of the transactions, and the leader of each lane, in turn."""
    for lane in itertools.cycle(range(LANES)):
        yield "coordinator of the members", kill(lambda cluster: cluster.group_coordinator(f"{NAME}.members"))
        yield f"coordinator of lane {lane}'s transactions", kill(
            lambda cluster, lane=lane: cluster.transaction_coordinator(f"{NAME}/{lane}")  # type: ignore[misc]
        )
        yield f"leader of lane {lane}'s input", kill(
            lambda cluster, lane=lane: cluster.leader(inputs, lane)  # type: ignore[misc]
        )
        yield f"leader of lane {lane}'s state", kill(
            lambda cluster, lane=lane: cluster.leader(f"{NAME}.state", lane)  # type: ignore[misc]
        )


class Feed:
    """Records for every lane all the time, up to a number that is known before."""

    def __init__(self, bootstrap: str, topic: str, size: int) -> None:
        self._messages = [lane_messages(lane, size) for lane in range(LANES)]
        self.taken = dict.fromkeys(range(LANES), 0.0)
        """When the brokers took a record of each lane last: what they do not take, no flow can read."""
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 600_000, "log_level": 0}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def _feed(self) -> None:
        for records in zip(*self._messages, strict=True):
            for lane, (key, value) in enumerate(records):
                self._produce(lane, key, value)
            self._producer.poll(0)
            self._ending.wait(1 / A_LANE_A_SECOND)

    def _produce(self, lane: int, key: bytes, value: bytes | None) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, lane, on_delivery=self._note)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        lane = message.partition()
        assert error is None
        assert lane is not None
        self.taken[lane] = time.monotonic()

    def wait(self, since: float) -> None:
        """Until a record of every lane has been taken since then."""
        deadline = time.monotonic() + TAKEN_SECONDS
        while not all(at > since for at in self.taken.values()):
            assert time.monotonic() < deadline, "the brokers take nothing"
            time.sleep(0.05)

    def finish(self) -> None:
        """What is left, at once."""
        self._ending.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0


def silences(bootstrap: str, topic: str, limit: float) -> dict[int, float]:
    """How long it takes from now on until something new of each lane is visible; lanes beyond the limit are missing.

    Each time by a new client, which begins at the end of what is visible: one that has lived through the faults may
    itself have lost its brokers, and what it had not read before would pass for new.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "heard", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, lane, OFFSET_END) for lane in range(LANES)])
    began = time.monotonic()
    first: dict[int, float] = {}
    while len(first) < LANES and time.monotonic() < began + limit:
        for message in consumer.consume(1000, 0.1):
            lane = message.partition()
            if message.error() is None and lane is not None:
                first.setdefault(lane, time.monotonic() - began)
    consumer.close()
    return first


def write_flow(file: Path, bootstrap: str, urls: dict[str, str], state: str, stop: int) -> None:
    file.write_text(
        toml(
            {
                "flow": {"name": NAME},
                "topics": {**urls, "state": f"kafka://{bootstrap}/{state}"},
                "input": {"stop": str(stop)},
                "operator": {"name": "ofs", "k": 5},
                "emit": {"every": 25, "on_change": True, "min_gap": 5, "top": 20},
            }
        )
    )


@contextmanager
def running(file: Path, processes: int) -> Iterator[list[Running]]:
    flows = [Running("run", file, "--checkpoint-every", "0.3", "--create-topics") for _ in range(processes)]
    try:
        yield flows
    finally:
        for flow in flows:
            flow.__exit__(None, None, None)


@pytest.mark.timeout(2700)
def test_brokers_come_and_go(
    cluster: Cluster, tmp_path: Path, crash_full: bool, verdict: Callable[[str], None]
) -> None:
    rounds = 20 if crash_full else 1
    size = 32_000 if crash_full else 4_000  # more than the slowest rounds that pass take time for
    topics = Topics(cluster.bootstrap)
    names = {role: topics(role, LANES) for role in ("instances", *OUTPUTS)}
    urls = {role: f"kafka://{cluster.bootstrap}/{name}" for role, name in names.items()}
    file = tmp_path / "brokers.toml"
    write_flow(file, cluster.bootstrap, urls, f"{NAME}.state", size)
    feed = Feed(cluster.bootstrap, names["instances"], size)
    heard = partial(silences, cluster.bootstrap, names["predictions"])
    longest: list[tuple[float, str]] = []
    stops: list[float] = []
    chosen = list(itertools.islice(faults(names["instances"]), rounds))
    chosen += [("one frozen", freeze), ("two of three down", two_down)] if crash_full else []
    with running(file, 2) as flows, ThreadPoolExecutor(1) as pool:
        assert len(heard(BEGIN_SECONDS)) == LANES, [flow.stderr for flow in flows]
        for number, (what, fault) in enumerate(chosen):
            during = pool.submit(fault, cluster)
            if number % 3 == 0:
                stops.append(_stopped(flows, file))
            during.result()
            cluster.start()
            _supervise(flows, file)
            feed.wait(time.monotonic())
            found = heard(SILENCE_SECONDS)
            said = "\n".join(flow.stderr for flow in flows)
            assert len(found) == LANES, f"after {what}: only {sorted(found)} are heard\n{said}"
            longest.append((max(found.values()), what))
            print(number, what, {lane: round(seconds, 1) for lane, seconds in sorted(found.items())}, flush=True)
        feed.finish()
        for flow in flows:
            done = flow.wait(180)
            assert done.code == 0, done.stderr
    _compare(cluster, topics, names, tmp_path, size)
    silence, after = max(longest)
    verdict(
        f"three brokers: {len(chosen)} faults, {size * LANES:,} records exact; longest silence of a lane after the"
        f" cluster was whole {silence:.1f} s ({after}); stops in the middle of a fault: longest {max(stops):.1f} s"
    )
    topics.clear()


def _stopped(flows: list[Running], file: Path) -> float:
    """Ask a process to stop while brokers are down; another takes its place. How long it took."""
    time.sleep(random.uniform(0.5, 6.0))
    flow = flows.pop(0)
    began = time.monotonic()
    flow.stop(STOP_SECONDS)
    took = time.monotonic() - began
    flow.__exit__(None, None, None)
    time.sleep(20.0)  # a start needs a broker that answers
    flows.append(Running("run", file, "--checkpoint-every", "0.3"))
    return took


def _supervise(flows: list[Running], file: Path) -> None:
    """A process that was started while no broker answered has said so and ended: it is started again."""
    for at, flow in enumerate(flows):
        if not flow.alive:
            done = flow.wait(1)
            assert "broker" in done.sentence, done.stderr
            flow.__exit__(None, None, None)
            flows[at] = Running("run", file, "--checkpoint-every", "0.3")


def _compare(cluster: Cluster, topics: Topics, names: dict[str, str], place: Path, size: int) -> None:
    """With a run over the same input that nothing disturbs."""
    for done in topics.admin.delete_consumer_groups([NAME, f"{NAME}.members"], request_timeout=30).values():
        done.exception(30)
    calm = {role: names["instances"] if role == "instances" else topics(role, LANES) for role in names}
    urls = {role: f"kafka://{cluster.bootstrap}/{name}" for role, name in calm.items()}
    file = place / "calm.toml"
    write_flow(file, cluster.bootstrap, urls, f"{NAME}-calm.state", size)
    with running(file, 1) as [flow]:
        ended = flow.wait(180)
        assert ended.code == 0, ended.stderr
    for role in OUTPUTS:
        expected = read_committed(cluster.bootstrap, calm[role])
        found = read_committed(cluster.bootstrap, names[role])
        for lane in range(LANES):
            assert found[lane] == expected[lane], f"{role} of lane {lane} differs"
            assert expected[lane]

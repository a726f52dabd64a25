"""Several real brokers that hold copies of each other's data, to be killed, frozen and restarted one by one."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import ClusterMetadata

from tests.support.broker import ATTEMPTS, BrokerFailed, Node, PortTaken, free_ports, metadata, new_cluster_id

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITIONS = 4
"""Of the two topics above: enough for coordinators on every broker, few enough to be there soon."""


class Cluster:
    """Brokers with combined roles, each at the same address for its whole life; node i has the number i + 1.

    All topics have three copies by default, and a write needs two of them.

    >>> with Cluster(tmp_path) as cluster:       # doctest: +SKIP
    ...     cluster.nodes[cluster.leader("instances", 0)].kill()
    """

    def __init__(self, directory: Path, nodes: int = 3) -> None:
        copies, needed = str(min(nodes, 3)), str(min(nodes, 2))
        settings = {
            "default.replication.factor": copies,
            "min.insync.replicas": needed,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": str(PARTITIONS),
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": needed,
            "transaction.state.log.num.partitions": str(PARTITIONS),
            # a broker that came back leads again soon
            "leader.imbalance.check.interval.seconds": "15",
        }
        self.nodes = [Node(directory / f"node{number}", number, settings) for number in range(1, nodes + 1)]
        self._placed = False

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, dead ones too."""
        return ",".join(node.bootstrap for node in self.nodes)

    def start(self, timeout: float = 90.0) -> str:
        """Start the brokers that do not run, let paused ones go on, and wait until all is whole."""
        for node in self.nodes:
            if node.paused:
                node.resume()
        try:
            if not self._placed:
                self._start_anew(timeout)
            elif not all(node.running() for node in self.nodes):
                self._start_nodes(timeout)
            self.wait_until_whole(timeout)
        except BaseException:
            self.kill()
            raise
        return self.bootstrap

    def kill(self) -> None:
        """SIGKILL to all."""
        for node in self.nodes:
            node.kill()

    def wait_until_whole(self, timeout: float = 60.0) -> None:
        """Until every broker knows of all brokers, and of a leader and all copies in step for every partition."""
        deadline = time.monotonic() + timeout
        while (missing := self._missing()) is not None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster is not whole after {timeout:.0f} s: {missing}")
            time.sleep(0.1)

    def replaced(self, dead: int) -> bool:
        """Whether others lead all that a dead node has led.

        With Apache Kafka 4.1.1 a transaction was once committed in one partition, 0.6 s before the take-over, and
        aborted in the others after it: most likely by a broker that was back before, and led on by the end of its own
        transactions' log, which the others did not have.
        """
        number = self.nodes[dead].number
        views = list(self._views())
        return bool(views) and not any(
            partition.leader == number
            for view in views
            for topic in view.topics.values()
            for partition in topic.partitions.values()
        )

    def wait_until_replaced(self, dead: int, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while not self.replaced(dead):
            if time.monotonic() > deadline:
                raise TimeoutError(f"node {self.nodes[dead].number} still leads {timeout:.0f} s after its death")
            time.sleep(0.2)

    def leader(self, topic: str, partition: int) -> int:
        """The index of the node that leads a partition; for some seconds after its death that is the dead one still."""
        for view in self._views():
            found = view.topics.get(topic)
            if found is not None and partition in found.partitions and found.partitions[partition].leader > 0:
                return found.partitions[partition].leader - 1
        raise LookupError(f"nobody leads partition {partition} of {topic}")

    def group_coordinator(self, group: str) -> int:
        """The index of the node that keeps a consumer group's members and offsets."""
        return self.leader(GROUPS, partition_of(group))

    def transaction_coordinator(self, transactional_id: str) -> int:
        """The index of the node that keeps the state of a producer's transactions."""
        return self.leader(TRANSACTIONS, partition_of(transactional_id))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _start_anew(self, timeout: float) -> None:
        identity = new_cluster_id()
        for _ in range(ATTEMPTS):
            self._place(identity)
            try:
                self._start_nodes(timeout)
            except PortTaken:
                self.kill()
                continue  # somebody was faster: other ports
            self._placed = True
            self.wait_until_whole(timeout)
            self._make_internal_topics(timeout)
            return
        raise BrokerFailed(f"no free ports after {ATTEMPTS} attempts")

    def _place(self, identity: str) -> None:
        ports = free_ports(2 * len(self.nodes))
        pairs = list(zip(ports[::2], ports[1::2], strict=True))
        voters = ",".join(f"{node.number}@127.0.0.1:{pair[1]}" for node, pair in zip(self.nodes, pairs, strict=True))
        for node, pair in zip(self.nodes, pairs, strict=True):
            node.place(pair, voters, identity)

    def _start_nodes(self, timeout: float) -> None:
        """At once: most of them must be there before one of them answers."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            started = [threads.submit(node.start, timeout) for node in self.nodes]
        for one in started:
            one.result()

    def _make_internal_topics(self, timeout: float) -> None:
        """Brokers make them when the first coordinators are looked for; tests want leaders to kill from the start."""
        settings: dict[str, str | int] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        Producer({**settings, "transactional.id": "first"}).init_transactions(timeout)
        consumer = Consumer({**settings, "group.id": "first"})
        deadline = time.monotonic() + timeout
        while True:
            try:
                consumer.committed([TopicPartition("any", 0)], 10.0)
                break
            except KafkaException:  # its coordinator has not read the new topic yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        consumer.close()

    def _missing(self) -> str | None:
        """What keeps the cluster from being whole; each broker is asked, as one that was away knows old things."""
        numbers = {node.number for node in self.nodes}
        for node in self.nodes:
            if not node.running():
                return f"node {node.number} does not run"
            view = None if node.paused else metadata(node.bootstrap, 2.0)
            if view is None:
                return f"node {node.number} does not answer"
            if set(view.brokers) != numbers:
                return f"node {node.number} knows only of the nodes {sorted(view.brokers)}"
            for name, topic in view.topics.items():
                for number, partition in topic.partitions.items():
                    if partition.leader not in numbers or set(partition.isrs) != set(partition.replicas):
                        return (
                            f"node {node.number} says that {name} {number} is led by {partition.leader} and in step on "
                            f"{sorted(partition.isrs)} of {sorted(partition.replicas)}"
                        )
        return None

    def _views(self) -> Iterator[ClusterMetadata]:
        for node in self.nodes:
            if node.running() and not node.paused and (view := metadata(node.bootstrap, 2.0)) is not None:
                yield view


def partition_of(name: str) -> int:
    """The partition of an internal topic that a group or a transactional id belongs to: the absolute value of Java's
    hash of the name, with 0 for the one number that has no absolute value in 32 bits."""
    value = 0
    utf16 = name.encode("utf-16-be")
    for unit in struct.unpack(f">{len(utf16) // 2}H", utf16):
        value = (31 * value + unit) & 0xFFFFFFFF
    size = value if value < 1 << 31 else (1 << 32) - value
    return size % (1 << 31) % PARTITIONS

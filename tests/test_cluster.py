"""The three brokers that tests of outages stand on."""

from __future__ import annotations

import socket
import struct

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support import Cluster, Topics, produce, read_committed
from tests.support.cluster import partition_of

GROUP, TRANSACTION = 0, 1


def asked_coordinator(bootstrap: str, kind: int, name: str) -> int:
    """The coordinator's index as a broker itself says: FindCoordinator (key 10, version 1), by hand, as the client does
    not offer it for transactional ids."""
    host, _, port = bootstrap.partition(":")
    key = name.encode()
    request = struct.pack(">hhih", 10, 1, 1, -1) + struct.pack(">h", len(key)) + key + struct.pack(">b", kind)
    with socket.create_connection((host, int(port)), 10) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = answers.read(struct.unpack(">i", answers.read(4))[0])
    _, _, error, told = struct.unpack_from(">iihh", answer)
    assert error == 0
    number: int = struct.unpack_from(">i", answer, 12 + max(told, 0))[0]
    return number - 1


def test_coordinators_are_those_that_the_brokers_name(cluster: Cluster) -> None:
    asked = cluster.nodes[0].bootstrap
    for name in [*(f"flow-{n}/{n % 4}" for n in range(25)), "ü", "𝔽", "a" * 200]:  # half of them hash below 0
        assert cluster.transaction_coordinator(name) == asked_coordinator(asked, TRANSACTION, name), name
        assert cluster.group_coordinator(name) == asked_coordinator(asked, GROUP, name), name


def test_the_client_names_the_same_coordinator_of_a_group(cluster: Cluster) -> None:
    topics = Topics(cluster.bootstrap)
    topic, group = topics("instances"), topics.group()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    told = topics.admin.describe_consumer_groups([group])[group].result(30)
    assert told.coordinator.id == cluster.nodes[cluster.group_coordinator(group)].number
    topics.clear()


def test_a_hash_without_an_absolute_value_counts_as_0() -> None:
    assert partition_of("polygenelubricants") == 0  # Java's smallest number


def test_another_node_leads_after_a_death_and_all_is_whole_after_its_return(cluster: Cluster) -> None:
    topic = Topics(cluster.bootstrap)("instances", partitions=3)
    assert {cluster.leader(topic, partition) for partition in range(3)} == {0, 1, 2}
    produce(cluster.bootstrap, topic, [("k", "before", 0)])
    dead = cluster.leader(topic, 0)
    cluster.nodes[dead].kill()
    assert [node.running() for node in cluster.nodes] == [index != dead for index in range(3)]
    with pytest.raises(TimeoutError, match=f"node {dead + 1} does not run"):
        cluster.wait_until_whole(0.1)
    assert not cluster.replaced(dead)
    cluster.wait_until_replaced(dead)
    assert cluster.leader(topic, 0) != dead
    produce(cluster.bootstrap, topic, [("k", "meanwhile", 0)])

    cluster.nodes[dead].start()
    cluster.wait_until_whole()
    produce(cluster.bootstrap, topic, [("k", "after", 0)])
    found = read_committed(cluster.nodes[dead].bootstrap, topic, [0])[0]
    assert [record.value for record in found] == [b"before", b"meanwhile", b"after"]


def test_a_frozen_node_is_not_asked_and_answers_later(cluster: Cluster) -> None:
    topic = Topics(cluster.bootstrap)("instances")
    leader = cluster.leader(topic, 0)
    cluster.nodes[leader].pause()
    assert cluster.nodes[leader].running()
    assert cluster.leader(topic, 0) == leader  # too short for the others to notice
    with pytest.raises(TimeoutError, match=f"node {leader + 1} does not answer"):
        cluster.wait_until_whole(0.1)
    cluster.nodes[leader].resume()
    cluster.wait_until_whole()

"""What tests share: a real broker, topics of their own, and plain clients that know nothing of Sluiceway."""

from tests.support.broker import Broker, BrokerFailed, BrokerUnavailable
from tests.support.cluster import Cluster
from tests.support.kafka import Record, Topics, are_hidden, produce, read_committed, settle

__all__ = [
    "Broker",
    "BrokerFailed",
    "BrokerUnavailable",
    "Cluster",
    "Record",
    "Topics",
    "are_hidden",
    "produce",
    "read_committed",
    "settle",
]

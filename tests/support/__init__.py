"""What tests share: a real broker, topics of their own, and plain clients that know nothing of Sluiceway."""

from tests.support.broker import Broker, BrokerFailed, BrokerUnavailable
from tests.support.kafka import Record, Topics, produce, read_committed

__all__ = ["Broker", "BrokerFailed", "BrokerUnavailable", "Record", "Topics", "produce", "read_committed"]

"""Where the partitions of an input end now: asked again and again while a flow runs, it also says whether there is
anybody to answer."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from sluiceway.errors import FlowError, ReopenError
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_path
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic

ANSWER_SECONDS = 5.0
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class Ends:
    """Offsets of committed records, or sizes of files."""

    def __init__(self, topic: Topic, config: kafka.Config) -> None:
        self._topic = topic
        self._admin = kafka.new_admin(topic.bootstrap, config) if isinstance(topic, KafkaTopic) else None

    def look(self, partitions: Iterable[int]) -> dict[int, int]:
        """By partition; a `FlowError` if nobody answers."""
        topic = self._topic
        if isinstance(topic, DirectoryTopic):
            try:
                return {partition: partition_path(topic, partition).stat().st_size for partition in partitions}
            except OSError as problem:
                raise FlowError(f"the input {topic} cannot be looked at: {problem.strerror}") from problem
        assert self._admin is not None
        wanted = {TopicPartition(topic.name, partition): LATEST for partition in partitions}
        try:
            if not wanted:  # a process that stands by asks for a sign of life
                self._admin.list_topics(topic.name, timeout=ANSWER_SECONDS)
                return {}
            asked = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_SECONDS
            )
            ends = {place.partition: int(answer.result().offset) for place, answer in asked.items()}
        except KafkaException as problem:
            raise kafka.failed(f"the broker does not tell where topic {topic.name!r} ends", problem) from problem
        if min(ends.values()) < 0:  # which is how the client says that its time was up
            raise ReopenError(
                f"the broker does not tell where topic {topic.name!r} ends: no answer within {ANSWER_SECONDS:g} s"
            )
        return ends

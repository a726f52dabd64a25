"""Which topics a broker has, asked again and again."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException, TopicCollection

from sluiceway.topics import kafka


class TopicWatch:
    """Asked now and then."""

    def __init__(self, bootstrap: str, user: kafka.Config) -> None:
        self._admin = kafka.new_admin(bootstrap, user)

    def look(self, names: Sequence[str]) -> dict[str, tuple[str, int] | None]:
        """Id and number of partitions of each topic; None for one that does not exist."""
        asked = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=kafka.ANSWER_SECONDS)
        found: dict[str, tuple[str, int] | None] = {}
        for name, answer in asked.items():
            try:
                told = answer.result()
                found[name] = str(told.topic_id), len(told.partitions)
            except KafkaException as problem:
                if problem.args[0].code() not in kafka.UNKNOWN:
                    raise kafka.failed(f"the broker will not describe topic {name!r}", problem) from problem
                found[name] = None
        return found

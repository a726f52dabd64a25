"""Whether a lane of which nothing is known is new, or its state was lost: going on without it would be damage."""

from __future__ import annotations

from contextlib import closing

from sluiceway.errors import FlowError
from sluiceway.topics import kafka
from sluiceway.topics.offsets import Offsets
from sluiceway.topics.state_topic import StateTopic, glance
from sluiceway.topics.store import choices


def refuse_emptied(topic: StateTopic, lane: int, low: int) -> None:
    """Compaction removes records, but only deleting them moves a partition's beginning: then states are missing."""
    if low > 0:
        raise FlowError(
            f"{topic} has lost records of partition {lane} (it begins at offset {low}): was it emptied? Restore it"
            f" (`sluiceway restore`); or {choices(topic.flow)}"
        )


def refuse_lost(topic: StateTopic, lane: int, offsets: Offsets | None, *, fenced: bool = False) -> None:
    """A lane without a commit is new, or its state was lost; the flow's group may know.

    The group is asked before the topic is looked at once more: another process may make its first commit just now.
    Unless the lane is `fenced`, its owner's last commit may be decided and not visible yet, though the group was told.
    """
    told = None if offsets is None else offsets.told(lane)
    if told is None or (not fenced and _is_undecided(topic, lane)):
        return
    if glance(topic, lane).commit is None:
        raise FlowError(
            f"{topic} holds no commit of partition {lane}, but the consumer group {topic.flow!r} says that the flow has"
            f" come to offset {told}: was the topic deleted, or is it the store of an earlier release? Restore it"
            f" (`sluiceway restore`); or {choices(topic.flow)}"
        )


def _is_undecided(topic: StateTopic, lane: int) -> bool:
    """Whether the partition holds records of a transaction that readers do not know the end of."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        config = kafka.client_config(
            topic.bootstrap, {"group.id": kafka.READERS, **topic.config}, isolation_level=isolation
        )
        with closing(kafka.new_consumer(config)) as consumer:
            ends.append(kafka.watermarks(consumer, topic.info.name, lane)[1])
    return ends[0] < ends[1]

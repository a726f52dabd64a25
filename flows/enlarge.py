"""Partitions that were added to the input, read too: the state and output topics get as many, before any lane opens."""

from __future__ import annotations

from sluiceway.errors import SettingsError
from sluiceway.flows.settings import Settings
from sluiceway.topics import kafka
from sluiceway.topics.url import KafkaTopic


def enlarge(settings: Settings) -> bool:
    """Give the flow's Kafka topics as many partitions as its input has; whether any was given some."""
    source, state = settings.source, settings.state
    if not isinstance(source, KafkaTopic) or not isinstance(state, KafkaTopic):
        return False
    topics = {"state": state, **{name: t for name, t in settings.outputs.items() if isinstance(t, KafkaTopic)}}
    names = [source.name, *(topic.name for topic in topics.values())]
    found = kafka.describe_topics(source.bootstrap, settings.kafka, names)
    info, held = found[source.name], found[state.name]
    if info is None or held is None or held.partitions >= info.partitions:
        return False
    if held.partitions == 1 and settings.input.stream == "key":
        raise SettingsError(
            f"the input {source} had one partition and has {info.partitions} now: records without a key, which belonged"
            f" to the stream 'default', would belong to others; give the flow another name"
        )
    # the state topic last: its partitions are the lanes that are handed out
    ordered = [*(topic.name for name, topic in topics.items() if name != "state"), state.name]
    smaller = [name for name in ordered if (known := found[name]) is not None and known.partitions < info.partitions]
    for name in smaller:
        kafka.add_partitions(source.bootstrap, settings.kafka, name, info.partitions)
    return True

"""A look at the topics now and then while a flow runs: has the input more partitions, is one another, is one gone?"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from sluiceway.errors import SluicewayError
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.settings import Settings
from sluiceway.topics.directory import partition_count
from sluiceway.topics.store import choices
from sluiceway.topics.topic_watch import TopicWatch
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic
from sluiceway.wording import counted

logger = logging.getLogger("sluiceway.flow")

LOOK_SECONDS = 10.0
CONFIRM_SECONDS = 2.0
"""A broker that has just come back may not know its topics yet: what is seen once is looked at again."""


class Change(NamedTuple):
    """Why the flow cannot go on as it is."""

    sentence: str
    grown: bool
    """Partitions were added, nothing else."""


class TopicsWatch:
    """Looks by a thread of its own, which ends with the process or with `close`."""

    def __init__(self, settings: Settings, around: Surroundings) -> None:
        self._settings = settings
        self._around = around
        self._over = threading.Event()
        self._broker: TopicWatch | None = None
        self.change: Change | None = None
        threading.Thread(target=self._watch, name="topics", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        seen: Change | None = None
        while not self._over.wait(LOOK_SECONDS if seen is None else CONFIRM_SECONDS):
            try:
                before, seen = seen, self._look()
                if seen is not None and seen == before:
                    self.change = seen
                    return
            except SluicewayError as problem:
                logger.debug("the topics could not be looked at: %s", problem)

    def _look(self) -> Change | None:
        topics, around, source = self._settings.all_topics, self._around, self._settings.source
        for read in self._settings.inputs.values():
            if isinstance(read, DirectoryTopic) and partition_count(read) is None:
                return self._gone(f"the input {read}")
        known = {info.name: info.topic_id for info in (*around.outputs.values(), around.state) if info is not None}
        inputs = {read.name: read for read in self._settings.inputs.values() if isinstance(read, KafkaTopic)}
        if isinstance(source, KafkaTopic):
            known[source.name] = around.input_id
        known |= {self._settings.inputs[role].name: id_ for role, id_ in around.other_ids.items() if id_}
        bootstraps = {topic.bootstrap for topic in topics.values() if isinstance(topic, KafkaTopic)}
        for bootstrap in bootstraps:  # there is but one, where there is any
            self._broker = self._broker or TopicWatch(bootstrap, self._settings.kafka)
            for name, found in self._broker.look(list(known)).items():
                what = f"the input {inputs[name]}" if name in inputs else f"topic {name!r}"
                if found is None:
                    return self._gone(what)
                if found[0] != known[name]:
                    return Change(
                        f"{what} has been deleted and made anew: it is not what the flow has worked with;"
                        f" {choices(self._settings.flow.name)}",
                        False,
                    )
                if name in inputs and found[1] != around.lanes:
                    return self._grown(inputs[name], found[1])
        return None

    def _gone(self, what: str) -> Change:
        return Change(f"{what} has been deleted; {choices(self._settings.flow.name)}", False)

    def _grown(self, source: Topic, count: int) -> Change:
        return Change(
            f"the input {source} has {counted(count, 'partition')} now instead of"
            f" {self._around.lanes}: keys have"
            f" moved, and the streams' models would be split; all that was read is committed. Give the flow another"
            f" name, or set input.on_new_partitions = \"read\" if streams are named by their partition or no key has"
            f" moved",
            count > self._around.lanes,
        )

"""A look at the input now and then while a flow runs: has it more partitions, is it another topic, is it gone?"""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from sluiceway.errors import SluicewayError
from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.settings import Settings
from sluiceway.topics import kafka
from sluiceway.topics.directory import partition_count
from sluiceway.topics.store import choices
from sluiceway.topics.url import DirectoryTopic

logger = logging.getLogger("sluiceway.flow")

LOOK_SECONDS = 10.0


class Change(NamedTuple):
    """Why the flow cannot go on as it is."""

    sentence: str
    grown: bool
    """Partitions were added, nothing else."""


class InputWatch:
    """Looks by a thread of its own, which ends with the process or with `close`."""

    def __init__(self, settings: Settings, around: Surroundings) -> None:
        self._settings = settings
        self._around = around
        self._over = threading.Event()
        self.change: Change | None = None
        threading.Thread(target=self._watch, name="input", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while self.change is None and not self._over.wait(LOOK_SECONDS):
            try:
                self.change = self._look()
            except SluicewayError as problem:
                logger.debug("the input could not be looked at: %s", problem)

    def _look(self) -> Change | None:
        topic, flow = self._settings.source, self._settings.flow.name
        if isinstance(topic, DirectoryTopic):
            count, identity = partition_count(topic), self._around.input_id
        else:
            info = kafka.describe_topics(topic.bootstrap, self._settings.kafka, [topic.name])[topic.name]
            count, identity = (None, "") if info is None else (info.partitions, info.topic_id)
        if count is None:
            return Change(f"the input {topic} has been deleted: create it again under another flow name", False)
        if identity != self._around.input_id:
            return Change(
                f"the input {topic} has been deleted and made anew: what the flow has learnt is of another topic;"
                f" {choices(flow)}",
                False,
            )
        if count != self._around.lanes:
            return Change(
                f"the input {topic} has {count} partitions now instead of {self._around.lanes}: keys have moved, and"
                f" the streams' models would be split; all that was read is committed. Give the flow another name, or"
                f" set input.on_new_partitions = \"read\" if streams are named by their partition or no key has moved",
                count > self._around.lanes,
            )
        return None

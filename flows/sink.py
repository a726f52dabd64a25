"""The sink of a flow: hands each lane's output to the thread that writes and commits it."""

from __future__ import annotations

from bytewax.outputs import DynamicSink, StatelessSinkPartition

from sluiceway.flows.lane_run import Item


class DeliveringPart(StatelessSinkPartition[Item | None]):
    def write_batch(self, items: list[Item | None]) -> None:
        for item in items:
            if item is not None and item.attempt.live:
                item.attempt.deliver(*item.content)


class LaneSink(DynamicSink[Item | None]):
    """Output and, at a barrier, changed states: everything a commit needs comes together here."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> DeliveringPart:
        return DeliveringPart()

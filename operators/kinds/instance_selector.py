"""Instance selectors: instances in, snapshots by relevance; nothing is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluiceway.operators.kinds.kind import Kind, Plan, waiting
from sluiceway.operators.stages.selector_stream import SelectorStreamConfig
from sluiceway.operators.stages.stored_model import StoredModel, model_of
from sluiceway.schemas.state import StreamState


class InstanceSelectors(Kind):
    """An object for each stream."""

    name = "instance-selector"
    does = "learns from instances, predicts nothing"

    def refuse_unfit(self, plan: Plan) -> None:
        super().refuse_unfit(plan)
        self._refuse_classes_as_numbers(plan)

    def streams(self, plan: Plan, max_snapshot_bytes: int | None = None) -> SelectorStreamConfig:
        return SelectorStreamConfig(
            flow=plan.flow,
            operator=plan.operator,
            emit=plan.emit,
            max_snapshot_bytes=max_snapshot_bytes,
            new_selector=plan.new,
            selector_from_state=plan.cls.from_state,
            scale=plan.scale,
            max_pending=plan.max_pending,
        )

    def stored_model(self, cls: type[Any], belongs_to: Mapping[str, Any], state: StreamState) -> StoredModel:
        found = model_of(cls.from_state(state.head["model"]), state.head["seen"])
        return found._replace(counts={"pending": waiting(state)})


INSTANCE_SELECTOR = InstanceSelectors()

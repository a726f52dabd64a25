"""Column selectors: a target and whole columns in; verdicts, and snapshots by relevance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from sluiceway.errors import SettingsError
from sluiceway.operators.kinds.kind import AnyDecoder, Kind, Plan, Reads
from sluiceway.operators.kinds.windowed import WINDOWED
from sluiceway.operators.stages.column_stream import ColumnStreamConfig, selector_state
from sluiceway.operators.stages.stored_model import StoredModel, model_of
from sluiceway.schemas.decode_columns import ColumnDecoder
from sluiceway.schemas.refusal import NamedBy
from sluiceway.schemas.state import StreamState


class ColumnSelectors(Kind):
    """An object for each stream."""

    name = "column-selector"
    does = "learns from whole feature columns"
    reads = "features"
    obeys = "columns"
    reading = ': first a target `{"target": [1, -1, ...]}`, then columns `{"name": ..., "values": [...]}`'
    writes: ClassVar[Mapping[str, str]] = {"verdicts": "what became of each column"}

    def readings(self) -> Iterable[tuple[Reads, Mapping[str, Any]]]:
        return [(self.reads, {}), ("instances", {"window": {"size": 4}})]

    def in_flow(self, topics: frozenset[str]) -> Kind:
        """Instances have to be made into columns first."""
        return self if "features" in topics else WINDOWED

    def refuse_unfit(self, plan: Plan) -> None:
        if plan.window is not None:
            raise SettingsError("window is for a column selector that reads topics.instances")
        self._refuse_unfit_topics(plan)

    def decoder(self, plan: Plan, lanes: int, named_by: NamedBy) -> AnyDecoder:
        return ColumnDecoder(lanes, named_by, plan.target_type)

    def streams(self, plan: Plan, max_snapshot_bytes: int | None = None) -> ColumnStreamConfig:
        return ColumnStreamConfig(
            flow=plan.flow,
            operator=plan.operator,
            emit=plan.emit,
            max_snapshot_bytes=max_snapshot_bytes,
            new_selector=plan.new,
            selector_from_state=plan.cls.from_state,
            verdicts="verdicts" in plan.topics,
        )

    def stored_model(self, cls: type[Any], belongs_to: Mapping[str, Any], state: StreamState) -> StoredModel:
        return model_of(cls.from_state(selector_state(state)), state.head["seen"])


COLUMN_SELECTOR = ColumnSelectors()

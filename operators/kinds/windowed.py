"""Column selectors on instances: every window of them is turned into columns and judged by a selector of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.operators.kinds.kind import Kind, Plan, waiting
from sluiceway.operators.stages.stored_model import StoredModel
from sluiceway.operators.stages.window_stream import WindowStreamConfig
from sluiceway.schemas.state import StreamState


class Windowed(Kind):
    """An object for each stream."""

    name = "column-selector with `[window]`"
    does = "learns from windows of instances"
    reading = ", every `window.size` of them turned into columns"

    def refuse_unfit(self, plan: Plan) -> None:
        if plan.window is None:
            raise SettingsError(
                f"operator {plan.operator!r} learns from columns: give topics.features, or window.size to make them of"
                f" instances"
            )
        if plan.window.slide > plan.window.size:
            raise SettingsError(f"window.slide must be at most window.size, {plan.window.size}")
        self._refuse_unfit_topics(plan)
        self._refuse_classes_as_numbers(plan)
        unfit = [name for name in ("every", "on_change", "min_gap", "final") if name in plan.emit_given]
        if unfit:
            raise SettingsError(
                f"emit.{unfit[0]} does not go with [window]: each full window gives one snapshot, no more and no fewer;"
                f" window.slide says how often"
            )

    def streams(self, plan: Plan, max_snapshot_bytes: int | None = None) -> WindowStreamConfig:
        assert plan.window is not None
        return WindowStreamConfig(
            flow=plan.flow,
            operator=plan.operator,
            emit=plan.emit,
            max_snapshot_bytes=max_snapshot_bytes,
            new_selector=plan.new,
            size=plan.window.size,
            slide=plan.window.slide,
            max_pending=plan.max_pending,
        )

    def stored_model(self, cls: type[Any], belongs_to: Mapping[str, Any], state: StreamState) -> StoredModel:
        """Its selectors live for one window; what they selected lives on, without the weights."""
        head = state.head
        selected = [(feature, None, since) for feature, since in head["since"].items()]
        version = head["snapshots"]["version"]
        return StoredModel(version, head["seen"], {}, selected, {}, {"pending": waiting(state)})


WINDOWED = Windowed()

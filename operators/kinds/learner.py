"""Learners: instances in; predictions, and snapshots by weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from sluiceway.errors import SettingsError
from sluiceway.operators.kinds.kind import Kind, Plan, waiting
from sluiceway.operators.stages import bank_lane
from sluiceway.operators.stages.bank_lane import LearnerConfig
from sluiceway.operators.stages.stored_model import StoredModel, banked_model
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.state import StreamState


class Learners(Kind):
    """All streams of a lane in one bank."""

    name = "learner"
    does = "learns from instances and predicts"
    writes: ClassVar[Mapping[str, str]] = {"predictions": "made before learning from the instance"}
    scale = "l2"
    needs = "values of one size, since features are compared by weight: see [scaling](../input.md#scaling)"
    follows_scale = True

    def refuse_unfit(self, plan: Plan) -> None:
        super().refuse_unfit(plan)
        if plan.many_classes and plan.new().wanted_features() is not None:
            raise SettingsError(
                f"operator {plan.operator!r} asks for a few features of each instance, and with {plan.many_classes}"
                f" classes each class would ask for others: it takes two classes"
            )
        if plan.scores and not plan.many_classes:
            raise SettingsError(
                "emit.scores is for more than two classes: of two, the score that every prediction has tells both"
            )

    def tell(self, lane: Any, polls: Callable[..., None], streams: Callable[..., None]) -> None:
        lane.observe = polls

    def share(self, lane: Any, rows: Any) -> None:
        lane.shared = rows

    def streams(self, plan: Plan, max_snapshot_bytes: int | None = None) -> LearnerConfig:
        return LearnerConfig(
            flow=plan.flow,
            operator=plan.operator,
            emit=plan.emit,
            max_snapshot_bytes=max_snapshot_bytes,
            new_learner=plan.new,
            scale=plan.scale,
            intercept=plan.intercept,
            max_scaled=plan.max_scaled,
            max_pending=plan.max_pending,
            predictions="predictions" in plan.topics,
            classes=plan.classes,
            scores=plan.scores,
        )

    def is_compiled(self, plan: Plan) -> bool:
        return bank_lane.is_compiled(self.streams(plan))

    def warm_up(self, plan: Plan) -> None:
        bank_lane.warm_up(self.streams(plan), Decoder(1).decode)

    def stored_model(self, cls: type[Any], belongs_to: Mapping[str, Any], state: StreamState) -> StoredModel:
        classes = belongs_to["classes"]
        config = LearnerConfig(
            flow="",
            operator=belongs_to["operator"],
            new_learner=lambda: cls(**belongs_to["params"]),
            classes=None if classes is None else tuple(classes),
        )
        found = banked_model(config.bank(), state.head["model"], config.classes or ())
        found = found._replace(params=config.new_learner().params)
        return found._replace(counts={**found.counts, "pending": waiting(state)})


LEARNER = Learners()

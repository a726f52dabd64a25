"""Joint operators: instances in; decisions that look at as few features as each needs, and snapshots by use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from sluiceway.errors import SettingsError
from sluiceway.operators.joint.sequential import SequentialClassifier
from sluiceway.operators.kinds.kind import AnyDecoder, Kind, Plan, waiting
from sluiceway.operators.stages.joint_lane import JointLaneConfig
from sluiceway.operators.stages.joint_stream import balanced, blocks_of, confusion_of, ranked
from sluiceway.operators.stages.stored_model import StoredModel, model_of
from sluiceway.schemas.refusal import NamedBy
from sluiceway.schemas.state import StreamState


class Joints(Kind):
    """All streams of a lane in one compiled call a poll."""

    name = "joint"
    does = "learns from instances, and decides each by as few features as it needs"
    reading = ", in which a feature may be null: not known"
    writes: ClassVar[Mapping[str, str]] = {
        "predictions": "made before learning from the instance, with what was looked at and what it cost",
        "requests": "which features the next instances should carry",
    }
    needs = "no scaling: values are cut into bins"
    obeys = "decisions"

    def refuse_unfit(self, plan: Plan) -> None:
        if not issubclass(plan.cls, SequentialClassifier):
            raise SettingsError(
                f"operator {plan.operator!r} runs in no flow: its class is not made of SequentialClassifier"
            )
        super().refuse_unfit(plan)
        params = plan.new().params
        if plan.scale != "none":
            raise SettingsError(f"operator {plan.operator!r} cuts values into bins: leave input.scale out")
        if plan.scores:
            raise SettingsError("emit.scores is for learners: predictions of joint operators always have a posterior")
        table, classes = params.get("misclassification"), len(plan.classes or (-1, 1))
        if table is not None and len(table) != classes:
            raise SettingsError(f"misclassification is a table of {len(table)} classes, and there are {classes}")
        if "requests" in plan.topics and params["absent"] != "missing":
            raise SettingsError(
                f'topics.requests lets instances come without some features, which operator {plan.operator!r} as it is'
                f' set would take for zeros: set absent = "missing"'
            )

    def tell(self, lane: Any, polls: Callable[..., None], streams: Callable[..., None]) -> None:
        lane.observe = streams

    def decoder(self, plan: Plan, lanes: int, named_by: NamedBy) -> AnyDecoder:
        return self._instances(
            plan, lanes, named_by, keep_zeros=plan.new().params["absent"] == "missing", keep_nulls=True
        )

    def streams(self, plan: Plan, max_snapshot_bytes: int | None = None) -> JointLaneConfig:
        return JointLaneConfig(
            flow=plan.flow,
            operator=plan.operator,
            emit=plan.emit,
            max_snapshot_bytes=max_snapshot_bytes,
            new_operator=plan.new,
            operator_from_state=plan.cls.from_state,
            max_pending=plan.max_pending,
            predictions="predictions" in plan.topics,
            requests="requests" in plan.topics,
            classes=plan.classes or (-1, 1),
        )

    def stored_model(self, cls: type[Any], belongs_to: Mapping[str, Any], state: StreamState) -> StoredModel:
        operator = cls.from_state(state.head["model"], blocks_of(state).values())
        found = model_of(operator, operator.seen)
        confusion = confusion_of(state.head, len(belongs_to["classes"] or (-1, 1)))
        wrong = int(confusion.sum() - confusion.trace())
        return found._replace(
            selected=ranked(operator),
            metrics={"balanced_accuracy": balanced(confusion), **found.metrics},
            counts={"mistakes": wrong, "pending": waiting(state)},
            confusion=confusion,
        )


JOINT = Joints()

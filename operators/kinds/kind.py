"""What a kind of operators is to everything around it: the settings, the flow, `inspect`, the pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from sluiceway.errors import SettingsError
from sluiceway.operators.stages import scale as scaling
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.scale import Scale
from sluiceway.operators.stages.stored_model import StoredModel
from sluiceway.operators.stages.streams import Streams
from sluiceway.schemas.batch import MAX_FEATURES_PER_INSTANCE, Label
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.decode_columns import TargetType
from sluiceway.schemas.lane import LaneBatch, RawPoll
from sluiceway.schemas.record_map import RecordMap
from sluiceway.schemas.refusal import NamedBy
from sluiceway.schemas.state import StreamState

Reads = Literal["instances", "features"]
Laws = Literal["instances", "columns", "decisions"]

OPTIONAL: Mapping[str, str] = MappingProxyType(
    {
        "predictions": "operator {operator!r} predicts nothing: leave topics.predictions out",
        "verdicts": "topics.verdicts is for flows that read topics.features",
        "requests": "operator {operator!r} writes no requests (which features a partial learner wants next stands in"
        " its snapshots, as 'wanted'): leave topics.requests out",
    }
)
"""The topics that not every kind writes, and what is said where one is given to a kind that does not."""


class Window(NamedTuple):
    """Labelled instances that are turned into columns together."""

    size: int
    slide: int
    """From one window's start to the next one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A flow's settings, as far as its kind has to know them."""

    flow: str
    operator: str
    cls: type[Any]
    params: Mapping[str, Any]
    topics: frozenset[str]
    """The topics that are given, by the names that settings have for them."""
    emit: Emit = field(default_factory=Emit)
    emit_given: frozenset[str] = frozenset()
    """What of `[emit]` is not left at its default."""
    window: Window | None = None
    scale: Scale = "none"
    intercept: bool = False
    max_scaled: int = 100_000
    classes: tuple[Label, ...] | None = None
    scores: bool = False
    """Whether predictions have the score of every class."""
    target_type: TargetType = "class"
    feature_names: tuple[str, ...] | None = None
    max_features_per_instance: int = MAX_FEATURES_PER_INSTANCE
    max_pending: int = 10_000
    record_map: RecordMap | None = None
    as_json: Callable[[], Callable[[bytes], bytes]] | None = None
    """Makes what turns values of other formats into JSON, for each decoder anew."""

    @property
    def many_classes(self) -> int:
        """How many classes there are, if more than two."""
        return len(self.classes) if self.classes is not None and len(self.classes) > 2 else 0

    def new(self) -> Any:
        """The operator with its parameters."""
        return self.cls(**self.params)


class AnyDecoder(Protocol):
    """Decodes the polls of one topic, one after the other."""

    def decode(self, poll: RawPoll) -> LaneBatch: ...


class Kind(ABC):
    """One kind of operators in a flow. Most read instances; what holds for those is here."""

    name: ClassVar[str]
    does: ClassVar[str]
    """What an operator of the kind does, after "It"."""
    reads: ClassVar[Reads] = "instances"
    reading: ClassVar[str] = ""
    """More about what it reads, for the pages."""
    writes: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Topics besides snapshots and dead letters, and what they hold."""
    scale: ClassVar[Scale] = "none"
    """How rows are scaled unless the settings say otherwise."""
    needs: ClassVar[str] = "no scaling: what is measured does not depend on the size of values"
    """Of the input, for the pages."""
    obeys: ClassVar[Laws] = "instances"
    """The laws its operators are tried on."""
    follows_scale: ClassVar[bool] = False
    """Whether rows can be scaled by what their stream has shown so far."""

    def __str__(self) -> str:
        return self.name

    def in_flow(self, topics: frozenset[str]) -> Kind:
        """What drives an operator of this kind in a flow with these topics."""
        return self

    def refuse_unfit(self, plan: Plan) -> None:
        """`SettingsError` for settings that are not for this kind. The operator's own parameters are valid."""
        if self.reads not in plan.topics:
            raise SettingsError(f"operator {plan.operator!r} learns from instances, not from topics.features")
        if plan.window is not None:
            raise SettingsError("window is for a column selector that reads topics.instances")
        self._refuse_unfit_topics(plan)

    def _refuse_unfit_topics(self, plan: Plan) -> None:
        if plan.scores and "predictions" not in self.writes:
            raise SettingsError(f"operator {plan.operator!r} predicts nothing: leave emit.scores out")
        for topic, sentence in OPTIONAL.items():
            if topic in plan.topics and topic not in self.writes:
                raise SettingsError(sentence.format(operator=plan.operator))

    def _refuse_classes_as_numbers(self, plan: Plan) -> None:
        if plan.many_classes and plan.new().needs_numbers:
            raise SettingsError(
                f"operator {plan.operator!r} as it is set measures numbers, and {plan.many_classes} classes have no"
                f" order: choose a measure or test for discrete data"
            )

    def decoder(self, plan: Plan, lanes: int, named_by: NamedBy) -> AnyDecoder:
        """Reads the records of the flow's input."""
        return self._instances(plan, lanes, named_by, keep_zeros=plan.scale == "standard")

    def _instances(
        self, plan: Plan, lanes: int, named_by: NamedBy, *, keep_zeros: bool, keep_nulls: bool = False
    ) -> Decoder:
        return Decoder(
            lanes,
            stream=named_by,
            classes=plan.classes,
            feature_names=plan.feature_names,
            max_features_per_instance=plan.max_features_per_instance,
            record_map=plan.record_map,
            keep_zeros=keep_zeros,
            keep_nulls=keep_nulls,
            as_json=None if plan.as_json is None else plan.as_json(),
        )

    def readings(self) -> Iterable[tuple[Reads, Mapping[str, Any]]]:
        """What flows of its operators can read, and the settings that this needs."""
        return [(self.reads, {})]

    def tell(self, lane: Any, polls: Callable[..., None], streams: Callable[..., None]) -> None:  # noqa: B027 (as below)
        """Have a lane tell what its predictions are judged by: `polls` of its polls, or `streams` of each stream."""

    def share(self, lane: Any, rows: Any) -> None:  # noqa: B027 (most kinds have nothing to share)
        """Have a lane take what others that are fed the same polls have worked out (`stages.shared_rows`)."""

    @abstractmethod
    def streams(self, plan: Plan, max_snapshot_bytes: int | None = None) -> Streams:
        """What makes the flow's lanes. Snapshots above the limit are cut to fewer features."""

    def is_compiled(self, plan: Plan) -> bool:
        """Whether `warm_up` will be quick."""
        return bool(plan.cls.is_compiled())

    def warm_up(self, plan: Plan) -> None:
        """Load or compile the kernels, so that the first record does not wait for them."""
        plan.cls.compile()
        scaling.warm_up()

    @abstractmethod
    def stored_model(self, cls: type[Any], belongs_to: Mapping[str, Any], state: StreamState) -> StoredModel:
        """A stream's state as a store holds it, to be looked at; damaged content may lead to any exception.

        `belongs_to`: what the model depends on, as the store has it.
        """


def waiting(state: StreamState) -> int:
    """Instances that wait for a label: each is a piece that is a list; what else is kept in pieces is not."""
    return sum(isinstance(piece, list) for piece in state.pieces.values())

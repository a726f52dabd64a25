"""Every record that crosses a topic, as a typed model; `sluiceway schemas` writes their JSON Schemas.

What comes in (`Instance`, `LaterLabel`) may carry members we do not know: producers add fields, and we ignore them.
What goes out (`Snapshot`, `Prediction`, `DeadLetterLine`) has exactly the members listed. But who reads snapshots may
be older than who writes them: members added later are ignored; what changes the meaning of others changes `schema`.

These models are for the edges: clients, tools, tests. The hot path reads with `sluiceway.schemas.decode` and writes
with `sluiceway.schemas.encode`, which know nothing of pydantic and accept and give exactly the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from sluiceway.schemas.batch import MAX_FEATURES_PER_INSTANCE, Label
from sluiceway.schemas.decode_columns import MAX_ROWS, TargetType

Text = Annotated[str, Field(strict=True, min_length=1)]
Count = Annotated[int, Field(strict=True, ge=0)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Rows = Annotated[int, Field(strict=True, ge=0, le=MAX_ROWS)]
Milliseconds = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
AnyLabel = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | Annotated[str, Field(strict=True)]
Id = Annotated[Text | Annotated[int, Field(strict=True)], AfterValidator(str)]


class Rules(NamedTuple):
    """The settings of the flow that decide whether an input record is acceptable: the validation's context."""

    classes: Sequence[Label] | None = None
    feature_names: Sequence[str] | None = None
    max_features_per_instance: int = MAX_FEATURES_PER_INSTANCE
    target_type: TargetType = "class"
    nulls: bool = False
    """Whether a feature may be null."""


class _Input(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @field_validator("y", check_fields=False)
    @classmethod
    def _accepted_label(cls, y: Label | None, info: ValidationInfo) -> Label | None:
        classes = _rules(info).classes
        accepted = (True, False, 1, 0, -1) if classes is None else classes
        if y is not None and not any(type(y) is type(label) and y == label for label in accepted):
            raise ValueError(f"the label must be one of {', '.join(map(repr, accepted))}")
        return y


class Instance(_Input):
    """An instance to score and, with a label, to learn from. Topic `instances`, key: the stream."""

    id: Id | None = Field(default=None, description="Needed if the label comes later; repeats are legal.")
    ts: Milliseconds | None = Field(default=None, description="When it happened, milliseconds since 1970.")
    x: dict[Text, Finite | None] | list[Finite | None] = Field(
        description="Features by name; or in the order of `feature_names`, else of the names 0, 1, ... Absent = 0."
        " null = not known: for joint operators."
    )
    y: AnyLabel | None = Field(
        default=None, description="Binary: true/false, 1/-1, 1/0; or one of the flow's classes. Absent = unlabelled."
    )

    @field_validator("x")
    @classmethod
    def _acceptable(cls, x: dict[str, float | None] | list[float | None], info: ValidationInfo) -> object:
        rules = _rules(info)
        if not rules.nulls and None in (x.values() if isinstance(x, dict) else x):
            raise ValueError("a feature is null")
        if len(x) > rules.max_features_per_instance:
            raise ValueError(f"more than {rules.max_features_per_instance} features")
        if isinstance(x, list) and rules.feature_names is not None and len(x) > len(rules.feature_names):
            raise ValueError(f"{len(x)} values for {len(rules.feature_names)} feature_names")
        return x

    def features(self, feature_names: Sequence[str] | None = None) -> dict[str, float]:
        """The features by name, whichever way they were sent; zeros and nulls are not here.

        >>> Instance(x=[0.5, 0.0, 2.0]).features()
        {'0': 0.5, '2': 2.0}
        """
        if isinstance(self.x, dict):
            named = self.x
        elif feature_names is None:
            named = {str(place): value for place, value in enumerate(self.x)}
        else:
            named = dict(zip(feature_names, self.x, strict=False))
        return {name: value for name, value in named.items() if value}


class LaterLabel(_Input):
    """The label of an earlier unlabelled instance of the same stream. Topic `instances`, key: the stream."""

    id: Id
    ts: Milliseconds | None = None
    y: AnyLabel


class InstanceLine(Instance):
    """An instance in a directory topic, where the line itself names the stream."""

    stream: Text | None = None


class LaterLabelLine(LaterLabel):
    """A later label in a directory topic, where the line itself names the stream."""

    stream: Text | None = None


class Target(_Input):
    """What the columns that follow are judged against; a new one begins anew. Topic `features`, key: the stream."""

    target: list[AnyLabel | Finite] = Field(description="A class a row; numbers with `target_type = \"number\"`.")
    ts: Milliseconds | None = None

    @field_validator("target")
    @classmethod
    def _of_the_type(cls, target: list[Label | float], info: ValidationInfo) -> list[Label | float]:
        numbers = _rules(info).target_type == "number"
        fit = (int, float) if numbers else (str, int, bool)
        if any(type(one) not in fit for one in target):
            raise ValueError(f"the target must hold {'numbers' if numbers else 'strings, integers or booleans'}")
        return target


class Column(_Input):
    """One feature's value in every row; with `at`, only the rows named are not 0. Topic `features`, key: the stream."""

    name: Text
    values: list[Finite]
    size: Rows | None = Field(default=None, description="The number of rows; needed with `at`.")
    at: list[Count] | None = Field(default=None, description="The rows of `values`.")
    ts: Milliseconds | None = None

    @model_validator(mode="after")
    def _rows_that_are_there(self) -> Self:
        if self.at is not None:
            if self.size is None or len(self.at) != len(self.values):
                raise ValueError("with `at`, `size` is needed and as many rows as values")
            if len(set(self.at)) < len(self.at) or any(row >= self.size for row in self.at):
                raise ValueError(f"`at` must name different rows below {self.size}")
        return self


class TargetLine(Target):
    """A target in a directory topic, where the line itself names the stream."""

    stream: Text | None = None


class ColumnLine(Column):
    """A column in a directory topic, where the line itself names the stream."""

    stream: Text | None = None


def read_column(record: object, rules: Rules | None = None, *, line: bool = False) -> Target | Column:
    """A parsed record of a `features` topic, or pydantic's ValidationError.

    >>> read_column({"name": "gene:TP53", "size": 800, "at": [3, 17], "values": [1, 1]}).values
    [1.0, 1.0]
    """
    if isinstance(record, Mapping) and record.get("target") is not None:
        return (TargetLine if line else Target).model_validate(record, context=rules)
    return (ColumnLine if line else Column).model_validate(record, context=rules)


def read_instance(record: object, rules: Rules | None = None, *, line: bool = False) -> Instance | LaterLabel:
    """A parsed record of an `instances` topic, or pydantic's ValidationError.

    >>> read_instance({"id": "e-1842", "y": 1})
    LaterLabel(id='e-1842', ts=None, y=1)
    """
    has_x = not isinstance(record, Mapping) or record.get("x") is not None or record.get("y") is None
    if has_x:
        return (InstanceLine if line else Instance).model_validate(record, context=rules)
    return (LaterLabelLine if line else LaterLabel).model_validate(record, context=rules)


def _rules(info: ValidationInfo) -> Rules:
    return info.context if isinstance(info.context, Rules) else Rules()


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, serialize_by_alias=True)


class _ReadByClients(_Output):
    model_config = ConfigDict(extra="ignore")


class SelectedFeature(_ReadByClients):
    feature: Text
    weight: Finite
    since: Count = Field(description="The version at which the feature last entered; of dense learners: got a weight.")
    class_: AnyLabel | None = Field(
        default=None, alias="class", description="With more than two classes: that of the feature's largest |weight|."
    )
    rank: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        default=None, description="Joint operators: its place in the order in which features are looked at now, from 1."
    )


class Position(_ReadByClients):
    """A place in a partition."""

    partition: Count
    offset: Count


class Snapshot(_ReadByClients):
    """Which features matter now. Topic `selections`, key: flow/stream."""

    schema_: Literal[1] = Field(alias="schema")
    flow: Text
    stream: Text
    operator: Text
    version: Count = Field(description="Labelled instances (or columns) learnt. At most one snapshot a version.")
    seen: Count = Field(description="All instances, unlabelled included.")
    generation: Count
    ts: Milliseconds = Field(description="The newest `ts` of the input; 0 if none.")
    reason: Literal["interval", "change", "final"]
    n_selected: Count = Field(description="How many are selected, also beyond the list's cut.")
    selected: tuple[SelectedFeature, ...] = Field(description="By |weight|, descending.")
    entered: tuple[Text, ...] = Field(description="Against the stream's previous snapshot.")
    left: tuple[Text, ...]
    wanted: tuple[Text, ...] | None = Field(
        default=None,
        description="Learners of partial input: the features to send up to the next labelled instance, this included.",
    )
    redundant: dict[Text, tuple[Text, ...]] | None = Field(
        default=None, description="Column selectors: of each feature that has left, those that made it redundant."
    )
    metrics: dict[str, int | float | None] = Field(description="null where there is no finite number.")
    params: dict[str, Any]
    source: dict[str, Position] = Field(description="The next offset to read: replay up to there gives this again.")


class Prediction(_Output):
    """What the model said of an instance before it learnt from it. Topic `predictions`, key: the stream."""

    flow: Text
    stream: Text
    id: str | None
    seq: Count = Field(description="Counted per stream: the prediction's identity.")
    at: Position = Field(description="Where the instance lies in the input.")
    score: Finite | None = Field(
        description="null where the score exceeds a float64. Joint operators: the chance of the label."
    )
    label: AnyLabel | None = Field(description="null where a joint operator has not yet learnt enough to decide.")
    scores: dict[str, Finite | None] | None = Field(
        default=None, description="With more than two classes, if wanted: all by name; `score` is the largest."
    )
    features_used: Count | None = Field(
        default=None, description="Joint operators: how many features were looked at, the first ones of their order."
    )
    cost: Finite | None = Field(default=None, description="Joint operators: what it cost to look at them.")
    posterior: dict[str, Finite] | None = Field(
        default=None, description="Joint operators: the chance of each class met so far, by name."
    )


class Verdict(_Output):
    """What became of a column, and of others because of it. Topic `verdicts`, key: the stream."""

    flow: Text
    stream: Text
    feature: Text
    version: Count = Field(description="Columns learnt, this one included.")
    generation: Count = Field(description="How many targets came before the present one.")
    at: Position = Field(description="Where the column lies in the input.")
    kept: bool
    reason: Text
    by: tuple[Text, ...] = Field(description="The features that made the column itself redundant.")
    removed: dict[Text, tuple[Text, ...]] = Field(description="Those removed because of it, and by which.")
    returned: tuple[Text, ...] = Field(description="Those that came back because of it.")


class Request(_ReadByClients):
    """Which features the next instances of a stream should carry. Topic `requests`, key: the stream.

    It holds until the stream's next one; before the first, all features are wanted.
    """

    flow: Text
    stream: Text
    version: Count = Field(description="Labelled instances learnt.")
    seq: Count = Field(description="The next instance's: the first that is decided as the request says.")
    at: Position = Field(description="The input record after which that is known.")
    features: tuple[Text, ...] = Field(description="In the order in which they are looked at.")
    explore: Annotated[float, Field(strict=True, ge=0, lt=1)] = Field(
        description="The share of instances that should carry all features instead, whichever they are."
    )


class AppliedSelection(_Output):
    """Whose selection an instance got, and where the instance lies."""

    flow: Text
    version: Count | None = Field(description="Of the snapshot applied; null before the stream's first.")
    partition: Count
    offset: Count


class Applied(BaseModel):
    """An instance with only its selected features, its other members kept. Topic `applied`, key: the stream.

    Later labels stand between them as they came.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    id: Id | None = None
    ts: Milliseconds | None = None
    x: dict[Text, Finite] = Field(description="The selected features that the instance has.")
    y: AnyLabel | None = None
    stream: Text
    selection: AppliedSelection


class Reason(_Output):
    """Why a record could not be used, and where it lies."""

    class_: Text = Field(alias="class")
    message: str
    stage: Text
    topic: Text
    partition: Count
    offset: Count


class DeadLetterLine(_Output):
    """A record that could not be used, in a directory topic. On Kafka the reason is in the headers instead."""

    error: Reason
    key_base64: str | None
    value_base64: str | None
    content_type: Text | None = Field(default=None, description="Given if the value is not JSON.")

    @model_serializer(mode="wrap")
    def _as_written(self, members: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = members(self)
        if self.content_type is None:
            del written["content_type"]
        return written


JSON_SCHEMAS: Mapping[str, type[BaseModel]] = {
    "instance": Instance,
    "later-label": LaterLabel,
    "instance-line": InstanceLine,
    "later-label-line": LaterLabelLine,
    "target": Target,
    "column": Column,
    "target-line": TargetLine,
    "column-line": ColumnLine,
    "snapshot": Snapshot,
    "prediction": Prediction,
    "verdict": Verdict,
    "request": Request,
    "applied": Applied,
    "dead-letter-line": DeadLetterLine,
}
"""Name of the file in schemas/json/ -> model."""

JSON_FOLDER = Path(__file__).parent / "json"


def json_schema(model: type[BaseModel]) -> str:
    """The model's JSON Schema as the text of its file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


def write_json_schemas(folder: Path = JSON_FOLDER) -> None:
    for name, model in JSON_SCHEMAS.items():
        (folder / f"{name}.json").write_text(json_schema(model))

"""The flow's TOML file: read, filled in from the environment, validated; every mistake is one sentence."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.topics.positions import parse_position
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic, parse_topic

MAX_NAME = 200
APPLY = "-apply"
"""What a flow's name has after it when it is applied, which is a flow of its own."""
RESERVED = (".state", ".members", APPLY)
"""Ends of names that the flow's own topic, group and applying have."""


class Section(BaseModel):
    # what stands under a field is its description in the reference
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, strict=True, use_attribute_docstrings=True
    )


def _text(position: object) -> object:
    return str(position) if isinstance(position, int) and not isinstance(position, bool) else position


PositionText = Annotated[str, BeforeValidator(_text)]


class FlowSection(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=MAX_NAME)]
    """Names the snapshots' flow, its state, its consumer groups and its transactions: two flows never share it."""


class TopicsSection(Section):
    instances: str | None = None
    """The input: instances."""
    features: str | None = None
    """The input of a column selector: whole columns, instead of instances."""
    selections: str
    """Where snapshots go."""
    predictions: str | None = None
    """Where predictions go; none are made without it."""
    verdicts: str | None = None
    """Where it goes what became of each column; nothing is said without it."""
    dead_letters: str
    """Where records go that cannot be used."""
    applied: str | None = None
    """Where `sluiceway apply` writes; `sluiceway run` does not use it."""
    state: str | None = None
    """Where the flow's state lies; by default `<flow>.state` beside Kafka outputs, `<selections>.state` beside
    directories."""


class InputSection(Section):
    start: PositionText = "beginning"
    """Where to begin when there is no checkpoint."""
    stop: PositionText | None = None
    """Where to end, as of the start of the run; without it the flow runs until it is stopped."""
    stream: Literal["key", "partition"] = "key"
    """What names a record's stream: the message key (in directories the member `stream`), or its partition."""
    scale: Literal["none", "l2"] | None = None
    """Bring each instance to length 1 (`l2`, what learners get by default), or take it as it is (`none`)."""
    target_type: Literal["class", "number"] = "class"
    """What the target of columns holds."""
    classes: list[str] | None = None
    """The two labels, negative first, if they are neither true/false, 1/-1 nor 1/0."""
    feature_names: list[str] | None = None
    """What the places of an array `x` are called; by default "0", "1", ..."""
    max_features_per_instance: Annotated[int, Field(ge=1)] = 100_000
    """An instance with more is a dead letter."""
    max_pending: Annotated[int, Field(ge=0)] = 10_000
    """Unlabelled instances kept per stream for a later label."""
    on_new_partitions: Literal["stop", "read"] = "stop"
    """When partitions are added to the input: stop, since keys have moved, or read them too (streams named by their
    partition, or keys that do not move)."""


class WindowSection(Section):
    size: Annotated[int, Field(ge=4)]
    """Labelled instances that are turned into columns together."""
    slide: Annotated[int, Field(ge=1)] | None = None
    """Labelled instances from one window's start to the next one's; by default the size."""


class EmitSection(Section):
    every: Annotated[int, Field(ge=0)] = 1000
    """A snapshot each N versions; 0 = none by count. With `[window]` each window gives one: only `top` applies."""
    on_change: bool = False
    """A snapshot also whenever the set of selected features differs from the last snapshot's."""
    min_gap: Annotated[int, Field(ge=1)] = 1
    """At least so many versions between a snapshot and one for a change."""
    final: bool = True
    """A snapshot of every stream at the end of bounded input."""
    top: Annotated[int, Field(ge=1)] = 1000
    """At most so many features in a snapshot, those with the largest weights."""


class OperatorSection(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Settings(Section):
    """A validated flow."""

    verb: ClassVar[str] = "run"
    """The command that runs it, for advice."""
    flow: FlowSection
    topics: TopicsSection
    kafka: dict[str, str | int | float | bool] = {}
    input: InputSection = InputSection()
    operator: OperatorSection
    window: WindowSection | None = None
    emit: EmitSection = EmitSection()
    directory: Path = Path()
    """Where relative directories of topics are meant from: the folder of the settings file."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a TOML file."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SettingsError(f"there is no flow file {path}") from None
        except (OSError, UnicodeDecodeError) as problem:
            raise SettingsError(f"the flow file {path} cannot be read: {problem}") from None
        except tomllib.TOMLDecodeError as problem:
            raise SettingsError(f"{path} is not TOML: {problem}") from None
        try:
            return cls.parse(content, directory=path.parent)
        except SettingsError as problem:
            raise SettingsError(f"{path}: {problem}") from None

    @classmethod
    def parse(cls, content: Mapping[str, Any], directory: Path = Path()) -> Self:
        """Validate settings given as nested mappings."""
        filled = fill_in(dict(content), "")
        if isinstance(filled.get("output"), dict) and "delivery" in filled["output"]:
            raise SettingsError(
                "output.delivery is gone: output comes exactly once, and `sluiceway run --checkpoint-every` says how"
                " soon it is visible; leave the setting out"
            )
        try:
            return cls.model_validate({**filled, "directory": directory})
        except ValidationError as problem:
            raise SettingsError(_mistake(cls, problem.errors())) from None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for position in (self.input.start, self.input.stop):
            if position is not None:
                parse_position(position)
        self._refuse_reserved_name()
        self._refuse_unfit_topics()
        for url in (self._source_url, *self.output_urls.values()):
            parse_topic(url)
        self._refuse_unfit_state()
        outputs = [_place(topic) for topic in self.outputs.values()]
        if len(set(outputs)) < len(outputs):
            raise SettingsError("two output topics are the same")
        if _place(self.source) in outputs:
            raise SettingsError("the input topic is also an output topic")
        self._refuse_unfit_applied()
        classes = self.input.classes
        if classes is not None and (len(classes) != 2 or len(set(classes)) != 2):
            raise SettingsError(f"input.classes must name two classes, negative first; got {classes}")
        if self.input.feature_names is not None and len(set(self.input.feature_names)) < len(self.input.feature_names):
            raise SettingsError("input.feature_names must not repeat a name")
        self._refuse_unfit_emit()
        self.make_operator()
        return self

    def _refuse_reserved_name(self) -> None:
        for suffix in RESERVED:
            if self.flow.name.endswith(suffix):
                raise SettingsError(
                    f"flow.name = {self.flow.name!r}: a name must not end in {suffix!r}, which is how a flow's own"
                    f" {'applying' if suffix == APPLY else 'topic or group'} is called"
                )

    def _refuse_unfit_state(self) -> None:
        """The state lies where the output goes: one transaction, or one machine's disk, must hold both."""
        given, on_kafka = self.topics.state, self._kafka_bootstrap
        if given is not None and isinstance(parse_topic(given), KafkaTopic) != (on_kafka is not None):
            kind = "a Kafka topic, as outputs of this flow are" if on_kafka else "a directory, as its outputs are"
            raise SettingsError(f"topics.state must be {kind}: the state lies where the output goes")
        topics = self.all_topics
        if self.topics.applied is not None:
            topics["applied"] = self.topic(self.topics.applied)
        taken = {_place(topic): name for name, topic in topics.items()}.get(_place(self.state))
        if taken is not None:
            default = "" if given is not None else f" {self.state.name!r}, where a flow's state lies by default"
            raise SettingsError(f"topics.state and topics.{taken} are the same topic{default}")

    def _refuse_unfit_applied(self) -> None:
        """Also `sluiceway run` looks at where `sluiceway apply` is to write: a later surprise is the worse one."""
        if self.topics.applied is None:
            return
        applied = _place(self.topic(self.topics.applied))
        for name in (self.source_role, "selections", "predictions", "verdicts", "dead_letters"):
            url = getattr(self.topics, name)
            if url is not None and _place(self.topic(url)) == applied:
                raise SettingsError(f"topics.applied and topics.{name} are the same topic")

    def _refuse_unfit_emit(self) -> None:
        unfit = [name for name in EmitSection.model_fields if name in self.emit.model_fields_set and name != "top"]
        if self.window is not None and unfit:
            raise SettingsError(
                f"emit.{unfit[0]} does not go with [window]: each full window gives one snapshot, no more and no fewer;"
                f" window.slide says how often"
            )

    def _refuse_unfit_topics(self) -> None:
        """The operator's kind says what it reads and what it can write."""
        kind, topics, name = self.kind, self.topics, self.operator.name
        if topics.instances is None and topics.features is None:
            raise SettingsError("the setting topics.instances is missing")
        if topics.instances is not None and topics.features is not None:
            raise SettingsError("a flow reads topics.instances or topics.features, not both")
        if topics.features is not None and kind != "column-selector":
            raise SettingsError(f"operator {name!r} learns from instances, not from topics.features")
        if topics.instances is not None and kind == "column-selector" and self.window is None:
            raise SettingsError(
                f"operator {name!r} learns from columns: give topics.features, or window.size to make them of instances"
            )
        if self.window is not None and (kind != "column-selector" or topics.features is not None):
            raise SettingsError("window is for a column selector that reads topics.instances")
        if self.window is not None and self.window.slide is not None and self.window.slide > self.window.size:
            raise SettingsError(f"window.slide must be at most window.size, {self.window.size}")
        if topics.predictions is not None and kind != "learner":
            raise SettingsError(f"operator {name!r} predicts nothing: leave topics.predictions out")
        if topics.verdicts is not None and topics.features is None:
            raise SettingsError("topics.verdicts is for flows that read topics.features")

    @property
    def kind(self) -> registry.Kind:
        return registry.get(self.operator.name).kind

    @property
    def scale(self) -> Literal["none", "l2"]:
        return self.input.scale or ("l2" if self.kind == "learner" else "none")

    @property
    def output_urls(self) -> dict[str, str]:
        named = {name: getattr(self.topics, name) for name in ("selections", "predictions", "verdicts", "dead_letters")}
        return {name: url for name, url in named.items() if url is not None}

    def topic(self, url: str) -> Topic:
        return parse_topic(url, self.directory)

    @property
    def source_role(self) -> Literal["instances", "features"]:
        return "instances" if self.topics.features is None else "features"

    @property
    def _source_url(self) -> str:
        return self.topics.instances or self.topics.features or ""

    @property
    def source(self) -> Topic:
        """The topic that the flow reads."""
        return self.topic(self._source_url)

    @property
    def outputs(self) -> dict[str, Topic]:
        return {name: self.topic(url) for name, url in self.output_urls.items()}

    @property
    def _kafka_bootstrap(self) -> str | None:
        """Of the outputs; None if all of them are directories."""
        outputs = self.outputs.values()
        return next((topic.bootstrap for topic in outputs if isinstance(topic, KafkaTopic)), None)

    @property
    def state(self) -> Topic:
        """Where the flow's state lies."""
        if self.topics.state is not None:
            return self.topic(self.topics.state)
        bootstrap = self._kafka_bootstrap
        if bootstrap is not None:
            return KafkaTopic(bootstrap, f"{self.flow.name}.state")
        beside = next(topic for topic in self.outputs.values() if isinstance(topic, DirectoryTopic))
        return DirectoryTopic(beside.path.with_name(beside.path.name + ".state"))

    @property
    def all_topics(self) -> dict[str, Topic]:
        return {self.source_role: self.source, **self.outputs}

    @property
    def kafka_topics(self) -> dict[str, KafkaTopic]:
        return {name: topic for name, topic in self.all_topics.items() if isinstance(topic, KafkaTopic)}

    @property
    def operator_class(self) -> type[Any]:
        """Of the protocol that the operator's kind names."""
        return registry.get(self.operator.name).cls

    def make_operator(self) -> Any:
        """A new operator with the flow's parameters; a bad parameter is a `SettingsError`."""
        operator, given = self.operator_class, self.operator.params
        known = inspect.signature(operator).parameters
        for name in given:
            if name not in known:
                raise SettingsError(f"operator {self.operator.name!r} has no parameter {_unknown(name, known)}")
        missing = [name for name, spec in known.items() if spec.default is spec.empty and name not in given]
        if missing:
            raise SettingsError(f"operator {self.operator.name!r} needs {', '.join(missing)}")
        try:
            return operator(**given)
        except (TypeError, ValueError) as problem:
            raise SettingsError(f"operator {self.operator.name!r}: {problem}") from None


def _place(topic: Topic) -> Topic | Path:
    """Where a topic really lies: a directory can be written in many ways."""
    return topic if isinstance(topic, KafkaTopic) else topic.path.resolve()


def _unknown(key: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"{key!r}; did you mean {near[0]!r}?" if near else f"{key!r}; it has {', '.join(known)}"


def fill_in(value: Any, where: str) -> Any:
    """Replace ${NAME} in texts by the environment's value."""
    if isinstance(value, dict):
        return {key: fill_in(inner, f"{where}{key}.") for key, inner in value.items()}
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise SettingsError(f"{where.rstrip('.')} needs the environment variable {name}, which is not set")
        return os.environ[name]

    return re.sub(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", lookup, value)


def _mistake(model: type[BaseModel], errors: list[ErrorDetails]) -> str:
    """One sentence for pydantic's errors: a misspelt setting before the one that is missing because of it."""
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    if isinstance(cause := first.get("ctx", {}).get("error"), SettingsError):
        return str(cause)
    path = [str(part) for part in first["loc"]]
    dotted = ".".join(path)
    section = _section_of(model, path)
    match first["type"]:
        case "extra_forbidden":
            known = {name: None for name in section.model_fields if name != "directory"}
            return f"unknown setting {dotted}: {_unknown(path[-1], known)}"
        case "missing":
            others = [name for name in first["input"] if name not in section.model_fields]  # an operator's parameters
            near = difflib.get_close_matches(path[-1], others, n=1, cutoff=0.5)
            return f"the setting {dotted} is missing" + (f"; did you mean it by {near[0]!r}?" if near else "")
    if path[0] == "kafka" and len(path) > 1:
        return f"kafka.{path[1]} = {first['input']!r}: it must be a text, a number, true or false"
    return f"{dotted} = {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}"


def _section_of(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    section = model
    for part in path[:-1]:
        field = section.model_fields.get(part)
        kinds = () if field is None else (field.annotation, *get_args(field.annotation))
        section = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), section)
    return section

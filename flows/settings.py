"""The flow's TOML file: read, filled in from the environment, validated; every mistake is one sentence."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from sluiceway.errors import SettingsError
from sluiceway.flows.dead_letters import Limit
from sluiceway.flows.join_section import JoinSection
from sluiceway.flows.map_section import MapSection
from sluiceway.flows.memory import bytes_of
from sluiceway.flows.section import Section
from sluiceway.operators import registry
from sluiceway.operators.kinds.kind import Kind, Plan, Reads, Window
from sluiceway.operators.stages.emission import Emit
from sluiceway.operators.stages.scale import Scale
from sluiceway.schemas.batch import MOST_CLASSES
from sluiceway.topics.client_settings import fill_in, from_environment, refuse_ours
from sluiceway.topics.positions import parse_position
from sluiceway.topics.registry import json_reader
from sluiceway.topics.store import JOIN
from sluiceway.topics.url import DirectoryTopic, KafkaTopic, Topic, masked, parse_topic

MAX_NAME = 200
APPLY = "-apply"
"""What a flow's name has after it when it is applied, which is a flow of its own, as joining its labels is."""
RESERVED = (".state", ".members", APPLY, JOIN)
"""Ends of names that the flow's own topic and group, applying and joining have."""
HIDDEN = ("kafka", "registry")
"""Tables whose values are never shown: some are secrets."""
OUTPUTS = ("selections", "predictions", "verdicts", "requests", "dead_letters")
"""Of the topics, those that `sluiceway run` writes."""

_OWN = {APPLY: "applying", JOIN: "joining"}


def _text(position: object) -> object:
    return str(position) if isinstance(position, int) and not isinstance(position, bool) else position


PositionText = Annotated[str, BeforeValidator(_text)]


Size = Annotated[int, BeforeValidator(bytes_of)]


class FlowSection(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=MAX_NAME)]
    """Names the snapshots' flow, its state, its consumer groups and its transactions: two flows never share it."""
    memory: Size | None = None
    """What a process may use for its streams, such as `"64MB"` or `"1GB"`: beyond it, those of learners that were not
    touched for longest lie on the local disk. Without it all that were touched stay in memory."""


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
    """Where verdicts go: what became of each column; none are made without it."""
    requests: str | None = None
    """Where requests go: which features the next instances of a stream should carry; none are made without it."""
    dead_letters: str
    """Where records go that cannot be used."""
    applied: str | None = None
    """Where `sluiceway apply` writes; `sluiceway run` does not use it."""
    labels: str | None = None
    """Labels on a topic of their own: `sluiceway join` brings them together with the instances."""
    labelled: str | None = None
    """Where `sluiceway join` writes instances with their labels; `sluiceway run` then learns from these."""
    state: str | None = None
    """Where the flow's state lies; by default `<flow>.state` beside Kafka outputs, `<selections>.state` beside
    directories."""


class InputSection(Section):
    start: PositionText = "beginning"
    """Where to begin when the flow has never committed."""
    stop: PositionText | None = None
    """Where to end, as of the start of the run; without it the flow runs until it is stopped."""
    stream: Literal["key", "partition"] = "key"
    """What names a record's stream: the message key (in directories the member `stream`), or its partition."""
    scale: Literal["none", "l2", "rms-l2", "standard"] | None = None
    """What is done to instances first: nothing (`none`); each is brought to length 1 (`l2`, what learners get by
    default); each value is divided by its feature's root mean square so far, then the instance brought to length 1
    (`rms-l2`); or from each value its feature's mean so far is taken, and the rest divided by the standard deviation
    (`standard`: for features that nearly all instances have)."""
    intercept: bool = False
    """Give each instance the feature `(intercept)`, which is always 1: for learners."""
    max_scaled_features: Annotated[int, Field(ge=1)] = 100_000
    """With `rms-l2` or `standard`: so many features of a stream are scaled, at 60 bytes each; later ones are left out,
    and counted in snapshots as `scale_ignored`."""
    target_type: Literal["class", "number"] = "class"
    """What the target of columns holds."""
    classes: list[str | int] | None = None
    """The labels, if they are neither true/false, 1/-1 nor 1/0: two, negative first, or up to 127; all texts or all
    integers."""
    feature_names: list[str] | None = None
    """What the places of an array `x` are called; by default "0", "1", ..."""
    max_features_per_instance: Annotated[int, Field(ge=1)] = 100_000
    """An instance with more is a dead letter."""
    max_pending: Annotated[int, Field(ge=0)] = 10_000
    """Unlabelled instances kept per stream for a later label."""
    max_dead_letters: int | float | None = None
    """Stop when more of a partition's newest records are dead letters: a count, or a share such as 0.1. The flow
    commits first, so that a restart goes on after them."""
    dead_letter_window: Annotated[int, Field(ge=1)] = 1000
    """How many of its newest records those are."""
    on_new_partitions: Literal["stop", "read"] = "stop"
    """When partitions are added to the input: stop, since keys have moved, or read them too (streams named by their
    partition, or keys that do not move)."""
    map: MapSection | None = None


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
    scores: bool = False
    """With more than two classes: predictions have the score of every class, not of the one predicted alone."""


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
    kafka: dict[str, str | int | float | bool] = {}  # noqa: RUF012  # pydantic copies it
    registry: dict[str, str | int | float | bool] | None = None
    input: InputSection = InputSection()
    operator: OperatorSection
    join: JoinSection | None = None
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
        if isinstance(filled.get("kafka", {}), dict):
            refuse_ours(filled.get("kafka", {}), str(filled.get("flow", {}).get("name", "")))
            filled["kafka"] = {**from_environment(), **filled.get("kafka", {})}
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
        self._refuse_unfit_source()
        self._refuse_unfit_map()
        if self.registry is not None and not isinstance(self.registry.get("url"), str):
            raise SettingsError("[registry] needs the registry's url")
        if self.registry is not None and self.topics.applied is not None:
            raise SettingsError("topics.applied does not go with [registry]: only instances of JSON are applied")
        self._refuse_unfit_scale()
        self._refuse_unfit_join()
        for url in (self._source_url, *self.output_urls.values()):
            parse_topic(url)
        self._refuse_unfit_state()
        outputs = [_place(topic) for topic in self.outputs.values()]
        if len(set(outputs)) < len(outputs):
            raise SettingsError("two output topics are the same")
        if _place(self.source) in outputs:
            raise SettingsError("the input topic is also an output topic")
        self._refuse_unfit_applied()
        self._refuse_unfit_classes()
        if self.input.feature_names is not None and len(set(self.input.feature_names)) < len(self.input.feature_names):
            raise SettingsError("input.feature_names must not repeat a name")
        self._refuse_unfit_input()
        self.make_operator()
        self.kind.refuse_unfit(self.plan)
        return self

    def _refuse_unfit_input(self) -> None:
        most = self.input.max_dead_letters
        if most is not None and not (most >= 0 if isinstance(most, int) else 0 < most < 1):
            raise SettingsError(
                f"input.max_dead_letters = {most}: it must be a whole number (a count), or a share between 0 and 1"
            )
        if self.input.target_type == "number" and self.topics.features is None:
            raise SettingsError(
                f'input.target_type = "number" is for flows that read topics.features; {self.operator.name} learns from'
                f" the labels of instances, which are classes"
            )

    def _refuse_reserved_name(self) -> None:
        for suffix in RESERVED:
            if self.flow.name.endswith(suffix):
                raise SettingsError(
                    f"flow.name = {self.flow.name!r}: a name must not end in {suffix!r}, which is how a flow's own"
                    f" {_OWN.get(suffix, 'topic or group')} is called"
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
        for name in (self.source_role, *OUTPUTS):
            url = getattr(self.topics, name)
            if url is not None and _place(self.topic(url)) == applied:
                raise SettingsError(f"topics.applied and topics.{name} are the same topic")

    def _refuse_unfit_join(self) -> None:
        given = self.topics
        if given.labels is None and given.labelled is None:
            if self.join is not None:
                raise SettingsError("[join] is for labels on a topic of their own: topics.labels is missing")
            return
        if given.labels is None or given.labelled is None or given.instances is None:
            missing = next(name for name in ("labels", "labelled", "instances") if getattr(given, name) is None)
            raise SettingsError(
                f"topics.{missing} is missing: labels on a topic of their own need topics.instances, topics.labels and"
                f" topics.labelled"
            )
        named = {name: url for name in TopicsSection.model_fields if (url := getattr(given, name)) is not None}
        for role in ("instances", "labels", "labelled"):
            place = _place(self.topic(named[role]))
            for name, url in named.items():
                if name != role and _place(self.topic(url)) == place:
                    raise SettingsError(f"topics.{role} and topics.{name} are the same topic")
        if self.join is not None:
            self.join.paths()

    def _refuse_unfit_classes(self) -> None:
        classes = self.input.classes
        if classes is None:
            return
        if not 2 <= len(classes) <= MOST_CLASSES or len(set(classes)) != len(classes):
            raise SettingsError(
                f"input.classes must name two classes, negative first, or up to {MOST_CLASSES}, each once;"
                f" got {classes}"
            )
        if len({type(label) for label in classes}) > 1:
            raise SettingsError(f"input.classes must be texts or integers, not both; got {classes}")

    def _refuse_unfit_source(self) -> None:
        if self.topics.instances is None and self.topics.features is None:
            raise SettingsError("the setting topics.instances is missing")
        if self.topics.instances is not None and self.topics.features is not None:
            raise SettingsError("a flow reads topics.instances or topics.features, not both")

    def _refuse_unfit_map(self) -> None:
        given = self.input.map
        if given is None:
            return
        if self.topics.instances is None:
            raise SettingsError("input.map is for instances: a topic of columns has a form of its own")
        if given.stream is not None and self.input.stream == "partition":
            raise SettingsError('input.stream = "partition" and input.map.stream both say what names a stream')
        if self.topics.applied is not None:
            raise SettingsError("topics.applied does not go with input.map: instances of another shape are not applied")
        given.record_map()

    def _refuse_unfit_scale(self) -> None:
        given = self.input
        if self.kind.follows_scale:
            return
        if given.scale in ("rms-l2", "standard"):
            raise SettingsError(f'input.scale = "{given.scale}" is for learners, which {self.operator.name!r} is not')
        if given.intercept:
            raise SettingsError(f"input.intercept is for learners, which {self.operator.name!r} is not")

    @property
    def kind(self) -> Kind:
        """What drives the operator."""
        return registry.get(self.operator.name).kind.in_flow(self._topics_given)

    @property
    def _topics_given(self) -> frozenset[str]:
        return frozenset(name for name in TopicsSection.model_fields if getattr(self.topics, name) is not None)

    @property
    def plan(self) -> Plan:
        """What the operator's kind has to know of all this."""
        given, emit, window = self.input, self.emit, self.window
        return Plan(
            flow=self.flow.name,
            operator=self.operator.name,
            cls=self.operator_class,
            params=self.operator.params,
            topics=self._topics_given,
            emit=Emit(emit.every, emit.on_change, emit.min_gap, emit.final, emit.top),
            emit_given=frozenset(emit.model_fields_set),
            window=None if window is None else Window(window.size, window.slide or window.size),
            scale=self.scale,
            intercept=given.intercept,
            max_scaled=given.max_scaled_features,
            classes=None if given.classes is None else tuple(given.classes),
            target_type=given.target_type,
            feature_names=None if given.feature_names is None else tuple(given.feature_names),
            max_features_per_instance=given.max_features_per_instance,
            max_pending=given.max_pending,
            scores=emit.scores,
            record_map=None if given.map is None else given.map.record_map(),
            as_json=None if self.registry is None else partial(json_reader, self.registry),
        )

    @property
    def scale(self) -> Scale:
        return self.input.scale or self.kind.scale

    @property
    def dead_letter_limit(self) -> Limit | None:
        most = self.input.max_dead_letters
        return None if most is None else Limit(most, self.input.dead_letter_window)

    @property
    def output_urls(self) -> dict[str, str]:
        named = {name: getattr(self.topics, name) for name in OUTPUTS}
        return {name: url for name, url in named.items() if url is not None}

    def topic(self, url: str) -> Topic:
        return parse_topic(url, self.directory)

    @property
    def source_role(self) -> Reads:
        return self.kind.reads

    @property
    def _source_url(self) -> str:
        return self.topics.labelled or self.topics.instances or self.topics.features or ""

    @property
    def source(self) -> Topic:
        """The topic that the flow reads."""
        return self.topic(self._source_url)

    @property
    def inputs(self) -> dict[str, Topic]:
        """All topics that the flow reads, by what they hold; they have the same partitions."""
        return {self.source_role: self.source}

    @property
    def read_names(self) -> dict[str, str]:
        """Of the topics on Kafka that it reads, by what they hold."""
        return {name: topic.name for name, topic in self.inputs.items() if isinstance(topic, KafkaTopic)}

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
        return {**self.inputs, **self.outputs}

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
        known = registry.parameters(self.operator.name)
        for name in given:
            if name not in known:
                raise SettingsError(f"operator {self.operator.name!r} has no parameter {_unknown(name, known)}")
        missing = [name for name, parameter in known.items() if parameter.required and name not in given]
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
    if path[0] in HIDDEN:
        return f"{'.'.join(path[:2])} must be {'a text, a number, true or false' if len(path) > 1 else 'a table'}"
    given = masked(repr(first["input"])) if path[0] == "topics" else repr(first["input"])
    return f"{dotted} = {given}: {first['msg'][0].lower()}{first['msg'][1:]}"


def _section_of(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    section = model
    for part in path[:-1]:
        field = section.model_fields.get(part)
        parts = () if field is None else (field.annotation, *get_args(field.annotation))
        section = next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), section)
    return section

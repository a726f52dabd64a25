"""The parts of README.md and docs/ that are made from the code: between `<!-- generated: NAME -->` and `<!-- end -->`.

Settings, flow diagrams, operators and measured figures are never copied by hand; a test says when they are not current.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from sluiceway.flows import apply, graph, metrics, settings
from sluiceway.flows.diagram import mermaid
from sluiceway.flows.preflight import look_around
from sluiceway.flows.process import DEFAULT_INTERVAL, assemble
from sluiceway.flows.progress import Progress
from sluiceway.operators import registry
from sluiceway.operators.kinds import KINDS
from sluiceway.operators.parameters import Parameter, parameters_of
from sluiceway.schemas.refusal import ERROR_CLASSES
from sluiceway.topics import state_records as state_records_module
from sluiceway.topics.directory_store import lane_path
from sluiceway.topics.url import DirectoryTopic
from tests.support.flow import toml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = DOCS / "measured.json"
FIGURES = DOCS / "operators" / "figures"
BLOCK = re.compile(r"(<!-- generated: ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def current(text: str) -> str:
    """The page with every generated part made anew."""

    def made(match: re.Match[str]) -> str:
        name, _, argument = match[2].partition(" ")
        return f"{match[1]}{MAKERS[name](argument).strip()}\n{match[3]}"

    return BLOCK.sub(made, text)


def write_all() -> list[Path]:
    """Bring all pages up to date, make those of new operators; which were changed."""
    for name, entry in registry.OPERATORS.items():
        page = operator_page(name)
        if not page.exists():
            block = f"<!-- generated: operator {name} -->\n<!-- end -->"
            page.write_text(f"# {name}\n\n{block}\n\n## When to use it\n\n{sentence(entry.summary)}\n")
    changed = []
    for page in pages():
        text = page.read_text()
        if (fresh := current(text)) != text:
            page.write_text(fresh)
            changed.append(page.relative_to(ROOT))
    return changed


def operator_page(name: str) -> Path:
    return DOCS / "operators" / f"{name}.md"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


# -- settings --------------------------------------------------------------------------------------------------------


def settings_reference(_: str) -> str:
    rows = []
    for name, field in settings.Settings.model_fields.items():
        if name == "directory":
            continue
        if name == "kafka":
            rows.append(("`[kafka]`", "table", "empty", "The Kafka client's settings, under librdkafka's names."))
        elif name == "registry":
            rows.append(("`registry.url`", "text", "required in `[registry]`", "Where the schema registry answers."))
            meaning = "Other settings of Confluent's registry client, as `basic.auth.user.info`."
            rows.append(("`registry.*`", "", "", meaning))
        elif name == "operator":
            rows.append(("`operator.name`", "text", "required", "One of `sluiceway operators`."))
            rows.append(("`operator.*`", "", "", "The operator's own parameters; see its page."))
        else:
            sections = [field.annotation, *get_args(field.annotation)]
            (section,) = [part for part in sections if isinstance(part, type) and issubclass(part, BaseModel)]
            need = "required" if section is field.annotation else f"required in `[{name}]`"
            rows += _section(name, section, need)
    return table(("setting", "type", "default", "meaning"), rows)


def _section(name: str, section: type[BaseModel], need: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for key, field in section.model_fields.items():
        inner = [part for part in get_args(field.annotation) if isinstance(part, type) and issubclass(part, BaseModel)]
        path = f"{name}.{key}"
        rows += _section(path, inner[0], f"required in `[{path}]`") if inner else [_setting(path, field, need)]
    return rows


def _setting(name: str, field: FieldInfo, need: str) -> tuple[str, str, str, str]:
    assert field.description, f"{name} has no text under it in flows/settings.py"
    meaning = " ".join(field.description.split())
    default = need if field.is_required() else default_of(False, field.default)
    return f"`{name}`", type_of(field), default, meaning


def type_of(field: FieldInfo) -> str:
    if any(isinstance(part, BeforeValidator) for part in field.metadata):
        return "position"  # the only thing that is read in more than one form
    return ", ".join([_type(field.annotation), *_limits(field.metadata)])


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in get_args(annotation) if part is not type(None))
    if origin is Annotated:
        plain, *metadata = get_args(annotation)
        if annotation == settings.Size:
            return "size"
        if annotation == settings.PositionText:
            return "position"
        return ", ".join([_type(plain), *(limit for part in metadata for limit in _limits(part.metadata))])
    if origin is list:
        return f"list of {_type(get_args(annotation)[0])}s"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[annotation]


def _limits(metadata: Iterable[Any]) -> list[str]:
    return [f"at least {bound.ge}" for bound in metadata if hasattr(bound, "ge")]


def default_of(required: bool, value: Any) -> str:
    if required:
        return "required"
    return "none" if value is None else f"`{json.dumps(value)}`"


# -- diagrams --------------------------------------------------------------------------------------------------------


def diagram(which: str) -> str:
    """Drawn from `build(settings)`."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        names = ("instances", "selections", "predictions", "dead_letters", "applied")
        for topic in ("instances", "selections"):
            (directory / topic).mkdir()
            (directory / topic / "_topic.json").write_text('{"partitions": 1}')
            (directory / topic / "part-00000.jsonl").touch()
        content: dict[str, Any] = {
            "flow": {"name": "spam"},
            "topics": {name: f"dir:{name}" for name in names},
            "operator": {"name": "ofs", "k": 10},
        }
        if which == "select":
            selecting = settings.Settings.parse(content, directory)
            drawn = mermaid(graph.build(selecting), selecting)
        else:
            drawn = _applying(content, directory)
    return f"```mermaid\n{drawn}\n```"


def _applying(content: dict[str, Any], directory: Path) -> str:
    file = directory / "flow.toml"
    file.write_text(toml(content))
    applying = apply.ApplySettings.load(file)
    state = applying.selecting.state
    assert isinstance(state, DirectoryTopic)
    state.path.mkdir()
    lane_path(state.path, 0).touch()  # as if the flow had run
    around, work = look_around(applying), apply.APPLYING
    process = assemble(applying, around, work, interval=DEFAULT_INTERVAL, stopping=lambda: False)
    flow = graph.dataflow(applying, process, work.decode(applying, around, Progress()), work)
    return mermaid(flow, applying, inputs=("instances", "selections"))


# -- operators -------------------------------------------------------------------------------------------------------


def operator(name: str) -> str:
    entry = registry.OPERATORS[name]
    module = sys.modules[entry.cls.__module__]
    body = inspect.cleandoc(module.__doc__ or "").partition("\n\n")[2]
    figure = FIGURES / f"{name}.svg"
    parts = [
        f"{sentence(entry.summary)} It {entry.kind.does}.",
        table(
            ("", ""),
            [
                ("paper", entry.paper),
                ("time for one", entry.time),
                ("state", entry.state),
                ("needs", entry.kind.needs),
                *((f"cannot obey law {law}", reason) for law, reason in entry.exceptions.items()),
            ],
        ),
        "## Formula",
        body,
        "## Parameters",
        table(
            ("parameter", "meaning", "what it may be", "default"),
            map(_parameter, parameters_of(entry.cls).values()),
        ),
    ]
    if figure.exists():
        parts += ["## Figure", f"![{name} on real data](figures/{figure.name})"]
    return "\n\n".join(parts)


def _parameter(parameter: Parameter) -> tuple[str, str, str, str]:
    default = default_of(parameter.required, None if parameter.required else parameter.default)
    return f"`{parameter.name}`", parameter.meaning, parameter.values, default


def operators(_: str) -> str:
    rows = [(f"[{name}]({name}.md)", entry.kind.name, entry.summary) for name, entry in registry.OPERATORS.items()]
    return table(("operator", "kind", "what it does"), rows)


def kinds(_: str) -> str:
    """What a flow reads and writes."""
    rows = [
        (
            kind.name,
            f"`topics.{kind.reads}`{kind.reading}",
            "; ".join(f"{topic}: {what}" for topic, what in kind.writes.items()),
        )
        for kind in KINDS
    ]
    return table(("operator's kind", "reads", "writes besides snapshots and dead letters"), rows)


# -- the rest --------------------------------------------------------------------------------------------------------


def dead_letters(_: str) -> str:
    return table(("class", "meaning"), [(f"`{name}`", meaning) for name, meaning in ERROR_CLASSES.items()])


def metrics_table(_: str) -> str:
    rows = [
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), meaning)
        for name, kind, labels, meaning in metrics.documented()
    ]
    return table(("metric", "kind", "labels", "meaning"), rows)


def state_records(_: str) -> str:
    """What the module that reads and writes them says."""
    said = inspect.cleandoc(state_records_module.__doc__ or "")
    return "\n".join(line for line in said.splitlines() if line.startswith("|"))


def figures(benchmark: str) -> str:
    """What `make bench` kept, of one benchmark or of all; nothing is invented where it has not run."""
    if not RESULTS.exists():
        return "Not measured yet: `make bench`, then `make docs`, fills this in."
    kept = json.loads(RESULTS.read_text())
    parts = [
        f"Measured until {kept['at'][:10]} with Python {kept['python']} by the programs under `benchmarks/`, on two"
        " cores that other work shared: trust the ratios, not the times."
    ]
    for result in (result for result in kept["results"] if benchmark in ("", result["benchmark"])):
        columns = list(dict.fromkeys(name for row in result["rows"] for name in row))
        rows = [[_number(row.get(name, "")) for name in columns] for row in result["rows"]]
        parts += [f"**{result['title']}**", table(columns, rows), *result["notes"]]
    return "\n\n".join(parts)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


MAKERS: dict[str, Callable[[str], str]] = {
    "dead-letters": dead_letters,
    "diagram": diagram,
    "figures": figures,
    "kinds": kinds,
    "metrics": metrics_table,
    "operator": operator,
    "operators": operators,
    "settings": settings_reference,
    "state-records": state_records,
}

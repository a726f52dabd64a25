"""A flow file for what a topic seems to hold, from a look at some of its records."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluiceway.errors import SettingsError

Record = dict[str, Any]

_LABELS = ("y", "label", "target", "class", "diagnosis", "outcome", "result", "fraud", "spam", "churn", "failed", "ill")
_IDS, _TIMES = ("id", "uuid", "key"), ("ts", "time", "timestamp", "at", "date", "ts_ms")
_NEGATIVE = ("0", "-1", "b", "benign", "f", "false", "good", "ham", "healthy", "n", "neg", "negative", "no", "normal")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_WORD = re.compile(r"[\w:./-]{1,64}")
_ENVELOPES = ("payload.after", "after", "payload", "data", "features", "x")
"""Where features are looked for, if there is such an object."""
_MOST_TEXTS = _MOST_CLASSES = 20
_DENSE = 0.9


@dataclass(slots=True)
class _Leaf:
    """A path, and the values that records have there."""

    values: list[Any] = field(default_factory=list)

    @property
    def distinct(self) -> set[str]:
        return {json.dumps(value) for value in self.values}

    @property
    def is_text(self) -> bool:
        return any(type(value) is str for value in self.values)


@dataclass(slots=True)
class Proposal:
    """What goes into a flow file, and why."""

    records: int
    native: bool = False
    classes: list[str] | list[int] | None = None
    label: str | None = None
    """The label's path."""
    labelled: bool = False
    map: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    """Of a table: what its columns are, as a map would say it."""
    scale: str = "l2"
    operator: str = "ofs"
    k: int = 10
    remarks: list[str] = field(default_factory=list)

    def negative(self, first: str) -> None:
        """Put the class of that name first."""
        if self.classes is not None:
            self.classes.sort(key=lambda name: str(name) != first)


def propose(records: Sequence[Record], label: str | None = None, *, in_table: bool = False) -> Proposal:
    """`label`: its path, if it is known. Rows of a table become instances by `sluiceway produce`, without a map."""
    if not records:
        raise SettingsError("there are no records to look at")
    made = Proposal(len(records))
    leaves = _leaves(records)
    made.native = not in_table and all(type(one.get("x")) in (dict, list) for one in records)
    if made.native:
        root, others = "x", leaves
    else:
        root = next((path for path in _ENVELOPES if any(type(_at(one, path)) is dict for one in records)), "")
        others = leaves
    found = label or ("y" if made.native else _label(others))
    if label is not None and label not in leaves:
        raise SettingsError(f"no record has {label!r}; they have {', '.join([*leaves][:20])}")
    made.label, made.labelled = found, found in leaves
    if found in leaves:
        _classes(made, found, leaves[found])
    if not made.native:
        _map(made, leaves, root, found)
    if in_table:
        made.native, made.columns, made.map = True, made.map, {}
    inside = [leaf for path, leaf in leaves.items() if not root or path.startswith(f"{root}.")]
    features = [leaf for leaf in inside if leaf is not leaves.get(found or "")]
    made.k = max(1, min(10, len(features) // 2))
    dense = [leaf for leaf in features if len(leaf.values) >= _DENSE * len(records) and not leaf.is_text]
    if features and len(dense) >= _DENSE * len(features):
        made.scale = "standard"
        made.remarks.append("nearly all records have all features: each is brought to mean 0 and deviation 1")
    return made


def _leaves(records: Sequence[Record]) -> dict[str, _Leaf]:
    leaves: dict[str, _Leaf] = {}
    for record in records:
        for path, value in _walk(record, ""):
            if value is not None:
                leaves.setdefault(path, _Leaf()).values.append(value)
    return leaves


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if type(value) is dict:
        for name, member in value.items():
            yield from _walk(member, f"{path}.{name}" if path else name)
    elif type(value) is list:
        for place, member in enumerate(value):
            yield from _walk(member, f"{path}.{place}")
    else:
        yield path, value


def _at(record: Any, path: str) -> Any:
    for name in path.split("."):
        record = record.get(name) if type(record) is dict else None
    return record


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _label(leaves: dict[str, _Leaf]) -> str | None:
    two = [path for path, leaf in leaves.items() if len(leaf.distinct) <= 2]
    for known in _LABELS:
        for path in two:
            if _last(path) == known:
                return path
    whole = [path for path in two if len(leaves[path].distinct) == 2]
    plain = [path for path in whole if all(type(v) is not float or v in (0, 1) for v in leaves[path].values)]
    return plain[-1] if plain else None


def _classes(made: Proposal, path: str, leaf: _Leaf) -> None:
    numbers = sorted({value for value in leaf.values if type(value) is int})
    if not leaf.is_text and 2 < len(numbers) <= _MOST_CLASSES:
        made.classes = numbers
    texts = sorted({value for value in leaf.values if type(value) is str})
    if not leaf.is_text or {text.lower() for text in texts} <= {"0", "1", "-1", "true", "false"}:
        return
    if not 2 <= len(texts) <= _MOST_CLASSES:
        made.remarks.append(f"{path} has {len(texts)} values among these records: name the classes in input.classes")
        return
    if len(texts) > 2:
        made.classes = texts
        made.remarks.append(f"{path} has these {len(texts)} values among the records looked at: add others there are")
        return
    texts.sort(key=lambda text: (text.lower() not in _NEGATIVE, text))
    made.classes = texts
    made.remarks.append(f"{texts[1]!r} is taken for the positive class: turn input.classes round if it is not")


def _map(made: Proposal, leaves: dict[str, _Leaf], root: str, label: str | None) -> None:
    given = made.map
    if root:
        given["features"] = root
    if label is not None:
        given["label"] = label
    id_ = _id(leaves, made.records, label)
    if id_ is not None:
        given["id"] = id_
    time = next((path for path in leaves if _last(path) in _TIMES and path != label and _unit(leaves[path])), None)
    if time is not None:
        given["time"] = time
        unit = _unit(leaves[time])
        if unit not in (None, "text", "ms"):
            given["time_unit"] = unit
    skip, named = len(root) + 1 if root else 0, {label, id_, time, given.get("stream")}
    texts = {path: leaf for path, leaf in leaves.items() if leaf.is_text and path not in named}
    texts = {path: leaf for path, leaf in texts.items() if not root or path.startswith(f"{root}.")}
    free = [path[skip:] for path, leaf in texts.items() if len(leaf.distinct) > min(_MOST_TEXTS, made.records // 2)]
    if free:
        given["exclude"] = free
        made.remarks.append("left out are texts that are nearly always others: " + ", ".join(free))
    if len(texts) > len(free):
        given["texts"] = "one-hot"


def _id(leaves: dict[str, _Leaf], records: int, label: str | None) -> str | None:
    for path, leaf in leaves.items():
        name = _last(path)
        alike = name in _IDS or name.endswith(("_id", "-id"))
        plain = all(type(value) in (str, int) for value in leaf.values)
        if alike and plain and path != label and len(leaf.distinct) > 0.9 * records:
            return path
    words = (path for path, leaf in leaves.items() if path != label and _are_words(leaf))
    return next((path for path in words if records > 1 and len(leaves[path].distinct) == records), None)


def _are_words(leaf: _Leaf) -> bool:
    """Texts as ids are: `o-17`, no sentences and no times."""
    return all(type(value) is str and _WORD.fullmatch(value) and not _ISO.fullmatch(value) for value in leaf.values)


def _unit(leaf: _Leaf) -> str | None:
    """What times count, by their size; None if they seem to be none."""
    if all(type(value) is str and _ISO.fullmatch(value) for value in leaf.values):
        return "text"
    if not all(type(value) in (int, float) and value > 1e8 for value in leaf.values):
        return None
    largest = max(leaf.values)
    return "s" if largest < 1e11 else "ms" if largest < 1e14 else "us" if largest < 1e17 else "ns"


def flow_file(made: Proposal, name: str, topics: dict[str, str], registry: str | None = None) -> str:
    """The proposal as TOML."""
    write = json.dumps  # texts, numbers and lists as TOML reads them
    lines = [f"# Proposed after a look at {made.records} records.", *(f"# - {remark}" for remark in made.remarks), ""]
    if not made.labelled:
        lines += ["# No label was found: name it by input.map.label, or nothing is learnt.", ""]
    lines += ["[flow]", f"name = {write(name)}", "", "[topics]"]
    lines += [f"{role} = {write(url)}" for role, url in topics.items()] + [""]
    if registry is not None:
        lines += ["[registry]", f"url = {write(registry)}", ""]
    lines += ["[input]", f"scale = {write(made.scale)}"]
    if made.classes is not None:
        lines.append(f"classes = {write(made.classes, ensure_ascii=False)}   # negative first")
    if made.map or not made.native:
        lines += ["", "[input.map]"]
        lines += [f"{key} = {write(value, ensure_ascii=False)}" for key, value in made.map.items()]
    lines += ["", "[operator]", f'name = {write(made.operator)}', f"k = {made.k}", "", "[emit]", "every = 1000", ""]
    return "\n".join(lines)


def shell(made: Proposal, source: str, topic: str) -> str:
    """The command that makes instances of a table."""
    given = ["sluiceway", "produce", source, topic]
    for option, name in (("--label", "label"), ("--id", "id"), ("--ts", "time")):
        if name in made.columns:
            given += [option, made.columns[name]]
    for name in made.columns.get("exclude", ()):
        given += ["--drop", name]
    return shlex.join(given)

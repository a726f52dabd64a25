"""A flow file for what a topic seems to hold, from a look at some of its records."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.operators import registry
from sluiceway.schemas.array_names import ArrayNames
from sluiceway.schemas.batch import MAX_FEATURES_PER_INSTANCE
from sluiceway.schemas.judge import Judge
from sluiceway.schemas.refusal import Refused, StreamNaming

Record = dict[str, Any]

_LABELS = (
    "y", "label", "target", "class", "diagnosis", "outcome", "result", "fraud", "spam", "churn", "failed", "ill",
    "species", "category",
)  # fmt: skip
_IDS, _TIMES = ("id", "uuid", "key"), ("ts", "time", "timestamp", "at", "date", "ts_ms")
_NEGATIVE = ("0", "-1", "b", "benign", "f", "false", "good", "ham", "healthy", "n", "neg", "negative", "no", "normal")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_WORD = re.compile(r"[\w:./-]{1,64}")
_ENVELOPES = ("payload.after", "after", "payload", "data", "features", "x")
"""Where features are looked for, if there is such an object."""
_MOST_TEXTS = _MOST_CLASSES = 20
_MANY = 200
"""Records of a topic that are looked at: with fewer it is a small one."""
_DENSE = 0.9
_UNEVEN = 10
"""So many times as large as the others', and values are on scales of their own."""
_GROWING = 0.25
"""So many of the names come only in the second half of the records: there will be more."""


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

    @property
    def is_continuous(self) -> bool:
        """Numbers that are no classes."""
        numbers = {value for value in self.values if type(value) in (int, float)}
        return len(numbers) > _MOST_CLASSES or any(value != int(value) for value in numbers)

    @property
    def size(self) -> float:
        """Root mean square of its numbers."""
        numbers = [float(value) for value in self.values if type(value) in (int, float)]
        return math.sqrt(sum(number * number for number in numbers) / len(numbers)) if numbers else 0.0


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
    columns: dict[str, Any] | None = None
    """Of a file whose rows `sluiceway produce` makes instances of: what its columns are, as a map would say it."""
    bounded: bool = False
    """What there is in a file comes to an end."""
    every: int = 1000
    stream: str | None = None
    scale: str = "l2"
    operator: str = "ofs"
    why: str = "keeps k features of instances with labels"
    k: int = 10
    remarks: list[str] = field(default_factory=list)

    def negative(self, first: str) -> None:
        """Put the class of that name first."""
        if self.classes is not None:
            self.classes.sort(key=lambda name: str(name) != first)


def propose(
    records: Sequence[Record], label: str | None = None, *, in_file: bool = False, keys: Sequence[bytes | None] = ()
) -> Proposal:
    """`label`: its path, if it is known; `keys`: of the messages. The rows of a file that are plain tables become
    instances by `sluiceway produce`; others are sent as they are, and mapped."""
    if not records:
        raise SettingsError("there are no records to look at")
    made = Proposal(len(records), bounded=in_file)
    leaves = _leaves(records)
    root = next((path for path in _ENVELOPES if any(type(_at(one, path)) is dict for one in records)), "")
    if label is not None and label not in leaves:
        raise SettingsError(f"no record has {label!r}; they have {', '.join([*leaves][:20])}")
    found = label or _label(leaves, root, made.records)
    if found in leaves and leaves[found].is_continuous:
        such = next(value for value in leaves[found].values if type(value) in (int, float) and value not in (0, 1))
        said = f"{found} holds numbers such as {such:g}, which are no classes, and instances are learnt by classes"
        if label is not None:
            raise SettingsError(f"{said}: name a member of few values with --label")
        made.remarks.append(said)
        found = None
    made.label, made.labelled = found, found is not None
    if found is not None:
        _classes(made, found, leaves[found])
    _map(made, leaves, root, found)
    inside = {path: leaf for path, leaf in leaves.items() if not root or path.startswith(f"{root}.")}
    none = {*map(str, made.map.values()), *(f"{root}.{name}" if root else name for name in made.map.get("exclude", ()))}
    features = {path: leaf for path, leaf in inside.items() if path not in none}
    if _is_native(made, records):
        made.native, made.map = True, {}
    elif in_file and _is_table(made, records, features):
        made.native, made.columns, made.map = True, made.map, {}
    _fit(made, records, [*features.values()])
    if len(keys) > 20 and len(set(keys)) > len(keys) / 2:
        made.stream = "partition"
        made.remarks.append("nearly every record has a key of its own, so keys name no streams: partitions do")
    return made


def _is_native(made: Proposal, records: Sequence[Record]) -> bool:
    """Whether all of them are instances as they are."""
    judge = Judge(StreamNaming("partition", 1), made.classes, ArrayNames(None, MAX_FEATURES_PER_INSTANCE))
    if not all("x" in record for record in records) or made.label not in (None, "y"):
        return False
    try:
        for record in records:
            judge.judge(None, json.dumps(record).encode(), 0)
    except Refused:
        return False
    return True


def _is_table(made: Proposal, records: Sequence[Record], features: Mapping[str, _Leaf]) -> bool:
    """Whether they are flat, with numbers as features, and a label that stands as it is meant."""
    given = made.map
    if "features" in given or "texts" in given or "time_unit" in given:
        return False
    if any(type(value) in (dict, list) for record in records for value in record.values()):
        return False
    if any(type(value) is bool for leaf in features.values() for value in leaf.values):
        return False
    labels = {type(record.get(made.label or "")) for record in records} - {NoneType}
    return labels <= {int, bool} or (made.classes is not None and labels == {type(made.classes[0])})


def _fit(made: Proposal, records: Sequence[Record], features: Sequence[_Leaf]) -> None:
    """How often to tell, how to scale, and what to learn with."""
    made.k = max(1, min(10, len(features) // 2))
    if made.bounded or made.records < _MANY:
        made.every = 10 ** min(3, len(str(max(made.records // 2, 1))) - 1)
    dense = [leaf for leaf in features if len(leaf.values) >= _DENSE * made.records and not leaf.is_text]
    sizes = [leaf.size for leaf in features if leaf.size > 0]
    if features and len(dense) >= _DENSE * len(features):
        made.scale = "standard"
        made.remarks.append("nearly all records have all features: each is brought to mean 0 and deviation 1")
    elif sizes and max(sizes) > _UNEVEN * min(sizes):
        made.scale = "rms-l2"
        made.remarks.append("features are of different sizes, and not in all records: each is divided by its own size")
    half = made.records // 2
    before, names = set(_leaves(records[:half])), set(_leaves(records))
    if made.classes is not None and len(made.classes) > 2:
        made.why = "keeps k features for each of the classes"
    if half > 10 and len(features) > 50 and len(names - before) > _GROWING * len(names):
        made.operator, made.why = "stsd", "new features keep appearing: keeps a share of those seen"


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


def _label(leaves: dict[str, _Leaf], root: str, records: int) -> str | None:
    """By its name, or as what there are two of: among the features first, and the last of them, as in most tables."""
    within = [path for path in leaves if root and path.startswith(f"{root}.")]
    paths = [*within, *(path for path in leaves if path not in within and not path.startswith("schema."))]
    for known in _LABELS:
        for path in paths:
            if _last(path) == known and (not leaves[path].is_text or len(leaves[path].distinct) <= _MOST_CLASSES):
                return path
    plain = [path for path in paths if not leaves[path].is_continuous and not leaves[path].is_text]
    two = [path for path in paths if len(leaves[path].distinct) == 2 and (path in plain or leaves[path].is_text)]
    if two:
        return two[-1]
    texts = [path for path in paths if leaves[path].is_text and 2 < len(leaves[path].distinct) <= _MOST_TEXTS]
    return next((path for path in reversed(texts) if len(leaves[path].distinct) <= records / 5), None)


def _classes(made: Proposal, path: str, leaf: _Leaf) -> None:
    numbers = sorted({int(value) for value in leaf.values if type(value) in (int, float)})
    if not leaf.is_text and len(numbers) > 1 and not (set(numbers) <= {0, 1} or set(numbers) <= {-1, 1}):
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


def flow_file(made: Proposal, name: str, topics: dict[str, str], schemas: str | None = None) -> str:
    """The proposal as TOML."""
    write = json.dumps  # texts, numbers and lists as TOML reads them
    lines = [f"# Proposed after a look at {made.records} records.", *(f"# - {remark}" for remark in made.remarks), ""]
    if not made.labelled:
        lines += ["# No label was found: name it by input.map.label, or nothing is learnt.", ""]
    lines += ["[flow]", f"name = {write(name)}", "", "[topics]"]
    lines += [f"{role} = {write(url)}" for role, url in topics.items()] + [""]
    if schemas is not None:
        lines += ["[registry]", f"url = {write(schemas)}", ""]
    lines += ["[input]"]
    if made.bounded:
        lines.append('stop = "end"   # without it the flow waits for more')
    if made.stream is not None:
        lines.append(f"stream = {write(made.stream)}")
    lines.append(f"scale = {write(made.scale)}")
    if made.classes is not None:
        first = "   # negative first" if len(made.classes) == 2 else ""
        lines.append(f"classes = {write(made.classes, ensure_ascii=False)}{first}")
    if made.map or not made.native:
        lines += ["", "[input.map]"]
        lines += [f"{key} = {write(value, ensure_ascii=False)}" for key, value in made.map.items()]
    why = f"# {made.why}; for others see `sluiceway operators`, and docs/which-operator.md"
    lines += ["", "[operator]", why, f"name = {write(made.operator)}"]
    if "k" in registry.parameters(made.operator):
        lines.append(f"k = {made.k}")
    return "\n".join([*lines, "", "[emit]", f"every = {made.every}", ""])


def shell(made: Proposal, source: str, topic: str) -> str:
    """The command that brings a file into the topic."""
    given = ["sluiceway", "produce", source, topic]
    if made.columns is None:
        return shlex.join([*given, *([] if made.native else ["--as-is"])])
    for option, name in (("--label", "label"), ("--id", "id"), ("--ts", "time")):
        if name in made.columns:
            given += [option, made.columns[name]]
    for name in made.columns.get("exclude", ()):
        given += ["--drop", name]
    return shlex.join(given)

"""Nothing outside `operators/kinds` decides by the kind of an operator: a sixth one is a file and a line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.flows.preflight import Surroundings
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.flows.warm_up import flows_of
from sluiceway.operators import registry
from sluiceway.operators.kinds import KINDS
from sluiceway.operators.kinds.joint import Joints
from sluiceway.operators.kinds.kind import Kind
from sluiceway.testing import laws

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("operators", "flows", "schemas", "src/sluiceway")
OBJECTS = "LEARNER|INSTANCE_SELECTOR|COLUMN_SELECTOR|WINDOWED|JOINT"
CLASSES = "Learners|InstanceSelectors|ColumnSelectors|Windowed|Joints|BankLane|Lane"
DECIDES = re.compile(
    rf"\bkind\b[\w.]*\s*(?:==|!=|\bis\b|\bis not\b|\bin\b)\s*(?:{OBJECTS})\b"
    rf"|(?:==|!=)\s*[\"'](?:{'|'.join(kind.name for kind in KINDS)})[\"']"
    rf"|kind\.(?:name|reads)\s*(?:==|!=|in\b)|isinstance\([^)]*\b(?:{CLASSES})\b"
)


def sources() -> list[Path]:
    return [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if (ROOT / "operators" / "kinds") not in path.parents
    ]


def test_nothing_else_decides_by_kind() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources()
        for line in path.read_text().splitlines()
        if DECIDES.search(line)
    ]
    assert len(sources()) > 100
    assert found == []


def test_the_pattern_finds_such_decisions() -> None:
    for line in (
        "if entry.kind is LEARNER:", 'if kind.reads == "features":', "elif isinstance(lane, BankLane):",
        'return kind.name == "joint"', "if settings.kind in JOINT", "if isinstance(kind, (Joints, Learners)):",
    ):  # fmt: skip
        assert DECIDES.search(line), line


class Sixth(Joints):
    """All that a further kind needs, which is a joint one by another name."""

    name = "sixth"


def test_a_sixth_kind_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(registry.OPERATORS["f-etana"], kind=Sixth())
    monkeypatch.setattr(registry, "OPERATORS", {**registry.OPERATORS, "other": entry})
    found = Settings.parse(
        {
            "flow": {"name": "f"},
            "topics": {role: f"dir:{role}" for role in ("instances", "selections", "predictions", "dead_letters")},
            "operator": {"name": "other"},
        }
    )
    assert found.kind is entry.kind
    assert SELECTING.processor(found, Surroundings(1, "", {}, None)) is not None
    assert {settings.operator.name for settings in flows_of("other")} == {"other"}
    laws(entry, warm_up=40, refit_every=30)[0]()


def test_each_kind_says_what_others_would_have_to_ask() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert isinstance(kind, Kind)
        for reads, sections in kind.readings():
            driver = kind.in_flow(frozenset({reads}))
            assert driver in KINDS
            assert (driver is kind) == (not sections)

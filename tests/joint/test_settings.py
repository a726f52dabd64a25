"""What a flow of a joint operator may be told, and what is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import SettingsError
from sluiceway.flows.settings import Settings

EXAMPLE = Path(__file__).resolve().parents[2] / "flows" / "examples" / "etana.toml"
TOPICS = {name: f"dir:{name}" for name in ("instances", "selections", "predictions", "requests", "dead_letters")}


def settings(**tables: dict[str, Any]) -> Settings:
    good: dict[str, dict[str, Any]] = {
        "flow": {"name": "f"}, "topics": TOPICS, "operator": {"name": "etana", "absent": "missing"},
    }  # fmt: skip
    changed = {name: {**good.get(name, {}), **table} for name, table in tables.items()}
    return Settings.parse({**good, **{name: _given(table) for name, table in changed.items()}})


def _given(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def test_the_example_is_good() -> None:
    found = Settings.load(EXAMPLE)
    assert set(found.outputs) == {"selections", "predictions", "requests", "dead_letters"}
    assert found.make_operator().params["cost"] == {"ct": 0.2, "*": 0.01}


def test_costs_mistakes_and_cuts_are_given_as_tables() -> None:
    given = {"cost": {"a": 1, "*": 0.5}, "misclassification": [[0, 1], [5, 0]], "binning": {"a": [0, 1.5]}}
    params = settings(operator=given, topics={"requests": None}).make_operator().params
    assert params["cost"] == {"a": 1.0, "*": 0.5}
    assert params["misclassification"] == [[0.0, 1.0], [5.0, 0.0]]


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"operator": {"absent": "zero"}}, r'would take for zeros: set absent = "missing"$'),
        ({"input": {"scale": "l2"}}, r"^operator 'etana' cuts values into bins: leave input\.scale out$"),
        ({"input": {"scale": "rms-l2"}}, r'^input\.scale = "rms-l2" is for learners'),
        ({"input": {"intercept": True}}, r"^input\.intercept is for learners"),
        ({"emit": {"scores": True}}, r"^emit\.scores is for learners: .* always have a posterior$"),
        ({"window": {"size": 10}}, r"^window is for a column selector"),
        ({"topics": {"verdicts": "dir:v"}}, r"^topics\.verdicts is for flows that read topics\.features$"),
        ({"topics": {"features": "dir:v", "instances": None}}, r"^operator 'etana' learns from instances"),
        ({"input": {"classes": ["a", "b", "c"]}, "operator": {"misclassification": [[0, 1], [5, 0]]}},
         r"^misclassification is a table of 2 classes, and there are 3$"),
        ({"operator": {"name": "ofs", "k": 3, "absent": None}},
         r"^operator 'ofs' writes no requests .*: leave topics\.requests out$"),
        ({"operator": {"name": "ofs-partial", "k": 3, "absent": None}},
         r"^operator 'ofs-partial' writes no requests \(which features a partial learner wants next stands in its"
         r" snapshots, as 'wanted'\): leave topics\.requests out$"),
        ({"operator": {"dependence": "tree"}}, r'^operator \'etana\': dependence = "tree" is for f-etana'),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tables: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(**tables)

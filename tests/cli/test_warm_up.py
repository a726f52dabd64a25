"""`sluiceway warm-up`: compiled ahead, told in a table or to programs."""

from __future__ import annotations

import json

import pytest

from sluiceway.flows import warm_up
from sluiceway.operators.registry import OPERATORS
from tests.cli.calling import Call


def test_what_was_compiled_already_is_told(call: Call) -> None:
    call("warm-up", "perceptron-truncated")
    done = call("warm-up", "perceptron-truncated")
    assert (done.code, done.stderr) == (0, "")
    heading, _, row = done.stdout.splitlines()
    assert heading.split() == ["operator", "seconds", "before"]
    assert row.split()[0] == "perceptron-truncated"
    assert row.rstrip().endswith("compiled already")


def test_for_programs(call: Call) -> None:
    call("warm-up", "perceptron-truncated")
    [done] = json.loads(call("warm-up", "perceptron-truncated", "perceptron-truncated", "--json").stdout)
    assert done.keys() == {"operator", "seconds", "was_compiled"}
    assert (done["operator"], done["was_compiled"]) == ("perceptron-truncated", True)
    assert done["seconds"] >= 0


def test_an_unknown_operator_is_told_before_anything_is_compiled(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "warm_up", lambda name: pytest.fail(name))
    done = call("warm-up", "ofs", "soala")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == 'sluiceway: there is no operator "soala"; did you mean "saola"?\n'


def test_without_names_all_are_compiled(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "warm_up", lambda name: warm_up.Warmed(name, 1.0, was_compiled=False))
    said = call("warm-up").stdout
    assert [line.split()[0] for line in said.splitlines()[2:]] == list(OPERATORS)
    assert said.count("not compiled") == len(OPERATORS)


def test_where_nothing_can_be_kept_it_says_so(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "kept_in", lambda kernel: None)
    done = call("warm-up", "ofs")
    assert done.code == 1
    assert "NUMBA_CACHE_DIR" in done.stderr

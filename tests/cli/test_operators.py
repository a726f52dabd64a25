"""`sluiceway operators`: the registry for people and programs."""

from __future__ import annotations

import json

from sluiceway.operators.registry import OPERATORS
from tests.cli.calling import Call


def test_the_list_has_every_operator(call: Call) -> None:
    done = call("operators")
    assert done.code == 0
    for name in OPERATORS:
        assert f"\n{name} " in f"\n{done.stdout}"
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_one_operator(call: Call) -> None:
    said = call("operators", "ofs").stdout
    for expected in (
        "k           required   whole number of", "eta         0.2        finite number", "how many weights may",
        "O(nnz + k)", "TKDE", "truncate(w, B)",
    ):  # fmt: skip
        assert expected in said


def test_for_programs(call: Call) -> None:
    listed = json.loads(call("operators", "--json").stdout)
    assert [entry["name"] for entry in listed] == list(OPERATORS)
    [ofs] = [entry for entry in listed if entry["name"] == "ofs"]
    assert ofs == json.loads(call("operators", "ofs", "--json").stdout)
    assert ofs["parameters"][:2] == [
        {
            "name": "k", "meaning": "how many weights may differ from 0", "type": "int",
            "values": "whole number of at least 1", "required": True, "default": None,
        },
        {
            "name": "eta", "meaning": "step", "type": "float",
            "values": "finite number above 0", "required": False, "default": 0.2,
        },
    ]  # fmt: skip
    assert all(entry["doc"] and entry["paper"] for entry in listed)

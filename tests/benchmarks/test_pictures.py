"""The pictures in the docs are those that `benchmarks.pictures` draws now."""

from __future__ import annotations

import re

import pytest

from benchmarks.pictures import OUT, PICTURES

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.mark.parametrize("name", PICTURES)
def test_a_committed_picture_is_current(name: str) -> None:
    """All words and shapes, and each number within a point: processors may round otherwise."""
    drawn, kept = PICTURES[name](), (OUT / f"{name}.svg").read_text()
    assert NUMBER.sub("n", drawn) == NUMBER.sub("n", kept)
    assert [*map(float, NUMBER.findall(drawn))] == pytest.approx([*map(float, NUMBER.findall(kept))], abs=1.0)

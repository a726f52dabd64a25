"""Every operator there is: the only list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from sluiceway.errors import SettingsError
from sluiceway.operators.contract import Learner
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.perceptron_random import PerceptronRandom
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known about an operator before one is made."""

    cls: type[Learner]
    kind: Literal["learner"]
    summary: str
    paper: str
    time: str
    """For one instance with nnz non-zeros."""
    state: str
    exceptions: Mapping[int, str] = field(default_factory=dict)
    """Laws (by number) that the operator cannot obey, each with the reason."""


_OFS_PAPER = "Wang, Zhao, Hoi, Jin: Online Feature Selection and Its Applications, IEEE TKDE 26(3), 2014"

OPERATORS: Mapping[str, Entry] = MappingProxyType(
    {
        "ofs": Entry(
            OFS,
            kind="learner",
            summary="large-margin steps inside a ball, all but the k largest weights dropped",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k)",
        ),
        "perceptron-truncated": Entry(
            PerceptronTruncated,
            kind="learner",
            summary="the perceptron, all but the k largest weights dropped: a baseline",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k)",
        ),
        "perceptron-random": Entry(
            PerceptronRandom,
            kind="learner",
            summary="the perceptron on a fresh random set of k features: a baseline",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k + features seen, up to max_features)",
        ),
    }
)


def get(name: str) -> Entry:
    """The operator of that name, or a `SettingsError` that offers the nearest."""
    if name in OPERATORS:
        return OPERATORS[name]
    near = get_close_matches(name, OPERATORS, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"?' if near else "there are: " + ", ".join(OPERATORS) + "."
    raise SettingsError(f'there is no operator "{name}"; {hint}')

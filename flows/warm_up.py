"""Compiling ahead: all that flows of an operator need, whichever settings they have."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from sluiceway.compiling import kept_in
from sluiceway.errors import FlowError, SettingsError
from sluiceway.flows import first_start
from sluiceway.flows.select import SELECTING
from sluiceway.flows.settings import Settings
from sluiceway.operators import registry
from sluiceway.schemas.read_rows import read_rows

_INPUTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"scale": "standard", "intercept": True},
    {"classes": ["one", "two", "three"]},
    {"map": {"label": "y"}},
)
"""Settings that need kernels of their own."""
_WRITTEN = {"predictions", "verdicts"}
"""Topics that kernels write for, where the kind has them."""


class Warmed(NamedTuple):
    operator: str
    seconds: float
    was_compiled: bool
    """Before: then the time went into loading."""


def warm_up(operator: str) -> Warmed:
    """Load or compile the kernels of the operator's flows. What all flows need is compiled with the first operator."""
    began = time.monotonic()
    if kept_in(read_rows) is None:
        raise FlowError(
            "what is compiled can be kept nowhere: let NUMBA_CACHE_DIR name a directory that can be written to"
        )
    was_compiled = True
    for settings in flows_of(operator):
        was_compiled = SELECTING.is_compiled(settings) and was_compiled
        first_start.prepare(SELECTING, settings, None)
    return Warmed(operator, time.monotonic() - began, was_compiled)


def flows_of(operator: str) -> Iterator[Settings]:
    """The settings of flows that nobody runs: together they need all that the operator can need."""
    kind = registry.get(operator).kind
    needed = {name: 1 for name, parameter in registry.parameters(operator).items() if parameter.required}
    for (reads, sections), given in product(kind.readings(), _INPUTS):
        writes = kind.in_flow(frozenset({reads})).writes.keys() & _WRITTEN
        topics = {role: f"kafka://nowhere:9092/{role}" for role in (reads, "selections", "dead_letters", *writes)}
        content = {"flow": {"name": "warm-up"}, "operator": {"name": operator, **needed}, "input": given, **sections}
        try:
            yield Settings.parse({**content, "topics": topics})
        except SettingsError:  # not for operators of this kind
            if not given and reads == kind.reads:
                raise

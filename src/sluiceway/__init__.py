"""Feature selection on streams.

What services use is here, and every operator by its name. Nothing heavy is imported before it is used:

    for snapshot in sluiceway.subscribe("kafka://localhost:9092/selections", flow="spam"):
        mask = sluiceway.SelectionMask(snapshot)

    model = sluiceway.OFS(k=20)
    model.learn_one({"free": 1.0, "len": 0.5}, True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluiceway.client import SplitStreamError, StreamName, Subscription, latest, subscribe
    from sluiceway.errors import FlowError, SettingsError, SluicewayError, UnreachableError
    from sluiceway.mask import SelectionMask
    from sluiceway.operators.learners.fobos import FOBOS as FOBOS
    from sluiceway.operators.learners.norma import NORMA as NORMA
    from sluiceway.operators.learners.ofs import OFS as OFS
    from sluiceway.operators.learners.ofs_partial import OFSPartial as OFSPartial
    from sluiceway.operators.learners.pa import PA as PA
    from sluiceway.operators.learners.pa_l1 import PAL1 as PAL1
    from sluiceway.operators.learners.pa_l2 import PAL2 as PAL2
    from sluiceway.operators.learners.pa_objective import PAObjective as PAObjective
    from sluiceway.operators.learners.perceptron_partial import PerceptronPartial as PerceptronPartial
    from sluiceway.operators.learners.perceptron_random import PerceptronRandom as PerceptronRandom
    from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated as PerceptronTruncated
    from sluiceway.operators.learners.stsd import STSD as STSD
    from sluiceway.operators.registry import Entry
    from sluiceway.operators.selectors.alpha_investing import AlphaInvesting as AlphaInvesting
    from sluiceway.operators.selectors.fast_osfs import FastOSFS as FastOSFS
    from sluiceway.operators.selectors.fcbf import FCBF as FCBF
    from sluiceway.operators.selectors.ofs_a3m import OFSA3M as OFSA3M
    from sluiceway.operators.selectors.ofs_density import OFSDensity as OFSDensity
    from sluiceway.operators.selectors.osfs import OSFS as OSFS
    from sluiceway.operators.selectors.saola import Saola as Saola
    from sluiceway.operators.selectors.saola_order_free import SaolaOrderFree as SaolaOrderFree
    from sluiceway.operators.selectors.saola_stream import SaolaStream as SaolaStream
    from sluiceway.schemas.records import Snapshot

    def operators() -> Mapping[str, Entry]: ...

    from sluiceway.backtest.run import backtest as backtest


__version__ = "0.1.0"

__all__ = [
    "FlowError",
    "SelectionMask",
    "SettingsError",
    "SluicewayError",
    "Snapshot",
    "SplitStreamError",
    "StreamName",
    "Subscription",
    "UnreachableError",
    "__version__",
    "latest",
    "subscribe",
]

_HOMES = {
    "FlowError": "sluiceway.errors",
    "SelectionMask": "sluiceway.mask",
    "SettingsError": "sluiceway.errors",
    "SluicewayError": "sluiceway.errors",
    "Snapshot": "sluiceway.schemas.records",
    "SplitStreamError": "sluiceway.client",
    "StreamName": "sluiceway.client",
    "Subscription": "sluiceway.client",
    "UnreachableError": "sluiceway.errors",
    "latest": "sluiceway.client",
    "subscribe": "sluiceway.client",
}


_OPERATORS = {
    "OFSDensity": "sluiceway.operators.selectors.ofs_density",
    "OFSA3M": "sluiceway.operators.selectors.ofs_a3m",
    "AlphaInvesting": "sluiceway.operators.selectors.alpha_investing",
    "Etana": "sluiceway.operators.joint.etana",
    "FCBF": "sluiceway.operators.selectors.fcbf",
    "FEtana": "sluiceway.operators.joint.f_etana",
    "FOBOS": "sluiceway.operators.learners.fobos",
    "FastOSFS": "sluiceway.operators.selectors.fast_osfs",
    "NORMA": "sluiceway.operators.learners.norma",
    "OFS": "sluiceway.operators.learners.ofs",
    "OFSPartial": "sluiceway.operators.learners.ofs_partial",
    "OSFS": "sluiceway.operators.selectors.osfs",
    "PA": "sluiceway.operators.learners.pa",
    "PAL1": "sluiceway.operators.learners.pa_l1",
    "PAL2": "sluiceway.operators.learners.pa_l2",
    "PAObjective": "sluiceway.operators.learners.pa_objective",
    "PerceptronPartial": "sluiceway.operators.learners.perceptron_partial",
    "PerceptronRandom": "sluiceway.operators.learners.perceptron_random",
    "PerceptronTruncated": "sluiceway.operators.learners.perceptron_truncated",
    "STSD": "sluiceway.operators.learners.stsd",
    "Saola": "sluiceway.operators.selectors.saola",
    "SaolaOrderFree": "sluiceway.operators.selectors.saola_order_free",
    "SaolaStream": "sluiceway.operators.selectors.saola_stream",
}
"""Not in `__all__`: `from sluiceway import *` must not load a compiler."""


_CALLED = ("backtest", "operators")
"""Packages that do something when they are called."""


def __getattr__(name: str) -> Any:
    """Import on first use (PEP 562)."""
    if name in _CALLED:
        return import_module(f"sluiceway.{name}")
    home = _HOMES.get(name) or _OPERATORS.get(name)
    if home is None:
        raise AttributeError(f"module 'sluiceway' has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(home), name)
    except ImportError as problem:
        from sluiceway.errors import without_engine

        sentence = without_engine(problem, f"sluiceway.{name}")
        if sentence is None:
            raise
        raise ImportError(sentence, name=problem.name) from problem
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OPERATORS, *_CALLED})

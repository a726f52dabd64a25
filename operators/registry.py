"""Every operator there is: the only list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import signature
from types import MappingProxyType
from typing import Any, Literal

from sluiceway.errors import SettingsError
from sluiceway.operators.contract import ColumnSelector, Learner
from sluiceway.operators.learners.fobos import FOBOS
from sluiceway.operators.learners.norma import NORMA
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.ofs_partial import OFSPartial
from sluiceway.operators.learners.pa import PA
from sluiceway.operators.learners.pa_l1 import PAL1
from sluiceway.operators.learners.pa_l2 import PAL2
from sluiceway.operators.learners.pa_objective import PAObjective
from sluiceway.operators.learners.perceptron_partial import PerceptronPartial
from sluiceway.operators.learners.perceptron_random import PerceptronRandom
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated
from sluiceway.operators.learners.stsd import STSD
from sluiceway.operators.selectors.alpha_investing import AlphaInvesting
from sluiceway.operators.selectors.fast_osfs import FastOSFS
from sluiceway.operators.selectors.fcbf import FCBF
from sluiceway.operators.selectors.osfs import OSFS
from sluiceway.operators.selectors.saola import Saola
from sluiceway.operators.selectors.saola_order_free import SaolaOrderFree
from sluiceway.operators.selectors.saola_stream import SaolaStream

Kind = Literal["learner", "column-selector", "instance-selector"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known about an operator before one is made."""

    cls: type[Any]
    """Of the protocol in `contract` that the kind names."""
    kind: Kind
    summary: str
    paper: str
    time: str
    """For one instance with nnz non-zeros, or one column of N rows with |S| columns selected."""
    state: str
    exceptions: Mapping[int, str] = field(default_factory=dict)
    """Laws (by number) that the operator cannot obey, each with the reason."""


_OFS_PAPER = "Wang, Zhao, Hoi, Jin: Online Feature Selection and Its Applications, IEEE TKDE 26(3), 2014"
_STSD_PAPER = "Zhang, Zhang, Long, Ding, Zhang, Wu: Towards Mining Trapezoidal Data Streams, ICDM 2015"
_SAOLA_PAPER = "Yu, Wu, Ding, Pei: Towards Scalable and Accurate Online Feature Selection for Big Data, ICDM 2014"
_MARGIN_PAPER = (
    "Shen, Dietterich: A Family of Large Margin Linear Classifiers and Its Application in Dynamic Environments, "
    "SDM 2009"
)
_PER_WEIGHT = "O(nnz), and O(weights) a row learnt from with emit.on_change"
_WEIGHTS = "O(non-zero weights, up to max_features)"
_OSFS_PAPER = "Wu, Yu, Ding, Wang, Zhu: Online Feature Selection with Streaming Features, IEEE TPAMI 35(5), 2013"
_ONE_PASS = "O(N) if irrelevant, O(N log N) for discrete columns of more than two values"
_COLUMNS = "O(N |S|), |S| up to max_features"
_ORDER = "the order of columns is part of the algorithm: a column is judged against those that came before it"

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
        "ofs-partial": Entry(
            OFSPartial,
            kind="learner",
            summary="OFS that looks at k features an instance, and says before it comes at which",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k + features seen and their names, up to max_features)",
        ),
        "perceptron-partial": Entry(
            PerceptronPartial,
            kind="learner",
            summary="the perceptron on k random features of each instance: a baseline",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k + features seen and their names, up to max_features)",
        ),
        "stsd": Entry(
            STSD,
            kind="learner",
            summary="passive-aggressive steps inside an L1 ball on a growing feature space, a proportion of it kept",
            paper=_STSD_PAPER,
            time="O(nnz) amortised; O(nnz + √(k nnz)) where most of the k weights kept are near each other, "
            'O(nnz + k) with many equal or selection = "random"',
            state="O(k + features seen, up to max_features)",
        ),
        "pa": Entry(
            PA,
            kind="learner",
            summary="the smallest step that gives an instance its margin: passive-aggressive, PA-I and PA-II",
            paper="Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms, JMLR 7, 2006",
            time=_PER_WEIGHT,
            state=_WEIGHTS,
        ),
        "pa-objective": Entry(
            PAObjective,
            kind="learner",
            summary="passive-aggressive steps that shrink all weights",
            paper=_MARGIN_PAPER,
            time=_PER_WEIGHT,
            state=_WEIGHTS,
        ),
        "pa-l2": Entry(
            PAL2,
            kind="learner",
            summary="passive-aggressive steps inside a ball",
            paper=_MARGIN_PAPER,
            time=_PER_WEIGHT,
            state=_WEIGHTS,
        ),
        "pa-l1": Entry(
            PAL1,
            kind="learner",
            summary="passive-aggressive steps inside a ball of the L1 norm: sparse weights",
            paper=_MARGIN_PAPER,
            time="O(nnz), and O(nnz + weights) a row learnt from",
            state=_WEIGHTS,
        ),
        "norma": Entry(
            NORMA,
            kind="learner",
            summary="gradient steps of one size, all weights fading: a comparator",
            paper="Kivinen, Smola, Williamson: Online Learning with Kernels, IEEE Trans. Signal Processing 52(8), 2004",
            time="O(nnz), and O(weights) a labelled row with emit.on_change",
            state=_WEIGHTS,
        ),
        "fobos": Entry(
            FOBOS,
            kind="learner",
            summary="gradient steps and soft thresholds, applied when a feature comes again: a comparator",
            paper="Duchi, Singer: Efficient Online and Batch Learning Using Forward Backward Splitting, JMLR 10, 2009",
            time="O(nnz), and O(weights) a labelled row with emit.on_change",
            state="O(weights that were not 0 when last gone through, up to max_features)",
        ),
        "saola": Entry(
            Saola,
            kind="column-selector",
            summary="relevant columns that no other selected one makes redundant, compared in pairs",
            paper=_SAOLA_PAPER,
            time=f"{_ONE_PASS}, else O(N |S|)",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "saola-order-free": Entry(
            SaolaOrderFree,
            kind="column-selector",
            summary="SAOLA's relation between columns, answered the same whatever their order",
            paper=_SAOLA_PAPER,
            time=f"{_ONE_PASS}, else O(N relevant columns)",
            state="O(N relevant columns, up to max_features)",
        ),
        "osfs": Entry(
            OSFS,
            kind="column-selector",
            summary="columns that stay dependent on the target given any small subset of the others",
            paper=_OSFS_PAPER,
            time=f"{_ONE_PASS}, else O(N |S| + |S|^(max_subset + 1)), times N for G2",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "fast-osfs": Entry(
            FastOSFS,
            kind="column-selector",
            summary="OSFS that tests the new column first, and the others only given subsets with it",
            paper=_OSFS_PAPER,
            time=f"{_ONE_PASS}, else O(N |S| + |S|^max_subset), times N for G2",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "alpha-investing": Entry(
            AlphaInvesting,
            kind="column-selector",
            summary="columns that improve a linear model, tested at levels that are spent and earned",
            paper="Zhou, Foster, Stine, Ungar: Streamwise Feature Selection, JMLR 7, 2006",
            time="O(N |S|)",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "fcbf": Entry(
            FCBF,
            kind="column-selector",
            summary="the fast correlation-based filter over all columns since the target: a batch comparator",
            paper="Yu, Liu: Feature Selection for High-Dimensional Data: A Fast Correlation-Based Filter, ICML 2003",
            time=f"{_ONE_PASS}, else O(N relevant columns)",
            state="O(N relevant columns, up to max_features)",
        ),
        "saola-stream": Entry(
            SaolaStream,
            kind="instance-selector",
            summary="SAOLA on instances and features that both grow, from statistics that merge",
            paper=_SAOLA_PAPER,
            time="O(nnz^2), and O(features |S|) every refresh instances",
            state="O(features^2), up to max_features",
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


def needs(name: str, parameter: str) -> bool:
    """Whether the operator has no default for the parameter."""
    found = signature(get(name).cls).parameters.get(parameter)
    return found is not None and found.default is found.empty


def learner(name: str) -> type[Learner]:
    """The learner of that name, or a `SettingsError` that says what kind it is instead."""
    return _of_kind(name, "learner")


def column_selector(name: str) -> type[ColumnSelector]:
    return _of_kind(name, "column-selector")


def _of_kind(name: str, kind: Kind) -> type[Any]:
    entry = get(name)
    if entry.kind != kind:
        raise SettingsError(f'operator "{name}" is of the kind {entry.kind}; a {kind} is needed here')
    return entry.cls

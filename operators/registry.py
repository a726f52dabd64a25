"""Every operator there is: the only list. Other packages add theirs by an entry point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from sluiceway.errors import SettingsError
from sluiceway.operators import others
from sluiceway.operators.contract import ColumnSelector, Learner
from sluiceway.operators.joint.etana import Etana
from sluiceway.operators.joint.f_etana import FEtana
from sluiceway.operators.kinds.column_selector import COLUMN_SELECTOR
from sluiceway.operators.kinds.instance_selector import INSTANCE_SELECTOR
from sluiceway.operators.kinds.joint import JOINT
from sluiceway.operators.kinds.kind import Kind
from sluiceway.operators.kinds.learner import LEARNER
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
from sluiceway.operators.parameters import Parameter, parameters_of
from sluiceway.operators.selectors.alpha_investing import AlphaInvesting
from sluiceway.operators.selectors.fast_osfs import FastOSFS
from sluiceway.operators.selectors.fcbf import FCBF
from sluiceway.operators.selectors.ofs_a3m import OFSA3M
from sluiceway.operators.selectors.ofs_density import OFSDensity
from sluiceway.operators.selectors.osfs import OSFS
from sluiceway.operators.selectors.saola import Saola
from sluiceway.operators.selectors.saola_order_free import SaolaOrderFree
from sluiceway.operators.selectors.saola_stream import SaolaStream


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known about an operator before one is made."""

    cls: type[Any]
    """Of the protocol in `contract` that its kind drives."""
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
_ETANA_PAPER = (
    "Warahena Liyanage, Zois, Chelmis: On-the-Fly Joint Feature Selection and Classification"
)
_PER_WEIGHT = "O(nnz), and O(weights) a row learnt from with emit.on_change"
_WEIGHTS = "O(non-zero weights, up to max_features)"
_OSFS_PAPER = "Wu, Yu, Ding, Wang, Zhu: Online Feature Selection with Streaming Features, IEEE TPAMI 35(5), 2013"
_ONE_PASS = "O(N) if irrelevant, O(N log N) for discrete columns of more than two values"
_COLUMNS = "O(N |S|), |S| up to max_features"
_NEIGHBOURS = "O(N²), and O(N² |S|²) where columns may have become superfluous; memory O(N²)"
_ORDER = "the order of columns is part of the algorithm: a column is judged against those that came before it"

OPERATORS: Mapping[str, Entry] = MappingProxyType(
    {
        "ofs": Entry(
            OFS,
            kind=LEARNER,
            summary="large-margin steps inside a ball, all but the k largest weights dropped",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k)",
        ),
        "perceptron-truncated": Entry(
            PerceptronTruncated,
            kind=LEARNER,
            summary="the perceptron, all but the k largest weights dropped: a baseline",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k)",
        ),
        "perceptron-random": Entry(
            PerceptronRandom,
            kind=LEARNER,
            summary="the perceptron on a fresh random set of k features: a baseline",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k + features seen, up to max_features)",
        ),
        "ofs-partial": Entry(
            OFSPartial,
            kind=LEARNER,
            summary="OFS that looks at k features an instance, and says before it comes at which",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k + features seen and their names, up to max_features)",
        ),
        "perceptron-partial": Entry(
            PerceptronPartial,
            kind=LEARNER,
            summary="the perceptron on k random features of each instance: a baseline",
            paper=_OFS_PAPER,
            time="O(nnz + k)",
            state="O(k + features seen and their names, up to max_features)",
        ),
        "stsd": Entry(
            STSD,
            kind=LEARNER,
            summary="passive-aggressive steps inside an L1 ball on a growing feature space, a proportion of it kept",
            paper=_STSD_PAPER,
            time="O(nnz) amortised; O(nnz + √(k nnz)) where most of the k weights kept are near each other, "
            'O(nnz + k) with many equal or selection = "random"',
            state="O(k + features seen, up to max_features)",
        ),
        "pa": Entry(
            PA,
            kind=LEARNER,
            summary="the smallest step that gives an instance its margin: passive-aggressive, PA-I and PA-II",
            paper="Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms, JMLR 7, 2006",
            time=_PER_WEIGHT,
            state=_WEIGHTS,
        ),
        "pa-objective": Entry(
            PAObjective,
            kind=LEARNER,
            summary="passive-aggressive steps that shrink all weights",
            paper=_MARGIN_PAPER,
            time=_PER_WEIGHT,
            state=_WEIGHTS,
        ),
        "pa-l2": Entry(
            PAL2,
            kind=LEARNER,
            summary="passive-aggressive steps inside a ball",
            paper=_MARGIN_PAPER,
            time=_PER_WEIGHT,
            state=_WEIGHTS,
        ),
        "pa-l1": Entry(
            PAL1,
            kind=LEARNER,
            summary="passive-aggressive steps inside a ball of the L1 norm: sparse weights",
            paper=_MARGIN_PAPER,
            time="O(nnz), and O(nnz + weights) a row learnt from",
            state=_WEIGHTS,
        ),
        "norma": Entry(
            NORMA,
            kind=LEARNER,
            summary="gradient steps of one size, all weights fading: a comparator",
            paper="Kivinen, Smola, Williamson: Online Learning with Kernels, IEEE Trans. Signal Processing 52(8), 2004",
            time="O(nnz), and O(weights) a labelled row with emit.on_change",
            state=_WEIGHTS,
        ),
        "fobos": Entry(
            FOBOS,
            kind=LEARNER,
            summary="gradient steps and soft thresholds, applied when a feature comes again: a comparator",
            paper="Duchi, Singer: Efficient Online and Batch Learning Using Forward Backward Splitting, JMLR 10, 2009",
            time="O(nnz), and O(weights) a labelled row with emit.on_change",
            state="O(weights that were not 0 when last gone through, up to max_features)",
        ),
        "saola": Entry(
            Saola,
            kind=COLUMN_SELECTOR,
            summary="relevant columns that no other selected one makes redundant, compared in pairs",
            paper=_SAOLA_PAPER,
            time=f"{_ONE_PASS}, else O(N |S|)",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "saola-order-free": Entry(
            SaolaOrderFree,
            kind=COLUMN_SELECTOR,
            summary="SAOLA's relation between columns, answered the same whatever their order",
            paper=_SAOLA_PAPER,
            time=f"{_ONE_PASS}, else O(N relevant columns)",
            state="O(N relevant columns, up to max_features)",
        ),
        "osfs": Entry(
            OSFS,
            kind=COLUMN_SELECTOR,
            summary="columns that stay dependent on the target given any small subset of the others",
            paper=_OSFS_PAPER,
            time=f"{_ONE_PASS}, else O(N |S| + |S|^(max_subset + 1)), times N for G2",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "fast-osfs": Entry(
            FastOSFS,
            kind=COLUMN_SELECTOR,
            summary="OSFS that tests the new column first, and the others only given subsets with it",
            paper=_OSFS_PAPER,
            time=f"{_ONE_PASS}, else O(N |S| + |S|^max_subset), times N for G2",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "alpha-investing": Entry(
            AlphaInvesting,
            kind=COLUMN_SELECTOR,
            summary="columns that improve a linear model, tested at levels that are spent and earned",
            paper="Zhou, Foster, Stine, Ungar: Streamwise Feature Selection, JMLR 7, 2006",
            time="O(N |S|)",
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "fcbf": Entry(
            FCBF,
            kind=COLUMN_SELECTOR,
            summary="the fast correlation-based filter over all columns since the target: a batch comparator",
            paper="Yu, Liu: Feature Selection for High-Dimensional Data: A Fast Correlation-Based Filter, ICML 2003",
            time=f"{_ONE_PASS}, else O(N relevant columns)",
            state="O(N relevant columns, up to max_features)",
        ),
        "ofs-a3m": Entry(
            OFSA3M,
            kind=COLUMN_SELECTOR,
            summary="columns that make neighbourhoods of rows purer, up to the first large gap: a comparator",
            paper="Zhou, Hu, Li, Wu: Online Streaming Feature Selection Using Adapted Neighborhood Rough Set, "
            "Information Sciences 481, 2019",
            time=_NEIGHBOURS,
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "ofs-density": Entry(
            OFSDensity,
            kind=COLUMN_SELECTOR,
            summary="columns that make neighbourhoods of rows purer, as far as rows lie dense: a comparator",
            paper="Zhou, Hu, Li, Wu: OFS-Density: A Novel Online Streaming Feature Selection Method, "
            "Pattern Recognition 86, 2019",
            time=_NEIGHBOURS,
            state=_COLUMNS,
            exceptions={3: _ORDER},
        ),
        "saola-stream": Entry(
            SaolaStream,
            kind=INSTANCE_SELECTOR,
            summary="SAOLA on instances and features that both grow, from statistics that merge",
            paper=_SAOLA_PAPER,
            time="O(nnz^2), and O(features |S|) every refresh instances",
            state="O(features^2), up to max_features",
        ),
        "etana": Entry(
            Etana,
            kind=JOINT,
            summary="features looked at one by one until the next look costs more than it can save",
            paper=_ETANA_PAPER,
            time="O(features looked at), O(nnz) if labelled, and every refit_every labelled ones a policy: "
            "O(horizon bins) of two classes, O(horizon points^2 bins classes) of more",
            state="O(features classes bins), features up to max_features; in the warm-up O(nnz) of its rows",
        ),
        "f-etana": Entry(
            FEtana,
            kind=JOINT,
            summary="features looked at one by one until the risk is below a threshold, independent or in a tree",
            paper=_ETANA_PAPER,
            time="O(features looked at), O(nnz) if labelled, O(nnz + candidates^2) with a tree, and every refit_every "
            "labelled ones a policy: O(horizon)",
            state="O(features classes bins), features up to max_features, and with a tree "
            "O(candidates^2 bins^2 classes); in the warm-up O(nnz) of its rows",
        ),
    }
)


def operators() -> Mapping[str, Entry]:
    """All of them: those above, then those of other packages."""
    return MappingProxyType({**OPERATORS, **{name: get(name) for name in sorted(others.points())}})


def get(name: str) -> Entry:
    """The operator of that name, or a `SettingsError` that offers the nearest."""
    if name in OPERATORS:
        return OPERATORS[name]
    added = others.points()
    if name in added:
        return others.load(added[name], Entry)
    known = [*OPERATORS, *added]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"?' if near else "there are: " + ", ".join(known) + "."
    raise SettingsError(f'there is no operator "{name}"; {hint}')


def parameters(name: str) -> Mapping[str, Parameter]:
    """What the operator can be told, by name."""
    return parameters_of(get(name).cls)


def needs(name: str, parameter: str) -> bool:
    """Whether the operator has no default for the parameter."""
    found = parameters(name).get(parameter)
    return found is not None and found.required


def of_kind(kind: Kind) -> dict[str, Entry]:
    """All operators of one kind."""
    return {name: entry for name, entry in OPERATORS.items() if entry.kind is kind}


def learner(name: str) -> type[Learner]:
    """The learner of that name, or a `SettingsError` that says what kind it is instead."""
    return _of_kind(name, LEARNER)


def column_selector(name: str) -> type[ColumnSelector]:
    return _of_kind(name, COLUMN_SELECTOR)


def _of_kind(name: str, kind: Kind) -> type[Any]:
    entry = get(name)
    if entry.kind is not kind:
        raise SettingsError(f'operator "{name}" is of the kind {entry.kind}; a {kind} is needed here')
    return entry.cls

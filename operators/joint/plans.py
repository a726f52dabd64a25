"""From counts to a plan: which features, in which order, with which chances."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sluiceway.operators.joint.counts import Counts, Waiting
from sluiceway.operators.joint.names import Integers
from sluiceway.operators.joint.policy import Plan, Vector
from sluiceway.operators.joint.settings import Terms
from sluiceway.operators.joint.tree import PairCounts, information

_DIGITS = 12
"""Features whose worths are equal to so many digits are ordered by their names, not by rounding."""


def plan_of(counts: Counts, pairs: PairCounts | None, terms: Terms, scale: float) -> Plan:
    """`scale`: what costs are multiplied by, to keep to a budget. Every class there is must have been counted."""
    slots = pairs.slots(counts) if pairs else counts.all_slots()
    tables = counts.tables(slots)
    if pairs and len(slots):
        pairs.know(counts.labels)
        order = _in_order(counts, terms, slots, information(tables), tables)[: _most(counts, terms, scale, slots)]
        if len(order):
            chances, ancestor = pairs.tables(order.tolist(), pairs.parents(int(order[0])), counts)
            return _planned(counts, terms, scale, slots[order], chances, ancestor)
    chances = counts.probabilities(slots, tables)
    order = _in_order(counts, terms, slots, spread(chances), tables)[: _most(counts, terms, scale, slots)]
    by_stage = np.ascontiguousarray(chances[order].transpose(0, 2, 1)[:, None])
    return _planned(counts, terms, scale, slots[order], by_stage, np.full(len(order), -1, dtype=np.int64))


def first_pairs(
    counts: Counts, terms: Terms, candidates: int, waiting: Waiting, labels: NDArray[np.int8]
) -> PairCounts:
    """The features that tell most of the class, and their pairs in the rows of the warm-up, which left these values."""
    slots = counts.all_slots()
    tables = counts.tables(slots)
    best = slots[_in_order(counts, terms, slots, information(tables), tables)[:candidates]]
    pairs = PairCounts(counts.known.spelt(best.tolist()), counts.bins)
    by_row = np.argsort(waiting.row, kind="stable")
    indptr = np.searchsorted(waiting.row[by_row], np.arange(len(labels) + 1))
    pairs.count(indptr, waiting.slot[by_row], waiting.value[by_row], labels, counts)
    return pairs


def spread(chances: Vector) -> Vector:
    """How much the chances of the bins vary between the classes: Σ_v var_i P(v | i) of each [feature, class, bin]."""
    features, classes, bins = chances.shape
    found = np.zeros(features)
    for v in range(bins):
        mean = np.zeros(features)
        for i in range(classes):
            mean += chances[:, i, v] / classes
        for i in range(classes):
            found += (chances[:, i, v] - mean) ** 2 / classes
    return found


def _in_order(counts: Counts, terms: Terms, slots: Integers, worth: Vector, tables: Integers) -> Integers:
    """The best for their costs first, ties to the smaller feature key, constant ones last."""
    constant = np.count_nonzero(tables.sum(axis=1), axis=1) <= 1
    costs = _costs(counts, terms, slots)
    worth = np.round(worth, _DIGITS)
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(costs > 0, worth / costs, np.where(worth > 0, np.inf, 0.0))
    return np.lexsort((counts.known.keys[slots], -np.where(constant, -1.0, worth)))


def _most(counts: Counts, terms: Terms, scale: float, slots: Integers) -> int:
    """How many stages can pay: a policy spends g(prior) in the mean at most, and three times that is room enough."""
    prior = _prior(counts)
    at_once = float((prior @ terms.mistakes(len(prior))).min())
    least = float(_costs(counts, terms, slots).min(initial=math.inf)) * scale
    pay = math.ceil(3 * at_once / least) if least > 0 else len(slots)
    return min(len(slots), terms.horizon, pay)


def _costs(counts: Counts, terms: Terms, slots: Integers) -> Vector:
    return np.array([terms.cost_of(name) for name in counts.known.spelt(slots.tolist())], dtype=np.float64)


def _prior(counts: Counts) -> Vector:
    return np.asarray((counts.totals + 1) / (counts.totals.sum() + len(counts.totals)))


def _planned(
    counts: Counts, terms: Terms, scale: float, slots: Integers, tables: Vector, ancestor: Integers
) -> Plan:
    paid = _costs(counts, terms, slots)
    return Plan(
        counts.rows, tuple(counts.labels), _prior(counts), tuple(counts.known.spelt(slots.tolist())),
        paid, paid * scale, counts.cuts[slots], counts.zero[slots], ancestor, tables,
    )  # fmt: skip

"""What OSFS and Fast-OSFS share: a store of columns and tests of conditional independence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sluiceway.operators.kernels.columns.column_set import MEMBERS
from sluiceway.operators.kernels.columns.column_store import FIRST_MEMBER, FISHER_Z, SYMMETRIC_UNCERTAINTY
from sluiceway.operators.kernels.columns.independence import Tests, correlate
from sluiceway.operators.parameters import choice, count, share
from sluiceway.operators.selectors.columns import StoreSelector
from sluiceway.operators.selectors.significance import critical_value

TESTS = {"fisher-z": FISHER_Z, "g2": SYMMETRIC_UNCERTAINTY}


class ConditionalSelector(StoreSelector):
    """At `max_features` candidates, a column that removes none of them is left out and counted."""

    test: str = choice("of numbers (Fisher-Z), or of discrete data (G2)", *TESTS, default="fisher-z")
    significance: float = share("level of the tests", default=0.01)
    max_subset: int = count("how many columns a test may condition on", most=10, default=3)

    @property
    def _measure(self) -> int:
        return TESTS[self.test]

    @property
    def _width(self) -> int:
        return self.max_subset

    def _begin(self) -> None:
        super()._begin()
        self._tests = self._make_tests(0)

    def _make_tests(self, places: int) -> Tests:
        most = self.max_subset
        return Tests(
            significance=self.significance,
            critical=critical_value(self.significance),
            most=most,
            r=np.zeros((places, places) if self._measure == FISHER_Z else (0, 0)),
            swept=np.zeros((most + 2, most + 2)),
            strata=np.zeros((3, 0 if self._measure == FISHER_Z else self.rows), dtype=np.int32),
            subset=np.zeros(most, dtype=np.int64),
            chosen=np.zeros(most, dtype=np.int64),
            pool=np.zeros(places, dtype=np.int64),
        )

    def _start(self, target: Any, targets: int, version: int) -> None:
        super()._start(target, targets, version)
        self._tests = self._make_tests(len(self._members.number))

    def _grow(self, places: int) -> None:
        super()._grow(places)
        if len(self._members.number) > len(self._tests.pool):
            had = len(self._tests.r)
            self._tests, before = self._make_tests(len(self._members.number)), self._tests
            self._tests.r[:had, :had] = before.r

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        for place in range(FIRST_MEMBER, FIRST_MEMBER + int(self._members.counts[MEMBERS])):
            correlate(self._store, self._tests, place, self._members.order, place - FIRST_MEMBER)

"""What OSFS and Fast-OSFS share: a store of columns and tests of conditional independence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sluiceway.operators.kernels.columns.column_set import MEMBERS
from sluiceway.operators.kernels.columns.column_store import FIRST_MEMBER, FISHER_Z, SYMMETRIC_UNCERTAINTY
from sluiceway.operators.kernels.columns.independence import Tests, correlate
from sluiceway.operators.params import one_of, share, whole_number
from sluiceway.operators.selectors.columns import MAX_FEATURES, StoreSelector
from sluiceway.operators.selectors.significance import critical_value

TESTS = {"fisher-z": FISHER_Z, "g2": SYMMETRIC_UNCERTAINTY}


class ConditionalSelector(StoreSelector):
    """`test` chooses the test, `significance` its level, `max_subset` how many columns it may condition on.

    At `max_features` candidates, a column that removes none of them is left out and counted.
    """

    def __init__(
        self,
        *,
        test: str = "fisher-z",
        significance: float = 0.01,
        max_subset: int = 3,
        max_features: int = MAX_FEATURES,
    ) -> None:
        self._test = one_of("test", test, tuple(TESTS))
        self._significance = share("significance", significance)
        self._max_subset = whole_number("max_subset", max_subset, least=1, most=10)
        super().__init__(measure=TESTS[test], width=self._max_subset, max_features=max_features)
        self._tests = self._make_tests(0)

    @property
    def params(self) -> dict[str, Any]:
        return {
            "test": self._test,
            "significance": self._significance,
            "max_subset": self._max_subset,
            "max_features": self._max_features,
        }

    def _make_tests(self, places: int) -> Tests:
        most = self._max_subset
        return Tests(
            significance=self._significance,
            critical=critical_value(self._significance),
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

"""The laws of an operator, for those who write one.

>>> from sluiceway.testing import check_operator
>>> check_operator("ofs", k=3)

Under pytest, each law a test of its own:

    @pytest.mark.parametrize("law", laws(ENTRY, k=3), ids=str)
    def test_laws(law):
        law()
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluiceway.operators import registry
from sluiceway.operators.registry import Entry
from sluiceway.testing import column_laws, instance_laws, joint_laws
from sluiceway.testing.law import Check, LawBroken, Make

__all__ = ["LawBroken", "check_operator", "laws"]


_CHECKS = {"instances": instance_laws.CHECKS, "columns": column_laws.CHECKS, "decisions": joint_laws.CHECKS}
"""By what a kind says that its operators obey."""


@dataclass(frozen=True, slots=True)
class _Law:
    """One law, to be tried on one operator."""

    check: Check
    entry: Entry
    params: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.check.number}-{self.check.run.__name__}"

    def __call__(self) -> None:
        """`LawBroken` if it does not hold, or if it does although the entry says that it cannot."""
        run: Callable[[Make], None] = self.check.run
        excuse = self.entry.exceptions.get(self.check.number)
        try:
            run(lambda: self.entry.cls(**self.params))
        except Exception as problem:  # whatever an operator raises where it should do its work
            if excuse is None:
                told = str(problem) if isinstance(problem, AssertionError) else repr(problem)
                raise LawBroken(f"{self.entry.cls.__name__} breaks law {self.check}: {told}") from problem
            return
        if excuse is not None and self.check.excusable:
            raise LawBroken(
                f"{self.entry.cls.__name__} is said to break law {self.check}, because {excuse}; but it does not"
            )


def laws(operator: Entry | str, **params: Any) -> list[_Law]:
    """The laws that an operator of its kind has to obey. `operator` is a registry's entry, or a name in the registry.

    `params` are hyper-parameters to try it with. A law that the entry lists among its `exceptions` must really fail.
    """
    entry = registry.get(operator) if isinstance(operator, str) else operator
    return [_Law(check, entry, params) for check in _CHECKS[entry.kind.obeys]]


def check_operator(operator: Entry | str, **params: Any) -> None:
    """Try all laws; the first that is broken is a `LawBroken`, an `AssertionError` that says which, and where."""
    for law in laws(operator, **params):
        law()

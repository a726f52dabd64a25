"""A snapshot as a mask: which features of an instance to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sluiceway.schemas.records import Snapshot

__all__ = ["SelectionMask"]

Value = TypeVar("Value")


class _Table(Protocol):
    @property
    def columns(self) -> Any: ...


class _Series(Protocol):
    @property
    def iloc(self) -> Any: ...


Named = TypeVar("Named", bound=_Table | _Series)
"""A table or a Series with names, known by what it has: neither pandas nor polars is needed here."""


class SelectionMask:
    """Keeps the selected features of an instance, or of a table of them.

    >>> mask = SelectionMask(["free", "money"])         # or a Snapshot
    >>> mask.apply({"free": 0.3, "len": 120})
    {'free': 0.3}
    >>> mask.apply([0.3, 120.0, 0.0], names=["free", "len", "money"])
    array([0.3, 0. ])
    >>> mask.kept(["free", "len", "money"])
    ['free', 'money']

    A snapshot lists at most `emit.top` features. `complete` says whether it lists all that are selected; a mask of a
    cut snapshot keeps those listed, which have the largest weights.
    """

    def __init__(self, selection: Snapshot | Sequence[str]) -> None:
        if isinstance(selection, Snapshot):
            self.features = tuple(entry.feature for entry in selection.selected)
            self.complete = selection.n_selected == len(selection.selected)
        else:
            if isinstance(selection, str):
                raise TypeError("a selection is a Snapshot or a list of feature names, not one text")
            self.features = tuple(selection)
            self.complete = True
        self._wanted = frozenset(self.features)

    def __contains__(self, feature: object) -> bool:
        return feature in self._wanted

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return f"SelectionMask({list(self.features)!r})"

    @overload
    def apply(self, x: Mapping[str, Value]) -> dict[str, Value]: ...

    @overload
    def apply(self, x: Named) -> Named: ...

    @overload
    def apply(self, x: ArrayLike, names: Sequence[str] | None = None) -> NDArray[Any]: ...

    def apply(self, x: Any, names: Sequence[str] | None = None) -> object:
        """The selected features of `x`, in the order in which `x` has them.

        A mapping gives a dict; selected features that it does not have are absent, not made up. A table with names (a
        DataFrame of pandas or polars, an Arrow table) gives one of the selected columns, a pandas Series (an instance)
        one of the selected entries. An array (an
        instance, or a table with an instance a row) gives an array of the selected columns; `names` names the columns,
        by default "0", "1", ... as in records.

        `ValueError` if a table, a Series or an array has none of the selected features: its names are not those that
        the flow has learnt from. (A mapping without any is an instance in which they are all 0.)
        """
        if names is not None and (isinstance(x, Mapping) or _names_of(x) is not None):
            raise TypeError(f"names are for arrays; a {type(x).__name__} has its own")
        if isinstance(x, Mapping):
            return {name: value for name, value in x.items() if name in self._wanted}
        own = _names_of(x)
        if own is not None:
            places = self._places(own)
            if hasattr(x, "iloc"):  # of pandas, where names may repeat and need not be texts
                return x.iloc[:, places] if hasattr(x, "columns") else x.iloc[places]
            return x.select([own[place] for place in places])
        table = np.asarray(x)
        if table.ndim not in (1, 2):
            raise ValueError(f"an instance has one dimension and a table two, not {table.ndim}")
        width = table.shape[-1]
        if names is None:
            names = [str(place) for place in range(width)]
        elif len(names) != width:
            raise ValueError(f"{len(names)} names for {width} columns")
        return table[..., self._places(names)]

    def _places(self, names: Sequence[str]) -> list[int]:
        places = [place for place, name in enumerate(names) if name in self._wanted]
        if self.features and names and not places:
            raise ValueError(
                f"none of the selected features ({_some(self.features)}) is among the names given ({_some(names)})"
            )
        return places

    def kept(self, names: Sequence[str]) -> list[str]:
        """Those of `names` that are selected, in their order: the names of the columns that `apply` gives."""
        return [name for name in names if name in self._wanted]


def _names_of(x: Any) -> list[str] | None:
    """The names that a DataFrame or a Series brings along; None of an array."""
    if hasattr(x, "collect_schema"):  # polars, lazy or not
        return list(x.collect_schema().names())
    if hasattr(x, "column_names"):  # Arrow
        return list(x.column_names)
    if hasattr(x, "iloc"):  # pandas
        return [str(name) for name in (x.columns if hasattr(x, "columns") else x.index)]
    return None


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")

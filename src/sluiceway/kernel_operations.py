"""What an operation gives for arguments of certain types is found out once.

Left to itself, Numba searches again whenever it meets an addition of two whole numbers, and it meets thousands: it goes
through all that it can add, from lists to strings, and what it can add arrays of. That was a tenth of a first start.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from numba import types

_search = types.Function.get_call_type


def _known(operation: Any, context: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Stands in for what searches. Remembers nothing that Numba itself has compiled for the purpose: that depends on
    the options of the kernel that it was compiled for."""
    known = operation.__dict__.setdefault("known", {})
    key = (context, arguments, tuple(named.items()))
    if key not in known:
        found = _search(operation, context, arguments, named)
        made_by = operation.get_impl_key(found)
        if made_by is not operation.typing_key and not isinstance(made_by, FunctionType):
            return found
        known[key] = found
    return known[key]


types.Function.get_call_type = _known

"""Reading and writing one number of an array, and its length, in a fifth of the code that Numba translates them into.

Numba copies the description of the array to the stack with every access, and reads it piece by piece from there. All
that goes once the code is optimised, and the same instructions are left; but half of what a kernel is translated into
was this, and it all has to be written, read and gone through.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core.imputils import lower_builtin
from numba.np import arrayobj


@lower_builtin(operator.getitem, types.Array, types.Integer)  # type: ignore[untyped-decorator]
def _getitem(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    array, index = signature.args
    if not _is_plain(context, array, (index,)):
        return arrayobj.getitem_arraynd_intp(context, builder, signature, given)
    return arrayobj.load_item(context, builder, array, _place(context, builder, array, given[0], index, given[1]))


@lower_builtin(operator.setitem, types.Array, types.Integer, types.Any)  # type: ignore[untyped-decorator]
def _setitem(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    array, index, value = signature.args
    if not _is_plain(context, array, (index,)):
        return arrayobj.setitem_array(context, builder, signature, given)
    place = _place(context, builder, array, given[0], index, given[1])
    arrayobj.store_item(context, builder, array, context.cast(builder, given[2], value, array.dtype), place)
    return context.get_dummy_value()


@lower_builtin(len, types.Array)  # type: ignore[untyped-decorator]
def _len(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    (array,) = signature.args
    if type(array) is not types.Array:
        return arrayobj.array_len(context, builder, signature, given)
    return _length(context, builder, array, given[0])


def _is_plain(context: Any, array: Any, indices: tuple[Any, ...]) -> bool:
    """Whether it is a row of items next to each other, and nobody wants to know of an index beyond its end."""
    return type(array) is types.Array and array.ndim == 1 and array.layout == "C" and not context.enable_boundscheck


def _place(context: Any, builder: Any, array: Any, given: Any, index: Any, at: Any) -> Any:
    at = arrayobj.fix_integer_index(context, builder, index, at, _length(context, builder, array, given))
    data = context.data_model_manager[array].get(builder, given, "data")
    return builder.gep(data, [at])


def _length(context: Any, builder: Any, array: Any, given: Any) -> Any:
    shape = context.data_model_manager[array].get_field_position("shape")
    return builder.extract_value(given, (shape, 0))

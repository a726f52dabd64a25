"""How a kernel calls its parts: an array is handed over as where it begins and how long it is.

Numba hands over seven values for an array, and most kernels take records of many. Here the rest is known (rows of items
next to each other) or of no use (who owns the memory: no references are counted). Nor does a caller look for an error
where none can come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.callconv import RETCODE_OK, CPUCallConv
from numba.core.datamodel import ArgPacker, default_manager
from numba.core.datamodel.models import ArrayModel
from numba.np.numpy_support import as_dtype


class _Row(ArrayModel):  # type: ignore[misc]  # numba has no types
    """An array as an argument of a part. Anywhere else it is to Numba what it always was."""

    def __init__(self, models: Any, array: Any) -> None:
        super().__init__(models, array)
        self._is_row = type(array) is types.Array and array.ndim == 1 and array.layout == "C"
        self._shape = self.get_field_position("shape")

    def get_argument_type(self) -> Any:
        if not self._is_row:
            return super().get_argument_type()
        return tuple(self._models[self._fields.index(name)].get_argument_type() for name in ("data", "nitems"))

    def as_argument(self, builder: Any, value: Any) -> Any:
        if not self._is_row:
            return super().as_argument(builder, value)
        return self.get(builder, value, "data"), builder.extract_value(value, (self._shape, 0))

    def from_argument(self, builder: Any, value: Any) -> Any:
        if not self._is_row:
            return super().from_argument(builder, value)
        data, length = value
        size = as_dtype(self._fe_type.dtype).itemsize
        known = {"itemsize": size, "strides": [size]}
        kind = self.get_value_type()
        fields = zip(kind.elements, self._fields, strict=True)
        array = ir.Constant(kind, [ir.Constant(field, known.get(name)) for field, name in fields])
        array = self.set(builder, array, data, "data")
        array = self.set(builder, array, length, "nitems")
        return builder.insert_value(array, length, (self._shape, 0))


_models = default_manager.copy()
_models.register(types.Array, _Row)


class PartCallConv(CPUCallConv):  # type: ignore[misc]
    """What is agreed between a part and those who call it."""

    def declare(self, module: Any, part: Any) -> Any:
        """The part in the module of who calls it, or its own."""
        kind = self.get_function_type(part.restype, part.argtypes)
        function = cgutils.get_or_insert_function(module, kind, part.mangled_name)
        for given_back in function.args[:2]:
            given_back.add_attribute("captures(none)")
            given_back.add_attribute("noalias")
        return function

    def _get_arg_packer(self, argtypes: Any) -> Any:
        return ArgPacker(_models, argtypes)


def can_fail(function: Any) -> bool:
    """Whether a translated part ever gives back that there was an error."""
    given_back = [block.terminator.operands[0] for block in function.blocks if block.terminator.opname == "ret"]
    return not all(isinstance(code, ir.Constant) and code.constant == RETCODE_OK.constant for code in given_back)


def calling(part: Any, libraries: tuple[Any, ...], fails: bool) -> Callable[..., Any]:
    """What translates a call of the part."""

    def call(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        convention = PartCallConv(context)
        function = convention.declare(builder.module, part)
        if fails:
            status, result = convention.call_function(builder, function, part.restype, part.argtypes, given)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result
        place = cgutils.alloca_once(builder, function.args[0].type.pointee)
        errors = convention._get_excinfo_argument(builder.function)  # noqa: SLF001
        packed = convention._get_arg_packer(part.argtypes).as_arguments(builder, given)  # noqa: SLF001
        builder.call(function, [place, errors, *packed])
        return context.get_returned_value(builder, part.restype, builder.load(place))

    call.libs = libraries  # type: ignore[attr-defined]
    return call

"""Prefetching: ask for memory before it is needed, where arrays are too long for the processor's caches.

The features of a row stand anywhere in arrays that are as long as there are names. Short arrays stay in the caches,
and a prefetch would cost more than it saves. In long ones every access would wait for main memory. The processor has
only few requests under way at once, so a loop asks for one element of a later row with each element that it works on,
rather than for a whole row at once. Prefetching changes the time and nothing else.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

MANY = 1 << 16
"""Arrays longer than this are prefetched."""
DISTANCE = 128
"""How many non-zeros after the current one to ask for."""


@intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Start to load `array[index]` into the caches; an index out of bounds does no harm."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there = arrayobj.make_array(signature.args[0])(context, builder, args[0])
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        address = builder.bitcast(builder.gep(there.data, [at]), cgutils.voidptr_t)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], shape)
        read, every_cache, data = number(0), number(3), number(1)
        builder.call(instruction, [address, read, every_cache, data])
        return context.get_dummy_value()

    return types.void(array, index), generate

"""Memory asked for before it is needed: what rows to come will read, where it is too much for the caches.

A row's non-zeros stand anywhere in arrays as long as there are names. Up to some length the caches have them all, and
asking costs more than it saves; beyond, each would be waited for. Only so many requests can be under way at once, so
they are best made one by one, while the row at hand is reckoned with: a loop that asks for a whole row at once stands
still itself. What is asked for decides nothing but the time.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

MANY = 1 << 16
"""Arrays that are longer are asked for ahead."""
AHEAD = 128
"""How many non-zeros ahead of the one at hand."""


@intrinsic
def ask_for(_: Any, array: Any, index: Any) -> Any:
    """Start to bring `array[index]` into the caches; there are no bounds to break."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there = arrayobj.make_array(signature.args[0])(context, builder, args[0])
        at = context.cast(builder, args[1], signature.args[1], types.intp)
        address = builder.bitcast(builder.gep(there.data, [at]), cgutils.voidptr_t)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], shape)
        read, every_cache, data = number(0), number(3), number(1)
        builder.call(prefetch, [address, read, every_cache, data])
        return context.get_dummy_value()

    return types.void(array, index), generate

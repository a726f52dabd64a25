"""Kernels are translated with their variables as plain values, where Numba would put them into memory.

Numba keeps whatever is used in more than one block of code in memory, and loads it whole wherever it is used: for the
records of twenty arrays that kernels take, that was most of what had to be optimised away. It also clears what it has
done with, since it counts references: kernels that count none need not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from llvmlite.ir import IRBuilder
from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering

from sluiceway.kernel_calls import PartCallConv, can_fail


class _KernelLower(Lower):  # type: ignore[misc]  # numba has no types
    def _find_singly_assigned_variable(self) -> None:
        """What is assigned at one place, before every use of it, whichever way the code has come there."""
        blocks = self.func_ir.blocks
        assigned, used = defaultdict(list), defaultdict(set)
        for label, block in blocks.items():
            for assignment in block.find_insts(ir.Assign):
                assigned[assignment.target.name].append(label)
        for label, names in compute_use_defs(blocks).usemap.items():  # not what the block itself has assigned before
            for name in names:
                used[name].add(label)
        always_before = compute_cfg_from_blocks(blocks).dominators()
        self._blk_local_varmap: dict[str, Any] = {}
        self._singly_assigned_vars = {
            name
            for name, places in assigned.items()
            if len(places) == 1
            # blocks are translated in the order of their labels
            and all(places[0] < label and places[0] in always_before.get(label, ()) for label in used[name])
        }

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))


class _PartLower(_KernelLower):
    @property
    def call_conv(self) -> PartCallConv:
        return PartCallConv(self.context)

    def setup_function(self, fndesc: Any) -> None:
        self.function = self.call_conv.declare(self.module, fndesc)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def lower(self) -> None:
        super().lower()
        self.library.can_fail = can_fail(self.function)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(BaseNativeLowering):  # type: ignore[misc]
    """The pass that translates a kernel that counts no references."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _KernelLower


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(BaseNativeLowering):  # type: ignore[misc]
    """The same for a part of kernels."""

    _name = "part_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        return _PartLower

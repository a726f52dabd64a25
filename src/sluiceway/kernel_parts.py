"""Parts of kernels become machine code together with the kernels that call them, and never by themselves.

Left to itself, Numba makes a library of every function: it is optimised and turned into machine code, then optimised
again as a part of each function that calls it, and once more as a part of those that call these. Most of a first start
went there. Here a part is only translated; all parts of a kernel are linked into it once, and optimised there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import _dynfunc, config, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import IRLegalization, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, MakeFunctionToJitFunction, WithLifting

import sluiceway.kernel_arrays
import sluiceway.kernel_operations  # noqa: F401 - both are for Numba to find
from sluiceway.kernel_calls import calling
from sluiceway.kernel_lowering import KernelLowering, PartLowering


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    def _optimize_functions(self, module: Any) -> None:
        """Not one by one: all are optimised where they are linked."""
        module.data_layout = self._codegen._data_layout  # noqa: SLF001


class _PartLibrary(_Library):
    """A translated function, and which others it calls; nothing of it can be called from Python."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def parts(self) -> list[Any]:
        """The libraries of the functions that it calls."""
        libraries: list[Any] = self._linking_libraries
        return libraries

    def defined(self) -> list[str]:
        """The names of what it defines."""
        functions = self._final_module.functions
        return [function.name for function in functions if not function.is_declaration]

    def _get_module_for_linking(self) -> Any:
        return self._final_module


class _KernelLibrary(_Library):
    """A kernel with everything that it calls, directly or not."""

    level = config.OPT
    """How much it is optimised, as compilers count that."""

    def finalize(self) -> None:
        libraries: list[Any] = list(self._linking_libraries)
        for library in libraries:  # grows while it is gone through
            if isinstance(library, _PartLibrary):
                libraries += library.parts()
        self._linking_libraries: list[Any] = list(dict.fromkeys(libraries))
        super().finalize()

    def _optimize_final_module(self) -> None:
        """Nobody else will ask for the parts that are here now: what is called once can be inlined and forgotten."""
        for library in self._linking_libraries:
            if isinstance(library, _PartLibrary):
                for name in library.defined():
                    self._final_module.get_function(name).linkage = "internal"
        # Numba goes through everything once more before, for references that cancel out: kernels count none
        passes, builder = self._codegen._module_pass_manager(opt=self.level)  # noqa: SLF001
        passes.run(self._final_module, builder)


class _LoopLibrary(_KernelLibrary):
    level = 1


def _call(function: Callable[..., Any], argument: Any) -> Any:
    return function(argument)


_WORDS = 70_000
"""More than half of a megabyte: then the chunk that such a frame is put into has a megabyte."""
_with_a_large_stack = FunctionType(_call.__code__.replace(co_stacksize=_WORDS), globals())
"""Python keeps the frames of its calls in chunks of 16 KB, and maps and unmaps one with every call that happens to
cross the end of another; a compiler makes hundreds of thousands of those. In here all its frames share one chunk,
behind that of a call which says that it needs very much."""


_NOT_NEEDED = {WithLifting, InlineClosureLikes, MakeFunctionToJitFunction, NopythonRewrites}
"""For code with contexts, functions within functions, or arithmetic of whole arrays, and kernels have none of it."""


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Compiles a kernel that Python calls."""

    library: type[Any] = _KernelLibrary
    lowering: type[Any] = KernelLowering

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        collecting = gc.isenabled()
        gc.disable()  # what a compiler makes is of use until it has done: to look for garbage takes a sixth of the time
        try:
            return _with_a_large_stack(super().compile_extra, function)
        finally:
            if collecting:
                gc.enable()

    def define_pipelines(self) -> Any:
        self.state.library = self._library(self.library)
        pipelines = super().define_pipelines()
        counted = self.state.flags.nrt
        for pipeline in pipelines:
            steps = [(step, what) for step, what in pipeline.passes if step not in _NOT_NEEDED]
            if not counted:  # nothing is done where a variable ends, so where that is need not be found out
                steps = [(step, what) for step, what in steps if step is not IRLegalization]
                steps = [(self.lowering if step is NativeLowering else step, what) for step, what in steps]
            pipeline.passes = steps
        return pipelines

    def _library(self, kind: type[Any]) -> Any:
        library = kind(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        library.enable_object_caching()
        return library


class LoopCompiler(KernelCompiler):
    """Compiles a learner's loop."""

    library = _LoopLibrary


class PartCompiler(KernelCompiler):
    """Compiles what kernels call."""

    library = _PartLibrary
    lowering = PartLowering

    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()
        self.state.flags.no_compile = True
        return pipelines

    def _compile_core(self) -> Any:
        result = super()._compile_core()
        if result.typing_error is not None:
            return result
        described, name = result.fndesc, result.fndesc.qualname
        # Numba knows a compiled function by an object of Python, which here leads nowhere
        known_by = _dynfunc.make_function(described.lookup_module(), name, "", 0, result.environment, (result.library,))
        if self.state.flags.nrt:
            self.state.targetctx.insert_user_function(known_by, described, [result.library])
        else:
            call = calling(described, (result.library,), result.library.can_fail)
            self.state.targetctx.insert_func_defn([(call, known_by, described.argtypes)])
        return result._replace(entry_point=known_by)


class Part(CPUDispatcher):  # type: ignore[misc]
    """What compiled code calls. Constants and short integers are no types of their own: it is compiled once for all."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        options = {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options, pipeline_class=PartCompiler)

    def get_call_template(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return super().get_call_template(tuple(map(_usual, args)), {name: _usual(kind) for name, kind in kws.items()})


def _usual(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.bitwidth < 64 else kind

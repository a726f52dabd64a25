"""The one way a kernel is compiled: at its first call, to run without the interpreter's lock, and kept.

Compiled code is kept beside the sources or in the user's cache directory, wherever Numba may write. A
read-only installation with neither still works: each process then compiles for itself.

Every kernel has one signature (named tuples of arrays, and scalars), so it is compiled exactly once. What it calls is
compiled as a part of it (`sluiceway.kernel_parts`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

from sluiceway.kernel_parts import KernelCompiler, LoopCompiler, Part

P = ParamSpec("P")
R = TypeVar("R")


def _digest_of_kernels() -> str:
    here = Path(__file__).parent
    sources = sorted(source for folder in ("operators", "schemas") for source in (here / folder).rglob("*.py"))
    contents = (source.read_bytes() for source in [*sources, here / "compiling.py", *sorted(here.glob("kernel_*.py"))])
    return hashlib.sha256(b"".join(content for content in contents if _compiles(content))).hexdigest()


def _compiles(source: bytes) -> bool:
    """Whether there are kernels in it, or what makes them."""
    return b"sluiceway.compiling import" in source or b"numba" in source


# Numba looks for changes in a kernel's own file only, but kernels call each other across files.
_KERNELS = _digest_of_kernels()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compiled when first called. No fastmath: sums must not depend on the machine's vector width.

    Arrays are borrowed from the caller and no references to them are counted, which makes half of the code that has to
    be compiled vanish. So a kernel can make no array, and cannot return one.
    """
    return _compiled(function, {"_nrt": False})


def loop_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """A learner's way through the rows of a poll: a hundred parts, large and slow to compile.

    What it does is wait for memory, here and there; no loop in it can go several numbers at a time. So the compiler is
    spared what would find that out: it runs as quickly, and is there in a fifth less time.
    """
    return _compiled(function, {"_nrt": False}, LoopCompiler)


def allocating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """One that makes arrays, returns them, or copies one into another."""
    return _compiled(function, {"_nrt": True})


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A view of an array that a kernel has: Python cannot call it."""
    return _compiled(function, {"_nrt": False, "inline": "always"})


def estimating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """For sums in whatever order is quickest here: their last digits differ between machines and may decide nothing."""
    return _compiled(function, {"_nrt": False, "fastmath": {"reassoc", "contract"}})


def filled_in(template: Callable[P, R], name: str, parts: Mapping[str, Callable[..., Any]]) -> Callable[P, R]:
    """The function of that name which the template becomes when these of its module's names mean other functions.

    For loops that differ in what they call. Handed over as an argument, or closed over, a compiled function could not
    be kept on disk. It is kept under its name and those of its parts, until a file of theirs changes: they may be of
    another package.
    """
    given: Any = template
    made: Any = FunctionType(given.__code__, {**given.__globals__, **parts}, name)
    named = sorted(f"{place} {part.__module__} {part.__qualname__}" for place, part in parts.items())
    made.__qualname__ = f"{name}_{hashlib.sha256(repr(named).encode()).hexdigest()[:8]}"
    made.parts = tuple(parts.values())
    filled: Callable[P, R] = made
    return filled


def _files_of_parts(function: Any) -> str:
    """A digest of the files in which the parts of a function stand that was filled in, and theirs."""
    digests = []
    for part in getattr(function, "parts", ()):
        digests += [_digest_of_file(part.py_func.__code__.co_filename), _files_of_parts(part.py_func)]
    return "".join(digests)


@cache
def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).exists() else ""


class _Kernel(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """Called from Python, a kernel is compiled with all that it calls, and kept; called from a kernel, it is a part."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], compiler: type[KernelCompiler]) -> None:
        options = {"nogil": True, "nopython": True, "boundscheck": None, "fastmath": False, **options}
        options["no_cfunc_wrapper"] = True  # nobody calls it from C
        super().__init__(function, targetoptions=options, pipeline_class=compiler)
        self._inside = Part(function, options)

    @property
    def _numba_type_(self) -> Any:
        """What compiled code takes it for."""
        return self._inside._numba_type_


def _compiled(
    function: Callable[P, R], options: dict[str, Any], compiler: type[KernelCompiler] = KernelCompiler
) -> Callable[P, R]:
    compiled = _Kernel(function, options, compiler)
    try:
        compiled.enable_caching()
    except RuntimeError:  # nowhere to write
        return compiled
    stored = compiled._cache._cache_file  # noqa: SLF001
    stored._source_stamp = (stored._source_stamp, _KERNELS, _files_of_parts(function))  # noqa: SLF001
    stored._load_index = _or_nothing(stored._load_index)  # noqa: SLF001
    return compiled


def _or_nothing(load_index: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """What an earlier release has kept may name modules or classes that are gone: then nothing is kept."""

    def loaded() -> dict[Any, Any]:
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    return loaded


def plain(function: Callable[P, R]) -> Callable[P, R]:
    """The function itself, for few calls from Python, which would not pay for compiling it. It calls no kernel."""
    return function.py_func  # type: ignore[attr-defined,no-any-return]


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a call can start at once: the machine code is in memory or kept from an earlier process."""
    compiled: Any = function
    if compiled.signatures:
        return True
    stored = getattr(compiled._cache, "_cache_file", None)  # noqa: SLF001
    return stored is not None and bool(stored._load_index())  # noqa: SLF001


def kept_in(function: Callable[..., Any]) -> Path | None:
    """The folder where the machine code of a kernel is kept; None: nowhere could be written."""
    folder = function._cache.cache_path  # type: ignore[attr-defined]  # noqa: SLF001
    return None if folder is None else Path(folder)


class _Writable:
    """Another array's memory, described as writable. Keeps that array alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        description = array.__array_interface__
        self.__array_interface__ = description | {"data": (description["data"][0], False)}


def as_argument(array: NDArray[Any]) -> NDArray[Any]:
    """The array as kernels take it. A read-only one is another type to Numba: kernels would be compiled twice.

    Only for arrays that no kernel writes to.
    """
    return array if array.flags.writeable else np.asarray(_Writable(array))

"""The one way a kernel is compiled: at its first call, to run without the interpreter's lock, and kept.

Compiled code is kept beside the sources or in the user's cache directory, wherever Numba may write. A
read-only installation with neither still works: each process then compiles for itself.

Every kernel has one signature (named tuples of arrays, and scalars), so it is compiled exactly once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")


def _digest_of_kernels() -> str:
    here = Path(__file__).parent
    folders = (here / "operators" / "kernels", here / "operators" / "bank", here / "schemas")
    sources = sorted(source for folder in folders for source in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


# Numba looks for changes in a kernel's own file only, but kernels call each other across these folders.
_KERNELS = _digest_of_kernels()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile when first called. No fastmath: sums must not depend on the machine's vector width."""
    return _compiled(function, numba.njit(nogil=True))


def part(function: Callable[P, R]) -> Callable[P, R]:
    """For a part of kernels that nothing else calls: it needs no way in from Python and no place of its own on disk.

    To compile all that is half the work for a small function.
    """
    return numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """For a small part of a kernel that runs for every few bytes: handing arrays over to it would cost as much."""
    return _compiled(function, numba.njit(nogil=True, inline="always"))


def estimating_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """For sums in whatever order is quickest here: their last digits differ between machines and may decide nothing."""
    return _compiled(function, numba.njit(nogil=True, fastmath={"reassoc", "contract"}))


def _compiled(function: Callable[P, R], compiler: Callable[[Callable[P, R]], Any]) -> Callable[P, R]:
    compiled = compiler(function)
    try:
        compiled.enable_caching()
    except RuntimeError:  # nowhere to write
        return compiled  # type: ignore[no-any-return]
    stored = compiled._cache._cache_file  # noqa: SLF001
    stored._source_stamp = (stored._source_stamp, _KERNELS)  # noqa: SLF001
    stored._load_index = _or_nothing(stored._load_index)  # noqa: SLF001
    return compiled  # type: ignore[no-any-return]


def _or_nothing(load_index: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """What an earlier release has kept may name modules or classes that are gone: then nothing is kept."""

    def loaded() -> dict[Any, Any]:
        try:
            return load_index()
        except (ImportError, AttributeError):
            return {}

    return loaded


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a call can start at once: the machine code is in memory or kept from an earlier process."""
    compiled: Any = function
    if compiled.signatures:
        return True
    stored = getattr(compiled._cache, "_cache_file", None)  # noqa: SLF001
    return stored is not None and bool(stored._load_index())  # noqa: SLF001


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

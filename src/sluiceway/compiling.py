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

P = ParamSpec("P")
R = TypeVar("R")


def _digest_of_kernels() -> str:
    here = Path(__file__).parent
    sources = sorted(source for folder in ("operators/kernels", "schemas") for source in (here / folder).glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


# Numba looks for changes in a kernel's own file only, but kernels call each other across these folders.
_KERNELS = _digest_of_kernels()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile when first called. No fastmath: sums must not depend on the machine's vector width."""
    return _compiled(function, numba.njit(nogil=True))


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

"""What a step raised first: with several processes the engine tells only that a peer is gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_failures: list[BaseException] = []


def noted(step: Callable[P, R]) -> Callable[P, R]:
    """Keep what the step raises; the end of input is no failure."""

    @wraps(step)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return step(*args, **kwargs)
        except StopIteration:
            raise
        except BaseException as problem:
            _failures.append(problem)
            raise

    return run


def first_failure() -> BaseException | None:
    """The first that any step of this process raised since `forget_failures`."""
    return _failures[0] if _failures else None


def forget_failures() -> None:
    _failures.clear()

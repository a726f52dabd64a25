"""What goes wrong, by who can mend it.

SluicewayError
├── SettingsError         the user's mistake: one sentence, exit code 2
└── FlowError             the world's: a broker, a topic, a store; one sentence, exit code 1
    ├── UnreachableError  no broker where the user says there is one, at the start: exit code 2
    └── ReopenError       of one lane: its store must be opened again, and then all is well
"""

from typing import ClassVar


class SluicewayError(Exception):
    """Root of every error that is shown to a person as one sentence, without a traceback."""

    exit_code: ClassVar[int] = 1


class SettingsError(SluicewayError):
    """A setting, an argument or a choice of files that cannot work as given."""

    exit_code = 2


class FlowError(SluicewayError):
    """A flow that cannot start or go on, with the reason and what to do."""


class UnreachableError(FlowError):
    """Nobody answers at the address given. Only at the start: a running flow waits for its broker."""

    exit_code = 2


class ReopenError(FlowError):
    """What became of a lane's last commit is not known, or somebody else has opened the lane: open it again."""


ENGINE = frozenset({"bytewax", "llvmlite", "numba", "scipy"})
"""Packages that the extra `engine` brings: a service that subscribes to selections does without them."""


def without_engine(problem: ImportError, what: str) -> str | None:
    """The sentence for `what`, if it is for want of the engine that it could not be imported."""
    missing = (problem.name or "").partition(".")[0]
    if missing not in ENGINE:
        return None
    return f"{what} needs the engine ({missing}), which is not installed: pip install 'sluiceway[engine]'"

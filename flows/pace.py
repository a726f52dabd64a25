"""How long a lane waits between two commits."""

from __future__ import annotations

SHARE = 0.1
"""Of the time, for commits: where one takes longer, the next comes later."""
LONGEST_SECONDS = 10.0
"""No commit comes later than that because commits are slow: its readers wait, and its transaction stays open."""


class Pace:
    """Follows the quickest of the last three commits: one or two slow ones have waited for a broker that went away,
    which says nothing of what commits cost. Told by a lane's thread, asked by its worker's."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._recent = (0.0, 0.0, 0.0)

    def took(self, seconds: float) -> None:
        """How long a commit has taken."""
        self._recent = (*self._recent[1:], seconds)

    @property
    def pause(self) -> float:
        """Seconds from one barrier to the next."""
        return max(self._interval, min(min(self._recent) / SHARE, LONGEST_SECONDS))

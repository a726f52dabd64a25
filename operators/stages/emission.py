"""When a snapshot is due. Counted in versions, never timed, so that the input alone decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Reason = Literal["interval", "change", "final"]


@dataclass(frozen=True, slots=True)
class Emit:
    """The `[emit]` settings."""

    every: int = 1000
    on_change: bool = False
    min_gap: int = 1
    final: bool = True
    top: int = 1000

    def until(
        self, version: int, emitted: int, changed: bool, learns: NDArray[np.int64], rows: int
    ) -> tuple[int, bool]:
        """How far to go before looking again: the row to stop before, and whether to stop at a change.

        `learns` are the rows still ahead that will be learnt, `emitted` the version of the last snapshot, `changed`
        whether the selection differs from that snapshot's already: then the next change is not the one to wait for.
        """
        steps = self.every - version % self.every if self.every else len(learns) + 1
        at_change = False
        if self.on_change:
            gap = max(emitted + self.min_gap - version, 1)
            at_change = gap == 1 and not changed
            if not at_change:
                steps = min(steps, gap)
        return (int(learns[steps - 1]) + 1 if steps <= len(learns) else rows), at_change

    def due(self, version: int, emitted: int, changed: bool) -> Reason | None:
        """What the version just reached calls for; `changed`: the selection differs from the last snapshot's."""
        if version == emitted:
            return None
        if self.every and version % self.every == 0:
            return "interval"
        if self.on_change and changed and version - emitted >= self.min_gap:
            return "change"
        return None

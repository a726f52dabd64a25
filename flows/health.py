"""Is a running flow alive, and is it ready? Asked by whoever restarts it or sends work its way."""

from __future__ import annotations

import time

from sluiceway.flows.progress import Progress

LIMIT_SECONDS = 30.0
"""How long nothing may be heard, or a lane may stand still, before the process is not alive."""
STANDBY_SECONDS = 10.0
"""A process that has got no lane by then stands by for others, and is ready to."""


def troubles(progress: Progress, limit: float) -> list[str]:
    """Why the process is not alive, in sentences; none for one that is, or that has not begun yet."""
    if not progress.began:
        return []
    now, found = time.monotonic(), []
    if (silent := now - progress.heard) > limit:
        found.append(f"neither a commit nor a look at the input has been answered for {silent:.0f} s")
    found += [f"lane {lane} is parked: {reason}" for lane, reason in sorted(progress.parked.copy().items())]
    for number, failing in sorted(progress.failing.copy().items()):
        if now - failing > limit:
            found.append(f"lane {number} has been opened again and again for {now - failing:.0f} s")
    for number, alive in sorted(progress.opening.copy().items()):
        if now - alive > limit:
            found.append(f"lane {number} is being opened, without a sign of life for {now - alive:.0f} s")
    for number, lane in sorted(progress.lanes.copy().items()):
        since = lane.behind_since
        if since is not None and now - since > limit and number not in progress.waiting:
            stands = f"lane {number} has stood still for {now - since:.0f} s at {lane.position}"
            found.append(f"{stands}, with {lane.lag} to go")
    return found


def unready(progress: Progress) -> str | None:
    """Why the process is not ready yet, or no more; None if it is."""
    if not progress.began:
        return "the flow has not begun: it compiles, or looks at its topics"
    if progress.stopping:
        return "the flow is being stopped"
    if opening := sorted(progress.opening.copy()):
        return f"lanes are being opened: {', '.join(map(str, opening))}"
    if not progress.counts and progress.seconds < STANDBY_SECONDS:
        return "no lane has come to this process yet"
    return None

"""What joining must give, computed the slow and obvious way: by id, the n-th instance with the n-th label."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Name = tuple[str, str]
"""Stream and id."""


class Given(NamedTuple):
    """One record of either topic; `content` tells it from all others."""

    name: Name
    content: str


class Expected(NamedTuple):
    labelled: dict[Name, list[tuple[str, str]]]
    """Instance and label, in order."""
    alone: dict[Name, list[str]]
    """Instances that no label is there for."""
    orphans: dict[Name, list[str]]
    """Labels that no instance is there for."""


def expected(instances: Iterable[Given], labels: Iterable[Given]) -> Expected:
    """Without a limit, whatever the interleaving."""
    by_name: tuple[dict[Name, list[str]], dict[Name, list[str]]] = ({}, {})
    for records, found in zip((instances, labels), by_name, strict=True):
        for name, content in records:
            found.setdefault(name, []).append(content)
    result = Expected({}, {}, {})
    for name in {**by_name[0], **by_name[1]}:
        ours, theirs = by_name[0].get(name, []), by_name[1].get(name, [])
        both = min(len(ours), len(theirs))
        if both:
            result.labelled[name] = list(zip(ours, theirs, strict=False))
        if len(ours) > both:
            result.alone[name] = ours[both:]
        if len(theirs) > both:
            result.orphans[name] = theirs[both:]
    return result


def records(count: int, *, seed: int) -> tuple[list[Given], list[Given]]:
    """Instances and labels: ids that come once or again, some without the other half, in orders of their own."""
    draw = random.Random(f"join {seed}")
    names = [(draw.choice(("mail", "chat")), str(draw.randrange(count // 2 + 1))) for _ in range(count)]
    instances = [Given(name, f"i{number}") for number, name in enumerate(names) if draw.random() < 0.9]
    labels = [Given(name, f"l{number}") for number, name in enumerate(names) if draw.random() < 0.9]
    for one in (instances, labels):  # not far: as records do that are sent when they are known
        one.sort(key=lambda given: int(given.content[1:]) + draw.randrange(12))
    return instances, labels


def interleaved(first: Sequence[Given], second: Sequence[Given], *, seed: int) -> list[tuple[int, Given]]:
    """In bursts of one side and the other."""
    draw = random.Random(f"interleaving {seed}")
    waiting, merged = [list(reversed(first)), list(reversed(second))], []
    while any(waiting):
        side = draw.randrange(2)
        for _ in range(draw.choice((1, 2, 30))):
            if waiting[side]:
                merged.append((side, waiting[side].pop()))
    return merged

"""What applying must give, computed the slow and obvious way from what stands in the two topics."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

STREAMS = ("mail", "chat", "news")


def instances(count: int, *, seed: int = 0, first: int = 0) -> list[tuple[str, dict[str, Any]]]:
    """(stream, record): features come and go, some labels come later, and some records cannot be used."""
    draw = random.Random(seed * 1_000_003 + first)
    made: list[tuple[str, dict[str, Any]]] = []
    for number in range(first, first + count):
        stream = draw.choice(STREAMS)
        names = draw.sample([f"f{place}" for place in range(12)], 6)
        x = {name: round(draw.gauss(0, 1), 3) for name in names} | {"zero": 0, "whole": 3}
        y = 1 if sum(x.get(f"f{place}", 0.0) for place in range(3)) > 0 else -1
        record: dict[str, Any] = {"id": f"e{number}", "ts": 1000 + number, "x": x, "y": y, "customer": number % 7}
        if number % 10 == 3:
            del record["y"]
        if number % 10 == 4 and made and "y" not in made[-1][1]:
            stream, record = made[-1][0], {"id": made[-1][1].get("id"), "y": 1}
        if number % 25 == 7:
            record["x"] = "not features"
        made.append((stream, record))
    return made


def expected(
    flow: str, partition: int, records: Iterable[tuple[int, str, dict[str, Any]]], snapshots: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """`records` are (offset, stream, record)."""
    out: list[dict[str, Any]] = []
    for offset, stream, record in records:
        if record.get("x") == "not features":
            continue
        if "x" not in record:
            out.append(record)
            continue
        before = [
            snapshot
            for snapshot in snapshots
            if (snapshot["flow"], snapshot["stream"]) == (flow, stream)
            and snapshot["source"]["instances"]["offset"] <= offset
        ]
        newest = max(before, key=lambda snapshot: int(snapshot["version"]), default=None)
        chosen = [] if newest is None else [selected["feature"] for selected in newest["selected"]]
        out.append(
            {
                **record,
                "stream": stream,
                "x": {name: value for name, value in record["x"].items() if name in chosen},
                "selection": {
                    "flow": flow,
                    "version": newest and newest["version"],
                    "partition": partition,
                    "offset": offset,
                },
            }
        )
    return out


def lines(records: Iterable[tuple[str, dict[str, Any]]]) -> list[bytes]:
    """For a directory topic."""
    return [json.dumps({"stream": stream, **record}).encode() + b"\n" for stream, record in records]

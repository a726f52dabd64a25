"""Snapshots as a flow writes them, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluiceway.schemas import encode


def key(flow: str = "spam", stream: str = "mail") -> bytes:
    return f"{flow}/{stream}".encode()


def value(
    version: int,
    *,
    flow: str = "spam",
    stream: str = "mail",
    features: Sequence[str] = ("free", "money"),
    ts: int = 0,
    generation: int = 0,
) -> bytes:
    made = encode.snapshot(
        offset=version,
        flow=flow,
        stream=stream,
        operator="ofs",
        version=version,
        seen=version,
        generation=generation,
        ts=ts,
        reason="interval",
        n_selected=len(features),
        selected=[(name, 1.0 / (place + 1), 1) for place, name in enumerate(features)],
        entered=[],
        left=[],
        metrics={"mistakes": 1},
        params={"k": 2},
        source={"instances": (0, version)},
    ).value
    assert made is not None
    return made


def record(version: int, flow: str = "spam", stream: str = "mail", partition: int = 0) -> tuple[bytes, bytes, int]:
    """A record for tests.support.produce."""
    return key(flow, stream), value(version, flow=flow, stream=stream), partition


def directory_topic(path: Path, *partitions: Sequence[bytes]) -> str:
    """A directory topic that holds these lines; its URL."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "_topic.json").write_text(f'{{"partitions": {len(partitions)}}}')
    for number, lines in enumerate(partitions):
        (path / f"part-{number:05d}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return f"dir:{path}"

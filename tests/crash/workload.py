"""The input of every crash test: decided by its size alone, with everything in it that a flow may meet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import orjson

LANES = 4
STREAMS = 8


class Width(NamedTuple):
    """How many features there are, how many an instance has, and among how many streams they are."""

    features: int = 60
    present: int = 12
    streams: int = STREAMS


NARROW = Width()


class Message(NamedTuple):
    key: bytes
    value: bytes | None


BAD: Sequence[bytes | None] = (
    b"{ no json",
    b"",
    None,
    b'{"x": {"f1": "high"}, "y": 1}',
    b'{"x": {"f1": 1.0}, "y": 7}',
    b"\xff\xfe",
)


def lane_messages(lane: int, size: int, width: Width = NARROW) -> list[Message]:
    """`size` messages of the streams that live in one partition: instances, later labels, and what cannot be used."""
    random_ = random.Random(f"workload {lane}")
    streams = [f"stream-{number}" for number in range(lane, width.streams, LANES)]
    waiting: dict[str, list[tuple[str, int]]] = {name: [] for name in streams}
    messages: list[Message] = []
    while len(messages) < size:
        number = len(messages)
        stream = random_.choice(streams) if width.streams == STREAMS else _mostly_the_first(random_, streams)
        dice = random_.random()
        if dice < 0.02:
            messages.append(Message(stream.encode(), random_.choice(BAD)))
        elif dice < 0.03:
            messages.append(_record(stream, id=f"nobody-{number}", y=1))
        elif dice < 0.12 and waiting[stream]:
            id_, y = waiting[stream].pop(random_.randrange(len(waiting[stream])))
            messages.append(_record(stream, id=id_, y=y))
        else:
            x, y = _instance(random_, stream, number, size, width)
            if dice > 0.85:
                waiting[stream].append((f"e-{number}", y))
                messages.append(_record(stream, id=f"e-{number}", ts=1_000 * number, x=x))
            else:
                messages.append(_record(stream, ts=1_000 * number, x=x, y=y))
    return messages


def _mostly_the_first(random_: random.Random, streams: Sequence[str]) -> str:
    """Of many, most seldom: some streams come to their snapshots, the others have little more than a beginning."""
    return streams[int(len(streams) * random_.random() ** 4)] if random_.random() < 0.3 else random_.choice(streams)


def _instance(
    random_: random.Random, stream: str, number: int, size: int, width: Width
) -> tuple[dict[str, float], int]:
    """Few features tell the label; which ones depends on the stream, and changes half-way."""
    x = {f"f{at}": round(random_.uniform(-1, 1), 3) for at in random_.sample(range(width.features), width.present)}
    telling = (int(stream.rpartition("-")[2]) * 7 + (5 if number > size // 2 else 0)) % width.features
    score = sum(x.get(f"f{(telling + at) % width.features}", 0.0) for at in range(15)) + random_.gauss(0, 0.1)
    return x, 1 if score > 0 else -1


def _record(stream: str, **content: object) -> Message:
    return Message(stream.encode(), orjson.dumps(content))


def lane_lines(lane: int, size: int, width: Width = NARROW) -> bytes:
    """The same as the file of a directory topic: each record with its stream; what has no place in a line left out."""
    lines = []
    for key, value in lane_messages(lane, size, width):
        if value is None or b"\xff" in value:
            continue
        if value.startswith(b'{"'):
            value = orjson.dumps({"stream": key.decode(), **orjson.loads(value)})
        lines.append(value + b"\n")
    return b"".join(lines)

"""Recorded streams and flows to replay them with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from sluiceway.topics.append import DirectoryAppender
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.url import DirectoryTopic
from tests.support.flow import toml

PARTITIONS = 2


def instances(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Two streams; which features matter changes half-way; some labels come later, some never, some records are bad."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        names = [f"n{at}" for at in rng.choice(40, 8, replace=False)]
        x = {name: round(float(rng.normal()), 3) for name in names}
        y = int(rng.choice([-1, 1]))
        x["old" if number < count / 2 else "new"] = y + round(float(rng.normal()), 3)
        stream = f"s{number % 2}"
        record = {"stream": stream, "id": f"i{number}", "ts": 1_000 * (number + 1), "x": x}
        if rng.random() < 0.1:
            yield record
            if rng.random() < 0.7:
                yield {"stream": stream, "id": f"i{number}", "y": y}
        elif rng.random() < 0.02:
            yield {**record, "y": "neither"}
        else:
            yield {**record, "y": y}


def columns(count: int, rows: int = 60, seed: int = 2) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    target = rng.choice([-1, 1], rows)
    yield {"stream": "c", "target": target.tolist()}
    for number in range(count):
        values = rng.normal(size=rows) + (target if number % 5 == 0 else 0)
        yield {"stream": "c", "name": f"c{number}", "values": values.round(3).tolist()}


def topic_of(folder: Path, records: Iterator[dict[str, Any]], partitions: int = PARTITIONS) -> DirectoryTopic:
    """Each stream in a partition of its own."""
    topic = DirectoryTopic(folder)
    create_directory_topic(topic, partitions)
    appender = DirectoryAppender(topic, partitions)
    for record in records:
        appender.append(int(record["stream"][-1] == "1"), [orjson.dumps(record)])
    appender.close()
    return topic


def flow(place: Path, operator: Mapping[str, Any], source: str = "instances", **tables: Mapping[str, Any]) -> Path:
    """A flow's file beside its topics."""
    content = {
        "flow": {"name": "replayed"},
        "topics": {
            source: f"dir:{source}",
            "selections": "dir:live/selections",
            "dead_letters": "dir:live/dead-letters",
        },
        "input": {"stop": "end"},
        "operator": operator,
        **tables,
    }
    file = place / "flow.toml"
    file.write_text(toml(content))
    return file

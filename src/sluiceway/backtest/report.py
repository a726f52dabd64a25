"""`report.html`: a backtest as one page that needs no network, for those who were not there."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from sluiceway.backtest.selections import Timeline
from sluiceway.page import part

if TYPE_CHECKING:
    from sluiceway.backtest.results import Results

REPORT = "report.html"
STREAMS = 20
"""So many, those with the most labels, have curves and timelines in a report."""
CELLS = 3_000_000
"""Of timelines: a feature in a snapshot is one, and takes ten bytes of the page."""
SCRIPTS = ("vendor/uplot/uPlot.iife.min.js", "timeline.js", "report.js")
STYLES = ("vendor/uplot/uPlot.min.css", "timeline.css", "report.css")


def write_report(results: Results, path: Path) -> None:
    content = results.content
    count = len(results.variants)
    title = f"{content['flow']}: {count} variant{'s' * (count != 1)} of a flow, replayed"
    lines, left_out = _timelines(results)
    data = {
        "content": {**content, "variants": [_shown(variant) for variant in results.variants]},
        "timing": results.timing,
        "timelines": lines,
        "left_out": left_out,
    }
    filled = {
        "title": html.escape(title),
        "style": "\n".join(map(part, STYLES)),
        "licence": html.escape(part("vendor/uplot/LICENSE")),
        "data": orjson.dumps(data).decode().replace("<", "\\u003c"),  # so that no text ends the script element
        "script": "\n".join(map(part, SCRIPTS)),
    }
    fresh = path.with_name(path.name + ".new")
    fresh.write_text("".join(_filled(part("report.html"), filled)), encoding="utf-8")
    fresh.replace(path)


def _filled(template: str, values: Mapping[str, str]) -> Iterator[str]:
    """What is put in is not looked through again."""
    first, *rest = template.split("{{")
    yield first
    for piece in rest:
        name, _, after = piece.partition("}}")
        yield values[name]
        yield after


def _shown(variant: Mapping[str, Any]) -> dict[str, Any]:
    """Of many streams only some."""
    return {**variant, "streams": {name: variant["streams"][name] for name in _largest(variant)}}


def _largest(variant: Mapping[str, Any]) -> list[str]:
    """The streams with curves, or else the first ones."""
    return list(variant["curves_of_streams"] or variant["streams"])[:STREAMS]


def _timelines(results: Results) -> tuple[list[dict[str, Any]], int]:
    """As many as a page can have, the best variant's first, and how many are left out."""
    found: list[dict[str, Any]] = []
    room, left_out = CELLS, 0
    for number in results.ranked(results.default_metric):
        lines = results.timelines(number)
        wanted = [lines[name] for name in _largest(results.variants[number]) if name in lines]
        left_out += len(lines) - len(wanted)
        for line in wanted:
            if len(line.features) > room:
                left_out += 1
                continue
            room -= len(line.features)
            found.append({"variant": number, **_columns(line)})
    return found, left_out


def _columns(line: Timeline) -> dict[str, Any]:
    """As `timeline.js` loads them, long lists packed."""
    numbers = np.array(line.features, dtype=np.uint16 if len(line.names) < 1 << 16 else np.uint32)
    return {
        "stream": line.stream,
        "versions": line.versions,
        "ts": line.ts,
        "names": line.names,
        "indptr": line.indptr,
        "features": _packed(numbers),
        "weights": _packed(np.array(line.weights, dtype=np.float32)),
    }


def _packed(values: NDArray[Any]) -> dict[str, str]:
    little = values.astype(values.dtype.newbyteorder("<"))
    kind = f"{values.dtype.kind}{values.dtype.itemsize}"
    return {"type": kind, "data": base64.b64encode(little.tobytes()).decode()}

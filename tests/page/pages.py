"""Pages made of what the package brings along, and worlds to show on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sluiceway.page import part

WORDS = ("free", "casino", "len", "offer", "winner")


def page_of(path: Path, data: dict[str, Any] | None, options: str = "{}", *, when_asked: bool = False) -> Path:
    """One file with a timeline on it, called `timeline`; how long loading and drawing took is `took`.

    It draws as soon as it is open, or `when_asked` by `begin()`.
    """
    at_once = "" if when_asked else "begin();"
    path.write_text(
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>timeline</title>
<meta name="viewport" content="width=device-width"><style>:root {{ color-scheme: light dark }} {part("timeline.css")}
</style></head><body><div id="here"></div><script>{part("timeline.js")}</script><script>
globalThis.timeline = new SelectionTimeline(document.getElementById("here"), {options});
const data = {json.dumps(data)};
globalThis.begin = () => {{
  const began = performance.now();
  if (data) {{ timeline.load(data); timeline.draw(); }}
  globalThis.took = performance.now() - began;
}};
{at_once}
</script></body></html>""",
        encoding="utf-8",
    )
    return path


def small() -> dict[str, Any]:
    """Ten snapshots: `free` in all, `casino` up to half, `len` from then on, with a negative weight."""
    indptr, features, weights = [0], list[int](), list[float]()
    for at in range(10):
        features += [0, 1 if at < 5 else 2]
        weights += [0.5, 2.0 if at < 5 else -1.0 - at / 10]
        indptr.append(len(features))
    versions = [100 * (at + 1) for at in range(10)]
    times = [1763251200000 + 60_000 * at for at in range(10)]
    return {
        "versions": versions, "ts": times, "names": ["free", "casino", "len"], "indptr": indptr, "features": features,
        "weights": weights,
    }  # fmt: skip


def large(features: int, snapshots: int, selected: int) -> dict[str, Any]:
    """Many features that wander in and out."""
    random = np.random.default_rng(1)
    indptr, chosen = [0], list[int]()
    for at in range(snapshots):
        near = random.normal(at / snapshots * features, features / 6, selected).astype(int) % features
        now = np.unique(near)
        chosen += now.tolist()
        indptr.append(len(chosen))
    return {
        "versions": [100 * (at + 1) for at in range(snapshots)], "names": [f"word-{at}" for at in range(features)],
        "indptr": indptr, "features": chosen, "weights": random.normal(0.3, 1, len(chosen)).round(3).tolist(),
    }  # fmt: skip


def snapshot(version: int, selected: dict[str, float], generation: int = 0) -> dict[str, Any]:
    entries = [{"feature": name, "weight": weight, "since": version} for name, weight in selected.items()]
    return {"version": version, "ts": 0, "generation": generation, "selected": entries}

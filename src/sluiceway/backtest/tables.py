"""A backtest's results as Parquet, for notebooks and SQL; where pyarrow is installed (`pip install sluiceway[arrow]`).

| file | a row |
|---|---|
| `variants.parquet` | a variant: what was changed, and its measures over all streams |
| `streams.parquet` | a stream of a variant: the same measures of it alone |
| `curves.parquet` | a place of a curve: variant, stream (none: all), way, measure |
| `timelines.parquet` | a feature in a snapshot: variant, stream, version, weight |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

    from sluiceway.backtest.results import Results


def write_tables(results: Results, folder: Path) -> list[Path]:
    """Those files; none without pyarrow."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return []
    made: dict[str, Callable[[], pa.Table]] = {
        "variants": lambda: _table(pa, _variants(results)),
        "streams": lambda: _table(pa, _streams(results)),
        "curves": lambda: _curves(pa, results),
        "timelines": lambda: _timelines(pa, results),
    }
    paths = []
    for name, make in made.items():
        path = folder / f"{name}.parquet"
        fresh = path.with_suffix(".new")
        parquet.write_table(make(), fresh)
        fresh.replace(path)
        paths.append(path)
    return paths


def _table(pa: Any, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A column a name, with nulls where a row has none."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers alone; an interval becomes two of them."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "stability_interval":
            found["stability_low"], found["stability_high"] = value or (None, None)
        elif not isinstance(value, list):
            found[name] = None if value is None else float(value)
    return found


def _variants(results: Results) -> Iterator[dict[str, Any]]:
    for row in results.rows():
        changes = results.variants[row["variant"]]["changes"]
        yield {**row, **{name: str(value) for name, value in changes.items()}}


def _streams(results: Results) -> Iterator[dict[str, Any]]:
    for own in results.variants:
        for stream, parts in own["streams"].items():
            measures = {**parts.get("measures", {}), **parts.get("selections", {}), **parts.get("known", {})}
            yield {"variant": own["number"], "label": own["label"], "stream": stream, **_plain(measures)}


def _curves(pa: Any, results: Results) -> pa.Table:
    about, sizes = list[tuple[int, str | None, str, str]](), list[int]()
    at, ts, told = list[NDArray[np.int64]](), list[NDArray[np.int64]](), list[float | None]()
    for own in results.variants:
        for stream, curves in [(None, own["curves"]), *own["curves_of_streams"].items()]:
            before = len(about)
            for way in ("cumulative", "window", "fading"):
                for measure, values in curves[way].items():
                    about.append((own["number"], stream, way, measure))
                    sizes.append(len(values))
                    told += values
            times = len(about) - before
            at.append(np.tile(np.array(curves["at"], dtype=np.int64), times))
            ts.append(np.tile(np.array(curves["ts"], dtype=np.int64), times))
    names = ("variant", "stream", "way", "measure")
    repeated = {name: _repeated(pa, [row[place] for row in about], sizes) for place, name in enumerate(names)}
    numbers = {"at": np.concatenate(at), "ts": np.concatenate(ts), "value": pa.array(told)} if told else {}
    return pa.table({**repeated, **numbers})


def _repeated(pa: Any, values: Sequence[Any], times: Sequence[int]) -> pa.Array:
    """Each so often."""
    return pa.array(values).take(pa.array(np.repeat(np.arange(len(values)), times)))


def _timelines(pa: Any, results: Results) -> pa.Table:
    number, text = pa.int64(), pa.string()
    types = {
        "variant": number, "stream": text, "version": number, "seen": number, "ts": number, "feature": text,
        "weight": pa.float64(),
    }  # fmt: skip
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for own in results.variants:
        for line in results.timelines(own["number"]).values():
            sizes, cells = np.diff(line.indptr).tolist(), [len(line.features)]
            columns["variant"].append(_repeated(pa, [own["number"]], cells))
            columns["stream"].append(_repeated(pa, [line.stream], cells))
            for name, told in (("version", line.versions), ("seen", line.seen), ("ts", line.ts)):
                columns[name].append(_repeated(pa, told, sizes))
            columns["feature"].append(pa.array(line.names, text).take(pa.array(line.features, number)))
            columns["weight"].append(pa.array(line.weights, pa.float64()))
    return pa.table({name: pa.chunked_array(columns[name], kind) for name, kind in types.items()})

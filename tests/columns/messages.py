"""Messages of Arrow, made as a producer makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

CONTENT_TYPE = ("content-type", b"application/vnd.apache.arrow.stream")


def stream(table: Any, *, rows_a_batch: int | None = None, compression: str | None = None) -> bytes:
    """A table or record batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        if isinstance(table, pa.RecordBatch):
            writer.write_batch(table)
        else:
            writer.write_table(table, max_chunksize=rows_a_batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def table(fields: Sequence[tuple[str, Any]], metadata: Mapping[str, str] | None = None) -> Any:
    """Fields may repeat their names."""
    arrays = [pa.array(values) if isinstance(values, list) else values for _, values in fields]
    made = pa.Table.from_arrays(arrays, names=[name for name, _ in fields])
    return made if metadata is None else made.replace_schema_metadata(metadata)

"""Fields of an Arrow batch as one table of float64: a view of the message's own bytes where they lie evenly in it.

What can be asked of all fields at once is asked so: making an object of each field costs more than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.refusal import ErrorClass, Refused, cut, show

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(
    value: bytes, batch: pa.RecordBatch, names: list[str], error_class: ErrorClass, *, nulls: bool
) -> NDArray[np.float64]:
    """The fields of a batch read from `value`, so named, as rows of a table; a null is 0 where `nulls` may be."""
    table = _in_place(value, batch) if _all_float64(batch.schema, names) else None
    if table is None:
        refuse_types(batch, names, error_class)
        table = _copied(batch, names, error_class, nulls=nulls)
    with np.errstate(all="ignore"):
        settled = bool(np.isfinite(table.sum()))
    if not settled and not (finite := np.isfinite(table)).all():
        row, place = divmod(int(np.argmin(finite)), batch.num_rows)
        name = show(names[row])
        raise Refused(error_class, f"field {name} is {table[row, place]} in row {place}: not a finite number")
    return table


def refuse_types(batch: pa.RecordBatch, names: list[str], error_class: ErrorClass) -> None:
    """Before anything is made as long as the field claims to be: a null type takes no bytes."""
    import pyarrow as pa

    for name, found in zip(names, batch.schema.types, strict=True):
        if not (pa.types.is_floating(found) or pa.types.is_integer(found)):
            raise Refused(error_class, f"field {show(name)} is of type {cut(str(found), 80)}, not of numbers")


def _all_float64(schema: pa.Schema, names: list[str]) -> bool:
    """Whether the schema reads `name: double` line by line.

    The names are known, so what stands after the first of them is its type; no other type's text begins with "double",
    so the next name follows, and so on: names that hold line ends or types cannot pretend anything. A text written in
    another way costs time alone, since the fields are then looked at one by one.
    """
    text: str = schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    return bool(names) and text == ": double\n".join(names) + ": double"


def _in_place(value: bytes, batch: pa.RecordBatch) -> NDArray[np.float64] | None:
    """Fields of float64 without nulls that lie evenly spaced in the message: a view of its bytes; else None.

    What has been read from a message, not sliced, begins where its buffers do.
    """
    rows, count = batch.num_rows, batch.num_columns
    _, *buffers = batch.to_struct_array().buffers()  # of each field in turn: which values are there, and the values
    if not rows or any(there is not None for there in buffers[::2]):
        return None
    places = np.array([values.address for values in buffers[1::2]], dtype=np.int64)
    places -= np.frombuffer(value, dtype=np.uint8).__array_interface__["data"][0]
    apart = int(places[1] - places[0]) if count > 1 else 8 * rows
    inside = places[0] >= 0 and places[-1] + 8 * rows <= len(value) and apart >= 8 * rows
    if not inside or (places[1:] - places[:-1] != apart).any():
        return None
    view = np.ndarray((count, rows), np.float64, value, int(places[0]), (apart, 8))
    return view if view.flags.aligned else None


def _copied(
    batch: pa.RecordBatch, names: list[str], error_class: ErrorClass, *, nulls: bool
) -> NDArray[np.float64]:
    table = np.empty((batch.num_columns, batch.num_rows))
    for row, column in enumerate(batch.columns):
        if column.null_count:
            if not nulls:
                raise Refused(error_class, f"column {show(names[row])} holds null, not a number")
            column = column.fill_null(0)
        table[row] = column.to_numpy(zero_copy_only=False)
    return table

"""One model of a joint operator as kernels find it: a line of numbers, and where its arrays stand in memory.

Every model keeps arrays of its own, which grow by themselves; what a kernel is given of many models is where each one's
line stands. Python writes an array's place into the line whenever it makes the array anew, and keeps it alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types
from numba.extending import intrinsic
from numpy.typing import NDArray

_NUMBERS = (
    # what has been counted
    "rows",  # labelled
    "ignored",
    "started",  # 1: the warm-up is over
    "classes",
    "bins",
    "absent_is_zero",
    "most_features",
    "features",  # names known, each has a slot
    "room",  # for so many
    "letters",  # of all names
    "letters_room",
    "index_size",
    "waiting",  # values that wait for cuts
    "waiting_room",
    "warm_room",
    # what came of the instances since the last policy
    "seen",  # of all, ever
    "window_rows",
    "window_used",
    "window_missing",
    "window_labelled",
    "window_right",
    # how it decides
    "decides",  # 1: there is a policy
    "seated",  # 1: its arrays are below
    "horizon",
    "known",  # classes of the policy
    "befores",
    "planes_a_stage",
    "by_odds",
    "zero_one",
    "candidates",  # of a tree
    "candidate_slots",
    # of its stream
    "stop_at",  # the next version at which Python has something to do
    "ts",
    "evicted",
    "many_classes",  # 0: nobody asks what was judged how
)
_PLACES = (
    "index_at",
    "address_at",
    "key_at",
    "name_at",
    "letters_at",
    "has_cuts_at",
    "cuts_at",
    "zero_at",
    "first_at",
    "counts_at",
    "nulls_at",
    "class_at",
    "totals_at",
    "waiting_row_at",
    "waiting_slot_at",
    "waiting_value_at",
    "waiting_label_at",
    "warm_at",
    "pairs_at",
    "candidate_at",
    "candidate_cuts_at",
    "candidate_absent_at",
    "used_at",
    "confusion_at",
    "column_at",
    "stage_cuts_at",
    "stage_zero_at",
    "ancestor_at",
    "tables_at",
    "low_at",
    "high_at",
    "odds_at",
    "risk_at",
    "planes_at",
    "prior_at",
    "misclassification_at",
    "spent_at",
    "labels_at",
)
LINE = np.dtype([(name, np.int64) for name in (*_NUMBERS, *_PLACES)] + [("prior_odds", np.float64)])
Line = NDArray[np.void]
"""An array of one."""


def new_line() -> Line:
    return np.zeros(1, dtype=LINE)


def number_in_line(name: str) -> Any:
    """A property of whoever has a `line`: one of its numbers."""

    def read(self: Any) -> int:
        return int(self.line[name][0])

    def write(self: Any, value: int) -> None:
        self.line[name] = value

    return property(read, write)


def place_of(array: NDArray[Any]) -> int:
    """Where it stands in memory."""
    return array.ctypes.data


@intrinsic
def line_at(_: Any, at: Any) -> Any:
    """The line that stands there."""
    line = from_dtype(LINE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(line))

    return line(types.int64), generate


def _view(element: Any, dimensions: int) -> Any:
    """What makes an array of what stands somewhere: the place, then how many there are along each dimension."""
    array = types.Array(element, dimensions, "C")
    given = (types.int64,) * (dimensions + 1)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, size = context.get_data_type(element), context.get_abi_sizeof(context.get_data_type(element))
        shape, stride = arguments[1:], context.get_constant(types.intp, size)
        strides: list[Any] = []
        for many in reversed(shape):
            strides.insert(0, stride)
            stride = builder.mul(stride, many)
        made = context.make_array(array)(context, builder)
        begin = builder.inttoptr(arguments[0], data.as_pointer())
        itemsize = context.get_constant(types.intp, size)
        context.populate_array(made, data=begin, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
        return made._getvalue()  # noqa: SLF001

    def typed(_: Any, *arguments: Any) -> Any:
        return array(*given), generate

    return typed


@intrinsic
def longs_at(context: Any, at: Any, many: Any) -> Any:
    return _view(types.int64, 1)(context, at, many)


@intrinsic
def long_tables_at(context: Any, at: Any, many: Any, rows: Any, columns: Any) -> Any:
    return _view(types.int64, 3)(context, at, many, rows, columns)


@intrinsic
def pair_tables_at(context: Any, at: Any, classes: Any, pairs: Any, rows: Any, columns: Any) -> Any:
    return _view(types.int64, 4)(context, at, classes, pairs, rows, columns)


@intrinsic
def long_table_at(context: Any, at: Any, rows: Any, columns: Any) -> Any:
    return _view(types.int64, 2)(context, at, rows, columns)


@intrinsic
def words_at(context: Any, at: Any, many: Any) -> Any:
    return _view(types.uint64, 1)(context, at, many)


@intrinsic
def ints_at(context: Any, at: Any, many: Any) -> Any:
    return _view(types.int32, 1)(context, at, many)


@intrinsic
def octets_at(context: Any, at: Any, many: Any) -> Any:
    return _view(types.int8, 1)(context, at, many)


@intrinsic
def floats_at(context: Any, at: Any, many: Any) -> Any:
    return _view(types.float64, 1)(context, at, many)


@intrinsic
def float_table_at(context: Any, at: Any, rows: Any, columns: Any) -> Any:
    return _view(types.float64, 2)(context, at, rows, columns)


@intrinsic
def float_tables_at(context: Any, at: Any, many: Any, rows: Any, columns: Any) -> Any:
    return _view(types.float64, 3)(context, at, many, rows, columns)


@intrinsic
def stage_tables_at(context: Any, at: Any, stages: Any, befores: Any, bins: Any, classes: Any) -> Any:
    return _view(types.float64, 4)(context, at, stages, befores, bins, classes)

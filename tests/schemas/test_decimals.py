"""Numbers read by compiled code against Python's own reader, which rounds correctly."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sluiceway.compiling import kernel
from sluiceway.schemas.decimals import read_number
from sluiceway.schemas.swar import READABLE_BEYOND, pointer_to

NOT_TOLD = -1


@kernel
def _read(text: NDArray[np.uint8], bits: NDArray[np.uint64]) -> int:
    begin = pointer_to(text)
    end = read_number(begin, pointer_to(bits))
    return -1 if end < 0 else end - begin


def read(text: str, after: bytes = b"") -> tuple[int, float]:
    """Where the number ends, and the number."""
    given_text = np.frombuffer(bytearray(text.encode() + after + READABLE_BEYOND), dtype=np.uint8)
    bits = np.zeros(1, dtype=np.uint64)
    return _read(given_text, bits), bits.view(np.float64).item()


def bits_of(number: float) -> bytes:
    return struct.pack("d", number)


def between(m: int, shift: int) -> str:
    """Exactly half-way between two floats: the tie goes to the even one."""
    return str((2 * (2**52 + m) + 1) << shift)


digits = st.integers(0, 10**19 - 1).map(str)
spelt = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.builds("{}e{}".format, digits, st.integers(-345, 320)),
    st.builds("-{}.{:0>{}}E{:+}".format, st.integers(0, 99), st.integers(0, 10**15), st.just(16), st.integers(-20, 20)),
    st.builds(between, st.integers(0, 2**52 - 1), st.integers(0, 9)),
    st.builds("0.{}{}".format, st.integers(0, 20).map("0".__mul__), digits),
)


@settings(max_examples=3000, deadline=None)
@given(spelt)
@example("9007199254740993")
@example("9007199254740993e0")
@example("1.7976931348623157e308")
@example("2.2250738585072014e-308")
@example("-0")
@example("0.000e-999")
def test_a_number_is_read_as_python_reads_it_or_left_to_others(text: str) -> None:
    end, number = read(text)
    if end != NOT_TOLD:
        assert end == len(text)
        assert bits_of(number) == bits_of(float(text))


@settings(max_examples=1000, deadline=None)
@given(st.floats(min_value=1e-300, max_value=1e300).map(repr), st.binary(max_size=9).map(b",".__add__))
@example("0.00012345678901234567", b"")
@example("0.12345678", b"}9999999")
def test_every_usual_number_is_read_and_what_follows_is_not_looked_at(text: str, after: bytes) -> None:
    end, number = read(text, after)
    assert (end, number) == (len(text), float(text))


@pytest.mark.parametrize("text", ["", "-", "+1", "01", "-01", ".5", "1.", "1.e5", "1e", "1e+", "e5", "NaN", "Infinity"])
def test_what_is_no_json_number_is_not_read(text: str) -> None:
    end, _ = read(text, b",7")
    assert end == NOT_TOLD


@pytest.mark.parametrize("text", ["1e999", "-1e999", "1e-400", "5e-324", "1.7976931348623159e308", "1234567890" * 2])
def test_what_needs_more_care_is_left_to_others(text: str) -> None:
    assert read(text)[0] == NOT_TOLD


@pytest.mark.parametrize(("text", "end"), [("1,2", 1), ("1.5}", 3), ("-2e3]", 4), ("0 ", 1), ("00", -1), ("1a", 1)])
def test_a_number_ends_where_it_ends(text: str, end: int) -> None:
    assert read(text)[0] == end

"""Labels: what each accepted one is in a batch, and how it is spelt in a record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import BINARY_LABELS, UNLABELLED, Label
from sluiceway.schemas.swar import READABLE_BEYOND

MAX_CLASSES = 127

Targets = Mapping[tuple[type, object], int]
"""What a label is in the batch, by its type and value: 1, True and 1.0 are equal in Python."""


def targets_of(classes: Sequence[Label] | None) -> Targets:
    """-1 and +1 for two classes, 1, 2, 3, ... for more; None: the binary labels."""
    if classes is None:
        return BINARY_LABELS
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise ValueError(f"classes must be 2 to {MAX_CLASSES}, not {len(classes)}")
    for name in classes:
        if type(name) not in (str, int, bool):
            raise ValueError(f"a class is a string, an integer or a boolean, not {name!r}")
    numbers = (-1, 1) if len(classes) == 2 else range(1, len(classes) + 1)
    numbered = zip(classes, numbers, strict=True)
    targets: dict[tuple[type, object], int] = {(type(name), name): number for name, number in numbered}
    if len(targets) != len(classes):
        raise ValueError("classes must not repeat")
    return targets


class SpeltLabels:
    """Labels as they usually stand in JSON, null among them, laid out for compiled code.

    A label that can be spelt in several ways, or in one that compiled code does not read, is not among them.
    """

    def __init__(self, targets: Targets) -> None:
        spelt = {b"null": UNLABELLED}
        for (_, label), target in targets.items():
            letters = json.dumps(label, ensure_ascii=False).encode(errors="replace")
            plain = len(letters) < 20 or type(label) is str  # of longer integers some are read as floats
            if plain and b"\\" not in letters and (type(label) is not str or json.loads(letters) == label):
                spelt[letters] = target
        longest_first = sorted(spelt, key=len, reverse=True)  # "1" is the beginning of "10"
        self._letters = np.frombuffer(bytearray(b"".join(longest_first) + READABLE_BEYOND), dtype=np.uint8)
        sizes = np.array([len(one) for one in longest_first], dtype=np.int64)
        places = self._letters.ctypes.data + np.cumsum(sizes) - sizes
        self.lines: NDArray[np.int64] = np.column_stack(([spelt[one] for one in longest_first], sizes, places))
        """Of each: what it is in a batch, how many letters it has, and a pointer to them."""

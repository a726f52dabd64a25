"""Labels: what each accepted one is in a batch, and how it is spelt in a record."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from sluiceway.schemas.batch import BINARY_LABELS, MOST_CLASSES, UNLABELLED, Label
from sluiceway.schemas.swar import READABLE_BEYOND

Targets = Mapping[tuple[type, object], int]
"""What a label is in the batch, by its type and value: 1, True and 1.0 are equal in Python."""


def targets_of(classes: Sequence[Label] | None) -> Targets:
    """-1 and +1 for two classes, 1, 2, 3, ... for more; None: the binary labels."""
    if classes is None:
        return BINARY_LABELS
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise ValueError(f"classes must be 2 to {MOST_CLASSES}, not {len(classes)}")
    for name in classes:
        if type(name) not in (str, int, bool):
            raise ValueError(f"a class is a string, an integer or a boolean, not {name!r}")
    numbers = (-1, 1) if len(classes) == 2 else range(1, len(classes) + 1)
    numbered = zip(classes, numbers, strict=True)
    targets: dict[tuple[type, object], int] = {(type(name), name): number for name, number in numbered}
    if len(targets) != len(classes):
        raise ValueError("classes must not repeat")
    return targets


class PlainTargets:
    """What a label is in the batch where its meaning is plain, whatever its type: 1.0 and "1" are 1, "True" is true.

    It is by the text that a label is as plainly as it can be written.
    """

    def __init__(self, targets: Targets) -> None:
        self.exact = targets
        plain: dict[str, set[int]] = {}
        for (_, label), target in targets.items():
            text = _plain_text(label)
            if text is not None:
                plain.setdefault(text, set()).add(target)
        self.by_text = {text: found.pop() for text, found in plain.items() if len(found) == 1}
        """Those of one meaning: of the classes 1 and "1" neither may stand for the other."""

    def target(self, label: object) -> int | None:
        """None: it is no label."""
        try:
            return self.exact[type(label), label]
        except (KeyError, TypeError):
            text = _plain_text(label)
            return None if text is None else self.by_text.get(text)

    def spelt(self) -> dict[bytes, int]:
        """As such labels usually stand in JSON."""
        spelt = {}
        for text, target in self.by_text.items():
            forms = [_written(text)]
            if _WHOLE.fullmatch(text):
                forms += [text.encode(), f"{text}.0".encode()] if len(text) < 16 else []
            elif text in _BOOLEANS:
                forms += [text.encode(), _written(text.capitalize())]
            spelt.update({form: target for form in forms if b"\\" not in form and self.target(_read(form)) == target})
        return spelt


_WHOLE = re.compile(r"[+-]?[0-9]+")
_WHOLE_AS_FLOAT = re.compile(r"([+-]?[0-9]+)\.0+")
_BOOLEANS = ("false", "true")


def _plain_text(label: object) -> str | None:
    if type(label) is bool:
        return _BOOLEANS[label]
    if type(label) is float:
        return str(int(label)) if label.is_integer() else None
    if type(label) is int:
        return str(label)
    if type(label) is not str:
        return None
    if label.lower() in _BOOLEANS:
        return label.lower()
    whole = _WHOLE_AS_FLOAT.fullmatch(label)
    text = label if whole is None else whole[1]
    return str(int(text)) if _WHOLE.fullmatch(text) and len(text) < _MOST_DIGITS else label


_MOST_DIGITS = 20


def _written(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode(errors="replace")


def _read(form: bytes) -> object:
    return json.loads(form)


class SpeltLabels:
    """Labels as they usually stand in JSON, null among them, laid out for compiled code.

    A label that can be spelt in several ways, or in one that compiled code does not read, is not among them.
    """

    def __init__(self, targets: Targets, others: Mapping[bytes, int] = MappingProxyType({})) -> None:
        spelt = {**others, b"null": UNLABELLED}
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

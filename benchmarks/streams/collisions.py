"""Names that all have the same 64-bit FNV-1a hash: what an enemy of a hash table would send.

A step of FNV-1a takes byte b from state h to (h ^ b) p. That is (h + d) p for a small d, which b decides, so two words
end in the same state if the differences of their ds, each times its power of p, sum to 0 modulo 2**64. Such
differences are a short vector of a lattice; `RELATION` is one. A pair of words that follow it leads from one state to
one other, whatever came before, and n pairs one after the other make 2**n names.
"""

from __future__ import annotations

import string
from itertools import product

OFFSET, PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
RELATION = (-52, 0, -12, -32, -45, 10, 22, 49, -58)
"""sum(RELATION[-1 - i] * PRIME**i) is 0 modulo 2**64."""
LETTERS = (string.ascii_letters + string.digits).encode()


def fnv1a(letters: bytes, state: int = OFFSET) -> int:
    for byte in letters:
        state = (state ^ byte) * PRIME & MASK
    return state


def colliding(pairs: int) -> list[str]:
    """2**pairs names of letters and digits, each of 9 * pairs, that nothing tells apart but their letters."""
    state, words = OFFSET, []
    for _ in range(pairs):
        pair = _pair(state)
        state = fnv1a(pair[0], state)
        words.append([word.decode() for word in pair])
    return ["".join(name) for name in product(*words)]


def _pair(state: int) -> tuple[bytes, bytes]:
    """Two words that lead from this state to the same one."""
    found = _follow(state, state, b"", b"")
    assert found is not None
    return found


def _follow(one: int, other: int, word: bytes, another: bytes) -> tuple[bytes, bytes] | None:
    if len(word) == len(RELATION):
        assert one == other
        return word, another
    low, low_other = one & 255, other & 255
    by_step = {(low_other ^ letter) - low_other: letter for letter in LETTERS}
    for letter in LETTERS:
        match = by_step.get((low ^ letter) - low - RELATION[len(word)])
        if match is not None:
            found = _follow(
                (one ^ letter) * PRIME & MASK, (other ^ match) * PRIME & MASK,
                word + bytes([letter]), another + bytes([match]),
            )  # fmt: skip
            if found is not None:
                return found
    return None

"""To which partition a key goes, as Java's Kafka clients decide it: so that a key written by us and one written by them
meet in the same partition. librdkafka calls this `murmur2_random`; directory topics use the function below.
"""

from __future__ import annotations

from functools import lru_cache

_M = 0x5BD1E995
_SEED = 0x9747B28C
_32_BITS = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit MurmurHash2, unsigned.

    >>> hex(murmur2(b"kafka"))
    '0xd067cf64'
    """
    whole = len(data) & ~3
    h = _SEED ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _32_BITS
        k = (k ^ k >> 24) * _M & _32_BITS
        h = h * _M & _32_BITS ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _32_BITS
    h = (h ^ h >> 13) * _M & _32_BITS
    return h ^ h >> 15


@lru_cache(1 << 16)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Java's producer chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions

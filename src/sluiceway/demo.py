"""A stream whose truth is known: mails of 200 words, of which ten tell spam from ham, and which ten drifts.

The ten are a window over a ring of twenty words; every drift moves it on by five, so five words stop to matter and five
others begin. A word that matters is seven times as likely in one of the classes; all others, the 180 noise words among
them, appear in both alike. The same seed gives the same mails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORDS = (
    "free", "meeting", "winner", "thanks", "prize", "agenda", "casino", "lunch", "urgent", "draft",
    "crypto", "review", "refund", "monday", "voucher", "budget", "lottery", "attached", "bitcoin", "minutes",
)  # fmt: skip
"""Telling spam and telling ham, in turn."""
NOISE = tuple(f"noise-{number:03d}" for number in range(1, 181))
CLASSES = ("ham", "spam")
STREAM = "mail"

RELEVANT = 10
STEP = 5
LIKELY, UNLIKELY, OTHERWISE = 0.42, 0.06, 0.06
MISLABELLED = 0.02

_NAMES = WORDS + NOISE
_TELLS_SPAM = np.arange(len(WORDS)) % 2 == 0
_FIRST_MAIL = 1_767_225_600_000  # 2026-01-01
_BLOCK = 1000


@dataclass(frozen=True, slots=True)
class DemoStream:
    """The mails of one seed."""

    seed: int = 7
    drift_every: int = 50_000

    def relevant(self, at: int) -> tuple[str, ...]:
        """The words that matter for mail number `at`."""
        first = at // self.drift_every * STEP
        return tuple(WORDS[(first + place) % len(WORDS)] for place in range(RELEVANT))

    def records(self, number: int | None = None) -> Iterator[dict[str, Any]]:
        """The first `number` mails as records of an `instances` topic; without a number they never end.

        >>> mail = next(DemoStream(seed=7).records())
        >>> mail["id"], mail["y"] in CLASSES
        ('mail-0', True)
        """
        for block in count():
            start = block * _BLOCK
            if number is not None and start >= number:
                return
            yield from self._block(start, _BLOCK if number is None else min(_BLOCK, number - start))

    def _block(self, start: int, size: int) -> Iterator[dict[str, Any]]:
        random = np.random.default_rng([self.seed, start])
        spam = random.random(_BLOCK) < 0.5
        present = random.random((_BLOCK, len(_NAMES))) < self._chances(start, spam)
        times = np.minimum(random.geometric(0.7, (_BLOCK, len(_NAMES))), 5)
        said = np.where(random.random(_BLOCK) < MISLABELLED, ~spam, spam)
        for row in range(size):
            words = np.flatnonzero(present[row])
            yield {
                "stream": STREAM,
                "id": f"mail-{start + row}",
                "ts": _FIRST_MAIL + 1000 * (start + row),
                "x": dict(zip((_NAMES[word] for word in words.tolist()), times[row, words].tolist(), strict=True)),
                "y": CLASSES[int(said[row])],
            }

    def _chances(self, start: int, spam: NDArray[np.bool_]) -> NDArray[np.float64]:
        """How likely each word is in each mail of the block."""
        chances = np.full((_BLOCK, len(_NAMES)), OTHERWISE)
        phase = (start + np.arange(_BLOCK)) // self.drift_every
        for now in np.unique(phase):
            mails = np.flatnonzero(phase == now)
            words = (int(now) * STEP + np.arange(RELEVANT)) % len(WORDS)
            fits = _TELLS_SPAM[words] == spam[mails, None]
            chances[np.ix_(mails, words)] = np.where(fits, LIKELY, UNLIKELY)
        return chances

"""From a learner, as its constructor makes it, to what a bank needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sluiceway.operators.bank import dense
from sluiceway.operators.bank.bank import Banked
from sluiceway.operators.bank.counting import BankedPerceptronRandom
from sluiceway.operators.bank.partial import BankedPartial
from sluiceway.operators.bank.sparse import BankedOFS, BankedPerceptronTruncated
from sluiceway.operators.bank.stsd import BankedSTSD
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.learners.ofs_partial import OFSPartial
from sluiceway.operators.learners.perceptron_partial import PerceptronPartial
from sluiceway.operators.learners.perceptron_random import PerceptronRandom
from sluiceway.operators.learners.perceptron_truncated import PerceptronTruncated
from sluiceway.operators.learners.stsd import STSD

_BANKED: Mapping[type[Any], Callable[[Any], Banked | None]] = MappingProxyType(
    {
        OFS: BankedOFS,
        OFSPartial: BankedPartial,
        PerceptronPartial: BankedPartial,
        PerceptronRandom: BankedPerceptronRandom,
        PerceptronTruncated: BankedPerceptronTruncated,
        STSD: BankedSTSD,
    }
)


def banked(model: Any) -> Banked | None:
    """What one bank needs of a learner with the model's parameters; None if there is no bank for its kind.

    A learner of another package says it by its own `BANKED`; one that is inherited would run another's loop.
    """
    make = vars(type(model)).get("BANKED") or _BANKED.get(type(model), dense.banked)
    found: Banked | None = make(model)
    return found

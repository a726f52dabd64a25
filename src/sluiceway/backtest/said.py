"""What every variant said of which labels, as the replay has noted it.

Variants that were judged on the same labels, as most are, share what is known of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluiceway.backtest.judgements import JUDGED, SCORE, judgements_of, scores_of
from sluiceway.backtest.labelled_rows import load, whole_records
from sluiceway.backtest.measures import Labels
from sluiceway.backtest.tallies import Floats


class Said(NamedTuple):
    """Of one variant."""

    labels: Labels
    score: Floats
    spent: dict[str, float]
    """By operators that decide which features to look at: how many, and what they cost, for an instance."""


def said_by(
    folders: Sequence[Path], labelled: Sequence[Path], streams: Sequence[int], classes: int = 2
) -> Iterator[Said]:
    """By each of the variants that left these folders; `labelled` and `streams` are files and numbers by lane."""
    lanes, firsts = range(len(labelled)), np.cumsum([0, *streams]).tolist()
    rows = _together([load(path) for path in labelled], firsts)
    whole = order = known = None
    for folder in folders:
        if any(scores_of(folder, lane).exists() for lane in lanes):
            score = np.concatenate([whole_records(scores_of(folder, lane), SCORE) for lane in lanes])
            judging = ~np.isnan(score)
            if judging.all():
                if whole is None:
                    order = _order(rows, len(lanes))
                    whole = Labels.of(rows[order], firsts[-1], classes)
                yield Said(whole, score[order], {})
                continue
            own, spent = rows[judging], {}
            by_time = _order(own, len(lanes))
            own, score = own[by_time], score[judging][by_time]
        else:
            own = _together([whole_records(judgements_of(folder, lane), JUDGED) for lane in lanes], firsts)
            own = own[_order(own, len(lanes))]
            score, spent = own["score"].copy(), _spent(own)
        if known is None or not known.fit(own):
            known = Labels.of(own, firsts[-1], classes)
        yield Said(known, score, spent)


def _together(parts: Sequence[NDArray[Any]], firsts: Sequence[int]) -> NDArray[Any]:
    """Of all lanes; their streams are numbered one lane after the other."""
    for part, first in zip(parts, firsts, strict=False):
        part["stream"] += first
    return np.concatenate(parts)


def _order(rows: NDArray[Any], lanes: int) -> NDArray[np.int64] | slice:
    """As if the lanes had been one: by `ts` where every record has one, else lane by lane."""
    by_time = lanes > 1 and len(rows) and (rows["ts"] > 0).all()
    return np.argsort(rows["ts"], kind="stable") if by_time else slice(None)


def _spent(judged: NDArray[Any]) -> dict[str, float]:
    told = ~np.isnan(judged["used"])
    if not told.any():
        return {}
    known = judged[told]
    return {"features_used": float(known["used"].mean()), "cost": float(known["cost"].mean())}

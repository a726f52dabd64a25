"""Laws 1 and 2 of a lane with a thousand streams: cutting its input and restoring it change no byte of its output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sluiceway.operators import registry
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.stages.emission import Emit
from sluiceway.schemas.decode import Decoder
from tests.stages.lanes import Message, Store, config, message, new_lane, polls, run

STREAMS, MESSAGES = 1000, 5000
LEARNERS = sorted(name for name, entry in registry.OPERATORS.items() if entry.kind is LEARNER)


def interleaved(seed: int) -> list[Message]:
    """Instances of streams chosen at random, some of which wait for their labels, and later labels, some of nothing."""
    rng = np.random.default_rng(seed)
    sent = []
    for number in range(MESSAGES):
        stream, kind = f"ström-{rng.integers(STREAMS)}", rng.random()
        record: dict[str, Any] = {"ts": number}
        if kind < 0.9:
            names = rng.choice(40, 6, replace=False).tolist()
            record["x"] = {f"n{name}" if name % 2 else f"{name}": float(rng.normal()) for name in names}
        if kind < 0.7 or kind >= 0.9:
            record["y"] = int(rng.choice([-1, 1]))
        if kind >= 0.7:
            record["id"] = f"e{rng.integers(2)}"
        sent.append(message(stream, record))
    return sent


SENT = interleaved(0)


@pytest.mark.parametrize("operator", LEARNERS)
def test_cutting_and_restoring_change_no_byte_of_a_thousand_streams(operator: str) -> None:
    flow = config(operator, emit=Emit(every=3, on_change=True, min_gap=2))
    whole = run(flow, polls(SENT, []))
    assert len({record.key for record in whole.predictions}) > 0.9 * STREAMS
    assert whole.dead_letters
    cuts = np.random.default_rng(1).integers(0, MESSAGES, 60).tolist()
    assert run(flow, polls(SENT, cuts)) == whole
    assert run(flow, polls(SENT, cuts), range(0, 61, 7)) == whole


@pytest.mark.parametrize("operator", LEARNERS)
def test_what_a_thousand_streams_store_does_not_depend_on_cuts(operator: str) -> None:
    """Models are packed as they are, whatever commits there were before."""
    flow = config(operator)
    stored = []
    for cuts in ([], [700, 701, 2500, 4100]):
        store, decoder, lane = Store(), Decoder(8), new_lane(flow)
        for raw in polls(SENT, cuts):
            lane.process(decoder.decode(raw))
            store.commit(lane)
        stored.append({name: (one.birth, one.head) for name, one in store.streams.items()})
    assert stored[0] == stored[1]

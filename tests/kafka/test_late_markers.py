"""A commit is decided before its markers make it visible: who opens the lane in between waits until they do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kafka.expected import assert_exact, instances
from tests.kafka.state import position, records_of
from tests.support import Topics, produce
from tests.support.flow import KafkaFlow
from tests.support.markers import LateMarkers


@pytest.mark.parametrize("before", [0, 20], ids=["the first commit", "a later commit"])
def test_a_crash_before_the_markers(late_markers: LateMarkers, tmp_path: Path, before: int) -> None:
    flow = KafkaFlow(Topics(late_markers.bootstrap), tmp_path, input={"stop": None})
    sent = instances(before + 20)
    with flow.start() as killed:
        if before:
            produce(flow.bootstrap, flow.instances, sent[:before])
            killed.until(lambda: position(flow) == before)
        else:
            killed.until(lambda: "r" in records_of(flow))  # the markers of what opens the lane are not the ones to hold
        late_markers.markers.hold()
        produce(flow.bootstrap, flow.instances, sent[before:])
        killed.until(late_markers.markers.held.is_set)
        killed.kill()
    with flow.start() as again:
        patience = time.monotonic() + 6
        again.until(lambda: time.monotonic() > patience)
        assert len(flow.out("predictions")) == before  # nobody has begun anew
        late_markers.markers.release()
        again.until(lambda: len(flow.out("predictions")) == before + 20)
        assert again.stop().code == 0
    assert_exact(flow, sent, end=False)

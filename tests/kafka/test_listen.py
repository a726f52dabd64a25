"""A flow on the broker, asked for its numbers under load, and whether it is alive while the broker is frozen."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kafka.expected import instances
from tests.support import Broker, Topics, produce
from tests.support.flow import KafkaFlow, Running

LIMIT = 10.0
LOOK = 3.5
"""The newest answer before the broker froze was so old at most, with the time that it took."""
SLACK = 15.0
"""Later than that it must not be, on a busy machine either."""


class Asked:
    """What answers at the address that a flow says it listens at."""

    def __init__(self, process: Running) -> None:
        process.until(lambda: "metrics and health are at" in process.stderr)
        found = re.search(r"metrics and health are at (http://\S+)", process.stderr)
        assert found is not None
        self.url = found[1]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def total(self, name: str) -> float:
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return sum(sample.value for family in families for sample in family.samples if sample.name == name)


@pytest.mark.timeout(200)
def test_numbers_under_load_and_health_through_a_frozen_broker(own_broker: Broker, tmp_path: Path) -> None:
    flow = KafkaFlow(Topics(own_broker.bootstrap), tmp_path, partitions=2, input={"stop": None})
    good = [*instances(2000), *instances(1000, stream="post")]
    sent = [*good, ("mail", "not json"), ("post", '{"x": {"a": 1}, "y": "perhaps"}')]
    listening = ("--listen", "127.0.0.1:0", "--unhealthy-after", f"{LIMIT:g}")
    with flow.start(*listening) as running:
        asked = Asked(running)
        assert asked.get("/nowhere")[0] == 404
        assert asked.get("/healthz") == (200, "ok\n")  # also while it starts
        produce(flow.bootstrap, flow.instances, sent)
        seen = 0.0
        while (read := asked.total("sluiceway_records_total")) < len(sent):
            assert read >= seen
            seen = read
            time.sleep(0.05)
        assert asked.get("/readyz") == (200, "ok\n")
        snapshots, predictions = (
            [value for lane in (0, 1) for value in flow.values(role, partition=lane)]
            for role in ("selections", "predictions")
        )
        right = {(stream, json.loads(value)["id"]): json.loads(value)["y"] for stream, value in good}
        wrong = [each for each in predictions if right[each["stream"], each["id"]] * each["score"] <= 0]
        assert asked.total("sluiceway_predictions_total") == len(predictions) == len(good)
        assert asked.total("sluiceway_instances_total") == asked.total("sluiceway_learnt_total") == len(good)
        assert asked.total("sluiceway_mistakes_total") == len(wrong) > 0
        assert asked.total("sluiceway_dead_letters_total") == 2
        assert asked.total("sluiceway_snapshots_total") == len(snapshots) > 0
        assert asked.total("sluiceway_features_entered_total") == sum(len(each["entered"]) for each in snapshots) > 0
        assert asked.total("sluiceway_features_left_total") == sum(len(each["left"]) for each in snapshots) > 0
        running.until(lambda: asked.total("sluiceway_lag") == 0)
        assert asked.total("sluiceway_position") > len(good)
        assert asked.total("sluiceway_streams") == 2
        assert asked.total("sluiceway_state_bytes") > 0

        own_broker.pause()
        frozen = time.monotonic()
        running.until(lambda: asked.get("/healthz")[0] == 503)
        red = time.monotonic() - frozen
        assert LIMIT - LOOK <= red < LIMIT + SLACK
        assert re.search(r"has been answered for 1\d s", asked.get("/healthz")[1])
        own_broker.resume()
        woken = time.monotonic()
        running.until(lambda: asked.get("/healthz")[0] == 200)
        green = time.monotonic() - woken
        assert green < SLACK
        print(f"red {red:.1f} s after the broker froze (limit {LIMIT:g} s), green {green:.1f} s after it went on")
        running.until(lambda: "the broker answers again" in running.stderr)
        done = running.stop()
        assert done.code == 0, done.stderr

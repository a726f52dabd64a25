"""The dashboard and the alert rules, asked of a real Prometheus that has scraped a real flow (Debian: `prometheus`)."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows import metrics
from tests.flows.test_run import INSTANCES, Flow
from tests.kafka.test_listen import Asked
from tests.support.broker import free_ports
from tests.support.flow import Running

MONITORING = Path(__file__).resolve().parents[2] / "docker" / "chart" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
ALERTS_TEST = Path(__file__).with_name("alerts_test.yaml")
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
VARIABLES = {"$flow": ".*", "$__rate_interval": "10s"}


def shown() -> list[str]:
    """The dashboard's expressions."""
    found = []
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found.append(re.sub(r"\[\d+m\]", "[10s]", expression))
    return found


def alerting() -> list[str]:
    """Those of the alert rules; the file is written so that this is enough."""
    folded = re.compile(r">-\n((?: {10,}.*\n)+?)(?=        \w)")
    text = folded.sub(lambda block: " ".join(block[1].split()) + "\n", ALERTS.read_text())
    return re.findall(r"^        expr: (.*)$", text, re.MULTILINE)


def test_only_metrics_that_there_are() -> None:
    known = {name for name, _, _, _ in metrics.documented()}
    used = set()
    for expression in (*shown(), *alerting()):
        used |= set(re.findall(r"sluiceway_\w+", expression))
    assert {name.removesuffix("_bucket") for name in used} <= known
    assert len(alerting()) == ALERTS.read_text().count("- alert: ") > 5
    # what nothing shows is of no use
    unused = known - {name.removesuffix("_bucket") for name in used}
    assert unused <= {"sluiceway_position", "sluiceway_lanes_opening", "sluiceway_answered_timestamp_seconds"}


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} (Debian has it in `prometheus`)")
    return found


def test_prometheus_takes_the_rules() -> None:
    done = subprocess.run([tool("promtool"), "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    tests = ALERTS_TEST.read_text()
    for name in re.findall(r"- alert: (\w+)", ALERTS.read_text()):
        assert re.search(rf"alertname: {name}\n +eval_time: \w+\n +exp_alerts:\n +- ", tests), f"{name} never fires"
        assert re.search(rf"alertname: {name}, eval_time: \w+, exp_alerts: \[\]", tests), f"{name} always fires"
    done = subprocess.run([tool("promtool"), "test", "rules", ALERTS_TEST], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A server that scrapes one address every second."""

    def __init__(self, directory: Path, target: str) -> None:
        [port] = free_ports(1)
        directory.mkdir()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "sluiceway", "static_configs": [{"targets": [target]}]}],
        }
        (directory / "prometheus.yml").write_text(json.dumps(config))  # which YAML is a superset of
        self._url = f"http://127.0.0.1:{port}/api/v1"
        self._log = (directory / "log").open("wb")
        self.process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def get(self, path: str, **given: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/{path}?{urllib.parse.urlencode(given)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def ask(self, expression: str) -> list[Any]:
        found: list[Any] = self.get("query", query=expression)["result"]
        return found

    def until(self, expression: str) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                if any(not math.isnan(float(each["value"][1])) for each in self.ask(expression)):
                    return
            except OSError:
                pass  # it starts
            assert self.process.poll() is None
            assert time.monotonic() < deadline, expression
            time.sleep(0.2)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._log.close()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    tool("prometheus")
    flow = Flow(tmp_path)
    flow.write(input={"stop": None})
    flow.feed([*INSTANCES, "not json\n"])
    with Running(*flow.arguments("--listen", "127.0.0.1:0", every="2")) as running:
        asked = Asked(running)
        running.until(lambda: asked.total("sluiceway_records_total") == len(INSTANCES) + 1)
        server = Prometheus(tmp_path / "prometheus", asked.url.removeprefix("http://"))
        try:
            with fed(flow):
                yield server
        finally:
            server.close()


@contextmanager
def fed(flow: Flow) -> Iterator[None]:
    """A few records all the time, so that there is always something learnt, and something not committed yet."""
    over = threading.Event()

    def feed() -> None:
        while not over.wait(0.1):
            flow.feed(INSTANCES[:3])

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join()


@pytest.mark.timeout(600)
def test_every_expression_gives_numbers(prometheus: Prometheus) -> None:
    prometheus.until("count_over_time(sluiceway_records_total[10s]) > 3")
    for expression in shown():
        prometheus.until(expression)
    for expression in alerting():
        assert prometheus.ask(expression) == [], expression  # all is well
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
    assert len(rules) == len(alerting())

"""What is counted, what is shown of it, and when a flow is alive: without a broker, on clocks turned by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sluiceway.flows import health, metrics, pulse
from sluiceway.flows.progress import DURATIONS, Progress
from sluiceway.flows.state_size import StateSize
from sluiceway.flows.tally import Tally
from sluiceway.schemas import encode
from sluiceway.schemas.asleep import AsleepInMemory
from sluiceway.schemas.lane import DeadLetter, LaneOutput, OutRecord
from sluiceway.schemas.refusal import ERROR_CLASSES
from sluiceway.schemas.state import StoredChange, StoredStream
from sluiceway.topics.ends import Ends
from sluiceway.topics.url import DirectoryTopic

LIMIT = 30.0
Shown = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def letter(error_class: str) -> OutRecord:
    return encode.dead_letter(DeadLetter(1, None, b"x", error_class, "why", "decode"), "t", 0)


def output(**given: Any) -> LaneOutput:
    return LaneOutput(0, 0, 10, False, **given)


def scraped(progress: Progress) -> Shown:
    """As Prometheus' own parser reads it."""
    made = metrics.registry(metrics.FlowCollector("spam", "ofs", "1.0", progress, LIMIT))
    families = text_string_to_metric_families(generate_latest(made).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def of(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted({"flow": "spam", **labels}.items()))


def test_a_tally_of_polls() -> None:
    tally = Tally()
    snapshot = OutRecord(0, b"k", b'{"n_selected":3,"selected":[{"feature":"a"}],"entered":["a","b"],"left":["c"]}')
    tally.take(output(records=7, instances=5, learnt=4, mistakes=1, selections=[snapshot], finals=[snapshot]))
    tally.take(output(records=3, dead_letters=[letter("bad-label"), letter("not-json"), letter("bad-label")]))
    tally.take(output(predictions=[OutRecord(0, None, b"{}")] * 3))
    both = Tally()
    both.add(tally)
    both.add(tally)
    assert (both.records, both.instances, both.learnt, both.mistakes) == (20, 10, 8, 2)
    assert (both.entered, both.left) == (8, 4)
    assert both.dead_letters == {"bad-label": 4, "not-json": 2}
    assert both.outputs == {"selections": 4, "predictions": 6}


def test_the_size_of_a_state() -> None:
    restored = {"s": StoredStream(0, b"12345"), "t": StoredStream(3, b"123", {0: b"ab", 1: b"cd"})}
    size = StateSize.of(AsleepInMemory(restored))
    assert (size.streams, size.bytes) == (2, 12)
    size.changed([StoredChange("s", 0, b"123", {2: b"ef"}, []), StoredChange("new", 4, b"1234", {}, [])])
    assert (size.streams, size.bytes) == (3, 6 + 5 + 4)  # the other one is taken to be as large as both were
    size.changed([StoredChange("t", 3, b"12345678", {}, [0, 1])])
    assert (size.streams, size.bytes) == (3, 8 + 5 + 4)
    size.changed([StoredChange("s", 0, b"1", {}, [2])])
    assert (size.streams, size.bytes) == (3, 8 + 1 + 4)


def test_what_is_scraped() -> None:
    progress = Progress()
    shown = scraped(progress)
    assert shown[of("sluiceway_info", operator="ofs", version="1.0")] == 1
    assert shown[of("sluiceway_healthy")] == 1
    assert shown[of("sluiceway_ready")] == 0
    progress.begin()
    progress.await_opening(3)
    lane = progress.open(3, 100, None, StateSize(1, 5, 1))
    lane.reached(200, 60)
    tally = Tally()
    tally.take(output(records=60, instances=58, learnt=40, mistakes=4, dead_letters=[letter("bad-label")] * 2))
    progress.committed(3, 180, tally, 0.03)
    progress.committed(3, 180, Tally(), 99.0)
    lane.end = 1180
    shown = scraped(progress)
    assert shown[of("sluiceway_records_total", lane="3")] == 60
    assert shown[of("sluiceway_mistakes_total", lane="3")] == 4
    assert shown[of("sluiceway_dead_letters_total", lane="3", **{"class": "bad-label"})] == 2
    assert shown[of("sluiceway_lag", lane="3")] == 1000
    assert shown[of("sluiceway_position", lane="3")] == 180
    assert shown[of("sluiceway_state_bytes", lane="3")] == 5
    assert shown[of("sluiceway_ready")] == 1
    buckets = [shown[of("sluiceway_commit_duration_seconds_bucket", le=le)] for le in ("0.025", "0.05", "30.0", "+Inf")]
    assert buckets == [0, 1, 1, 2]
    assert shown[of("sluiceway_commit_duration_seconds_sum")] == pytest.approx(99.03)
    progress.forget(3)
    shown = scraped(progress)
    assert shown[of("sluiceway_records_total", lane="3")] == 60  # what was counted stays counted
    assert of("sluiceway_lag", lane="3") not in shown


def test_every_name_is_documented_and_every_label_is_bounded() -> None:
    progress = Progress()
    progress.begin()
    progress.open(0, 0, None)
    tally = Tally()
    tally.take(output(dead_letters=[letter(name) for name in ERROR_CLASSES]))
    progress.committed(0, 10, tally, 0.5)
    progress.lanes[0].end = 10
    known = {name: labels for name, _, labels, _ in metrics.documented()}
    found = set()
    for name, labels in scraped(progress):
        if name.startswith("sluiceway_"):
            base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
            assert {label for label, _ in labels} - {"le"} == set(known[base]), name
            found.add(base)
    assert found == set(known)
    assert {label for labels in known.values() for label in labels} <= {"flow", "lane", "class", "operator", "version"}


def test_a_commit_s_bucket() -> None:
    progress = Progress()
    progress.open(0, 0, None)
    for seconds in DURATIONS:
        progress.committed(0, 0, Tally(), seconds)
    assert progress.counts[0].commits == [1] * len(DURATIONS) + [0]


class Clock:
    """The monotonic clock of progress, health and pulse."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in ("progress", "health", "pulse"):
            monkeypatch.setattr(f"sluiceway.flows.{module}.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def looking(tmp_path: Path, progress: Progress) -> tuple[pulse.Pulse, Path]:
    """A pulse that beats when it is told to, on a topic of one file."""
    topic = DirectoryTopic(tmp_path / "in")
    topic.path.mkdir()
    file = topic.path / "part-00000.jsonl"
    file.write_bytes(b"x" * 100)
    made = pulse.Pulse("spam", topic, {}, progress)
    made.close()
    return made, file


def test_alive_and_ready(clock: Clock, tmp_path: Path) -> None:
    progress = Progress()
    looked, file = looking(tmp_path, progress)
    assert health.troubles(progress, LIMIT) == []
    assert "has not begun" in str(health.unready(progress))
    progress.begin()
    assert "no lane has come" in str(health.unready(progress))
    clock.now += 11
    assert health.unready(progress) is None  # it stands by
    progress.await_opening(0)
    assert health.unready(progress) == "lanes are being opened: 0"
    lane = progress.open(0, 0, None)
    assert health.unready(progress) is None

    def wait(seconds: float) -> list[str]:
        """Looked at every three seconds."""
        for _ in range(round(seconds / 3)):
            clock.now += 3
            looked._look()
        return health.troubles(progress, LIMIT)

    assert wait(27) == []
    [still] = wait(12)
    assert still == "lane 0 has stood still for 36 s at 0, with 100 to go"
    lane.reached(50, 5)
    assert wait(3) == []  # it reads, though it has not committed yet
    progress.tell(0, "waiting for spam to pass offset 50")
    assert wait(60) == []
    progress.tell(0, None)
    lane.reached(100, 5)
    progress.committed(0, 100, Tally(), 0.1)
    assert wait(3600) == []  # idle
    with file.open("ab") as more:
        more.write(b"x" * 10)
    assert wait(12) == []
    file.unlink()
    assert "neither a commit nor a look at the input has been answered for 33 s" in wait(33)
    file.write_bytes(b"x" * 100)
    assert wait(3) == []
    progress.stopping = True
    assert health.unready(progress) == "the flow is being stopped"


def test_a_lane_that_fails(clock: Clock, tmp_path: Path) -> None:
    progress = Progress()
    looked, file = looking(tmp_path, progress)
    progress.begin()
    progress.await_opening(0)
    for _ in range(20):
        clock.now += 3
        progress.failed(0)
        progress.await_opening(0)
        looked._look()
    assert health.troubles(progress, LIMIT) == ["lane 0 has been opened again and again for 60 s"]
    progress.open(0, 100, None)
    looked._look()
    assert health.troubles(progress, LIMIT) == []  # there is nothing left to do
    progress.park(0, "too large")
    assert health.troubles(progress, LIMIT) == ["lane 0 is parked: too large"]
    progress.forget(0)
    assert health.troubles(progress, LIMIT) == []
    assert file.exists()


def test_a_lane_that_does_not_come_to_be_open(clock: Clock) -> None:
    progress = Progress()
    progress.begin()
    progress.await_opening(2)
    for _ in range(10):
        clock.now += 20
        progress.heard = progress.opening[2] = clock.now
    assert health.troubles(progress, LIMIT) == []  # it takes long, and is alive
    clock.now += 31
    progress.heard = clock.now
    assert health.troubles(progress, LIMIT) == ["lane 2 is being opened, without a sign of life for 31 s"]
    progress.failed(2)
    progress.await_opening(2)
    assert health.troubles(progress, LIMIT) == ["lane 2 has been opened again and again for 31 s"]
    progress.forget(2)
    assert health.troubles(progress, LIMIT) == []


def test_a_checkpoint_is_as_old_as_the_one_that_a_lane_goes_on_from() -> None:
    name = "sluiceway_last_commit_timestamp_seconds"
    progress = Progress()
    progress.open(0, 10, None, committed_at=1_700_000_000.0)
    progress.open(1, 0, None)
    shown = scraped(progress)
    assert shown[of(name, lane="0")] == 1_700_000_000.0
    assert of(name, lane="1") not in shown  # there is none
    progress.committed(0, 20, Tally(), 0.1)
    newest = scraped(progress)[of(name, lane="0")]
    assert newest > 1_700_000_000.0
    progress.open(0, 20, None, committed_at=1_700_000_000.0)
    assert scraped(progress)[of(name, lane="0")] == newest


def test_a_bounded_lane_has_lag_up_to_its_stop() -> None:
    progress = Progress()
    lane = progress.open(0, 10, 50)
    assert lane.lag is None
    lane.end = 1000
    assert lane.lag == 40
    progress.committed(0, 50, Tally(), 0.1)
    assert lane.lag == 0


def test_the_summary_of_a_minute(clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress()
    looked, _ = looking(tmp_path, progress)
    progress.begin()
    lane = progress.open(0, 0, None)
    lane.reached(100, 1200)
    tally = Tally()
    tally.take(output(dead_letters=[letter("bad-label")]))
    progress.committed(0, 60, tally, 0.1)
    clock.now += 60
    looked._look()
    with caplog.at_level("INFO", "sluiceway.flow"):
        looked._summarise()
    [said] = caplog.records
    sentence = "spam: 1,200 records (20/s), 1 dead letter, lag 40 in 1 lane, oldest checkpoint"
    assert said.getMessage().startswith(sentence)
    assert said.fields["lag"] == 40  # type: ignore[attr-defined]


def test_a_broker_that_is_lost_and_found(clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Or a directory: whatever does not say where the input ends."""
    progress = Progress()
    looked, file = looking(tmp_path, progress)
    progress.begin()
    progress.open(0, 0, None)
    content = file.read_bytes()
    file.unlink()
    with caplog.at_level("INFO", "sluiceway.flow"):
        for _ in range(4):
            clock.now += 3
            looked._look()
        file.write_bytes(content)
        for _ in range(2):
            clock.now += 3
            looked._look()
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "INFO"]
    assert told[0][1].startswith("the broker has not answered for 6 s: ")
    assert told[1][1] == "the broker answers again, after 15 s"


def test_a_directory_s_end_is_its_size(tmp_path: Path) -> None:
    topic = DirectoryTopic(tmp_path)
    (tmp_path / "part-00001.jsonl").write_bytes(b"12345")
    assert Ends(topic, {}).look([1]) == {1: 5}

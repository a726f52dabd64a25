"""Where a crashed flow reads and writes: Kafka topics or directories, with the output of a run that was not disturbed.

The reference run and every crashed run read the same input and have the same flow name, since both appear in the
output's bytes; output topics and store are each run's own. The name also names the consumer group, which knows how much
output is out, so the group is deleted before a flow begins anew.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.crash.compare import Out, Output, count, differences
from tests.crash.harness import Flow, positions, resume_epoch, store_partitions, store_rows
from tests.crash.workload import LANES, NARROW, Width, lane_lines, lane_messages
from tests.support import Topics, produce, read_committed

NAME = "crash" + os.environ.get("PYTEST_XDIST_WORKER", "")
"""Each process of a parallel test run has its own: they may share a broker."""
CARRIES = ("selections", "predictions", "dead_letters")
EMIT = "[emit]\nevery = 25\non_change = true\nmin_gap = 5\ntop = 20"


class Learns(NamedTuple):
    """What a flow learns with, and from instances of which width."""

    operator: str = "ofs"
    params: Mapping[str, object] = MappingProxyType({"k": 5})
    width: Width = NARROW

    def settings(self) -> list[str]:
        params = [f"{name} = {orjson.dumps(value).decode()}" for name, value in self.params.items()]
        return ["[operator]", f'name = "{self.operator}"', *params]


OFS = Learns()


def write_settings(
    file: Path, name: str, topics: Mapping[str, str], delivery: str, stop: str = "end", learns: Learns = OFS
) -> None:
    lines = [f'[flow]\nname = "{name}"\n[topics]']
    lines += [f'{carries} = "{url}"' for carries, url in topics.items()]
    lines += [f'[input]\nstop = "{stop}"', f'[output]\ndelivery = "{delivery}"']
    file.write_text("\n".join([*lines, *learns.settings(), EMIT, ""]))


class World(Protocol):
    """One kind of topics."""

    kind: str
    expected: Output

    def flow(self, series: str, place: Path, *, delivery: str = "exactly-once") -> Flow:
        """A flow that has never run, with output topics of its own."""

    def read(self, flow: Flow) -> Output:
        """What a reader that knows nothing of us finds."""

    def ahead(self, flow: Flow) -> int:
        """By how much the output is ahead of the store."""


def check_reference(expected: Output) -> None:
    """A comparison with nothing proves nothing."""
    for carries in CARRIES:
        assert all(len(expected[carries][lane]) > 3 for lane in range(LANES)), f"the reference has few {carries}"
    for lane in range(LANES):
        reasons = {orjson.loads(record.value or b"")["reason"] for record in expected["selections"][lane]}
        assert reasons == {"interval", "change", "final"}


def produce_all(bootstrap: str, topic: str, size: int, width: Width = NARROW) -> None:
    for lane in range(LANES):
        produce(bootstrap, topic, [(key, value, lane) for key, value in lane_messages(lane, size, width)])


def write_all(directory: Path, size: int, width: Width = NARROW) -> str:
    """The input as a directory topic; its URL."""
    directory.mkdir(parents=True)
    for lane in range(LANES):
        (directory / f"part-{lane:05d}.jsonl").write_bytes(lane_lines(lane, size, width))
    (directory / "_topic.json").write_text(f'{{"partitions": {LANES}}}')
    return f"dir:{directory}"


class KafkaWorld:
    """Input and output on the broker."""

    kind = "kafka"
    stop = "end"
    learns = OFS

    def __init__(self, bootstrap: str, place: Path, size: int, learns: Learns = OFS) -> None:
        self.learns = learns
        self._make_input(bootstrap)
        produce_all(bootstrap, self.input, size, learns.width)
        self.take_reference(place)

    def _make_input(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topics = Topics(bootstrap)
        self.input = self.topics("instances", LANES)
        self.input_url = f"kafka://{bootstrap}/{self.input}"

    def take_reference(self, place: Path) -> None:
        reference = self.flow("reference", place)
        reference.finish()
        self.expected: Output = self.read(reference)
        check_reference(self.expected)

    def flow(self, series: str, place: Path, *, delivery: str = "exactly-once", selections: str | None = None) -> Flow:
        self.forget_group(NAME)
        return self.named_flow(NAME, series, place, delivery, selections)

    def named_flow(
        self, name: str, series: str, place: Path, delivery: str = "exactly-once", selections: str | None = None
    ) -> Flow:
        outputs = {carries: self.topics(carries, LANES) for carries in CARRIES if carries != "selections"}
        outputs["selections"] = selections or self.topics("selections", LANES)
        urls = {carries: f"kafka://{self.bootstrap}/{topic}" for carries, topic in outputs.items()}
        file = place / f"{series.replace(' ', '-')}.toml"
        write_settings(file, name, {"instances": self.input_url, **urls}, delivery, self.stop, self.learns)
        return Flow(file, file.with_suffix(".store"), name, f"kafka {series}", outputs)

    def forget_group(self, name: str) -> None:
        for done in self.topics.admin.delete_consumer_groups([name], request_timeout=30).values():
            with contextlib.suppress(KafkaException):  # it has never been
                done.result(30)

    def read(self, flow: Flow) -> Output:
        found: dict[str, dict[int, list[Out]]] = {}
        for carries in CARRIES:
            partitions = read_committed(self.bootstrap, flow.outputs[carries])
            found[carries] = {
                lane: [Out(record.key, record.value, tuple(record.headers)) for record in records]
                for lane, records in partitions.items()
            }
        own = f"{flow.name}/".encode()
        found["selections"] = {
            lane: [record for record in records if (record.key or b"").startswith(own)]
            for lane, records in found["selections"].items()
        }
        return found

    def progress_topic(self, flow: Flow) -> str:
        """The topic by whose partitions the flow's group counts: the input."""
        return self.input

    def ahead(self, flow: Flow) -> int:
        # a death between sending the offsets and committing them leaves them undecided until somebody fences the dead:
        # the broker answers only for the decided ones, and only to a reader that does not insist on the others
        settings = {"bootstrap.servers": self.bootstrap, "group.id": flow.name, "isolation.level": "read_uncommitted"}
        consumer = Consumer({**settings, "log_level": 0})
        try:
            places = [TopicPartition(self.progress_topic(flow), lane) for lane in range(LANES)]
            out = consumer.committed(places, timeout=30)
        finally:
            consumer.close()
        stands = positions(flow.store, flow.name)
        return sum(place.offset - stands.get(lane, 0) for lane, place in enumerate(out) if place.offset >= 0)

    def unfinished(self, flow: Flow) -> bool:
        """Whether a transaction hides records in any output partition."""
        ends = []
        for isolation in ("read_committed", "read_uncommitted"):
            consumer = Consumer(
                {"bootstrap.servers": self.bootstrap, "group.id": "ends", "isolation.level": isolation, "log_level": 0}
            )
            places = [TopicPartition(topic, lane) for topic in flow.outputs.values() for lane in range(LANES)]
            ends.append([consumer.get_watermark_offsets(place, timeout=30) for place in places])
            consumer.close()
        return ends[0] != ends[1]


class LiveKafkaWorld(KafkaWorld):
    """The input comes while flows run: some lanes at a time, in bursts, up to an offset that is known before."""

    def __init__(self, bootstrap: str, size: int) -> None:
        self._make_input(bootstrap)
        self._size = size
        self.stop = str(size)

    @contextlib.contextmanager
    def fed(self) -> Iterator[None]:
        """Feed, slowly as long as the block runs; at its end what is left at once."""
        ending = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(ending,), daemon=True)
        feeder.start()
        yield
        ending.set()
        feeder.join(timeout=60)
        assert not feeder.is_alive()

    def _feed(self, ending: threading.Event) -> None:
        random_ = random.Random("feed")
        waiting = {lane: lane_messages(lane, self._size) for lane in range(LANES)}
        while any(waiting.values()):
            burst = []
            for lane in range(LANES):
                if random_.random() < 0.5:
                    burst += [(key, value, lane) for key, value in waiting[lane][:25]]
                    del waiting[lane][:25]
            produce(self.bootstrap, self.input, burst)
            ending.wait(0.25)


class DirectoryWorld:
    """Input and output in directories."""

    kind = "directory"
    learns = OFS

    def __init__(self, place: Path, size: int, learns: Learns = OFS) -> None:
        self.learns = learns
        self.input_url = write_all(place / "instances", size, learns.width)
        self.take_reference(place)

    def take_reference(self, place: Path) -> None:
        reference = self.flow("reference", place)
        reference.finish()
        self.expected: Output = self.read(reference)
        check_reference(self.expected)

    def flow(self, series: str, place: Path, *, delivery: str = "exactly-once") -> Flow:
        file = place / f"{series.replace(' ', '-')}.toml"
        outputs = {carries: str(place / f"{file.stem}-{carries}") for carries in CARRIES}
        urls = {carries: f"dir:{path}" for carries, path in outputs.items()}
        write_settings(file, NAME, {"instances": self.input_url, **urls}, delivery, learns=self.learns)
        return Flow(file, file.with_suffix(".store"), NAME, f"directory {series}", outputs)

    def _file(self, flow: Flow, carries: str, lane: int) -> Path:
        return Path(flow.outputs[carries]) / f"part-{lane:05d}.jsonl"

    def read(self, flow: Flow) -> Output:
        """Complete lines: what stands after the last end of line is not there yet."""
        return {
            carries: {
                lane: [Out(None, line) for line in self._file(flow, carries, lane).read_bytes().split(b"\n")[:-1]]
                for lane in range(LANES)
            }
            for carries in CARRIES
        }

    def ahead(self, flow: Flow) -> int:
        """Bytes of output after the checkpoint."""
        before = resume_epoch(flow.store)
        with store_partitions(flow.store) as partitions:
            rows = store_rows(partitions, "select step_id, state_key, snap_epoch, ser_change from snaps")
        newest: dict[int, tuple[int, int]] = {}
        for step, key, epoch, state in rows:
            if step == f"{flow.name}.sink" and epoch < before and state is not None:
                written = sum(pickle.loads(state)[0].values())
                newest[int(key)] = max(newest.get(int(key), (-1, -1)), (epoch, written))
        stands = sum(
            path.stat().st_size
            for carries in CARRIES
            for lane in range(LANES)
            if (path := self._file(flow, carries, lane)).exists()
        )
        return stands - sum(written for _, written in newest.values())


class DirectoryToKafkaWorld(KafkaWorld):
    """Input in directories, output on the broker: with no input topic, the group counts by an output's partitions."""

    def __init__(self, bootstrap: str, place: Path, size: int) -> None:
        self.bootstrap = bootstrap
        self.topics = Topics(bootstrap)
        self.input_url = write_all(place / "instances", size)
        self.take_reference(place)

    def progress_topic(self, flow: Flow) -> str:
        return flow.outputs["selections"]


class KafkaToDirectoryWorld(DirectoryWorld):
    """Input on the broker, output in directories."""

    def __init__(self, bootstrap: str, place: Path, size: int) -> None:
        self.topics = Topics(bootstrap)
        topic = self.topics("instances", LANES)
        produce_all(bootstrap, topic, size)
        self.input_url = f"kafka://{bootstrap}/{topic}"
        self.take_reference(place)


def verify(world: World, flow: Flow) -> str:
    """The output is that of the undisturbed run, byte for byte; a sentence for the table."""
    found = world.read(flow)
    wrong = differences(world.expected, found)
    assert not wrong, "\n".join(wrong)
    records = {carries: sum(map(len, world.expected[carries].values())) for carries in CARRIES}
    told = ", ".join(f"{number:,} {carries}" for carries, number in records.items())
    return f"{count(found):,} records in {3 * LANES} partitions equal to the reference ({told})"

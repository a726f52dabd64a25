"""Where a crashed flow reads and writes: Kafka topics or directories, with the output of a run that was not disturbed.

The reference run and every crashed run read the same input and have the same flow name, since both appear in the
output's bytes; output topics and state are each run's own. The name also names the flow's groups: what they know of an
earlier flow is removed before another begins.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol

import orjson
from confluent_kafka import KafkaError, KafkaException

from sluiceway.topics.kafka import MOVING
from tests.crash.compare import Out, Output, count, differences
from tests.crash.harness import Flow
from tests.crash.workload import LANES, NARROW, Width, lane_lines, lane_messages
from tests.support import Topics, are_hidden, produce, read_committed, settle

CARRIES = ("selections", "predictions", "dead_letters")
EMIT = "[emit]\nevery = 25\non_change = true\nmin_gap = 5\ntop = 20"
SESSION_MS = 6000
"""So soon a killed member's lanes move on; the least that brokers allow."""
STATIC = "one"
"""The one process of a flow that is always the same member: its successor has the lanes at once."""


class Learns(NamedTuple):
    """What a flow learns with, and from instances of which width."""

    operator: str = "ofs"
    params: Mapping[str, object] = MappingProxyType({"k": 5})
    width: Width = NARROW
    writes: tuple[str, ...] = CARRIES

    def settings(self) -> list[str]:
        params = [f"{name} = {orjson.dumps(value).decode()}" for name, value in self.params.items()]
        return ["[operator]", f'name = "{self.operator}"', *params]


OFS = Learns()


def write_settings(
    file: Path,
    name: str,
    topics: Mapping[str, str],
    *,
    stop: str = "end",
    learns: Learns = OFS,
    member: str | None = None,
    memory: str | None = None,
) -> None:
    """`member` makes the process a static one."""
    lines = [f'[flow]\nname = "{name}"', *([] if memory is None else [f'memory = "{memory}"']), "[topics]"]
    lines += [f'{carries} = "{url}"' for carries, url in topics.items()]
    lines += [f'[kafka]\n"session.timeout.ms" = {SESSION_MS}']
    lines += [] if member is None else [f'"group.instance.id" = "{member}"']
    lines += [f'[input]\nstop = "{stop}"']
    file.write_text("\n".join([*lines, *learns.settings(), EMIT, ""]))


class World(Protocol):
    """One kind of topics."""

    kind: str
    expected: Output

    def flow(self, series: str, place: Path, *, member: str | None = STATIC) -> Flow:
        """A flow that has never run, with output topics of its own."""

    def settle(self, flow: Flow) -> None:
        """Wait until all that was committed can be read."""

    def read(self, flow: Flow) -> Output:
        """What a reader that knows nothing of us finds."""


def check_reference(expected: Output) -> None:
    """A comparison with nothing proves nothing."""
    for carries in expected:
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
    memory: str | None = None
    """Of flows made from now on."""
    in_directories: tuple[str, ...] = ()
    """Outputs that are written elsewhere."""

    def __init__(self, bootstrap: str, place: Path, size: int, learns: Learns = OFS) -> None:
        self.learns = learns
        self._make_input(bootstrap)
        produce_all(bootstrap, self.input, size, learns.width)
        self.take_reference(place)

    def _reach(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topics = Topics(bootstrap)
        self.name = f"crash-{uuid.uuid4().hex[:8]}"

    def _make_input(self, bootstrap: str) -> None:
        self._reach(bootstrap)
        self.input = self.topics("instances", LANES)
        self.input_url = f"kafka://{bootstrap}/{self.input}"

    def take_reference(self, place: Path) -> None:
        reference = self.flow("reference", place)
        reference.finish()
        self.settle(reference)
        self.expected: Output = self.read(reference)
        check_reference(self.expected)

    def flow(self, series: str, place: Path, *, member: str | None = STATIC, selections: str | None = None) -> Flow:
        """With `member` each run is the same member of the group; without, one of many."""
        self.forget_groups(self.name, static=member is not None)
        return self.named_flow(self.name, series, place, member, selections)

    def named_flow(
        self, name: str, series: str, place: Path, member: str | None = STATIC, selections: str | None = None
    ) -> Flow:
        file = place / f"{series.replace(' ', '-')}.toml"
        outputs, urls = {}, {"instances": self.input_url}
        for carries in self.learns.writes:
            if carries in self.in_directories:
                outputs[carries] = str(place / f"{file.stem}-{carries}")
                urls[carries] = f"dir:{outputs[carries]}"
            else:
                shared = selections if carries == "selections" else None
                outputs[carries] = shared or self.topics(carries, LANES)
                urls[carries] = f"kafka://{self.bootstrap}/{outputs[carries]}"
        state = self.topics("state", LANES, {"cleanup.policy": "compact"})
        urls["state"] = f"kafka://{self.bootstrap}/{state}"
        write_settings(file, name, urls, stop=self.stop, learns=self.learns, member=member, memory=self.memory)
        return Flow(file, name, f"{self.kind} {series}", outputs)

    def forget_groups(self, name: str, *, static: bool = False) -> None:
        """What the flow's group has been told, and, unless their successor takes their place, members of before."""
        self._forget(name)
        if not static:
            self._forget(f"{name}.members")

    def _forget(self, group: str) -> None:
        """A member that was killed keeps the group until its session is over; a new broker may not know yet who
        coordinates the group."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.topics.admin.delete_consumer_groups([group], request_timeout=30)[group].result(30)
            except KafkaException as problem:
                passing = MOVING | {KafkaError.NON_EMPTY_GROUP}
                if problem.args[0].code() in passing and time.monotonic() < deadline:
                    time.sleep(0.2)
                    continue
                if problem.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise
            return

    def settle(self, flow: Flow) -> None:
        settle(self.bootstrap, self._topics_of(flow))

    def read(self, flow: Flow) -> Output:
        found: dict[str, Mapping[int, list[Out]]] = {}
        for carries in self.learns.writes:
            if carries in self.in_directories:
                found[carries] = read_directory(Path(flow.outputs[carries]))
                continue
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

    def unfinished(self, flow: Flow) -> bool:
        """Whether a transaction hides records in any output partition."""
        return are_hidden(self.bootstrap, self._topics_of(flow))

    def _topics_of(self, flow: Flow) -> list[str]:
        return [topic for carries, topic in flow.outputs.items() if carries not in self.in_directories]


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
            hurried = ending.is_set()
            size = self._size if hurried else 25
            burst = []
            for lane in range(LANES):
                if hurried or random_.random() < 0.5:
                    burst += [(key, value, lane) for key, value in waiting[lane][:size]]
                    del waiting[lane][:size]
            produce(self.bootstrap, self.input, burst)
            ending.wait(0.25)


def read_directory(directory: Path) -> dict[int, list[Out]]:
    """Complete lines: what stands after the last end of line is not there yet."""
    return {
        lane: [Out(None, line) for line in (directory / f"part-{lane:05d}.jsonl").read_bytes().split(b"\n")[:-1]]
        for lane in range(LANES)
    }


class DirectoryWorld:
    """Input and output in directories."""

    kind = "directory"
    name = "crash"
    learns = OFS
    memory: str | None = None

    def __init__(self, place: Path, size: int, learns: Learns = OFS) -> None:
        self.learns = learns
        self.input_url = write_all(place / "instances", size, learns.width)
        self.take_reference(place)

    def take_reference(self, place: Path) -> None:
        reference = self.flow("reference", place)
        reference.finish()
        self.settle(reference)
        self.expected: Output = self.read(reference)
        check_reference(self.expected)

    def flow(self, series: str, place: Path, *, member: str | None = STATIC) -> Flow:
        """One process, no group: there are no members."""
        file = place / f"{series.replace(' ', '-')}.toml"
        outputs = {carries: str(place / f"{file.stem}-{carries}") for carries in self.learns.writes}
        urls = {carries: f"dir:{path}" for carries, path in outputs.items()}
        write_settings(file, self.name, {"instances": self.input_url, **urls}, learns=self.learns, memory=self.memory)
        return Flow(file, self.name, f"{self.kind} {series}", outputs)

    def settle(self, flow: Flow) -> None: ...

    def read(self, flow: Flow) -> Output:
        return {carries: read_directory(Path(flow.outputs[carries])) for carries in self.learns.writes}


class DirectoryToKafkaWorld(KafkaWorld):
    """Input in directories, output on the broker: with no input topic, no group is told of positions."""

    def __init__(self, bootstrap: str, place: Path, size: int) -> None:
        self._reach(bootstrap)
        self.input_url = write_all(place / "instances", size)
        self.take_reference(place)


class KafkaToDirectoryWorld(DirectoryWorld):
    """Input on the broker, output in directories."""

    def __init__(self, bootstrap: str, place: Path, size: int) -> None:
        self.topics = Topics(bootstrap)
        topic = self.topics("instances", LANES)
        produce_all(bootstrap, topic, size)
        self.input_url = f"kafka://{bootstrap}/{topic}"
        self.take_reference(place)


class BothOutputsWorld(KafkaWorld):
    """Input and most of the output on the broker, predictions in a directory: one process, the state on the broker."""

    in_directories = ("predictions",)


def verify(world: World, flow: Flow) -> str:
    """The output is that of the undisturbed run, byte for byte; a sentence for the table."""
    world.settle(flow)
    found = world.read(flow)
    wrong = differences(world.expected, found)
    assert not wrong, "\n".join(wrong)
    records = {carries: sum(map(len, world.expected[carries].values())) for carries in world.expected}
    told = ", ".join(f"{number:,} {carries}" for carries, number in records.items())
    return f"{count(found):,} records in {len(found) * LANES} partitions equal to the reference ({told})"

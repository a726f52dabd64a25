"""Where a flow that joins is killed: two topics in, one out, judged id by id, since their interleaving is no order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from tests.crash.compare import Out, Output
from tests.crash.harness import Flow
from tests.crash.workload import LANES
from tests.crash.worlds import SESSION_MS, STATIC, KafkaWorld, read_directory
from tests.support import produce, read_committed

JOINED = ("labelled", "dead_letters")
BAD: Sequence[bytes] = (b"{ no json", b"[]", b'{"y": 1}')


class Given(NamedTuple):
    """What is sent of one lane: keys and values."""

    instances: list[tuple[str, bytes]]
    labels: list[tuple[str, bytes]]


def lane_records(lane: int, size: int) -> Given:
    """Labels come later than their instances or before, some never; ids come again; some records are of no use."""
    random_ = random.Random(f"join {lane}")
    given = Given([], [])
    labels: list[tuple[float, str, bytes]] = []
    for number in range(size):
        stream = f"stream-{random_.choice((lane, lane + LANES))}"
        id_ = f"e-{random_.randrange(size)}" if random_.random() < 0.2 else f"only-{number}"
        x = {f"f{at}": round(random_.uniform(-1, 1), 3) for at in random_.sample(range(20), 4)}
        record = {"id": id_, "ts": 1000 * number, "x": {**x, "number": number}}
        given.instances.append((stream, orjson.dumps(record)))
        if random_.random() < 0.9:
            y = random_.choice((1, -1))
            label = orjson.dumps({"id": id_, "y": y, "ts": 1000 * number})
            labels.append((number + random_.gauss(0, 15), stream, label))
        if random_.random() < 0.02:
            given.instances.append((stream, random_.choice(BAD[:2])))
            labels.append((number, stream, random_.choice(BAD)))
    given.labels.extend((stream, label) for _, stream, label in sorted(labels))
    return given


# -- what must come out ----------------------------------------------------------------------------------------------


def by_id(records: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault((record["stream"], record["id"]), []).append(record)
    return found


def parsed(records: Sequence[tuple[str, bytes]]) -> Iterator[dict[str, Any]]:
    """Those that can be used."""
    for stream, value in records:
        try:
            record = orjson.loads(value)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict) and "id" in record:
            yield {**record, "stream": stream}


def pairs(given: Given) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Without a limit: the n-th instance of an id with its n-th label, in order."""
    labels = by_id(list(parsed(given.labels)))
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for name, instances in by_id(list(parsed(given.instances))).items():
        both = list(zip(instances, labels.get(name, ()), strict=False))
        if both:
            found[name] = [{**instance, "y": label["y"]} for instance, label in both]
    return found


def labelled_of(output: Output, lane: int) -> list[dict[str, Any]]:
    return [
        {"stream": (record.key or b"").decode(), **orjson.loads(record.value or b"")}
        for record in output["labelled"][lane]
    ]


def refused(output: Output, lane: int) -> Counter[tuple[str, str, int]]:
    """Class, topic and offset of each dead letter."""
    found: Counter[tuple[str, str, int]] = Counter()
    for record in output["dead_letters"][lane]:
        if record.headers:
            told = {name.rpartition(".")[2]: (value or b"").decode() for name, value in record.headers}
        else:
            told = orjson.loads(record.value or b"")["error"]
        found[told["class"], told["topic"], int(told["offset"])] += 1
    return found


# -- worlds ----------------------------------------------------------------------------------------------------------


class JoinWorld(Protocol):
    kind: str
    given: Sequence[Given]

    def flow(self, series: str, place: Path, *, limit: str = "", member: str | None = STATIC) -> Flow: ...

    def settle(self, flow: Flow) -> None: ...

    def read(self, flow: Flow) -> Output: ...


def write_flow(file: Path, name: str, topics: Mapping[str, str], limit: str, member: str | None) -> None:
    urls = "\n".join(f'{role} = "{url}"' for role, url in topics.items())
    static = "" if member is None else f'"group.instance.id" = "{member}"'
    file.write_text(
        f'[flow]\nname = "{name}"\n[topics]\n{urls}\n[kafka]\n"session.timeout.ms" = {SESSION_MS}\n{static}\n'
        f'[input]\nstop = "end"\n[join]\n{limit}\n[operator]\nname = "ofs"\nk = 5\n'
    )


class KafkaJoinWorld(KafkaWorld):
    """Instances, labels and output on the broker."""

    def __init__(self, bootstrap: str, size: int) -> None:
        self._reach(bootstrap)
        self.given: Sequence[Given] = [lane_records(lane, size) for lane in range(LANES)]
        self.inputs = {role: self.topics(role, LANES) for role in ("instances", "labels")}
        for lane, given in enumerate(self.given):
            for role, records in zip(self.inputs.values(), given, strict=True):
                produce(bootstrap, role, [(key, value, lane) for key, value in records])

    def flow(self, series: str, place: Path, *, limit: str = "", member: str | None = STATIC) -> Flow:  # type: ignore[override]
        name = f"{self.name}-{series.replace(' ', '-')}"
        outputs = {role: self.topics(role, LANES) for role in JOINED}
        self.topics.make(f"{name}-join.state", LANES, {"cleanup.policy": "compact"})
        self.topics.also(groups=[f"{name}-join", f"{name}-join.members"])
        file = place / f"{name}.toml"
        topics = {**self.inputs, **outputs, "selections": f"{name}-selections"}
        urls = {role: f"kafka://{self.bootstrap}/{topic}" for role, topic in topics.items()}
        write_flow(file, name, urls, limit, member)
        return Flow(file, f"{name}-join", f"join kafka {series}", outputs, verb="join")

    def read(self, flow: Flow) -> Output:
        found: dict[str, Mapping[int, list[Out]]] = {}
        for role, topic in flow.outputs.items():
            partitions = read_committed(self.bootstrap, topic)
            found[role] = {
                lane: [Out(record.key, record.value, tuple(record.headers)) for record in records]
                for lane, records in partitions.items()
            }
        return found


class DirectoryJoinWorld:
    """All of it in directories."""

    kind = "directory"

    def __init__(self, place: Path, size: int) -> None:
        self.given: Sequence[Given] = [lane_records(lane, size) for lane in range(LANES)]
        self.place = place
        for role in ("instances", "labels"):
            (place / role).mkdir(parents=True)
            (place / role / "_topic.json").write_text(f'{{"partitions": {LANES}}}')
            for lane, given in enumerate(self.given):
                lines = [_line(key, value) for key, value in getattr(given, role)]
                (place / role / f"part-{lane:05d}.jsonl").write_bytes(b"".join(lines))

    def flow(self, series: str, place: Path, *, limit: str = "", member: str | None = STATIC) -> Flow:
        name = series.replace(" ", "-")
        file = place / f"{name}.toml"
        given = {role: f"dir:{self.place / role}" for role in ("instances", "labels")}
        outputs = {role: place / f"{name}-{role}" for role in (*JOINED, "selections")}
        write_flow(file, name, {**given, **{role: f"dir:{path}" for role, path in outputs.items()}}, limit, None)
        written = {"labelled": outputs["labelled"], "dead_letters": place / f"{name}-dead_letters-join"}
        places = {role: str(path) for role, path in written.items()}
        return Flow(file, f"{name}-join", f"join directory {series}", places, verb="join")

    def settle(self, flow: Flow) -> None: ...

    def read(self, flow: Flow) -> Output:
        return {role: read_directory(Path(path)) for role, path in flow.outputs.items()}


def _line(stream: str, value: bytes) -> bytes:
    if value.startswith(b'{"'):
        value = orjson.dumps({"stream": stream, **orjson.loads(value)})
    return value + b"\n"

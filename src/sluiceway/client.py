"""What selections mean: follow them as they come (`subscribe`), or take what holds now (`latest`). No engine in here.

>>> for snapshot in subscribe("kafka://localhost:9092/selections", flow="spam"):       # doctest: +SKIP
...     print(snapshot.stream, snapshot.version, [selected.feature for selected in snapshot.selected])

Both read a topic on a broker or a directory topic, only what is committed, and know what stands in such a topic:

- Records that come again, as they do after a crash of a flow that delivers at least once, are hidden.
- A tombstone ends a stream: `latest` does not have it any more; should it begin anew, its versions may too.
- One stream lives in one partition. The same flow and stream alive in a second one means that two flows share a name,
  or that partitions were added; merging the two would be a lie, so it is a `SplitStreamError`. Partitions are read in
  no certain order, so what stood in the topic already is judged when all of it has been read.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import orjson
from pydantic import ValidationError

from sluiceway.errors import FlowError, SettingsError
from sluiceway.schemas.encode import SNAPSHOT_SCHEMA
from sluiceway.schemas.records import Snapshot
from sluiceway.topics import kafka as broker
from sluiceway.topics.feeds import Entry, Feed, open_feed

__all__ = ["SplitStreamError", "StreamName", "Subscription", "latest", "subscribe"]

WAIT_SECONDS = 0.2
"""How long one look waits for more: the time within which a cancelled subscription ends."""
CURRENT = "current"


class StreamName(NamedTuple):
    """Whose selection: the stream, and the flow that selects."""

    flow: str
    stream: str

    def __str__(self) -> str:
        return f"{self.flow}/{self.stream}"


class SplitStreamError(FlowError):
    """Snapshots of one stream stand in two partitions: whose they are cannot be told."""

    def __init__(self, topic: object, name: StreamName, partitions: tuple[int, int]) -> None:
        self.name = name
        self.partitions = partitions
        super().__init__(
            f"{topic}: snapshots of {name} stand in the partitions {partitions[0]} and {partitions[1]}; do two flows"
            f" share the name {name.flow!r}, or were partitions added to its input?"
        )


def subscribe(
    url: str,
    flow: str | None = None,
    stream: str | None = None,
    start: str | int = "end",
    *,
    stop: str | int | None = None,
    after: Mapping[tuple[str, str], str] | None = None,
    timeout: float | None = None,
    cancel: threading.Event | None = None,
    retired: Callable[[StreamName, int], object] | None = None,
    kafka: broker.Config | None = None,
) -> Subscription:
    """Snapshots as they come: each (flow, stream, version) once, the versions of a stream rising until it is retired.

    url
        `kafka://host:9092/selections` or `dir:path/to/selections`.
    flow, stream
        Only this flow's, only this stream's.
    start
        Where to begin: `end` (what comes from now on), `beginning`, `current` (first the newest snapshot of every
        stream, as `latest` has it, then what comes, with nothing missed in between), or a position: an offset N, -N
        for the last N records of each partition, s@MILLISECONDS or an ISO-8601 time.
    stop
        Where to end, a position as of now; usually `end`. None = never.
    after
        The marks of the snapshots handled last, by (flow, stream), as `Subscription.marks` gave them for this topic:
        these snapshots and those before are left out. With `beginning` or `current` a service that writes down its
        marks goes on where it was.
    timeout
        End after so many seconds in which no snapshot came; while what stands in the topic already is being read, in
        which nothing came at all.
    cancel
        Set it from another thread to end.
    retired
        Called, between two snapshots, with the name (flow, stream) of each stream that ends and the partition in which
        it was.
    kafka
        Settings for the Kafka client, under librdkafka's names.

    The topic is looked up at once: an unreachable broker is an `UnreachableError` here, a missing topic a
    `SettingsError`. Later outages are waited out; nothing is missed, as long as the topic still holds it.

    >>> import pathlib, tempfile
    >>> from sluiceway.schemas import encode
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "_topic.json").write_text('{"partitions": 1}')
    >>> with (folder / "part-00000.jsonl").open("wb") as lines:
    ...     for version in (100, 200, 200, 300):        # 200 comes again, as after a crash
    ...         made = encode.snapshot(
    ...             offset=version, flow="spam", stream="mail", operator="ofs", version=version, seen=version,
    ...             generation=0, ts=0, reason="interval", n_selected=1, selected=[("free", 1.5, 100)], entered=[],
    ...             left=[], metrics={}, params={}, source={"instances": (0, version)},
    ...         )
    ...         _ = lines.write(made.value + b"\\n")
    >>> [snapshot.version for snapshot in subscribe(f"dir:{folder}", start="beginning", stop="end")]
    [100, 200, 300]
    >>> [snapshot.version for snapshot in subscribe(f"dir:{folder}", start="current", stop="end")]
    [300]
    >>> first = subscribe(f"dir:{folder}", start="beginning")
    >>> next(first).version, next(first).version
    (100, 200)
    >>> marks = dict(first.marks)                       # to be written down, once the snapshot is handled
    >>> first.close()
    >>> [snapshot.version for snapshot in subscribe(f"dir:{folder}", start="beginning", stop="end", after=marks)]
    [300]
    >>> latest(f"dir:{folder}")["spam", "mail"].selected[0].feature
    'free'
    """
    marks = {StreamName(*name): _Mark.parse(mark) for name, mark in (after or {}).items()}
    current = start == CURRENT
    feed = open_feed(url, "beginning" if current else start, stop, kafka)
    return Subscription(feed, _Streams(url, flow, stream, marks), current, timeout, cancel, retired)


def latest(
    url: str,
    flow: str | None = None,
    stream: str | None = None,
    *,
    timeout: float = 60.0,
    kafka: broker.Config | None = None,
) -> dict[tuple[str, str], Snapshot]:
    """What is selected now, by flow and stream: the newest snapshot of each, those that were retired left out.

    Reads the whole topic up to its end as of now, which a compacted topic keeps short; a `FlowError` if nothing of it
    comes for `timeout` seconds. The names are tuples (`StreamName`): `latest(url)["spam", "mail"]`.
    """
    with subscribe(url, flow, stream, CURRENT, stop="end", timeout=timeout, kafka=kafka) as snapshots:
        found: dict[tuple[str, str], Snapshot] = {StreamName(each.flow, each.stream): each for each in snapshots}
        if not snapshots.complete:
            raise FlowError(f"{url} could not be read to its end: nothing came for {timeout:g} s")
    return found


class Subscription(Iterator[Snapshot]):
    """What `subscribe` gives: an iterator; also a context manager that lets go of the broker at its end."""

    def __init__(
        self,
        feed: Feed,
        streams: _Streams,
        current: bool,
        timeout: float | None,
        cancel: threading.Event | None,
        retired: Callable[[StreamName, int], object] | None = None,
    ) -> None:
        self._feed = feed
        self._streams = streams
        self._newest: dict[tuple[StreamName, int], _Arrival] | None = {} if current and not feed.caught_up else None
        self._timeout = timeout
        self._cancel = cancel
        self._retired = retired
        self._ready: deque[_Arrival | _End] = deque()
        self._marks: dict[tuple[str, str], str] = {name: str(mark) for name, mark in streams.after.items()}
        self._closed = False
        self.complete = False
        """It ended because it had come to `stop`."""
        self.caught_up = False
        """All that stood in the topic when it was opened has been handed out."""
        self.partition: int | None = None
        """In which the snapshot handed out last stands."""

    @property
    def reachable(self) -> bool:
        """Whether the topic's broker has answered lately, as far as the client knows."""
        return self._feed.reachable

    @property
    def marks(self) -> Mapping[tuple[str, str], str]:
        """Where the newest snapshot handed out of each stream stands; what `after` takes the next time."""
        return self._marks

    def __next__(self) -> Snapshot:
        try:
            arrival = self._next()
        except BaseException:
            self.close()
            raise
        self._marks[arrival.name] = str(arrival.mark)
        self.partition = arrival.mark.partition
        return arrival.snapshot

    def _next(self) -> _Arrival:
        patience = _Patience(self._timeout)
        while True:
            while self._ready:
                first = self._ready.popleft()
                if isinstance(first, _Arrival):
                    return first
                if self._retired is not None:
                    self._retired(*first)
            self.caught_up = self._feed.caught_up
            self.complete = self.complete or (self._feed.ended and not self._closed)
            if self.complete or self._closed or (self._cancel is not None and self._cancel.is_set()):
                raise StopIteration
            behind = not self._feed.caught_up
            entries = self._feed.poll(min(WAIT_SECONDS, patience.left))
            self._take(entries)
            if behind and entries:
                patience.renew()
            elif not self._ready and patience.left <= 0:
                raise StopIteration

    def _take(self, entries: Sequence[Entry]) -> None:
        arrivals = [arrival for entry in entries if (arrival := self._streams.take(entry)) is not None]
        if self._feed.caught_up:
            self._streams.refuse_split()
        if self._newest is None:
            self._ready.extend(arrivals)
            return
        self._newest.update({(each.name, each.mark.partition): each for each in arrivals if isinstance(each, _Arrival)})
        if self._feed.caught_up:
            self._ready.extend(each for each in self._newest.values() if self._streams.lives(each))
            self._newest = None

    def close(self) -> None:
        """Let go. Iterating further gives nothing."""
        if not self._closed:
            self._closed = True
            self._ready.clear()
            self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Patience:
    """How long to wait for something that may never come."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = math.inf if seconds is None else seconds
        self.renew()

    def renew(self) -> None:
        self._until = time.monotonic() + self._seconds

    @property
    def left(self) -> float:
        return max(self._until - time.monotonic(), 0.0)


class _Mark(NamedTuple):
    """A snapshot's version, and where in the topic it stands: later means later, whatever has been retired."""

    version: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.version}@{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: object) -> _Mark:
        found = re.fullmatch(r"(\d+)@(\d+):(\d+)", str(text), re.ASCII)
        if found is None:
            raise SettingsError(f"after: {text!r} is no mark as Subscription.marks has them, for example '3000@0:17'")
        return cls(*map(int, found.groups()))


class _Arrival(NamedTuple):
    """A snapshot that is new."""

    name: StreamName
    mark: _Mark
    snapshot: Snapshot


class _End(NamedTuple):
    """A stream was retired."""

    name: StreamName
    partition: int


class _Streams:
    """What has been met of each stream: the partitions in which it lives, and its newest version there."""

    def __init__(self, topic: str, flow: str | None, stream: str | None, after: Mapping[StreamName, _Mark]) -> None:
        self._topic = topic
        self._flow = flow
        self._stream = stream
        self.after = dict(after)
        self._versions: dict[StreamName, dict[int, int]] = {}
        self._split: set[StreamName] = set()

    def take(self, entry: Entry) -> _Arrival | _End | None:
        """The snapshot, if it is new and wanted; or of a stream that ends here, that it does."""
        name = self._name(entry)
        if self._flow not in (None, name.flow) or self._stream not in (None, name.stream):
            return None
        versions = self._versions.setdefault(name, {})
        handled = self.after.get(name)
        if handled is not None and handled.partition != entry.partition:
            handled = None  # offsets and versions of another partition say nothing here
        if entry.value is None:
            lived = versions.pop(entry.partition, None) is not None
            if len(versions) < 2:
                self._split.discard(name)
            if handled is not None and entry.offset > handled.offset:
                del self.after[name]  # what comes now is another stream, whose versions begin anew
            return _End(name, entry.partition) if lived else None
        snapshot = self._read(entry, entry.value)
        known = versions.get(entry.partition, -1)
        versions[entry.partition] = max(known, snapshot.version)
        if len(versions) > 1:
            self._split.add(name)
        if handled is not None and (entry.offset <= handled.offset or snapshot.version <= handled.version):
            return None
        if snapshot.version <= known:
            return None
        return _Arrival(name, _Mark(snapshot.version, entry.partition, entry.offset), snapshot)

    def lives(self, arrival: _Arrival) -> bool:
        """It has not been retired since."""
        return arrival.mark.partition in self._versions[arrival.name]

    def refuse_split(self) -> None:
        if self._split:
            name = min(self._split)
            first, second, *_ = sorted(self._versions[name])
            raise SplitStreamError(self._topic, name, (first, second))

    def _name(self, entry: Entry) -> StreamName:
        if entry.key is not None:
            flow, slash, stream = entry.key.decode(errors="replace").partition("/")
            if slash:
                return StreamName(flow, stream)
        elif entry.value is not None:
            try:
                content = orjson.loads(entry.value)
                return StreamName(content["flow"], content["stream"])
            except (ValueError, KeyError, TypeError):
                pass
        raise self._strange(entry, "neither its key nor its content names a flow and a stream")

    def _read(self, entry: Entry, value: bytes) -> Snapshot:
        try:
            return Snapshot.model_validate_json(value)
        except ValidationError as problem:
            first = problem.errors()[0]
        if first["loc"] == ("schema",) and first["type"] == "literal_error":
            raise SettingsError(
                f"{self._where(entry)}: this snapshot has schema {first['input']}, and this version of Sluiceway reads"
                f" schema {SNAPSHOT_SCHEMA} only; install a newer one"
            )
        raise self._strange(entry, first["msg"])

    def _strange(self, entry: Entry, reason: str) -> SettingsError:
        return SettingsError(f"{self._where(entry)}: this is no snapshot ({reason}); is it a selections topic?")

    def _where(self, entry: Entry) -> str:
        return f"{self._topic}, partition {entry.partition}, offset {entry.offset}"

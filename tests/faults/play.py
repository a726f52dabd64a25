"""A schedule, played: a flow runs, faults befall it, and in the end its output is that of a run that nothing disturbed,
or it has stopped with a sentence that is true."""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sluiceway.topics.state_records import COMMIT
from tests.crash.compare import Output, count, differences, prefix_differences
from tests.crash.harness import Child, Flow, How
from tests.crash.workload import LANES
from tests.crash.worlds import STATIC, KafkaWorld
from tests.faults.schedule import Event, Schedule
from tests.faults.small_disk import SmallDisk
from tests.support import read_committed
from tests.support.cluster import Cluster
from tests.support.relay import RelayedBroker

PACE, SLOW = 3, 1
"""Records a poll: the input lasts longer than most schedules, and longer than any that ends with a stop."""
DIES_SECONDS = 12.0
"""A place that a process has not come by until then it may not come by at all."""
STOP_SECONDS, ENDS_SECONDS, NOTICED_SECONDS = 60.0, 240.0, 90.0
AFTERMATH_SECONDS = 45.0
"""So long after an outage a process may say that it came in its way."""
WHAT_A_BROKER_MAY_CAUSE = re.compile(
    r"no Kafka broker answers at |the last commit of lane .* did not come to an end|the transaction timed out"
    r"|a call of the client does not come back|this process cannot be a member of "
    r"|the broker has (handed over nothing|taken no output) for "
    r"|the broker (does not|cannot|will not) (tell|say|look up|describe|take) "
)
"""Of all that a flow may say of a broker, what one that is away, or comes back, gives reason to; no denial."""
TRUE = {
    "topic deleted": r"{topic}\b.* has been deleted",
    "partitions added": rf"{{topic}}\b.* has {LANES + 1} partitions now instead of {LANES}",
    "disk full": r"No space left on device|disk is full",
    "files limited": r"File too large|disk I/O error",
}
ROOM = 65_536
"""Bytes that a process whose files are limited may say at least."""
COMPACTED_SECONDS = 6.0
SMALL_SEGMENTS = {
    "segment.ms": "200",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "500",
}


class Wrong(AssertionError):
    """A flow did what it must not; the message says what, with its schedule."""


class World(Protocol):
    kind: str
    expected: Output

    def flow(self, series: str, place: Path, *, member: str | None = STATIC) -> Flow: ...
    def settle(self, flow: Flow) -> None: ...
    def read(self, flow: Flow) -> Output: ...


@dataclass
class Stage:
    """Where schedules are played."""

    world: World
    broker: RelayedBroker | Cluster | None = None
    clock: Path | None = None
    """The file that moves processes' clocks, where that can be done."""
    disk: SmallDisk | None = None
    """For flows whose output lies in directories, where one can be had."""


@dataclass
class Played:
    """What came of a schedule."""

    deaths: int = 0
    outages: int = 0
    """Of the broker, or of the way to it."""
    stops: int = 0
    """With a sentence, checked."""
    records: int = 0
    """Compared with those of an undisturbed run."""
    events: int = 0
    """That took place."""
    cut_off: int = 0
    """That did not, since the input had ended before."""
    skipped: int = 0
    """For want of a tool."""
    compacted: int = 0
    """State topics that have been seen to hold less than was written."""


class Play:
    def __init__(self, schedule: Schedule, stage: Stage, place: Path, bug: str | None = None) -> None:
        self.schedule = schedule
        self.played = Played()
        self._stage = stage
        self._over = False
        """The flow has come to the end of its input."""
        self._trouble = -AFTERMATH_SECONDS
        pace = PACE if schedule.last == "nothing" else SLOW
        self._how = How(pace=pace, bug=bug)
        member = STATIC if schedule.processes == 1 else None
        outputs = place if stage.disk is None else stage.disk.emptied()
        self._flow = stage.world.flow(f"seed {schedule.seed}", outputs, member=member)
        if stage.disk is not None:  # what it says must find room in any case
            self._flow.file = Path(shutil.move(self._flow.file, place))
        if schedule.clock and stage.clock is not None:
            stage.clock.write_text("+0")
            self._flow.clock = stage.clock
        self._wanted = schedule.processes
        self._seen: list[Child] = []
        """Whose end is accounted for."""

    def play(self) -> Played:
        try:
            self._supervise()
            self._running()[0].wait_for("committed", timeout=ENDS_SECONDS)
            for event in self.schedule.events:
                if not self._over:
                    self._pause(event.after)
                if self._over:
                    self.played.cut_off += 1
                else:
                    self.played.events += 1
                    FAULTS[event.fault](self, event)
            if self.schedule.last == "nothing" or self._over:
                self.played.cut_off += self.schedule.last != "nothing"
                self._finish()
            else:
                self.played.events += 1
                self._stop_by(self.schedule.last)
        except AssertionError as problem:
            raise Wrong(f"{self.schedule}\n{problem}") from problem
        finally:
            self._heal()
            self._flow.kill_all()
        return self.played

    # -- processes -----------------------------------------------------------------------------------------------

    def _running(self) -> list[Child]:
        return self._flow.running

    def _chosen(self, event: Event) -> Child:
        running = self._running()
        return running[int(event.dice * len(running))]

    def _supervise(self) -> None:
        """As many processes as are wanted; one that has ended by itself had a reason."""
        if self._over:
            return
        for child in self._flow.children:
            if not child.alive and child not in self._seen:
                self._seen.append(child)
                self._excuse(child)
        while len(self._running()) < self._wanted and not self._over:
            self._flow.start(self._how)

    def _excuse(self, child: Child) -> None:
        code, said = child.process.returncode, _last_words(child)
        if code == 0 and ("the input has ended" in child.stderr or "to the end of its input" in child.stderr):
            self._over = True
        elif code in (1, 2) and self._in_trouble() and WHAT_A_BROKER_MAY_CAUSE.search(said):
            self.played.stops += 1
        else:
            raise AssertionError(f"a process ended with {code} by itself:\n{child.stderr[-4000:]}")

    def _in_trouble(self) -> bool:
        return time.monotonic() < self._trouble + AFTERMATH_SECONDS

    def _gone(self, child: Child) -> None:
        """Its end was ours."""
        self._seen.append(child)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._supervise()
            time.sleep(0.05)
        self._supervise()

    # -- what befalls a process ----------------------------------------------------------------------------------

    def kill(self, event: Event) -> None:
        self._kill(self._chosen(event), event.fault)

    def _kill(self, victim: Child, moment: str) -> None:
        self._gone(victim)
        if victim.alive:
            victim.kill()
            self._flow.died(moment, victim)
            self.played.deaths += 1

    def term(self, event: Event) -> None:
        self._stop(self._chosen(event))

    def _stop(self, child: Child) -> None:
        self._gone(child)
        child.send(signal.SIGTERM)
        code = child.wait(STOP_SECONDS)
        if code in (1, 2):
            self._excuse(child)
        elif code == -signal.SIGTERM:  # it had not begun: there was nothing to commit
            assert not child.events("gained"), child.stderr
        else:
            assert code == 0, f"stopped, it ended with {code}:\n{child.stderr}"

    def freeze(self, event: Event) -> None:
        victim = self._chosen(event)
        victim.send(signal.SIGSTOP)
        until = time.monotonic() + event.seconds
        while time.monotonic() < until:
            time.sleep(0.05)
        victim.send(signal.SIGCONT)
        self._outage(0)  # the group may have given it up meanwhile, which it hears with its stop

    def die(self, event: Event) -> None:
        """One is replaced by one that dies in a certain place."""
        before = self._chosen(event)
        self._kill(before, "to be replaced")
        victim = self._flow.start(How(die=event.detail, pace=self._how.pace, bug=self._how.bug))
        self._gone(victim)
        deadline = time.monotonic() + DIES_SECONDS
        while victim.alive and time.monotonic() < deadline:
            time.sleep(0.02)
        if victim.alive:
            self._kill(victim, f"not at {event.detail}")
        elif victim.process.returncode == -signal.SIGKILL:
            self._flow.died(event.detail, victim)
            self.played.deaths += 1
        else:
            self._excuse(victim)

    def join(self, event: Event) -> None:
        self._wanted += 1

    def disk_full(self, event: Event) -> None:
        """No room is left where the output and the state lie; it says so, and goes on when there is room again."""
        disk = self._stage.disk
        victim = self._chosen(event)
        victim.wait_for("committed")
        self._gone(victim)
        with self._limited(victim) if disk is None else disk.full():
            code = victim.wait(NOTICED_SECONDS)
        if code == 0:  # the input has ended before
            self._excuse(victim)
            self._not_played("cut_off")
            return
        assert code == 1, f"with no room on the disk it ended with {code}:\n{victim.stderr}"
        self._tells(victim, "files limited" if disk is None else "disk full")

    @contextlib.contextmanager
    def _limited(self, child: Child) -> Iterator[None]:
        """Without a disk of its own: none of its files may grow beyond what the largest output has by now."""
        files = [file for place in self._flow.outputs.values() for file in Path(place).iterdir()]
        largest = max(file.stat().st_size for file in files)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (max(largest, ROOM), resource.RLIM_INFINITY))
        yield

    def _not_played(self, why: Literal["cut_off", "skipped"]) -> None:
        self.played.events -= 1
        setattr(self.played, why, getattr(self.played, why) + 1)

    def _tells(self, child: Child, what: str, topic: str = "") -> None:
        true = TRUE[what].replace("{topic}", re.escape(topic))
        assert re.search(true, _last_words(child)), f"{what} {topic}, and it said:\n{child.stderr}"
        assert "Traceback" not in child.stderr, child.stderr
        self.played.stops += 1

    def move_clock(self, event: Event) -> None:
        if self._flow.clock is None:
            self._not_played("skipped")
        else:
            self._flow.clock.write_text(event.detail)

    # -- what befalls the way to the broker, and the broker ------------------------------------------------------

    def cut(self, event: Event) -> None:
        self._relayed().relay.cut()
        self._outage()

    def refuse(self, event: Event) -> None:
        relay = self._relayed().relay
        relay.refusing = True
        relay.cut()
        self._outlast(event)
        relay.heal()

    def delay(self, event: Event) -> None:
        relay = self._relayed().relay
        relay.delay = 0.02 + 0.2 * event.dice
        self._outlast(event)
        relay.heal()

    def throttle(self, event: Event) -> None:
        relay = self._relayed().relay
        relay.rate = 20_000 + 100_000 * event.dice
        self._outlast(event)
        relay.heal()

    def kill_broker(self, event: Event) -> None:
        broker = self._relayed()
        broker.kill()
        self._outlast(event)
        broker.start()
        self._outage(0)

    def freeze_broker(self, event: Event) -> None:
        broker = self._stage.broker
        assert broker is not None
        node = broker if isinstance(broker, RelayedBroker) else broker.nodes[int(event.dice * len(broker.nodes))]
        node.pause()
        self._outlast(event)
        node.resume()

    def move_leaders(self, event: Event) -> None:
        """A broker is asked to go, so all that it leads goes to others before; then it comes back."""
        cluster = self._cluster()
        node = cluster.nodes[int(event.dice * len(cluster.nodes))]
        node.stop()
        self._outlast(event)
        node.start()
        self._outage(0)

    def lose_broker(self, event: Event) -> None:
        cluster = self._cluster()
        number = int(event.dice * len(cluster.nodes))
        cluster.nodes[number].kill()
        self._outlast(event)
        while not cluster.replaced(number):
            self._pause(0.5)
        cluster.nodes[number].start()
        self._outage(0)

    def compact(self, event: Event) -> None:
        """From now on the state topic is compacted as soon as anything is written twice; waited for, so that what comes
        next is restored from what is left."""
        world = self._kafka()
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in SMALL_SEGMENTS.items()
        ]
        resource_ = ConfigResource(ResourceType.TOPIC, _state_topic(self._flow), incremental_configs=entries)
        for done in world.topics.admin.incremental_alter_configs([resource_]).values():
            done.result(30)
        deadline = time.monotonic() + COMPACTED_SECONDS
        while not self._over and time.monotonic() < deadline:
            if self._is_compacted():
                self.played.compacted += 1
                return
            self._pause(0.3)

    def _is_compacted(self) -> bool:
        """Every commit has written its record: are there fewer in some lane than its processes know of?"""
        made = Counter(event["lane"] for child in self._flow.children for event in child.events("committed"))
        held = read_committed(self._kafka().bootstrap, _state_topic(self._flow))
        return any(sum(record.key == COMMIT for record in held[lane]) < made[lane] for lane in made)

    def _outlast(self, event: Event) -> None:
        self._outage()
        self._pause(event.seconds)
        self._outage(0)

    def _outage(self, number: int = 1) -> None:
        self._trouble = time.monotonic()
        self.played.outages += number

    def _relayed(self) -> RelayedBroker:
        assert isinstance(self._stage.broker, RelayedBroker)
        return self._stage.broker

    def _cluster(self) -> Cluster:
        assert isinstance(self._stage.broker, Cluster)
        return self._stage.broker

    def _kafka(self) -> KafkaWorld:
        world = self._stage.world
        assert isinstance(world, KafkaWorld)
        world.topics.reconnect()
        return world

    # -- the end -------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        broker = self._stage.broker
        if isinstance(broker, RelayedBroker):
            broker.relay.heal()
            if broker.paused:
                broker.resume()
        if broker is not None:
            broker.start()

    def _finish(self) -> None:
        """What runs is stopped, then all that is left is read at once."""
        self._heal()
        for child in self._running():
            if child not in self._seen:
                self._stop(child)
        deadline = time.monotonic() + ENDS_SECONDS
        while True:
            child = self._flow.start(How(bug=self._how.bug))
            self._gone(child)
            code = child.wait(ENDS_SECONDS)
            if code == 0:
                break
            self._over = False
            self._excuse(child)
            assert time.monotonic() < deadline, "it does not come to its end"
        self._compare(differences)

    def _compare(self, how: Callable[[Output, Output], list[str]]) -> None:
        world, flow = self._stage.world, self._flow
        world.settle(flow)
        found = world.read(flow)
        wrong = how(world.expected, found)
        assert not wrong, "\n".join(wrong)
        self.played.records += count(found)

    def _stop_by(self, what: str) -> None:
        """A fault that leaves no choice: each process stops, and says why."""
        world = self._kafka()
        self._supervise()
        running = self._running()
        for child in running:  # one that starts now would say that there is no such topic
            child.wait_for("gained", timeout=90)
        role = what.partition(" ")[0]
        topics = {**self._flow.outputs, "input": world.input, "state": _state_topic(self._flow)}
        fault, topic = ("topic deleted", topics[role]) if role in topics else (what, world.input)
        if fault == "topic deleted":
            world.topics.remove(topic)
        else:
            world.topics.grow(topic, LANES + 1)
        for child in running:
            self._gone(child)
            code = child.wait(NOTICED_SECONDS)
            assert code == 1, f"{what}, and it ended with {code}:\n{child.stderr}"
            self._tells(child, fault, topic)
        if role in self._flow.outputs:  # nothing of it is left to compare
            world.topics.make(topic, LANES)
        self._compare(prefix_differences)


def _state_topic(flow: Flow) -> str:
    found = re.search(r'^state = "kafka://[^/]+/(.*)"$', flow.file.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _last_words(child: Child) -> str:
    lines = [line for line in child.stderr.splitlines() if line.startswith("sluiceway: ")]
    return lines[-1] if lines else ""


FAULTS: dict[str, Callable[[Play, Event], None]] = {
    "kill": Play.kill,
    "term": Play.term,
    "freeze": Play.freeze,
    "die": Play.die,
    "join": Play.join,
    "disk full": Play.disk_full,
    "clock": Play.move_clock,
    "cut": Play.cut,
    "refuse": Play.refuse,
    "delay": Play.delay,
    "throttle": Play.throttle,
    "broker killed": Play.kill_broker,
    "broker frozen": Play.freeze_broker,
    "leader moved": Play.move_leaders,
    "broker lost": Play.lose_broker,
    "compact": Play.compact,
}

"""A real Kafka broker: Apache Kafka in KRaft mode on Java, its jars resolved by Maven, or in a container.

`make broker` runs this module; the tests use `Broker` directly. Linux and macOS.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import contextlib
import fcntl
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

ROOT = Path(__file__).resolve().parents[2]
POM = ROOT / "docker" / "broker" / "pom.xml"
LIBS = POM.parent / "libs"
IMAGE = "apache/kafka:4.1.1"
ATTEMPTS = 3
"""How often other ports are tried when somebody was faster."""

COMMON: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # a timed-out transaction is found within 1 s instead of 10
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}

ALONE: Mapping[str, str] = {
    # one node holds the only copy of everything
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "broker.heartbeat.interval.ms": "500",
    # everything is allowed until a test denies something
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


SLOW_MS, COMING_BACK_MS = 60_000, 3_000
"""How long a broker may be silent before it is fenced. A client that asks while the only broker is fenced is told of no
broker at all, and may then never look for one again (librdkafka issue 5301): a new broker is not fenced for being slow
or frozen for a while. One that comes back after a kill has to wait until its former self is fenced."""


class BrokerUnavailable(RuntimeError):
    """No broker can be started here; the message is one sentence that says why."""


class BrokerFailed(RuntimeError):
    """All that a broker needs is here, and yet it did not start; the message ends with its log."""


class PortTaken(BrokerFailed):
    """Somebody else listens where the broker should."""


class Node:
    """One Kafka process, broker and controller at once, with its data in `directory`."""

    def __init__(self, directory: Path, number: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.number = number
        self.log = directory / "broker.log"
        self.paused = False
        self._settings = dict(settings or {})
        self._ports = (0, 0)
        self._voters = ""
        self._cluster = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def running(self) -> bool:
        """Whether there is a process; a paused one counts."""
        return self._process is not None and self._process.poll() is None

    def place(self, ports: tuple[int, int], voters: str, cluster: str) -> None:
        """Say where it listens to clients and to controllers, who elects the controller, and the cluster's id, which
        counts for a directory that belongs to none yet."""
        self._ports, self._voters, self._cluster = ports, voters, cluster

    def start(self, timeout: float = 60.0) -> str:
        """Start, wait until it answers, return its address."""
        if self.running():
            return self.bootstrap
        libs = jars()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._configure()
        self._format(libs)
        self._launch(libs)
        self._wait(timeout)
        return self.bootstrap

    def stop(self, timeout: float = 20.0) -> None:
        """SIGTERM, then SIGKILL for a broker that does not go in time."""
        self._end(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """SIGKILL: the crash of a machine, as far as its page cache survives."""
        self._end(signal.SIGKILL, 20.0)

    def restart(self, timeout: float = 60.0) -> str:
        """Stop it if it runs; start again on the same data and ports."""
        self.stop()
        return self.start(timeout)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._send(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self._send(signal.SIGCONT)
        self.paused = False

    def tail(self, lines: int = 30) -> str:
        """The last lines of the broker's log that tell something: no chatter, settings or stack frames."""
        if not self.log.exists():
            return ""
        log = self.log.read_text(errors="replace").splitlines()
        telling = [line for line in log if " INFO " not in line and line.strip() and not line.startswith("\t")]
        return "\n".join(telling[-lines:] or log[-lines:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _identity(self) -> Path:
        return self.directory / "data" / "meta.properties"

    def _configure(self) -> None:
        settings = {
            **COMMON,
            "node.id": str(self.number),
            "controller.quorum.voters": self._voters,
            **self._listeners(),
            "log.dirs": str(self.directory / "data"),
            **self._chosen(),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def _chosen(self) -> Mapping[str, str]:
        """Settings that win over all others, read at each start."""
        return self._settings

    def _listeners(self) -> Mapping[str, str]:
        client, controller = self._ports
        listener = f"PLAINTEXT://127.0.0.1:{client}"
        return {
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listener,
        }

    def _format(self, libs: Path) -> None:
        if self._identity.exists():
            lines = self._identity.read_text().splitlines()
            self._cluster = next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))
            return
        command = _java(libs, "kafka.tools.StorageTool", "format", "-t", self._cluster, "-c", str(self._properties))
        command += self._format_options()
        if reason := _run(command):
            raise BrokerFailed(f"formatting {self.directory} failed:\n{reason}")

    def _format_options(self) -> list[str]:
        """What a new directory begins with besides."""
        return []

    def _machine_options(self) -> list[str]:
        """What Java is told besides."""
        return []

    def _launch(self, libs: Path) -> None:
        command = _java(libs, *self._machine_options(), "kafka.Kafka", str(self._properties), heap="512m")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # A shell that waits for the end of its input, which comes when we die in whatever way, and then kills
        # the broker: nothing is left behind, and no thread or fork hook is involved.
        script = 'trap "" INT TERM HUP; read -r _; kill -9 "$0" 2>/dev/null'
        self._watchdog = subprocess.Popen(["sh", "-c", script, str(self._process.pid)], stdin=subprocess.PIPE)
        atexit.register(self.kill)

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            if not self.running():
                reason, log = f"it exited with {self._code()}", self.tail()
                self._reap()
                if "Address already in use" in log:
                    raise PortTaken(f"port {self._ports} is taken:\n{log}")
                break
            if _listening(self._ports[0]) and cluster_id(self.bootstrap, 2.0) == self._cluster:
                return  # it is ours: another broker may hold the port
            if time.monotonic() > deadline:
                reason, log = f"no answer at {self.bootstrap} within {timeout:.0f} s", self.tail()
                self.kill()
                break
            time.sleep(0.05)
        raise BrokerFailed(f"the broker did not start: {reason}; the end of its log:\n{log}")

    def _code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def _send(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the broker does not run")
        self._process.send_signal(number)

    def _end(self, number: signal.Signals, timeout: float) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # a paused one hears nothing else than SIGKILL
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._reap()

    def _reap(self) -> None:
        if self._watchdog is not None:
            self._watchdog.kill()  # first, lest it shoot at a number that is somebody else's by now
            self._watchdog.wait()
            if self._watchdog.stdin is not None:
                self._watchdog.stdin.close()
        self._process = self._watchdog = None
        self.paused = False
        atexit.unregister(self.kill)


class Broker(Node):
    """A broker alone, at the same address for its whole life.

    >>> with Broker(tmp_path) as broker:       # doctest: +SKIP
    ...     produce(broker.bootstrap, ...)
    """

    def __init__(self, directory: Path, port: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings=settings)
        self._fixed_port = port

    def start(self, timeout: float = 60.0) -> str:
        """Start, wait until it answers, return the bootstrap address."""
        for attempt in range(ATTEMPTS):
            if not self._ports[0] or attempt:
                client, controller = _free_ports(self._fixed_port)
                self.place((client, controller), f"1@127.0.0.1:{controller}", new_cluster_id())
            try:
                return super().start(timeout)
            except PortTaken:
                if self._fixed_port is not None:
                    raise  # else somebody was faster: other ports
        raise BrokerFailed(f"no free port after {ATTEMPTS} attempts, see {self.log}")

    def _chosen(self) -> Mapping[str, str]:
        silence = COMING_BACK_MS if self._identity.exists() else SLOW_MS
        return {**ALONE, "broker.session.timeout.ms": str(silence), **super()._chosen()}


def new_cluster_id() -> str:
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not made.startswith("-"):  # Kafka's tool takes that for an option
            return made


def metadata(bootstrap: str, timeout: float) -> ClusterMetadata | None:
    """What the broker that really answers at this address knows of its cluster, None if nothing answers.

    Each time by a new client: an old one may have found other brokers to ask, or lost them all.
    """
    try:
        found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=timeout)
    except KafkaException:
        return None
    return found if found.brokers else None


def cluster_id(bootstrap: str, timeout: float) -> str | None:
    """The id of the cluster that really answers at this address, None if nothing does."""
    found = metadata(bootstrap, timeout)
    return None if found is None else found.cluster_id


def answers(bootstrap: str, timeout: float) -> bool:
    return cluster_id(bootstrap, timeout) is not None


def jars() -> Path:
    """The folder of Kafka's jars, filled by Maven on the first call and whenever the pom changed."""
    _check_java()
    LIBS.mkdir(exist_ok=True)
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    stamp = LIBS / ".complete"
    with (LIBS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs must not fill it at once
        if stamp.exists() and stamp.read_text() == wanted:
            return LIBS
        maven = shutil.which("mvn")
        if maven is None:
            raise BrokerUnavailable("Maven (mvn) is not on the PATH and docker/broker/libs is not filled yet")
        stamp.unlink(missing_ok=True)
        for jar in LIBS.glob("*.jar"):
            jar.unlink()
        command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        if reason := _run(command):
            raise BrokerUnavailable(f"Maven could not resolve docker/broker/pom.xml:\n{reason}")
        stamp.write_text(wanted)
    return LIBS


def _run(command: list[str]) -> str | None:
    """The end of what a failing command said, None for one that succeeds."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout[-3000:].decode(errors="replace") or "nothing said" if done.returncode else None


def _check_java() -> None:
    java = shutil.which("java")
    if java is None:
        raise BrokerUnavailable("Java 17 or newer is not on the PATH")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < 17:
        raise BrokerUnavailable(f"Kafka needs Java 17 or newer, `java -version` says: {said.strip()[:200]}")


def _java(libs: Path, *arguments: str, heap: str = "128m") -> list[str]:
    # the simplest collector and compiler: on few cores a broker is ready sooner
    options = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *options, "-cp", f"{libs}/*", *arguments]


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(first: int | None) -> tuple[int, int]:
    found = free_ports(2) if first is None else [first, *free_ports(1)]
    return found[0], found[1]


def free_ports(count: int) -> list[int]:
    """Below the range the system gives to clients: a client that keeps knocking at the address of a dead broker in
    that range can connect to itself, and then the broker cannot come back."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(15000, 32000)
        if port in found:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _docker_listens() -> bool:
    """A quick look: the client itself leaves its socket open when nothing is there."""
    where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    url = urlsplit(where)
    try:
        if url.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(url.path)
        elif url.scheme in ("tcp", "http", "https"):
            socket.create_connection((url.hostname or "localhost", url.port or 2375), 3.0).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def container(port: int | None = None) -> Iterator[str]:
    """The same broker in a container; raises `BrokerUnavailable` where no Docker engine answers."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.docker_client import DockerClient

    if not _docker_listens():
        raise BrokerUnavailable("no Docker engine listens")
    try:
        engine = DockerClient(timeout=5).client
        engine.ping()
        engine.close()
    except Exception as error:  # whatever is wrong with Docker, the next broker is tried
        raise BrokerUnavailable(f"no Docker engine answers: {error}") from None
    client, _ = _free_ports(port)
    box = DockerContainer(IMAGE).with_bind_ports(client, client)
    settings = {
        **COMMON,
        **ALONE,
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "listeners": f"PLAINTEXT://0.0.0.0:{client},CONTROLLER://127.0.0.1:9093",
        "advertised.listeners": f"PLAINTEXT://{box.get_container_host_ip()}:{client}",
        "log.dirs": "/tmp/kafka",
    }
    for key, value in settings.items():
        box.with_env("KAFKA_" + key.upper().replace(".", "_"), value)
    bootstrap = f"{box.get_container_host_ip()}:{client}"
    with box:
        deadline = time.monotonic() + 120
        while not answers(bootstrap, 2.0):
            if time.monotonic() > deadline:
                log = box.get_logs()[0][-3000:].decode(errors="replace")
                raise BrokerFailed(f"the container did not answer; the end of its log:\n{log}")
            time.sleep(0.2)
        yield bootstrap


@contextlib.contextmanager
def any_broker() -> Iterator[str]:
    """A test run's broker: at KAFKA_BOOTSTRAP_SERVERS, else in a container, else Apache Kafka on Java."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        if not answers(given, 10.0):
            raise BrokerUnavailable(f"no broker answers at KAFKA_BOOTSTRAP_SERVERS={given}")
        yield given
        return
    with contextlib.ExitStack() as stack:
        try:
            bootstrap = stack.enter_context(container())
        except BrokerUnavailable:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-"))
            bootstrap = stack.enter_context(Broker(Path(directory))).bootstrap
        yield bootstrap


def main() -> None:
    """Keep one broker running in the foreground until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make broker", description=main.__doc__)
    parser.add_argument("--port", type=int, help="default: 9092 if free, else any")
    parser.add_argument("--directory", type=Path, default=ROOT / ".broker", help="where its data is kept")
    given = parser.parse_args()
    port = given.port or (None if _listening(9092) else 9092)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        try:
            broker = Broker(given.directory.resolve(), port)
            address = broker.start()
        except BrokerUnavailable as reason:
            try:
                with container(port) as address:
                    _announce(address)
                    signal.pause()
            except BrokerUnavailable as other:
                sys.exit(f"No broker can be started: {reason}; {other}.")
            return
        except BrokerFailed as reason:
            sys.exit(str(reason))
        try:
            _announce(address)
            while broker.running():
                time.sleep(0.5)
            sys.exit(f"The broker ended by itself; the end of its log:\n{broker.tail()}")
        finally:
            broker.stop()


def _announce(address: str) -> None:
    print(f"Kafka answers at {address} (Ctrl-C ends it); for the tests:", flush=True)
    print(f"  export KAFKA_BOOTSTRAP_SERVERS={address}", flush=True)

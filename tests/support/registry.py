"""A real schema registry: Apicurio on Java, resolved by Maven, in memory."""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.broker import ROOT, free_ports

POM = ROOT / "docker" / "registry" / "pom.xml"
APP = POM.parent / "app"
START_SECONDS = 240.0


class RegistryUnavailable(RuntimeError):
    """No registry can be started here; the message is one sentence that says why."""


class SchemaRegistry:
    """Running from `start` to `stop`, at the same address each time; what it knew is gone then."""

    def __init__(self) -> None:
        [self._port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        [jar] = app().glob("*-runner.jar")
        options = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dquarkus.http.port={self._port}"]
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(
                ["java", *options, "-Dquarkus.http.host=127.0.0.1", "-jar", str(jar)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=jar.parent,
            )
            atexit.register(self.stop)
            deadline = time.monotonic() + START_SECONDS
            while not self._answers():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    log.seek(0)
                    raise RuntimeError(f"the registry did not start:\n{log.read()[-3000:].decode(errors='replace')}")
                time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        atexit.unregister(self.stop)

    def register(self, subject: str, kind: str, schema: str, **references: str) -> int:
        """The schema's number; `references`: subjects of others, by the names that it has for them."""
        refers = [{"name": name, "subject": other, "version": 1} for name, other in references.items()]
        given = json.dumps({"schemaType": kind, "schema": schema, "references": refers}).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(f"{self.url}/subjects/{subject}/versions", given, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            said: dict[str, Any] = json.load(answer)
        return int(said["id"])

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def app() -> Path:
    """The folder of the registry, filled by Maven on the first call and whenever the pom changed."""
    if shutil.which("java") is None:
        raise RegistryUnavailable("Java 17 or newer is not on the PATH")
    APP.mkdir(exist_ok=True)
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    stamp = APP / ".complete"
    with (APP / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs must not fill it at once
        if stamp.exists() and stamp.read_text() == wanted:
            return APP
        maven = shutil.which("mvn")
        if maven is None:
            raise RegistryUnavailable("Maven (mvn) is not on the PATH and docker/registry/app is not filled yet")
        command = [maven, "-q", "-B", "-f", str(POM), "dependency:unpack"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:].decode(errors="replace")
            raise RegistryUnavailable(f"Maven could not resolve docker/registry/pom.xml:\n{said}")
        stamp.write_text(wanted)
    return APP

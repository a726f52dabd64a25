"""Helm, to render the chart: as a library that Maven resolves, else the `helm` on the PATH.

`make manifests` runs this module.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.broker import ROOT

CHART = ROOT / "docker" / "chart"
MANIFESTS = ROOT / "docker" / "manifests"
POM = ROOT / "docker" / "helm" / "pom.xml"
LIB = POM.parent / "lib"
HEADER = "# Made by `make manifests` from docker/chart, with the values of {values}: change those.\n"
Manifest = dict[str, Any]


class HelmUnavailable(RuntimeError):
    """Nothing renders a chart here; the message is one sentence that says why."""


class Refused(RuntimeError):
    """Helm does not take the chart, or the values."""


def template(values: Mapping[str, Any], *, release: str = "spam", namespace: str = "streams") -> list[Manifest]:
    """What `helm template` would give."""
    return [found for found in yaml.safe_load_all(rendered(values, release, namespace)) if found]


def rendered(values: Mapping[str, Any], release: str, namespace: str) -> str:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "values.yaml"
        file.write_text(json.dumps(values))  # which YAML is a superset of
        if on_linux():
            return _asked("template", release, namespace, str(file))
        done = subprocess.run(
            [_helm(), "template", release, str(CHART), "--namespace", namespace, "--values", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise Refused(done.stderr.strip())
    return done.stdout


def lint(values: Mapping[str, Any]) -> str:
    """What Helm finds fault with."""
    with tempfile.TemporaryDirectory() as place:
        chart = Path(place) / "sluiceway"
        shutil.copytree(CHART, chart)
        given = yaml.safe_load((chart / "values.yaml").read_text())
        (chart / "values.yaml").write_text(json.dumps({**given, **values}))
        if on_linux():
            return _asked("lint", str(chart))
        done = subprocess.run([_helm(), "lint", "--strict", str(chart)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stdout + done.stderr)
    return done.stdout


def on_linux() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _helm() -> str:
    found = shutil.which("helm")
    if found is None:
        raise HelmUnavailable("the library is for Linux on x86-64, and there is no `helm` on the PATH")
    return found


def _asked(*arguments: str) -> str:
    """By a process of its own: the library brings Go's threads and signals with it."""
    library()
    command = [sys.executable, "-m", "tests.support.helm", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr.strip())
    return done.stdout


def library() -> Path:
    """Filled by Maven on the first call and whenever the pom changed."""
    LIB.mkdir(exist_ok=True)
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    stamp, found = LIB / ".complete", LIB / "helm-linux-amd64.so"
    with (LIB / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs must not fill it at once
        if stamp.exists() and stamp.read_text() == wanted:
            return found
        maven = shutil.which("mvn")
        if maven is None:
            raise HelmUnavailable("Maven (mvn) is not on the PATH and docker/helm/lib is not filled yet")
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(POM), "dependency:unpack"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:]
            raise HelmUnavailable(f"Maven could not resolve docker/helm/pom.xml:\n{said}")
        stamp.write_text(wanted)
    return found


# -- the process that has the library --------------------------------------------------------------------------------


def _fields(**kinds: type) -> list[tuple[str, type]]:
    return list(kinds.items())


TEXT, FLAG = ctypes.c_char_p, ctypes.c_int


class _Result(ctypes.Structure):
    _fields_ = _fields(out=TEXT, err=TEXT, stdout=TEXT, stderr=TEXT)


class _TemplateOptions(ctypes.Structure):
    _fields_ = _fields(
        name=TEXT, version=TEXT, chart=TEXT, namespace=TEXT, dependency_update=FLAG, values=TEXT, values_files=TEXT,
        cert_file=TEXT, key_file=TEXT, ca_file=TEXT, insecure=FLAG, plain_http=FLAG, keyring=TEXT, debug=FLAG,
        repository_config=TEXT,
    )  # fmt: skip


class _LintOptions(ctypes.Structure):
    _fields_ = _fields(path=TEXT, strict=FLAG, quiet=FLAG)


def _ask(verb: str, *given: str) -> None:
    helm = ctypes.CDLL(str(LIB / "helm-linux-amd64.so"))
    texts = [text.encode() for text in given]
    options: ctypes.Structure
    if verb == "template":
        release, namespace, values = texts
        options = _TemplateOptions(
            name=release, chart=str(CHART).encode(), namespace=namespace, values_files=values, version=b"", values=b""
        )
        call = helm.Template
    else:
        options = _LintOptions(path=texts[0], strict=1)
        call = helm.Lint
    call.restype = _Result
    result = call(ctypes.byref(options))
    if result.err:
        sys.exit(result.err.decode())
    text = result.out.decode()
    if verb == "lint" and "Failed: false" not in text:
        sys.exit(text)
    sys.stdout.write(text)
    sys.stdout.flush()
    os._exit(0)  # Go's threads need not be waited for


def write_manifests() -> list[Path]:
    """Of each file of values, all that Helm would apply; those that have changed."""
    written = []
    for values, target in manifests():
        text = manifest(values)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
            written.append(target)
    return written


def manifests() -> list[tuple[Path, Path]]:
    """Files of values, and what is made of them."""
    return [(values, values.with_suffix("").with_suffix(".yaml")) for values in sorted(MANIFESTS.glob("*.values.yaml"))]


def manifest(values: Path) -> str:
    given = yaml.safe_load(values.read_text())
    text = rendered(given, values.name.partition(".")[0], "default")
    lines = [line for line in text.splitlines() if not line.startswith("# Source: ")]
    kept = [line for line in lines if "managed-by: Helm" not in line and "helm.sh/chart: " not in line]
    return HEADER.format(values=f"docker/manifests/{values.name}") + "\n".join(kept) + "\n"


if __name__ == "__main__":
    if sys.argv[1:]:
        _ask(*sys.argv[1:])
    for path in write_manifests():
        print(f"written: {path.relative_to(ROOT)}")

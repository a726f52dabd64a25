"""Pods without a cluster: what the chart renders, as processes of this machine.

Each gets what its manifest says and nothing else: the command line, the environment with names and secrets filled in,
and its volumes, which are directories. Paths of volumes and ports are a pod's own in a cluster: here the directory
stands for the path, and any free port of this machine for the port.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sluiceway import compiling
from tests.support.flow import Running, sluiceway
from tests.support.helm import Manifest, template

KEEPS = ("PATH", "PYTHONPATH", "LANG", "VIRTUAL_ENV")
"""What stands for the image."""
COMPILES_SECONDS = 600.0


class Pod:
    """One process, running."""

    def __init__(self, name: str, spec: Mapping[str, Any], maps: Mapping[str, Any], place: Path, secrets: Any) -> None:
        self.name = name
        [container] = spec["containers"]
        volumes = {volume["name"]: self._volume(volume, maps, place / name) for volume in spec["volumes"]}
        paths = {mount["mountPath"]: str(volumes[mount["name"]]) for mount in container["volumeMounts"]}
        [ready] = spec["initContainers"]
        assert ready["command"][:2] == ["cp", "-R"]
        [kernels] = [path for path in paths if ready["command"][3].startswith(path)]
        shutil.copytree(built_in_kernels(place), paths[kernels], dirs_exist_ok=True)

        def here(text: str) -> str:
            for path, directory in paths.items():
                if text == path or text.startswith(f"{path}/"):
                    return directory + text[len(path) :]
            return text

        environment = {}
        for variable in container["env"]:
            environment[variable["name"]] = here(_value(variable, name, secrets))
        [port] = (each["containerPort"] for each in container["ports"])
        arguments = [here(argument).replace(f"0.0.0.0:{port}", "127.0.0.1:0") for argument in container["args"]]
        outside = {name: os.environ[name] for name in KEEPS if name in os.environ}
        self.running = Running(*arguments, env=environment, inherit=outside)
        self._seconds = spec["terminationGracePeriodSeconds"]

    def _volume(self, volume: Mapping[str, Any], maps: Mapping[str, Any], place: Path) -> Path:
        directory: Path = place / volume["name"]
        directory.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            given = maps[volume["configMap"]["name"]]
            for item in volume["configMap"]["items"]:
                (directory / item["path"]).write_text(given[item["key"]])
        return directory

    def stop(self) -> None:
        """As a cluster does it: SIGTERM, and so much time."""
        done = self.running.stop(self._seconds)
        assert done.code == 0, done.stderr
        self.running.__exit__(None, None, None)


def _value(variable: Mapping[str, Any], pod: str, secrets: Mapping[str, Mapping[str, str]]) -> str:
    if "value" in variable:
        return str(variable["value"])
    [(kind, source)] = variable["valueFrom"].items()
    if kind == "fieldRef":
        assert source == {"fieldPath": "metadata.name"}
        return pod
    return secrets[source["name"]][source["key"]]


def built_in_kernels(place: Path) -> Path:
    """What is compiled here, as the image has it: where Numba looks for it by NUMBA_CACHE_DIR."""
    target = place / "kernels"
    if not target.exists():
        done = sluiceway("warm-up", "ofs", timeout=COMPILES_SECONDS)
        assert done.code == 0, done.stderr
        for folder in ("operators", "schemas"):
            for source in (Path(compiling.__file__).parent / folder).rglob("*.nb[ic]"):
                beside = str(source.parent.parent)
                kept = target / f"{source.parent.parent.name}_{hashlib.sha1(beside.encode()).hexdigest()}"
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, kept)
        target.mkdir(exist_ok=True)
    return target


class Release:
    """A release of the chart, with as many pods as it says."""

    def __init__(self, values: Mapping[str, Any], place: Path, secrets: Mapping[str, Mapping[str, str]]) -> None:
        self._values, self._place, self._secrets = values, place, secrets
        self._begun = 0
        self.pods: list[Pod] = []

    def scale(self, replicas: int) -> None:
        manifests = template({**self._values, "replicas": replicas})
        maps = {one["metadata"]["name"]: one["data"] for one in manifests if one["kind"] == "ConfigMap"}
        [workload] = [one for one in manifests if one["kind"] in ("Deployment", "StatefulSet")]
        count = workload["spec"]["replicas"]
        while len(self.pods) > count:
            self.pods.pop().stop()
        while len(self.pods) < count:
            spec = workload["spec"]["template"]["spec"]
            self.pods.append(Pod(self._name(workload), spec, maps, self._place, self._secrets))

    def _name(self, workload: Manifest) -> str:
        name = workload["metadata"]["name"]
        self._begun += 1
        return f"{name}-{len(self.pods)}" if workload["kind"] == "StatefulSet" else f"{name}-{self._begun:05x}"

    def until(self, come: Callable[[], bool], timeout: float = 120.0) -> None:
        deadline = time.monotonic() + timeout
        while not come():
            for pod in self.pods:
                assert pod.running.alive, pod.running.stderr
            assert time.monotonic() < deadline, "\n".join(pod.running.stderr for pod in self.pods)
            time.sleep(0.1)

    def close(self) -> None:
        for pod in self.pods:
            pod.running.__exit__(None, None, None)

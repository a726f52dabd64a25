"""What the image and the compose file run, checked without Docker."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from typer.main import get_command

from sluiceway.cli import app
from sluiceway.flows.settings import Settings
from tests.flows.test_run import INSTANCES, Flow
from tests.support.broker import IMAGE, free_ports
from tests.support.flow import Running

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text()


def parses(arguments: list[str]) -> None:
    """The command line takes these arguments; nothing is run."""
    group = get_command(app)
    command = group.get_command(group.make_context("sluiceway", [], resilient_parsing=True), arguments[0])  # type: ignore[attr-defined]
    assert command is not None, f"there is no verb {arguments[0]!r}"
    command.make_context(arguments[0], arguments[1:])


def services() -> dict[str, str]:
    """Name -> its lines. The file is written so that this is enough: two blanks deep is a service's name."""
    block = COMPOSE.partition("\nservices:\n")[2].partition("\nvolumes:\n")[0]
    names = re.split(r"^  ([a-z]+):\n", block, flags=re.MULTILINE)
    return dict(zip(names[1::2], names[2::2], strict=True))


def flow_list(service: str, member: str) -> list[str]:
    """`command: ["a", "b"]` of a service: JSON, which YAML is a superset of."""
    found = re.search(rf"^    {member}: (\[.*\])$", services()[service], re.MULTILINE)
    if found is None:
        return []
    value: list[str] = json.loads(found[1])
    return value


def instruction(name: str) -> str:
    joined = re.sub(r"\\\n\s*", "", DOCKERFILE)
    found = re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)
    assert found, name
    return str(found[-1])


# -- the image -------------------------------------------------------------------------------------------------------


def test_the_entry_point_is_the_command_itself() -> None:
    """Exec form: a shell in between would keep SIGTERM to itself."""
    assert json.loads(instruction("ENTRYPOINT")) == ["sluiceway"]
    assert json.loads(instruction("CMD")) == ["--help"]


def test_it_runs_as_nobody_special_where_it_may_write() -> None:
    user = instruction("USER")
    assert user not in ("root", "0")
    after_build = DOCKERFILE.rpartition("FROM ")[2]
    assert f"useradd --create-home --uid 10001 {user}" in after_build
    assert f"chown {user}:{user} /data" in after_build
    assert instruction("WORKDIR") == "/data"


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    stage = DOCKERFILE.partition("\nFROM ")[2].partition("\nFROM ")[0]
    copied = [name for line in re.findall(r"^COPY (.*)$", stage, re.MULTILINE) for name in line.split()[:-1]]
    assert {"pyproject.toml", "src", "flows", "operators", "schemas"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    assert ignored[0] == "*"


def test_the_python_version_is_one_of_ours() -> None:
    for version in re.findall(r"^FROM python:(\d+\.\d+)-slim", DOCKERFILE, re.MULTILINE):
        assert version in ("3.11", "3.12")
    assert DOCKERFILE.count("FROM python:3.12-slim") == 2


def healthy(listen: str) -> bool:
    """What the image's own health check says, where a flow listens or none does."""
    command = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "SLUICEWAY_LISTEN": listen}
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def test_the_health_check(tmp_path: Path) -> None:
    assert healthy("")  # a container that runs no flow
    flow = Flow(tmp_path)
    flow.write(input={"stop": None})
    flow.feed(INSTANCES)
    [port] = free_ports(1)
    address = f"127.0.0.1:{port}"
    assert not healthy(address)
    with Running(*flow.arguments(), env={"SLUICEWAY_LISTEN": address}) as running:
        running.until(lambda: healthy(address), 300)
        assert running.stop().code == 0
    assert not healthy(address)


def test_what_is_compiled_is_found_by_the_one_who_runs() -> None:
    """Numba looks for kernels by directory, CPU, and the time of their sources."""
    _, builder, runs = DOCKERFILE.split("\nFROM ")
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_CACHE_DIR"):
        given = [re.findall(rf"{name}=(\S+)", "".join(_instructions(part, "ENV"))) for part in (builder, runs)]
        assert given[0] == given[1] != [], name
    folder = "/opt/sluiceway/kernels"
    assert f"NUMBA_CACHE_DIR={folder}" in runs
    assert f"{folder} {folder}" in runs
    assert f'"{folder}/."' in (ROOT / "docker" / "chart" / "templates" / "workload.yaml").read_text()
    steps = _instructions(builder, "RUN")
    [warm] = [step for step in steps if "warm-up" in step]
    parses(shlex.split(warm.rpartition("/sluiceway ")[2]))
    assert any("touch --date" in step for step in steps[: steps.index(warm)])


def _instructions(stage: str, name: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", "", stage)
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def test_others_code_lies_in_a_layer_of_its_own() -> None:
    """A change of ours does not install numpy again."""
    _, builder, _ = DOCKERFILE.split("\nFROM ")
    assert builder.index("--requirement requirements.txt") < builder.index("COPY src src")
    [command] = [line for line in _instructions(builder, "RUN") if line.startswith("python -c")]
    script = shlex.split(command)[2]
    wanted = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    more = project["optional-dependencies"]
    for needed in (project["dependencies"], *(more[extra] for extra in ("engine", "serve", "registry", "arrow"))):
        assert set(needed) < set(wanted.split("\n"))


def test_the_bill_of_materials() -> None:
    """Of this installation; the image's is made by the same program."""
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "sbom")], capture_output=True, text=True, check=True)
    made = json.loads(done.stdout)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    listed = {part["purl"] for part in made["components"]}
    assert len(listed) == len(made["components"])
    for name in ("numpy", "bytewax", "confluent-kafka"):
        assert f"pkg:pypi/{name}@{metadata.version(name)}" in listed
    pinned = re.findall(r"^(bytewax|numba)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert {f"pkg:pypi/{name}@{exact}" for name, exact in pinned} <= listed


# -- the compose file ------------------------------------------------------------------------------------------------


def test_the_services() -> None:
    assert list(services()) == ["kafka", "topics", "producer", "flow", "watch", "page"]
    for name, lines in services().items():
        for other in re.findall(r"depends_on: \{(\w+):", lines):
            assert other in services(), f"{name} depends on {other}"


def test_every_command_parses() -> None:
    for name, lines in services().items():
        if "image: sluiceway" not in lines:
            continue
        command = flow_list(name, "command")
        if flow_list(name, "entrypoint") == ["sh", "-c"]:
            (script,) = command
            for part in script.split("|"):
                words = shlex.split(part)
                assert words[0] == "sluiceway"
                parses(words[1:])
        else:
            assert flow_list(name, "entrypoint") == []
            parses(command)


def test_every_service_of_ours_ends_when_it_is_told_to() -> None:
    """Process 1 has no default for SIGTERM: `run` handles it, the others need an init that does."""
    for name, lines in services().items():
        if "image: sluiceway" in lines and flow_list(name, "command")[0] != "run":
            assert "    init: true\n" in lines, name


def test_the_flow_of_the_compose_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is there, needs exactly the environment that it gets, and names the topics that others use."""
    lines = services()["flow"]
    given = dict(re.findall(r'(\w+): "?([\w:./]+)"?', re.findall(r"environment: \{(.*)\}", lines)[0]))
    source, inside, mode = flow_list("flow", "volumes")[0].split(":")
    assert inside == flow_list("flow", "command")[1]
    port = given["SLUICEWAY_LISTEN"].rpartition(":")[2]
    assert f"http://127.0.0.1:{port}/readyz" in lines
    assert mode == "ro"
    file = ROOT / "docker" / source
    assert set(re.findall(r"\$\{(\w+)\}", file.read_text())) == {"KAFKA"}
    monkeypatch.setenv("KAFKA", given["KAFKA"])
    settings = Settings.load(file)
    assert str(settings.source) in flow_list("producer", "command")[0]
    assert settings.topics.selections in flow_list("watch", "command")
    assert settings.flow.name in flow_list("watch", "command")
    topics = flow_list("topics", "command")
    assert settings.source.name == topics[topics.index("--topic") + 1]
    assert "--create-topics" in flow_list("flow", "command")
    assert len(flow_list("flow", "volumes")) == 1  # its state lies on the broker: nothing is kept in a volume


def test_the_broker_is_the_one_that_the_tests_know() -> None:
    assert f"image: {IMAGE}" in services()["kafka"]
    assert f"image: {IMAGE}" in services()["topics"]


def test_compose_itself_accepts_the_file() -> None:
    if shutil.which("docker") is None:
        pytest.skip("no docker client")
    probe = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("no docker compose")
    command = ["docker", "compose", "-f", str(ROOT / "docker" / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

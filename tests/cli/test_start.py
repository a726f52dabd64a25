"""What a start costs, and how arguments that make no sense are answered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.cli import app
from tests.cli.calling import Call

VERBS = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]


HELP = "sys.argv = ['sluiceway', 'run', '--help']\nfrom sluiceway.cli import main\ntry: main()\nexcept SystemExit: pass"


@pytest.mark.parametrize("start", ["import sluiceway", HELP], ids=["import", "help"])
def test_a_start_imports_nothing_heavy(start: str) -> None:
    """What it costs in seconds is measured by `python -m benchmarks start`."""
    script = (
        f"import sys\n{start}\n"
        "heavy = {'numpy', 'numba', 'bytewax', 'confluent_kafka', 'orjson'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(call: Call, verb: str) -> None:
    done = call(verb, "--help")
    assert done.code == 0
    assert f" sluiceway {verb}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_without_arguments_comes_the_help(call: Call) -> None:
    done = call()
    assert done.code == 0
    assert all(verb in done.stdout for verb in VERBS)


def test_the_version(call: Call) -> None:
    from sluiceway import __version__

    assert call("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum"], "no such command 'rum'"),
        (["run"], "missing argument 'FLOW' (see `sluiceway run --help`)"),
        (["run", "x.toml", "--agian"], "--again"),
        (["run", "x.toml", "--recovery", "y"], "--recovery is gone: a flow keeps its state where its output goes"),
        (["run", "x.toml", "--recovery-partitions", "2"], "--recovery-partitions is gone: there is no recovery"),
        (["run", "x.toml", "--adopt"], "--adopt is gone: a flow whose state was lost begins anew with"),
        (["apply", "x.toml", "--recovery", "y"], "--recovery is gone: a flow keeps its state where its output goes"),
        (["apply", "x.toml", "--flow-recovery", "y"], "--flow-recovery is gone: applying finds the flow's state"),
        (["apply", "x.toml", "--adopt"], "--adopt is gone: "),
        (["run", "x.toml", "--checkpoint-every", "soon"], "'--checkpoint-every'"),
        (["demo", "--seed", "-1"], "'--seed'"),
        (["demo", "--instances", "10"], "--instances must lie between 2,000 and 10,000,000, not 10"),
        (["operators", "of"], 'there is no operator "of"; did you mean "ofs"?'),
        (["watch", "selections"], "'selections' is no topic; write kafka://host:9092/name or dir:path/to/directory"),
        (["watch", "dir:/nowhere/at/all"], "there is no topic dir:/nowhere/at/all"),
        (["watch", "kafka://localhost/x"], "a Kafka topic is written kafka://host:port/name"),
        (["watch", "kafka://localhost:1/x", "-X", "acks"], "-X takes NAME=VALUE"),
        (["watch", "kafka://localhost:1/x", "-X", "sasl.password=${NO_SUCH_THING}"], "NO_SUCH_THING, which is not set"),
        (["watch", "kafka://localhost:1/x", "-X", "nonsense=1"], 'No such configuration property: "nonsense"'),
        (["watch", "kafka://localhost:1/x", "-X", "fetch.wait.max.ms=abc"], 'property "fetch.wait.max.ms"'),
        (["inspect", "kafka://localhost:1/x", "-X", "nonsense=1"], 'No such configuration property: "nonsense"'),
        (["retire", "f/s", "kafka://localhost:1/x", "-X", "nonsense=1"], 'configuration property: "nonsense"'),
        (["produce", os.devnull, "kafka://localhost:1/x", "--format", "csv", "-X", "nonsense=1"], '"nonsense"'),
        (["inspect", "/nowhere"], "there is no file or directory /nowhere"),
        (["inspect", "dir:/nowhere"], "there is no topic dir:/nowhere"),
        (["retire", "mail/", "kafka://localhost:1/x"], "'mail/' is no FLOW or FLOW/STREAM"),
        (["retire", "f/mail", "dir:x"], "is a directory, which keeps every snapshot"),
    ],
)
def test_a_mistake_is_one_sentence(call: Call, arguments: list[str], sentence: str) -> None:
    done = call(*arguments)
    assert done.code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert sentence in done.sentence


def test_the_shell_can_complete() -> None:
    asked = {"_SLUICEWAY_COMPLETE": "complete_bash", "COMP_WORDS": "sluiceway in", "COMP_CWORD": "1"}
    command = Path(sys.executable).parent / "sluiceway"
    done = subprocess.run([command], env={**os.environ, **asked}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["inspect"])

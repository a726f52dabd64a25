"""A user's mistake: exit code 2, one sentence on stderr, no traceback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.flow import Done, Running, sluiceway, toml

GOOD: dict[str, dict[str, Any]] = {
    "flow": {"name": "f"},
    "topics": {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
    "operator": {"name": "ofs", "k": 2},
}
MISTAKES: list[tuple[str, str, dict[str, dict[str, Any]], str]] = [
    ("check", "unknown", {"emit": {"evry": 1}}, "unknown setting emit.evry: 'evry'; did you mean 'every'?"),
    ("run", "unknown", {"emit": {"evry": 1}}, "unknown setting emit.evry: 'evry'; did you mean 'every'?"),
    ("check", "operator", {"operator": {"name": "perceptron-randm"}}, 'did you mean "perceptron-random"?'),
    ("check", "parameter", {"operator": {"k": 0}}, "operator 'ofs': k must"),
    ("check", "type", {"operator": {"k": "ten"}}, "operator 'ofs': k must"),
    ("run", "type", {"emit": {"every": "ten"}}, "emit.every = 'ten': input should be a valid integer"),
    ("check", "section", {"operater": {"name": "ofs"}},
     "unknown setting operater: 'operater'; did you mean 'operator'?"),
    ("check", "client", {"topics": {"instances": "kafka://127.0.0.1:1/x"}, "kafka": {"nonsense": "1"}},
     'the Kafka client does not take its settings: No such configuration property: "nonsense"'),
    ("run", "client", {"topics": {"instances": "kafka://127.0.0.1:1/x"}, "kafka": {"fetch.wait.max.ms": "abc"}},
     'Invalid value for configuration property "fetch.wait.max.ms"'),
    ("run", "delivery", {"output": {"delivery": "exactly-once"}},
     "output.delivery is gone: output comes exactly once, and `sluiceway run --checkpoint-every` says how soon"),
    ("run", "reserved", {"flow": {"name": "f.state"}}, "flow.name = 'f.state': a name must not end in '.state'"),
    ("check", "state", {"topics": {"state": "kafka://127.0.0.1:1/s"}},
     "topics.state must be a directory, as its outputs are: the state lies where the output goes"),
    ("check", "topic", {"topics": {"instances": "in"}}, "'in' is no topic"),
    ("check", "input", {}, "does not exist: there is no"),
    ("run", "input", {}, "does not exist: there is no"),
    ("check", "numbers", {"input": {"target_type": "number"}},
     'input.target_type = "number" is for flows that read topics.features; ofs learns from the labels'),
    ("check", "group", {"kafka": {"group.id": "mine"}},
     "kafka.\"group.id\" is set by the flow itself (its groups are 'f' and 'f.members'): leave it out"),
    ("run", "clusters", {"topics": {"instances": "kafka://a:1/x", "selections": "kafka://b:1/y"}},
     "input and output lie on different Kafka clusters"),
]  # fmt: skip


def one_sentence(done: Done) -> str:
    assert done.code == 2, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stdout == ""
    return done.sentence


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Done]:
    """Two at a time, for starting Python takes a second."""
    directory = tmp_path_factory.mktemp("mistakes")

    def ask(asked: tuple[str, str, dict[str, dict[str, Any]]]) -> tuple[tuple[str, str], Done]:
        verb, name, tables = asked
        file = directory / f"{verb}-{name}.toml"
        content = {table: {**GOOD.get(table, {}), **tables.get(table, {})} for table in {**GOOD, **tables}}
        file.write_text(toml(content))
        return (verb, name), sluiceway(verb, file, cwd=directory)

    questions = [(verb, name, tables) for verb, name, tables, _ in MISTAKES]
    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(ask, questions))


@pytest.mark.parametrize(("verb", "name", "sentence"), [(verb, name, said) for verb, name, _, said in MISTAKES])
def test_a_mistake_in_the_file(answers: dict[tuple[str, str], Done], verb: str, name: str, sentence: str) -> None:
    assert sentence in one_sentence(answers[verb, name])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "missing.toml"), "there is no flow file missing.toml"),
        (("run", "flow.toml", "--checkpoint-every", "0"), "--checkpoint-every must lie between 0.05 and 300 seconds"),
        (("run",), "argument"),
        (("run", "flow.toml", "--recvery", "x"), "--recvery"),
        (("walk",), "walk"),
    ],
)
def test_a_mistake_on_the_command_line(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in one_sentence(sluiceway(*arguments, cwd=tmp_path))


def test_check_tells_what_would_run_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(toml(GOOD))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_topic.json").write_text('{"partitions": 3}')
    before = sorted(tmp_path.rglob("*"))
    done = sluiceway("check", "flow.toml", cwd=tmp_path)
    assert (done.code, done.stderr) == (0, "")
    assert "f: ready to run" in done.stdout
    assert "ofs (k=2, eta=0.2" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("BYTEWAX_RECOVERY_DIRECTORY", "is set, but a flow keeps its state where its output goes; unset it"),
        ("BYTEWAX_ADDRESSES", "is set, but processes of a flow find each other through the broker: start as many as"),
        ("BYTEWAX_HOSTFILE_PATH", "is set, but processes of a flow find each other through the broker"),
        ("BYTEWAX_PROCESS_ID", "is set, but processes of a flow find each other through the broker"),
    ],
)
def test_a_variable_that_means_nothing_any_more(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "flow.toml").write_text(toml(GOOD))
    with Running("run", "flow.toml", cwd=tmp_path, env={name: "1"}) as running:
        assert one_sentence(running.wait()).startswith(f"{name} {sentence}")

"""`sluiceway demo`: it finds what its stream hides, follows the drift, and says so."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.demo import CLASSES, NOISE, WORDS, DemoStream
from sluiceway.flows.settings import Settings
from sluiceway.schemas.records import Snapshot, read_instance
from tests.cli.calling import Call, Terminal
from tests.support.flow import sluiceway

EXAMPLES = Path(__file__).resolve().parents[2] / "flows" / "examples"


def test_the_stream_is_a_function_of_its_seed() -> None:
    first, again, other = (
        list(itertools.islice(DemoStream(seed).records(), 2500)) for seed in (1, 1, 2)
    )  # fmt: skip
    assert first == again != other
    assert first == list(DemoStream(1).records(2500))
    for record in first[:50]:
        read_instance({**record, "y": record["y"] == "spam"}, line=True)


def test_relevant_words_tell_the_classes_apart_and_others_do_not() -> None:
    stream = DemoStream(5, drift_every=4000)
    records = list(stream.records(8000))
    for start in (0, 4000):
        relevant = stream.relevant(start)
        phase = records[start : start + 4000]
        for word in (*WORDS, *NOISE[:20]):
            rates = [
                sum(word in record["x"] for record in phase if record["y"] == label) / 2000 for label in CLASSES
            ]  # fmt: skip
            assert (abs(rates[0] - rates[1]) > 0.2) == (word in relevant), (word, rates)
    assert len(set(stream.relevant(0)) & set(stream.relevant(4000))) == 5


def test_what_it_says_is_so(demo: Path) -> None:
    lines = (demo / "selections" / "part-00000.jsonl").read_bytes().splitlines()
    snapshots = [Snapshot.model_validate_json(line) for line in lines]
    assert [snapshot.version for snapshot in snapshots] == list(range(1000, 20_001, 1000))
    stream = DemoStream(7, drift_every=10_000)
    for snapshot in (snapshots[9], snapshots[19]):
        found = {entry.feature for entry in snapshot.selected} & set(stream.relevant(snapshot.version - 1))
        assert len(found) >= 9
    done = sluiceway("demo", "--directory", demo.parent / "again", "--instances", "20000")
    assert "of 10 telling words selected" in done.stdout
    assert "no longer telling: free meeting prize thanks winner" in done.stdout
    assert f"sluiceway watch dir:{demo.parent / 'again'}/selections" in done.stdout
    assert done.stderr == ""
    assert (demo.parent / "again" / "selections" / "part-00000.jsonl").read_bytes().splitlines() == lines


def test_it_runs_twice_in_the_same_place_and_the_flow_goes_on_by_hand(tmp_path: Path) -> None:
    for _ in range(2):
        done = sluiceway("demo", "--instances", "2000", cwd=tmp_path)
        assert done.code == 0, done.stderr
    made = tmp_path / "sluiceway-demo"
    more = sluiceway("demo", "--records", "--instances", "2000", "--seed", "8", cwd=tmp_path)
    (tmp_path / "more.jsonl").write_text(more.stdout)
    assert sluiceway("produce", "more.jsonl", f"dir:{made / 'instances'}", cwd=tmp_path).code == 0
    by_hand = sluiceway("run", made / "demo.toml", "--again", cwd=tmp_path)
    assert "the input has ended; 2,000 records" in by_hand.stderr
    last = json.loads((made / "selections" / "part-00000.jsonl").read_bytes().splitlines()[-1])
    assert last["version"] == 4000


def test_the_commands_that_it_ends_with_work_as_they_are_printed(tmp_path: Path) -> None:
    """Also from an environment that is not on the path, and with a blank in the directory's name."""
    command = Path(sys.executable).parent / "sluiceway"
    env = {**os.environ, "PATH": os.defpath}
    arguments = [str(command), "demo", "--instances", "2000", "--directory", "my demo"]
    done = subprocess.run(arguments, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    printed = [line.strip() for line in done.stdout.splitlines() if line.startswith(f"  {command} ")]
    assert len(printed) == 5, done.stdout
    for line in printed:
        tried = subprocess.run(line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert tried.returncode == 0, (line, tried.stderr)


def test_it_empties_no_directory_but_its_own(tmp_path: Path, call: Call) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    done = call("demo", "--directory", tmp_path)
    assert done.code == 2
    assert "is not empty and no demo's" in done.sentence
    assert (tmp_path / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_it_shows_a_table(tmp_path: Path, colour: bool) -> None:
    env = {} if colour else {"NO_COLOR": "1"}
    with Terminal("demo", "--instances", "20000", cwd=tmp_path, env=env) as terminal:
        assert terminal.wait() == 0
    said = terminal.text
    assert "Writing them" in said
    assert "records, " in said
    assert "demo/mail  ofs (k=10" in said
    assert "feature" in said
    assert "relevant" in said
    assert terminal.coloured == colour
    # but for commands, which are to be copied whole
    assert max(len(line) for line in said.splitlines()[-15:] if " -m sluiceway " not in line) <= 80


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_every_example_is_a_flow(file: Path) -> None:
    Settings.load(file)

"""Dead letters that speak: counted by class, shown, a reason to stop, and sent again."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from sluiceway.flows.dead_letters import DeadLetters, Limit
from sluiceway.schemas import encode
from sluiceway.schemas.lane import DeadLetter, RawPoll
from sluiceway.topics import redrive_files
from sluiceway.topics.directory import create_directory_topic
from sluiceway.topics.url import DirectoryTopic
from tests.cli.calling import Call, Terminal
from tests.support.flow import Running, sluiceway, toml

FLOW: dict[str, dict[str, Any]] = {
    "flow": {"name": "f"},
    "topics": {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"},
    "input": {"stop": "end"},
    "operator": {"name": "ofs", "k": 1},
}
BENIGN = {"stream": "s", "x": {"a": 1.0}, "y": "B"}
GOOD = {"stream": "s", "x": {"a": 1.0, "b": 0.5}, "y": 1}
NO_NUMBER = {"stream": "s", "x": {"a": "?"}, "y": 1}
MIXED = [GOOD, NO_NUMBER, BENIGN, BENIGN, GOOD, BENIGN, NO_NUMBER]


def flow(directory: Path, records: list[Any], partitions: int = 1, **tables: dict[str, Any]) -> None:
    """A flow's file and its input, each record in the partition of its number."""
    content = {table: {**FLOW.get(table, {}), **tables.get(table, {})} for table in {**FLOW, **tables}}
    (directory / "flow.toml").write_text(toml(content))
    (directory / "in").mkdir(exist_ok=True)
    (directory / "in" / "_topic.json").write_text(json.dumps({"partitions": partitions}))
    for partition in range(partitions):
        lines = [json.dumps(record) + "\n" for record in records[partition::partitions]]
        (directory / "in" / f"part-{partition:05d}.jsonl").write_text("".join(lines))


def lines(directory: Path, topic: str, partition: int = 0) -> list[Any]:
    path = directory / topic / f"part-{partition:05d}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_table_with_text_labels_is_no_success(tmp_path: Path, call: Call) -> None:
    """As a new user would, with a CSV of their own."""
    rows = "".join(f"{number % 3},{number % 2},{'MB'[number % 2]}\n" for number in range(30))
    (tmp_path / "cancer.csv").write_text("radius,texture,diagnosis\n" + rows)
    refused = call("produce", tmp_path / "cancer.csv", f"dir:{tmp_path}/in")
    assert refused.sentence.endswith(
        "feature 'diagnosis' is 'M', which is no number; if it is the label, say --label diagnosis, else leave it out"
        " with --drop diagnosis"
    )
    assert call("produce", tmp_path / "cancer.csv", f"dir:{tmp_path}/in", "--label", "diagnosis").code == 0
    (tmp_path / "flow.toml").write_text(toml(FLOW))
    done = sluiceway("run", "flow.toml", "--json", cwd=tmp_path)
    assert done.code == 1
    said_last = "f: nothing was learnt, every record that was read became a dead letter; `sluiceway new NEW.toml"
    assert done.sentence.startswith(said_last)
    [said] = [line for line in done.stderr.splitlines() if "the input has ended" in line]
    reason = 'the label y is the string "M"; accepted are true, false, 1, 0, -1; input.classes names others'
    assert said.endswith(
        f"; 30 dead letters (bad-label), the first of class bad-label at offset 0 of partition 0: {reason}"
    ), said
    told = json.loads(done.stdout)
    assert (told["outcome"], told["records"]) == ("ended", 30)
    assert told["dead_letters"] == {"bad-label": {"count": 30, "partition": 0, "offset": 0, "message": reason}}
    shown = call("inspect", f"dir:{tmp_path}/dead").stdout
    assert re.search(r"^bad-label +30 +the label y is", shown, re.MULTILINE), shown
    assert '"y":"B"' in shown, "the newest as it came"


def test_some_dead_letters_are_counted_and_no_failure(tmp_path: Path) -> None:
    flow(tmp_path, [GOOD, NO_NUMBER, BENIGN, GOOD, BENIGN])
    done = sluiceway("run", "flow.toml", cwd=tmp_path)
    assert done.code == 0
    assert "5 records in" in done.stderr
    assert "; 3 dead letters (2 bad-label, 1 bad-feature), the first of class bad-label at offset " in done.stderr
    assert "f: `sluiceway inspect dir:dead` shows dead letters by class" in done.stderr
    again = sluiceway("run", "flow.toml", "--again", cwd=tmp_path)
    assert (again.code, "dead letter" in again.stderr) == (0, False), "what this run read counts, and that is nothing"


def test_the_panel_counts_them(tmp_path: Path) -> None:
    flow(tmp_path, [GOOD, NO_NUMBER], input={"stop": None})
    with Terminal("run", "flow.toml", cwd=tmp_path) as terminal:
        terminal.until("1 dead letter (bad-feature), the first of class bad-feature at")
        terminal.interrupt()
        assert terminal.wait() == 0


@pytest.mark.parametrize("most", [900, 0.45])
def test_too_many_stop_the_flow_after_a_commit(tmp_path: Path, most: float) -> None:
    flow(tmp_path, [NO_NUMBER] * 1000 + [GOOD] * 3000, input={"max_dead_letters": most})
    done = sluiceway("run", "flow.toml", cwd=tmp_path)
    assert done.code == 1
    assert f" are dead letters, more than input.max_dead_letters = {most} allows: 1,000 dead letters" in done.stderr
    assert "All that was read is committed: `sluiceway run` goes on after it" in done.stderr
    rest = sluiceway("run", "flow.toml", cwd=tmp_path)
    assert rest.code == 0, rest.stderr
    assert len(lines(tmp_path, "dead")) == 1000
    assert lines(tmp_path, "out")[-1]["seen"] == 3000


def test_the_window_is_of_records_and_the_report_comes_all_the_same(tmp_path: Path) -> None:
    """All come in one poll."""
    flow(tmp_path, [GOOD, NO_NUMBER] * 150, input={"max_dead_letters": 0.3, "dead_letter_window": 100})
    done = sluiceway("run", "flow.toml", "--json", cwd=tmp_path)
    assert done.code == 1
    assert "because 50 of the last 100 records of partition 0 are dead letters" in done.sentence
    told = json.loads(done.stdout)
    assert (told["outcome"], told["dead_letters"]["bad-feature"]["count"]) == ("too-many-dead-letters", 150)


@pytest.mark.parametrize(
    ("records", "most", "said"),
    [
        ("d" * 60 + "." * 240, 0.5, "60 of the last 100"),
        ("." * 100 + "d" * 31 + "." * 169, 0.3, "31 of the last 100"),
        ("d" * 5 + "." * 295, 4, "5 of the last 5"),
        ("d..." * 75, 0.25, None),
        ("d" * 99, 0.5, None),
        ("." * 250 + "d" * 50, 50, None),
    ],
)
@pytest.mark.parametrize("poll", [1, 7, 300])
def test_a_window_wherever_polls_end(records: str, most: float, said: str | None, poll: int) -> None:
    counted = DeadLetters(Limit(most, 100))
    for start in range(0, len(records), poll):
        part = range(start, min(start + poll, len(records)))
        letters = [DeadLetter(at, None, b"", "bad-x", "", "decode") for at in part if records[at] == "d"]
        values: list[bytes | None] = [b""] * len(part)
        following = range(part.start + 1, part.stop + 1)
        raw = RawPoll(0, part.start, part.stop, False, [None] * len(part), values, part, following)
        counted.note(raw, [encode.dead_letter(letter, "in", 0) for letter in letters])
    assert counted.too_many == (None if said is None else f"{said} records of partition 0 are dead letters")


def test_nothing_but_dead_letters_is_a_failure_of_a_flow_that_is_stopped_too(tmp_path: Path) -> None:
    flow(tmp_path, [BENIGN] * 5, input={"stop": None})
    with Running("run", "flow.toml", "--checkpoint-every", "0.1", cwd=tmp_path) as running:
        running.until(lambda: (tmp_path / "dead" / "part-00000.jsonl").exists() and len(lines(tmp_path, "dead")) == 5)
        done = running.stop()
    assert done.code == 1
    assert done.sentence.startswith("f: nothing was learnt, every record that was read became a dead letter")


def test_few_enough_do_not_stop_it(tmp_path: Path) -> None:
    flow(tmp_path, [NO_NUMBER] * 10 + [GOOD] * 2000, input={"max_dead_letters": 10, "dead_letter_window": 500})
    done = sluiceway("run", "flow.toml", cwd=tmp_path)
    assert done.code == 0, done.stderr


@pytest.mark.parametrize("most", [-1, 0.0, 1.0, 2.5, "many", True])
def test_a_limit_is_a_count_or_a_share(tmp_path: Path, call: Call, most: Any) -> None:
    flow(tmp_path, [], input={"max_dead_letters": most})
    done = call("check", tmp_path / "flow.toml")
    assert done.code == 2
    assert "input.max_dead_letters" in done.sentence


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flow that has run, with dead letters of two classes in two partitions; and an empty topic."""
    directory = tmp_path_factory.mktemp("run")
    flow(directory, MIXED, partitions=2)
    assert sluiceway("run", "flow.toml", cwd=directory).code == 0
    create_directory_topic(DirectoryTopic(directory / "mended"), 2)
    return directory


@pytest.fixture
def url(run: Path, tmp_path: Path) -> str:
    """Those dead letters, in a copy of their own."""
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    return f"dir:{tmp_path}/dead"


def test_inspect_shows_classes(url: str, call: Call) -> None:
    told = json.loads(call("inspect", url, "--json").stdout)["dead_letters"]
    assert {name: found["count"] for name, found in told["classes"].items()} == {"bad-label": 3, "bad-feature": 2}
    newest = told["classes"]["bad-feature"]["newest"]
    assert json.loads(newest["value"]) == NO_NUMBER
    message = 'feature "a" is the string "?", not a finite number: [input.map] takes texts'
    assert (newest["topic"], newest["message"]) == ("in", message)
    shown = call("inspect", url).stdout
    assert "newest bad-feature, offset" in shown


def test_redrive_sends_each_once(url: str, tmp_path: Path, call: Call) -> None:
    to = f"dir:{tmp_path}/mended"
    dry = call("redrive", url, "--to", to, "--dry-run")
    assert "5 records would be sent" in dry.stdout
    assert not lines(tmp_path, "mended")
    assert not lines(tmp_path, "mended", 1)
    first = json.loads(call("redrive", url, "--class", "bad-label", "--to", to, "--json").stdout)
    assert first["classes"] == {"bad-label": {"found": 3, "sent_before": 0, "came_back": 0, "sent": 3}}
    again = call("redrive", url, "--class", "bad-label", "--to", to)
    assert "0 records sent" in again.stdout
    rest = json.loads(call("redrive", url, "--to", to, "--json").stdout)["classes"]
    assert rest["bad-label"]["sent_before"] == 3
    assert rest["bad-feature"]["sent"] == 2
    sent = [*lines(tmp_path, "mended"), *lines(tmp_path, "mended", 1)]
    assert sorted(map(json.dumps, sent)) == sorted(map(json.dumps, [BENIGN] * 3 + [NO_NUMBER] * 2))


def test_what_comes_back_is_held_back(tmp_path: Path, call: Call) -> None:
    flow(tmp_path, MIXED, partitions=2)
    assert sluiceway("run", "flow.toml", cwd=tmp_path).code == 0
    url, to = f"dir:{tmp_path}/dead", f"dir:{tmp_path}/in"
    assert "5 records sent" in call("redrive", url, "--to", to).stdout
    for partition in (0, 1):
        whole = [*lines(tmp_path, "in", partition)]
        assert BENIGN in whole or NO_NUMBER in whole
    assert sluiceway("run", "flow.toml", "--again", cwd=tmp_path).code == 1, "they are dead letters again"
    held = call("redrive", url, "--to", to)
    assert "0 records sent" in held.stdout
    assert "5 records that came back: not sent again, unless you say --again" in held.stdout
    assert "5 records sent" in call("redrive", url, "--to", to, "--again").stdout


@pytest.mark.parametrize(
    ("record", "mended"),
    [
        ({"stream": "s", "x": {"a": 1.0}, "y": "B"}, {"classes": ["B", "M"]}),
        ({"stream": "s", "age": 61, "ill": True}, {"map": {"label": "ill"}}),
        ({"stream": "s", "age": 61, "ill": "no"}, {"map": {"label": "ill"}, "classes": ["no", "yes"]}),
    ],
    ids=["classes", "map", "both"],
)
def test_a_mended_flow_learns_what_it_refused(
    tmp_path: Path, call: Call, record: dict[str, Any], mended: dict[str, Any]
) -> None:
    """Dead letters alone, then the flow's file is mended, and they are sent again: nothing was learnt before."""
    flow(tmp_path, [record] * 30, partitions=2, input={"max_dead_letters": 20})
    assert sluiceway("run", "flow.toml", cwd=tmp_path).code == 1
    given = {**FLOW, "input": {"stop": "end", "classes": mended.get("classes")}}
    if "map" in mended:
        given["input.map"] = mended["map"]
    (tmp_path / "flow.toml").write_text(toml(given))
    assert call("redrive", f"dir:{tmp_path}/dead", "--to", f"dir:{tmp_path}/in").code == 0
    assert call("check", tmp_path / "flow.toml").code == 0
    done = sluiceway("run", "flow.toml", "--again", cwd=tmp_path)
    assert done.code == 0, done.stderr
    learnt = [lines(tmp_path, "out", partition)[-1]["version"] for partition in (0, 1)]
    assert learnt == [15, 15]
    assert call("backup", tmp_path / "flow.toml", tmp_path / "backup").code == 0
    (tmp_path / "flow.toml").write_text(toml({**given, "operator": {"name": "ofs", "k": 2}}))
    assert "was made with params" in call("check", tmp_path / "flow.toml").sentence, "from then on they must stay"


def test_a_map_is_mended_while_a_flow_goes_on(tmp_path: Path) -> None:
    """What models know of features is their names."""
    tables: dict[str, Any] = {"input.map": {"label": "ill"}}
    flow(tmp_path, [{"stream": "s", "age": 61, "ill": True}] * 10, **tables)
    assert sluiceway("run", "flow.toml", cwd=tmp_path).code == 0
    with (tmp_path / "in" / "part-00000.jsonl").open("a") as file:
        file.write(json.dumps({"stream": "s", "person": {"age": 61}, "state": {"ill": True}}) + "\n")
    mended = {"label": "state.ill", "features": "person"}
    (tmp_path / "flow.toml").write_text(toml({**FLOW, "input.map": mended}))
    assert sluiceway("run", "flow.toml", "--again", cwd=tmp_path).code == 0
    last = lines(tmp_path, "out")[-1]
    assert (last["version"], [one["feature"] for one in last["selected"]]) == (11, ["age"])


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_interrupted_it_goes_on(
    url: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """After writing down what to do, in the middle of doing it, and before writing down that it is done."""
    to = f"dir:{tmp_path}/mended"

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    if left == 3:
        save, calls = redrive_files._save, [0]

        def save_once(*given: Any) -> None:
            calls[0] += 1
            if calls[0] > 1:
                raise KilledError
            save(*given)

        monkeypatch.setattr(redrive_files, "_save", save_once)
    else:
        monkeypatch.setattr(redrive_files, "_carry_out", killed)
    with pytest.raises(KilledError):
        call("redrive", url, "--to", to)
    monkeypatch.undo()
    monkeypatch.setenv("COLUMNS", "80")
    whole = json.loads((tmp_path / "dead" / redrive_files.FILE).read_bytes())["intent"]["lines"]
    if left in (1, 2):
        partition, planned = whole[0]
        with (tmp_path / "mended" / f"part-{partition:05d}.jsonl").open("a") as file:
            file.write("".join(line + "\n" for line in planned[:1]) + ("" if left == 1 else planned[1][:5]))
    assert call("redrive", url, "--to", to).code == 0
    sent = [*lines(tmp_path, "mended"), *lines(tmp_path, "mended", 1)]
    assert sorted(map(json.dumps, sent)) == sorted(map(json.dumps, [BENIGN] * 3 + [NO_NUMBER] * 2))
    assert "0 records sent" in call("redrive", url, "--to", to).stdout


def test_mistakes(url: str, tmp_path: Path, call: Call) -> None:
    for arguments, sentence in (
        ((url, "--to", url), "dead letters cannot be sent to the topic that they lie in"),
        ((url, "--to", "kafka://localhost:1/x"), "dead letters of Kafka go to Kafka"),
        ((url, "--to", f"dir:{tmp_path}/nosuch"), "there is no topic"),
        ((url, "--to", f"dir:{tmp_path}/mended", "--class", "bad-lable"), "there is no class 'bad-lable'"),
    ):
        done = call("redrive", *arguments)
        assert done.code == 2
        assert done.sentence.startswith(sentence)
    (tmp_path / "dead" / redrive_files.FILE).write_text("{")
    assert call("redrive", url, "--to", f"dir:{tmp_path}/mended").sentence.endswith("_redriven.json is damaged")

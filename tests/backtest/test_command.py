"""`sluiceway backtest` as a user meets it: the table, and one sentence for each window that cannot be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from sluiceway.backtest.run import Interrupted, backtest
from sluiceway.errors import SettingsError
from sluiceway.files import Columns
from tests.backtest.worlds import columns, flow, instances, topic_of
from tests.cli.calling import calling
from tests.support.flow import Running


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    topic_of(tmp_path / "instances", instances(400))
    flow(tmp_path, {"name": "ofs", "k": 3}, emit={"every": 100})
    return tmp_path


def unlabelled() -> Iterator[dict[str, Any]]:
    for record in instances(50):
        record.pop("y", None)
        if "x" in record:
            yield record


def useless() -> Iterator[dict[str, Any]]:
    for record in instances(50):
        yield {"stream": record["stream"], "x": {"a": "text"}}


def test_a_table_and_a_sentence(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = calling(capsys, monkeypatch)
    done = call("backtest", "flow.toml", "--set", "operator.k=2,4", "--out", "out")
    assert done.code == 0, done.stderr
    assert "ofs k=2" in done.stdout
    assert "is best" in done.stdout
    told = call("backtest", "flow.toml", "--set", "operator.k=2,4", "--out", "other", "--json")
    content = json.loads(told.stdout)
    assert [row["label"] for row in content["variants"]] == sorted(
        ["ofs k=2", "ofs k=4"], key=lambda label: next(r["error"] for r in content["variants"] if r["label"] == label)
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--from", "end"], "is empty"),
        (["--from", "2000-01-01", "--to", "1990-01-01"], "is empty"),
        (["--from", "end", "--to", "beginning"], "lies backwards"),
        (["--stream", "nosuch"], "no record of 'nosuch'; there are s0, s1"),
        (["--set", "operator.size=3"], "has no parameter 'size'"),
        (["--set", "operator.name=stsd", "--set", "operator.k=3"], "has no parameter 'k'"),
        (["--set", "topics.instances=x"], "cannot be varied"),
        (["--set", "operator.k"], "--set takes NAME=VALUE"),
        (["--label-delay", "soon"], "give a number of instances"),
        (["--fading", "0"], "--fading must lie above 0"),
        (["--known", "nosuch.txt"], "cannot be read"),
        (["--resume"], "--resume needs --out"),
        (["--by", "beauty", "--out", "out"], "there is no measure 'beauty'; there are"),
        (["--by", "recall"], "with --known also precision and recall"),
        (["--stream", "s0", "--stream", "nosuch"], "no record of 'nosuch'; there are s0, s1"),
        (["--to", "999999999"], "lies beyond the end of partition 0 of"),
        (["--from", "3"], "is not where a line begins"),
        (["--label", "y"], "--label goes with --input"),
    ],
)
def test_mistakes(
    place: Path,
    options: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = calling(capsys, monkeypatch)("backtest", "flow.toml", *options)
    assert done.code == 2, done
    assert sentence in done.sentence
    assert not any((place / made).exists() for made in ("out", "backtests/replayed-1"))  # the next try finds nothing


@pytest.mark.parametrize(("records", "sentence"), [(unlabelled, "has a label"), (useless, "are dead letters")])
def test_windows_of_nothing_to_learn(
    tmp_path: Path, records: Any, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic_of(tmp_path / "instances", records())
    flow(tmp_path, {"name": "ofs", "k": 3})
    done = calling(capsys, monkeypatch)("backtest", "flow.toml")
    assert done.code == 2, done
    assert sentence in done.sentence


@pytest.mark.parametrize(
    ("records", "options", "sentence"),
    [
        (lambda: columns(20), ["--stream", "nope"], "no record of 'nope'; there are c"),
        (lambda: (record for record in columns(20) if "name" in record), [], "no target"),
    ],
)
def test_windows_of_columns_of_no_use(
    tmp_path: Path,
    records: Any,
    options: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    topic_of(tmp_path / "features", records(), partitions=1)
    flow(tmp_path, {"name": "saola"}, "features")
    done = calling(capsys, monkeypatch)("backtest", "flow.toml", *options)
    assert done.code == 2, done
    assert sentence in done.sentence


def test_a_file_is_read_whole_whatever_the_flow_says_of_its_topic(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = calling(capsys, monkeypatch)
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in instances(300)))
    whole = call("backtest", "flow.toml", "--input", "rows.jsonl", "--out", "whole")
    assert whole.code == 0, whole.stderr
    flow(place, {"name": "ofs", "k": 3}, emit={"every": 100}, input={"start": "end", "stop": "2001-01-01"})
    again = call("backtest", "flow.toml", "--input", "rows.jsonl", "--out", "again")
    assert again.code == 0, again.stderr
    one, other = (json.loads((place / out / "results.json").read_text()) for out in ("whole", "again"))
    assert one["variants"] == other["variants"]
    assert other["records"] == len(list(instances(300)))


def test_a_flow_that_begins_at_the_end_is_told_of_from(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = calling(capsys, monkeypatch)
    flow(place, {"name": "ofs", "k": 3}, input={"start": "end"})
    done = call("backtest", "flow.toml")
    assert (done.code, "the flow's input.start says so: give --from" in done.sentence) == (2, True), done
    done = call("backtest", "flow.toml", "--from", "end")
    assert (done.code, "give --from" in done.sentence) == (2, False), done
    assert call("backtest", "flow.toml", "--from", "beginning").code == 0


def test_a_second_interrupt_ends_it_at_once(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = []

    def stuck(*given: object) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
            heard.append(1)  # the first only asks

    (place / "rows.jsonl").write_text("")
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("sluiceway.backtest.run.topic_of_file", stuck)
    done = calling(capsys, monkeypatch)("backtest", "flow.toml", "--input", "rows.jsonl")
    assert (done.code, len(heard)) == (130, 1), done
    assert signal.getsignal(signal.SIGINT) is before


def test_killed_while_a_file_is_read(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone on with from the file's beginning; a folder of something else is not taken for such a one."""
    call = calling(capsys, monkeypatch)
    rows = place / "rows.jsonl"
    os.mkfifo(rows)  # comes to no end
    arguments = ("backtest", "flow.toml", "--input", "rows.jsonl", "--out", "out")
    with Running(*arguments, cwd=place) as running, rows.open("wb", buffering=0) as writing:
        for record in instances(50):
            writing.write(orjson.dumps(record) + b"\n")
        running.until((place / "out" / "input.new" / "part-00000.jsonl").exists)
        running.kill()
    rows.unlink()
    rows.write_text("".join(json.dumps(row) + "\n" for row in instances(300)))
    done = call(*arguments)
    assert (done.code, "holds no backtest: give another --out" in done.sentence) == (2, True), done
    done = call(*arguments, "--resume")
    assert done.code == 0, done.stderr
    assert call(*arguments[:-1], "whole").code == 0
    one, other = (json.loads((place / out / "results.json").read_text()) for out in ("out", "whole"))
    assert one["variants"] == other["variants"]
    (place / "mine" / "input.new").mkdir(parents=True)
    (place / "mine" / "notes").write_text("")
    for out, sentence in (("mine", "holds no backtest: give another --out"), ("flow.toml", "is no folder")):
        done = call(*arguments[:-1], out, "--resume")
        assert (done.code, sentence in done.sentence) == (2, True), done


def test_begun_by_a_version_that_kept_other_files(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as plans said nothing of the files' form."""
    call = calling(capsys, monkeypatch)
    arguments = ("backtest", "flow.toml", "--out", "out")
    assert call(*arguments).code == 0
    plan = place / "out" / "plan.json"
    plan.write_text(json.dumps({name: part for name, part in json.loads(plan.read_text()).items() if name != "format"}))
    done = call(*arguments, "--resume")
    assert (done.code, "was begun by another version of this program" in done.sentence) == (2, True), done


def test_asked_to_stop_while_a_file_is_read_or_judged(place: Path) -> None:
    """And gone on with; what the results say of their making is what it takes to repeat them."""
    rows = [record for record in instances(300) if isinstance(record.get("y"), int) and "x" in record]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "known.txt").write_text("old\n")

    def go(out: str, stopping: Any, *, resume: bool = False, label: str | None = None) -> Any:
        return backtest(
            "flow.toml", {"operator.k": [1, 2]}, input="rows.jsonl", columns=Columns(y=label), known="known.txt",
            out=out, stopping=stopping, resume=resume,
        )  # fmt: skip

    asked = count()
    whole = go("whole", lambda: next(asked) < 0)
    for calls in (0, 5, next(asked) - 1):
        left = iter([False] * calls)
        with pytest.raises(Interrupted):
            go(f"after-{calls}", lambda left=left: next(left, True))
        parts = go(f"after-{calls}", lambda: False, resume=True)
        assert parts.content == {**whole.content, "source": parts.content["source"]}
    assert whole.content["input"] == str(place / "rows.jsonl")
    assert whole.content["known_features"] == [{"from": 0, "features": ["old"]}]
    with pytest.raises(SettingsError, match="begun with another label"):
        go("whole", lambda: False, resume=True, label="z")
    assert (place / "whole" / "results.json").exists()


def test_a_file_instead_of_a_topic(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [record for record in instances(300) if isinstance(record.get("y"), int) and "x" in record]
    (place / "rows.csv").write_text(
        "label,old,new\n" + "".join(f"{r['y']},{r['x'].get('old', '')},{r['x'].get('new', '')}\n" for r in rows)
    )
    done = calling(capsys, monkeypatch)("backtest", "flow.toml", "--input", "rows.csv", "--label", "label", "--json")
    assert done.code == 0, done.stderr
    folder = Path(json.loads(done.stdout)["folder"])
    assert json.loads((folder / "results.json").read_text())["records"] == len(rows)


def test_against_known_features(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [{"from": 0, "features": ["old"]}, {"from": 90, "features": ["new"]}]
    (place / "known.json").write_text(json.dumps(known))
    done = calling(capsys, monkeypatch)("backtest", "flow.toml", "--known", "known.json", "--out", "out")
    assert done.code == 0, done.stderr
    found = json.loads((place / "out" / "results.json").read_text())["variants"][0]["known"]
    assert 0 <= found["recall"] <= 1


def test_sorted_by_what_was_found_of_the_known(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = calling(capsys, monkeypatch)
    (place / "known.txt").write_text("old\nnew\nn1\nn2\n")
    (place / "others.txt").write_text("n3\n")
    arguments = ("backtest", "flow.toml", "--set", "operator.k=1,20", "--by", "recall", "--out", "out")
    done = call(*arguments, "--known", "known.txt", "--json")
    assert done.code == 0, done.stderr
    rows = json.loads(done.stdout)["variants"]
    assert [row["label"] for row in rows] == ["ofs k=20", "ofs k=1"]
    assert rows[0]["recall"] > rows[1]["recall"]
    kept = (place / "out" / "results.json").read_bytes()
    for other in (["--known", "others.txt"], ["--by", "error"]):
        done = call(*arguments, *other, "--resume")
        assert (done.code, "begun with another --known" in done.sentence) == (2, True), done
    assert (place / "out" / "results.json").read_bytes() == kept
    done = call(*arguments, "--known", "known.txt", "--resume")
    assert done.code == 0, done.stderr
    assert "recall" in done.stdout


def test_a_parquet_file_and_results_as_parquet(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps of features give what JSON lines give; the tables say what the results say."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [record for record in instances(300) if isinstance(record.get("y"), int) and "x" in record]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    of_maps = pa.map_(pa.string(), pa.float64())
    columns = {name: [row[name] for row in rows] for name in ("stream", "id", "ts", "y")}
    told = pa.array([list(row["x"].items()) for row in rows], of_maps)
    parquet.write_table(pa.table({**columns, "x": told}), place / "rows.parquet")
    call = calling(capsys, monkeypatch)
    for name in ("rows.jsonl", "rows.parquet"):
        done = call("backtest", "flow.toml", "--set", "operator.k=2,3", "--input", name, "--out", f"from-{name}")
        assert done.code == 0, done.stderr
    one, other = (
        json.loads((place / f"from-{name}" / "results.json").read_text())["variants"]
        for name in ("rows.jsonl", "rows.parquet")
    )
    assert one == other
    variants = parquet.read_table(place / "from-rows.parquet" / "variants.parquet").to_pylist()
    assert {row["label"]: row["error"] for row in variants} == {own["label"]: own["measures"]["error"] for own in one}
    curves = parquet.read_table(place / "from-rows.parquet" / "curves.parquet").to_pylist()
    mine = [
        row["value"]
        for row in curves
        if (row["variant"], row["stream"], row["way"], row["measure"]) == (1, None, "window", "error")
    ]
    assert mine == one[1]["curves"]["window"]["error"]
    streams = parquet.read_table(place / "from-rows.parquet" / "streams.parquet").to_pylist()
    assert {(row["variant"], row["stream"]) for row in streams} == {(v, s) for v in (0, 1) for s in ("s0", "s1")}
    timelines = parquet.read_table(place / "from-rows.parquet" / "timelines.parquet").to_pylist()
    assert {row["feature"] for row in timelines} >= {"old"}


def test_columns_have_no_labels_to_withhold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic_of(tmp_path / "features", columns(20), partitions=1)
    flow(tmp_path, {"name": "saola"}, "features")
    done = calling(capsys, monkeypatch)("backtest", "flow.toml", "--label-delay", "5")
    assert done.code == 2, done
    assert "--label-delay is for instances" in done.sentence
    assert not (tmp_path / "backtests").exists()


def test_a_capture_that_is_stopped_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = calling(capsys, monkeypatch)
    monkeypatch.setattr("sluiceway.topics.capture._Pace.held", lambda pace, lines: signal.raise_signal(signal.SIGINT))
    done = call("capture", "dir:instances", "week")
    assert (done.code, "stopped after 0 records: week was not made" in done.stderr) == (130, True), done
    assert not any("week" in path.name for path in place.iterdir())
    monkeypatch.undo()
    monkeypatch.chdir(place)
    for options, sentence in ((["--to", "999999999"], "beyond the end"), (["--from", "3"], "not where a line begins")):
        done = call("capture", "dir:instances", "week", *options)
        assert (done.code, sentence in done.sentence) == (2, True), done


def test_a_capture_into_a_file(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it holds selects what the topic does, later labels, features by place and what nobody takes included."""
    pytest.importorskip("pyarrow")
    call = calling(capsys, monkeypatch)

    def snapshots(out: str, *options: str) -> list[dict[str, Any]]:
        done = call("backtest", "flow.toml", "--out", out, *options)
        assert done.code == 0, done.stderr
        lines = [line for path in (place / out).rglob("selections/part-*") for line in path.read_bytes().splitlines()]
        return sorted(
            ({**json.loads(line), "source": None} for line in lines), key=lambda one: (one["stream"], one["version"])
        )

    def proper() -> list[dict[str, Any]]:
        return [record for record in instances(5_000) if record.get("y") != "neither"]  # more than one row group

    extra = [{"stream": "s0", "x": {"free": "text"}, "y": 1}, {"stream": "s0", "x": {"a": 1}, "y": 1, "more": True}]
    by_place = ({**one, "x": list(one["x"].values())} if "x" in one else one for one in proper()[:600])
    unlabelled_first = sorted(proper()[:600], key=lambda one: "y" in one and "x" in one)
    for name, records in (("names", [*proper(), *extra]), ("places", by_place), ("late", unlabelled_first)):
        shutil.rmtree(place / "instances")
        topic_of(place / "instances", iter(records))
        done = call("capture", "dir:instances", f"{name}.parquet", "--json")
        told = json.loads(done.stdout)
        assert (told["file"], told["left_out"]) == (f"{name}.parquet", int(name == "names")), done.stderr
        expected = snapshots(f"{name}-topic")
        assert len(expected) > 3
        assert snapshots(f"{name}-file", "--input", f"{name}.parquet") == expected
    assert call("produce", "late.parquet", "dir:again").code == 0
    assert len((place / "again" / "part-00000.jsonl").read_bytes().splitlines()) == 600


def test_what_does_not_go_into_a_file(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    call = calling(capsys, monkeypatch)
    (place / "there.parquet").write_text("mine")
    topic_of(place / "columns", columns(5), partitions=1)
    topic_of(place / "texts", useless())
    topic_of(place / "shapes", iter([{"stream": "s0", "x": {"a": 1}}, {"stream": "s0", "x": [1]}]))
    for topic, file, sentence in (
        ("instances", "there.parquet", "there.parquet exists already"),
        ("instances", "week.parquet", "labels are numbers and text in this window"),
        ("shapes", "week.parquet", "features are by name and by place in this window"),
        ("columns", "week.parquet", "this topic holds columns: capture it into a directory"),
        ("texts", "week.parquet", "no record of this window is an instance"),
        ("instances", "nosuch/week.parquet", "cannot be written: no such file or directory"),
    ):
        done = call("capture", f"dir:{topic}", file)
        assert (done.code, sentence in done.sentence) == (2, True), done
    assert (place / "there.parquet").read_text() == "mine"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        without.setitem(sys.modules, "pyarrow.parquet", None)
        done = call("capture", "dir:instances", "week.parquet")
    assert (done.code, "needs pyarrow (pip install sluiceway[arrow])" in done.sentence) == (2, True), done
    monkeypatch.setattr("sluiceway.topics.capture._Pace.held", lambda pace, rows: signal.raise_signal(signal.SIGINT))
    done = call("capture", "dir:instances", "week.parquet")
    assert (done.code, "stopped after 0 records: week.parquet was not made" in done.stderr) == (130, True), done
    assert not any("week" in path.name for path in place.iterdir())

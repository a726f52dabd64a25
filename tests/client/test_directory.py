"""subscribe and latest on directory topics."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import sluiceway
from sluiceway import SettingsError, Snapshot, SplitStreamError
from tests.client.snapshots import directory_topic, value


def seen(subscription: sluiceway.Subscription) -> list[tuple[str, str, int]]:
    return [(snapshot.flow, snapshot.stream, snapshot.version) for snapshot in subscription]


def test_each_version_once_and_in_order(tmp_path: Path) -> None:
    repeated = [value(version) for version in (10, 20, 30, 20, 30, 40)]
    url = directory_topic(tmp_path / "s", repeated, [value(5, stream="chat")])
    everything = seen(sluiceway.subscribe(url, start="beginning", stop="end"))
    assert [name for name in everything if name[1] == "mail"] == [("spam", "mail", v) for v in (10, 20, 30, 40)]
    assert [name for name in everything if name[1] == "chat"] == [("spam", "chat", 5)]


def test_filters(tmp_path: Path) -> None:
    lines = [value(1), value(2, stream="chat"), value(3, flow="ham"), value(4, flow="ham", stream="chat")]
    url = directory_topic(tmp_path / "s", lines)
    assert [v for _, _, v in seen(sluiceway.subscribe(url, flow="ham", start="beginning", stop="end"))] == [3, 4]
    assert [v for _, _, v in seen(sluiceway.subscribe(url, stream="chat", start="beginning", stop="end"))] == [2, 4]
    assert list(sluiceway.latest(url, "ham", "chat")) == [("ham", "chat")]


def test_what_was_handled_is_left_out(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "s", [value(1), value(2), value(3), value(1, stream="chat")])
    with sluiceway.subscribe(url, start="beginning") as first:
        assert [next(first).version, next(first).version] == [1, 2]
        marks = first.marks
    assert list(marks) == [("spam", "mail")]
    going_on = sluiceway.subscribe(url, start="beginning", stop="end", after=marks)
    assert seen(going_on) == [("spam", "mail", 3), ("spam", "chat", 1)]
    assert set(going_on.marks) == {("spam", "mail"), ("spam", "chat")}
    assert seen(sluiceway.subscribe(url, start="current", stop="end", after=going_on.marks)) == []


def test_current_then_what_comes(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "s", [value(1), value(2)], [], [value(7, stream="chat")])
    with sluiceway.subscribe(url, start="current", timeout=20) as subscription:
        first = {next(subscription).stream, next(subscription).stream}
        assert first == {"mail", "chat"}
        with (tmp_path / "s" / "part-00001.jsonl").open("ab") as lines:
            lines.write(value(1, stream="new") + b"\n")
        assert next(subscription).stream == "new"
    assert list(subscription) == []


def test_an_empty_topic_has_no_current_selection(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "s", [], [])
    assert sluiceway.latest(url) == {}
    assert seen(sluiceway.subscribe(url, start="current", timeout=0.1)) == []


def test_a_topic_that_grows_is_read_to_where_it_ended(tmp_path: Path) -> None:
    """The end is decided once, however much is written while it is looked up."""
    url = directory_topic(tmp_path / "s", [value(version) for version in range(1, 4001)])
    written, done = [4000], threading.Event()

    def write() -> None:
        with (tmp_path / "s" / "part-00000.jsonl").open("ab", buffering=0) as lines:
            while not done.wait(0.0005):
                lines.write(value(written[0] + 1) + b"\n")
                written[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            before = written[0]
            [(_, _, version)] = seen(sluiceway.subscribe(url, start="current", stop="end", timeout=10))
            assert version >= before
            assert sluiceway.latest(url, timeout=10)["spam", "mail"].version >= version
    finally:
        done.set()
        writer.join()


@pytest.mark.parametrize("start", ["current", "beginning"])
def test_patience_lasts_as_long_as_something_comes(tmp_path: Path, start: str) -> None:
    """Even none at all is enough to catch up, in however many polls."""
    url = directory_topic(tmp_path / "s", [value(1)] * 3500 + [value(2)])
    assert seen(sluiceway.subscribe(url, start=start, timeout=0))[-1] == ("spam", "mail", 2)


def test_tailing_waits_for_whole_lines(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "s", [value(1)])
    found: list[Snapshot] = []
    line = value(2) + b"\n"
    with sluiceway.subscribe(url, timeout=20) as subscription:
        reader = threading.Thread(target=lambda: found.append(next(subscription)))
        reader.start()
        with (tmp_path / "s" / "part-00000.jsonl").open("ab", buffering=0) as lines:
            lines.write(line[:50])
            time.sleep(0.5)
            assert not found
            lines.write(line[50:])
        reader.join(20)
    assert [snapshot.version for snapshot in found] == [2]


def test_cancel_and_timeout_end_it(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "s", [value(1)])
    begun = time.monotonic()
    assert list(sluiceway.subscribe(url, timeout=0.3)) == []
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    assert list(sluiceway.subscribe(url, cancel=cancel)) == []
    assert time.monotonic() - begun < 10


def test_latest_is_the_newest_version_not_the_last_line(tmp_path: Path) -> None:
    """While a flow that delivers at least once repeats itself, the newest stands before the end."""
    url = directory_topic(tmp_path / "s", [value(10), value(20, features=("a",)), value(10)])
    assert [entry.feature for entry in sluiceway.latest(url)["spam", "mail"].selected] == ["a"]


def test_a_stream_in_two_partitions_is_told(tmp_path: Path) -> None:
    url = directory_topic(tmp_path / "s", [value(1), value(2, stream="chat")], [value(3)])
    with pytest.raises(SplitStreamError, match="snapshots of spam/mail stand in the partitions 0 and 1") as told:
        list(sluiceway.subscribe(url, start="beginning", stop="end"))
    assert told.value.name == ("spam", "mail")
    assert told.value.partitions == (0, 1)
    with pytest.raises(SplitStreamError):
        sluiceway.latest(url)
    assert list(sluiceway.latest(url, stream="chat")) == [("spam", "chat")]


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no topic dir:.*_topic.json does not exist"):
        sluiceway.subscribe(f"dir:{tmp_path / 'nowhere'}")
    with pytest.raises(SettingsError, match="is no topic; write kafka://"):
        sluiceway.latest("selections")
    url = directory_topic(tmp_path / "s", [value(1)])
    with pytest.raises(SettingsError, match="is no position in a topic"):
        sluiceway.subscribe(url, start="yesterday")
    with pytest.raises(SettingsError, match=r"start 99999 lies beyond the end of .*00.jsonl, which has \d+ bytes"):
        sluiceway.subscribe(url, start=99_999)
    with pytest.raises(SettingsError, match=r"start 5 is not where a line of .* begins"):
        sluiceway.subscribe(url, start=5)
    with pytest.raises(SettingsError, match=r"_topic\.json is a file; a topic is the directory"):
        sluiceway.latest(f"{url}/_topic.json")
    with pytest.raises(SettingsError, match="after: 3000 is no mark"):
        sluiceway.subscribe(url, after={("spam", "mail"): 3000})  # type: ignore[dict-item]


@pytest.mark.parametrize("line", [b"{}", b"no JSON", value(1).replace(b'"version"', b'"Version"')])
def test_what_is_no_snapshot_is_told(tmp_path: Path, line: bytes) -> None:
    url = directory_topic(tmp_path / "s", [value(1), line])
    with pytest.raises(SettingsError, match=r"partition 0, offset \d+: this is no snapshot"):
        sluiceway.latest(url)


def test_a_later_version_may_add_members(tmp_path: Path) -> None:
    """Added, they are ignored; what changes the meaning of the others changes the schema, which is told."""
    more = value(1).replace(b'"since":1', b'"since":1,"colour":"red"').replace(b'"seen"', b'"mood":{"a":1},"seen"')
    url = directory_topic(tmp_path / "more", [more])
    assert sluiceway.latest(url)["spam", "mail"] == Snapshot.model_validate_json(value(1))
    other = directory_topic(tmp_path / "other", [value(1).replace(b'"schema":1', b'"schema":2')])
    with pytest.raises(SettingsError, match="has schema 2, and this version of Sluiceway reads schema 1 only"):
        sluiceway.latest(other)

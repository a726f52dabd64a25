"""Directory topics: read by byte offset, complete lines only; written by one, compared with what already stands."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluiceway.errors import FlowError
from sluiceway.schemas.lane import LaneOutput, OutRecord
from sluiceway.topics.directory import create_directory_topic, partition_count, partition_path
from sluiceway.topics.directory_reader import DirectoryReader, directory_bounds
from sluiceway.topics.directory_writer import DirectoryWriter
from sluiceway.topics.state_records import CommitRecord
from sluiceway.topics.url import DirectoryTopic


@pytest.fixture
def topic(tmp_path: Path) -> DirectoryTopic:
    made = DirectoryTopic(tmp_path / "t")
    create_directory_topic(made, 2)
    return made


def file_of(topic: DirectoryTopic) -> Path:
    return partition_path(topic, 0)


def read(topic: DirectoryTopic, start: int = 0, stop: int | None = None) -> list[tuple[int, bytes | None, int]]:
    """Everything there is now: offset, line, next offset; polls must join without a gap."""
    reader = DirectoryReader(topic, 0, start, stop)
    found: list[tuple[int, bytes | None, int]] = []
    position = start
    try:
        while (poll := reader.poll()) is not None:
            assert (poll.start, poll.keys) == (position, [None] * len(poll.values))
            position = poll.stop
            found += zip(poll.offsets, poll.values, poll.next_offsets, strict=True)
            if poll.end:
                break
        assert reader.position == position
        return found
    finally:
        reader.close()


def test_lines_and_their_byte_offsets(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes('{"a":1}\n\n{"ü":2}\r\n"x\ry"\n'.encode())
    assert read(topic) == [
        (0, b'{"a":1}', 8),
        (8, b"", 9),
        (9, '{"ü":2}\r'.encode(), 19),
        (19, b'"x\ry"', 25),
    ]
    assert read(topic, 9)[0][0] == 9


def test_a_torn_line_waits_for_its_end(topic: DirectoryTopic) -> None:
    reader = DirectoryReader(topic, 0, 0, None)
    assert reader.poll() is None
    for piece, lines in ((b"one\ntw", [b"one"]), (b"o", None), (b"\nthree\n", [b"two", b"three"]), (b"four", None)):
        with file_of(topic).open("ab") as out:
            out.write(piece)
        poll = reader.poll()
        assert (poll.values if poll else None) == lines
    assert reader.position == 14
    reader.close()


def test_lines_larger_than_a_chunk(topic: DirectoryTopic) -> None:
    lines = [b"a" * 3_500_000, b"b", b"c" * (1 << 20), b"d" * ((1 << 20) - 1)]
    file_of(topic).write_bytes(b"".join(line + b"\n" for line in lines) + b"t" * 2_500_000)
    assert [line for _, line, _ in read(topic)] == lines


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=12), st.integers(0, 160))
def test_any_stop_ends_before_the_line_that_it_cuts(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], stop: int
) -> None:
    topic = DirectoryTopic(tmp_path_factory.mktemp("t"))
    create_directory_topic(topic, 1)
    data = b"".join(line + b"\n" for line in lines)
    file_of(topic).write_bytes(data)
    stop = min(stop, len(data))
    assert [line for _, line, _ in read(topic, 0, stop)] == data[:stop].split(b"\n")[:-1]


def test_more_lines_than_a_poll(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"".join(b"%d\n" % n for n in range(5000)))
    assert [line for _, line, _ in read(topic)] == [b"%d" % n for n in range(5000)]


def test_start_and_stop_forms(topic: DirectoryTopic) -> None:
    lines = [b'{"ts":10}', b'{"ts":20}', b"no json", b'{"ts":30}']
    file_of(topic).write_bytes(b"\n".join(lines) + b'\n{"ts":40')  # the last line is torn
    ends = [0, 10, 20, 28, 38]

    def places(position: str) -> int:
        return directory_bounds(topic, 2, position, None).starts[0]

    forms = {"beginning": 0, "end": 38, "10": 10, "-1": 28, "-4": 0, "-9": 0, "s@15": 10, "s@20": 10, "s@21": 28}
    assert {form: places(form) for form in forms} == forms
    assert places("s@31") == ends[-1]
    assert places("1970-01-01T00:00:00.020Z") == 10
    bounds = directory_bounds(topic, 2, "beginning", "end")
    assert (bounds.starts, bounds.stops) == ((0, 0), (38, 0))
    assert directory_bounds(topic, 2, "end", None).stops == (None, None)


def test_a_start_must_be_the_start_of_a_line_that_is_there(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"abc\ndef\n")
    with pytest.raises(FlowError, match="byte 3 is not the start of a line"):
        DirectoryReader(topic, 0, 3, None)
    with pytest.raises(FlowError, match="go on at byte 9, but the file has 8; restore it, or begin anew"):
        DirectoryReader(topic, 0, 9, None)
    DirectoryReader(topic, 0, 8, None).close()


def test_a_missing_partition_is_a_sentence(topic: DirectoryTopic) -> None:
    file_of(topic).unlink()
    with pytest.raises(FlowError, match=r"part-00000\.jsonl cannot be read: No such file"):
        DirectoryReader(topic, 0, 0, None)
    with pytest.raises(FlowError, match=r"part-00000\.jsonl cannot be read: No such file"):
        directory_bounds(topic, 2, "end", None)
    with pytest.raises(FlowError, match=r"part-00000\.jsonl cannot be written: No such file"):
        lane(topic)


def test_the_number_of_partitions_is_pinned(topic: DirectoryTopic, tmp_path: Path) -> None:
    create_directory_topic(topic, 7)  # an existing topic stays as it is
    assert partition_count(topic) == 2
    assert partition_count(DirectoryTopic(tmp_path / "none")) is None
    (topic.path / "_topic.json").write_text("{}")
    with pytest.raises(FlowError, match="does not pin the number of partitions"):
        partition_count(topic)


# -- writing -----------------------------------------------------------------------------------------------------------


def lane(topic: DirectoryTopic, position: int = 0) -> DirectoryWriter:
    return DirectoryWriter(0, {"predictions": topic}, CommitRecord({}, False, 1, None, {}, {topic.identity: position}))


def output(*values: bytes) -> LaneOutput:
    made = LaneOutput(0, 0, len(values), False)
    made.predictions = [OutRecord(at, b"k", value) for at, value in enumerate(values)]
    return made


def position_of(written: DirectoryWriter) -> int:
    [position] = written.sync().values()
    return position


def _make_topics(directory: Path, at_once: Barrier, number: int) -> None:
    for name in range(number):
        at_once.wait(30)
        create_directory_topic(DirectoryTopic(directory / str(name)), 2)


def test_two_processes_may_make_the_same_topic(tmp_path: Path) -> None:
    """As the processes of a flow do when they start together."""
    context = multiprocessing.get_context("spawn")
    at_once = context.Barrier(2)
    makers = [context.Process(target=_make_topics, args=(tmp_path, at_once, 100)) for _ in range(2)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert [maker.exitcode for maker in makers] == [0, 0]
    assert [partition_count(DirectoryTopic(tmp_path / str(name))) for name in range(100)] == [2] * 100


def test_what_is_written_stands_in_order(topic: DirectoryTopic) -> None:
    writer = lane(topic)
    writer.write(output(b"one", b"two"))
    assert position_of(writer) == 8
    writer.write(output(b"three"))
    assert position_of(writer) == 14
    writer.close()
    assert file_of(topic).read_bytes() == b"one\ntwo\nthree\n"


def test_a_second_writer_is_refused_until_the_first_is_gone(topic: DirectoryTopic) -> None:
    first = lane(topic)
    with pytest.raises(FlowError, match="is being written by another process; a directory topic has one writer"):
        lane(topic)
    first.close()
    lane(topic).close()


@pytest.mark.parametrize("torn", [b"", b"t", b"three", b"x" * 2_500_000])
def test_a_torn_last_line_is_cut_and_the_rest_compared(topic: DirectoryTopic, torn: bytes) -> None:
    file_of(topic).write_bytes(b"one\ntwo\n" + torn)
    writer = lane(topic, 4)  # the last commit knows of `one` only
    assert file_of(topic).read_bytes() == b"one\ntwo\n"
    writer.write(output(b"two", b"three"))
    assert position_of(writer) == 14
    writer.close()
    assert file_of(topic).read_bytes() == b"one\ntwo\nthree\n"


def test_readers_never_see_fewer_bytes_while_output_is_repeated(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"one\ntwo\nthree\n")
    writer = lane(topic, 0)
    for value in (b"one", b"two", b"three"):
        writer.write(output(value))
        assert file_of(topic).read_bytes() == b"one\ntwo\nthree\n"
    writer.write(output(b"four"))
    writer.close()
    assert file_of(topic).read_bytes() == b"one\ntwo\nthree\nfour\n"


def test_a_difference_stops_the_flow_and_changes_nothing(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"one\ntwo\n")
    writer = lane(topic, 4)
    with pytest.raises(FlowError, match="differs from what stands after byte 4; have the settings or the input"):
        writer.write(output(b"tWo"))
    writer.close()
    assert file_of(topic).read_bytes() == b"one\ntwo\n"


def test_output_that_the_commit_knows_must_be_there(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"one\n")
    with pytest.raises(FlowError, match="has 4 bytes, but the last commit says that 8 were written"):
        lane(topic, 8)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence(topic: DirectoryTopic) -> None:
    file_of(topic).unlink()
    file_of(topic).symlink_to("/dev/full")
    writer = lane(topic)
    with pytest.raises(FlowError, match=r"part-00000\.jsonl cannot be written: No space left on device"):
        writer.write(output(b"one"))
    writer.close()


def test_a_new_store_begins_with_empty_directories(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"one\ntor")
    with pytest.raises(FlowError, match=r"already holds output, but the flow's store is new: write to another"):
        DirectoryWriter(0, {"predictions": topic}, None)
    file_of(topic).write_bytes(b"tor")  # half a line is no output
    writer = DirectoryWriter(0, {"predictions": topic}, None)
    assert writer.is_new
    writer.close()


def test_a_topic_that_the_commit_does_not_know_begins_where_it_ends(topic: DirectoryTopic) -> None:
    file_of(topic).write_bytes(b"earlier\n")
    commit = CommitRecord({}, False, 1, None, {}, {"dir:/elsewhere": 5})
    writer = DirectoryWriter(0, {"predictions": topic}, commit)
    assert writer.is_new
    writer.write(output(b"one"))
    assert writer.sync() == {"dir:/elsewhere": 5, topic.identity: 12}  # those no longer written are still known
    writer.close()

"""A map that looks for the label where it never is: the flow goes on, and says so once."""

from __future__ import annotations

import orjson
import pytest

from sluiceway.flows.unlabelled import Unlabelled
from sluiceway.schemas.decode import Decoder
from sluiceway.schemas.record_map import RecordMap
from tests.schemas.polls import poll_of


def said(label: str, count: int, capsys: pytest.CaptureFixture[str]) -> str:
    decoder, unlabelled = Decoder(1, record_map=RecordMap(label=label)), Unlabelled("f", label, None)
    for _ in range(3):
        poll = poll_of([orjson.dumps({"radius": 1, "diagnosis": at % 2}) for at in range(count)])
        unlabelled.look(poll, decoder.decode(poll))
    return capsys.readouterr().err


def test_a_label_that_is_never_there_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("diagnosys", 200, capsys) == (
        "f: none of the first 200 instances has a label at input.map.label = 'diagnosys'; did you mean 'diagnosis'?\n"
    )
    assert said("target", 60, capsys).endswith("'target'; they have radius, diagnosis\n")


def test_nothing_is_said_where_there_are_labels_or_too_few_instances(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("diagnosis", 200, capsys) == ""
    assert said("target", 30, capsys) == ""

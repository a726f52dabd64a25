"""Selections as feature flags: OFREP as it is written, and OpenFeature's own SDK."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from sluiceway import SelectionMask
from sluiceway.schemas import encode
from sluiceway.schemas.records import Snapshot
from sluiceway.serve.flags import key_of
from tests.client.snapshots import directory_topic
from tests.serve.conftest import HOSTILE
from tests.serve.serving import Served, serving

MAIL = key_of("spam", "mail")


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[OpenFeatureClient]:
    """As a service has it."""
    api.set_provider(OFREPProvider(served.url), "tests")
    yield api.get_client("tests")
    api.shutdown()


def test_is_it_selected(client: OpenFeatureClient) -> None:
    details = client.get_boolean_details("spam/mail/free", False)
    assert details.value is True
    assert (details.reason, details.variant) == (Reason.TARGETING_MATCH, "selected")
    assert details.flag_metadata == {"flow": "spam", "stream": "mail", "version": 200, "weight": 0.5, "since": 1}
    details = client.get_boolean_details("spam/mail/money", True)
    assert (details.value, details.variant, details.error_code) == (False, "not-selected", None)
    assert client.get_boolean_value("spam/mail/never-heard-of", True) is False


def test_the_selection_of_a_stream(client: OpenFeatureClient) -> None:
    context = EvaluationContext("user-7", {"country": "DE"})
    details = client.get_object_details("spam/mail", {}, context)
    mask = SelectionMask(Snapshot.model_validate(details.value))
    assert mask.apply({"free": 1, "money": 1}) == {"free": 1}
    assert details.variant == "200"


@pytest.mark.parametrize(
    ("flow", "stream", "feature"),
    [("spam", "mail", "gene/TP53"), ("spam", HOSTILE, HOSTILE), ("fraud", "cards/eu", "free")],
)
def test_names_with_slashes_and_worse(client: OpenFeatureClient, flow: str, stream: str, feature: str) -> None:
    assert client.get_boolean_value(key_of(flow, stream, feature), False) is True
    assert client.get_object_value(key_of(flow, stream), {})["stream"] == stream  # type: ignore[call-overload]


def test_what_the_sdk_makes_of_errors(client: OpenFeatureClient) -> None:
    for key in ("spam/mial", "spam/mial/free", "nonsense", "a/b/c/d"):
        details = client.get_boolean_details(key, True)
        assert (details.value, details.error_code) == (True, ErrorCode.FLAG_NOT_FOUND), key
    assert client.get_boolean_details("spam/mail", True).error_code is ErrorCode.TYPE_MISMATCH


def test_a_key_may_be_encoded_once_more(served: Served) -> None:
    """As other providers do with all keys."""
    for names in (("spam", "mail", "gene/TP53"), ("spam", HOSTILE, HOSTILE)):
        key = key_of(*names)
        for sent in (key, quote(key, safe="")):
            answer = served.evaluate(sent)
            assert (answer.status, answer.json["key"], answer.json["value"]) == (200, key, True)


def test_errors_by_the_protocol(served: Served) -> None:
    answer = served.evaluate("spam/mial")
    assert (answer.status, answer.json) == (
        404,
        {
            "key": "spam/mial",
            "errorCode": "FLAG_NOT_FOUND",
            "errorDetails": "there is no selection of spam/mial; did you mean spam/mail?",
        },
    )
    where = "/ofrep/v1/evaluate/flags"
    for body, code in (
        (b"{", "PARSE_ERROR"),
        (b"[]", "INVALID_CONTEXT"),
        (b'{"context": 7}', "INVALID_CONTEXT"),
        (b" " * 70_000, "PARSE_ERROR"),
    ):
        one, many = (served.ask(path, body=body, method="POST") for path in (f"{where}/{MAIL}", where))
        assert (one.status, one.json["key"], one.json["errorCode"]) == (400, MAIL, code)
        assert (many.status, many.json["errorCode"]) == (400, code)
    assert served.evaluate(context={"flow": 7}).json["errorCode"] == "INVALID_CONTEXT"
    assert served.evaluate(MAIL, {"flow": 7}).status == 200, "other people's attributes are none of ours"
    assert served.ask(f"{where}/{MAIL}").status == 405


def test_all_flags(served: Served) -> None:
    answer = served.evaluate()
    flags = {flag["key"]: flag["value"] for flag in answer.json["flags"]}
    odd = key_of("spam", HOSTILE)
    assert set(flags) == {
        "fraud/cards%2Feu", "fraud/cards%2Feu/free", "fraud/cards%2Feu/money", odd, f"{odd}/{quote(HOSTILE, safe='')}",
        "spam/mail", "spam/mail/gene%2FTP53", "spam/mail/free",
    }  # fmt: skip
    for flag in answer.json["flags"]:
        single = served.evaluate(flag["key"]).json
        assert single == flag
        assert {"key", "reason", "variant", "value", "metadata"} == set(flag)
        assert all(isinstance(each, str | int | float) for each in flag["metadata"].values())


def test_all_flags_have_an_entity_tag_of_what_was_asked(served: Served) -> None:
    tags = {}
    for context in ({}, {"flow": "spam"}, {"flow": "spam", "stream": "mail"}, {"flow": "none"}):
        answer = served.evaluate(context=context)
        tags[json.dumps(context)] = tag = answer.headers["ETag"]
        same = served.evaluate(context=context, headers={"If-None-Match": tag})
        assert (same.status, same.body) == (304, b"")
    assert len(set(tags.values())) == 4
    everything = tags["{}"]
    assert served.evaluate(context={"flow": "spam"}, headers={"If-None-Match": everything}).status == 200
    mail = served.evaluate(context={"flow": "spam", "stream": "mail"}).json["flags"]
    assert [flag["key"] for flag in mail] == ["spam/mail", "spam/mail/gene%2FTP53", "spam/mail/free"]


def test_what_a_snapshot_does_not_list_is_not_guessed(tmp_path: Path) -> None:
    """And more flags than anybody wants are refused."""
    made = encode.snapshot(
        offset=9, flow="spam", stream="mail", operator="ofs", version=9, seen=9, generation=0, ts=0, reason="interval",
        n_selected=200_000, selected=[("free", 1.0, 1)], entered=[], left=["len"], metrics={}, params={},
        source={"instances": (0, 9)},
    ).value  # fmt: skip
    assert made is not None
    with serving(directory_topic(tmp_path / "t", [made])) as served:
        assert served.evaluate("spam/mail/free").json["value"] is True
        for name in ("len", "other"):
            answer = served.evaluate(f"spam/mail/{name}")
            assert (answer.status, answer.json["errorCode"]) == (400, "GENERAL")
            assert answer.json["errorDetails"] == "not among the 1 features listed; 199,999 more are selected"
        assert "name a `flow` and a `stream`" in served.evaluate().json["errorDetails"]


def test_keys_of_names_are_their_own() -> None:
    names = ["a", "a/b", "a%2Fb", "b", "%", "/", "a?b#c", "ü ☃", "."]
    keys = {key_of("f", *parts) for count in (1, 2) for parts in itertools.product(names, repeat=count)}
    assert len(keys) == len(names) + len(names) ** 2

"""`/v1/selections`, and what everything that is answered has in common."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import orjson

from sluiceway import SelectionMask
from sluiceway.schemas.records import Snapshot
from tests.client.snapshots import directory_topic, value
from tests.serve.conftest import HOSTILE
from tests.serve.serving import Served, serving


def test_a_selection_is_the_snapshot_as_it_stands_on_the_topic(served: Served) -> None:
    answer = served.ask("/v1/selections/spam/mail")
    assert (answer.status, answer.headers["ETag"], answer.headers["Content-Type"]) == (200, '"200"', "application/json")
    assert answer.body == value(200, features=("gene/TP53", "free"))
    assert SelectionMask(Snapshot.model_validate_json(answer.body)).apply({"free": 1, "len": 2}) == {"free": 1}


def test_who_has_it_is_told_so(served: Served) -> None:
    for tag in ('"200"', 'W/"200"', '"100", "200"', "*"):
        answer = served.ask("/v1/selections/spam/mail", {"If-None-Match": tag})
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", '"200"')
    assert served.ask("/v1/selections/spam/mail", {"If-None-Match": '"100"'}).status == 200


def test_a_generation_is_part_of_the_tag(tmp_path: Path) -> None:
    with serving(directory_topic(tmp_path / "selections", [value(5), value(6, generation=2)])) as served:
        answer = served.ask("/v1/selections/spam/mail", {"If-None-Match": '"6"'})
        assert (answer.status, answer.headers["ETag"]) == (200, '"2-6"')
        assert served.ask("/v1/selections/spam/mail", {"If-None-Match": '"2-6"'}).status == 304


def test_names_may_hold_anything(served: Served) -> None:
    for name in (quote(HOSTILE), quote(HOSTILE, safe="")):
        assert served.ask(f"/v1/selections/spam/{name}").json["selected"][0]["feature"] == HOSTILE
    for name in ("cards/eu", "cards%2Feu"):
        assert served.ask(f"/v1/selections/fraud/{name}").json["version"] == 30


def test_all_selections_in_short(served: Served) -> None:
    answer = served.ask("/v1/selections")
    names = [(each["flow"], each["stream"], each["version"]) for each in answer.json["streams"]]
    assert names == [("fraud", "cards/eu", 30), ("spam", HOSTILE, 7), ("spam", "mail", 200)]
    assert served.ask("/v1/selections", {"If-None-Match": answer.headers["ETag"]}).status == 304
    assert [each["flow"] for each in served.ask("/v1/selections?flow=fraud").json["streams"]] == ["fraud"]


def test_what_is_not_there(served: Served) -> None:
    answer = served.ask("/v1/selections/spam/mial")
    assert (answer.status, answer.json["error"]) == (
        404,
        "there is no selection of spam/mial; did you mean spam/mail?",
    )
    hidden = ("nothing.js", "..%2Fstore.py", "login.html", "report.js")
    for path in ("/v1", "/nowhere", "/v1/selections/spam", *(f"/page/{name}" for name in hidden)):
        assert served.ask(path).status == 404, path
        assert "error" in served.ask(path).json


def test_it_is_read_only(served: Served) -> None:
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        assert served.ask("/v1/selections/spam/mail", body=b"{}", method=method).status == 405
    head = served.ask("/v1/selections/spam/mail", method="HEAD")
    assert (head.status, head.headers["ETag"], head.body) == (200, '"200"', b"")


def test_health(served: Served) -> None:
    assert served.ask("/healthz").body == served.ask("/readyz").body == b"ok\n"


def test_browsers_are_told_what_not_to_do(served: Served) -> None:
    for path in ("/", "/healthz", "/v1/selections", "/page/page.js", "/nowhere"):
        headers = served.ask(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "server" not in headers
    assert "access-control-allow-origin" not in served.ask("/v1/selections", {"Origin": "http://evil.example"}).headers


def test_what_the_page_is_made_of_comes_from_the_package_alone(served: Served) -> None:
    index = served.ask("/").body.decode()
    assert "http://" not in index
    assert "https://" not in index
    assert "style=" not in index
    for name in ("page.js", "list.js", "detail.js", "charts.js", "words.js", "page.css", "timeline.js", "timeline.css"):
        answer = served.ask(f"/page/{name}")
        assert answer.status == 200
        assert b"https://" not in answer.body
        assert served.ask(f"/page/{name}", {"If-None-Match": answer.headers["ETag"]}).status == 304


def test_events_take_up_where_they_ended(served: Served) -> None:
    told = served.events("?flow=spam&stream=mail")
    name, streams = next(told)
    assert (name, streams["anew"], len(streams["streams"])) == ("streams", True, 3)
    name, stream = next(told)
    assert (name, stream["anew"]) == ("stream", True)
    assert [point[0] for point in stream["points"]] == [100, 200]
    assert orjson.dumps(stream["snapshot"]) == value(200, features=("gene/TP53", "free"))
    assert next(told)[0] == "status"
    told.close()  # type: ignore[attr-defined]
    again = next(served.events(f"?since={streams['revision']}"))
    assert again[0] == "status", "nothing has changed"
    assert next(served.events("?since=another-7"))[1]["anew"]


def test_a_flow_of_several(topic: str) -> None:
    with serving(topic, "--flow", "fraud") as served:
        assert [each["flow"] for each in served.ask("/v1/selections").json["streams"]] == ["fraud"]

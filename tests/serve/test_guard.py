"""Who may ask, and by which name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.serving import Served, serving

SECRET = "a-token-that-nobody-must-ever-read"
AS_PROGRAM = {"Authorization": f"Bearer {SECRET}"}


def test_this_machine_is_asked_by_its_own_names(served: Served) -> None:
    port = served.url.rpartition(":")[2]
    for name in ("localhost", f"localhost:{port}", "127.0.0.1", "[::1]:80", "LOCALHOST"):
        assert served.ask("/v1/selections", {"Host": name}).status == 200, name
    for name in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "", "127.0.0.1.evil.example", "a:b"):
        for path in ("/", "/v1/selections", "/events", "/healthz", "/page/page.js"):
            answer = served.ask(path, {"Host": name})
            assert answer.status == 421, (name, path)
            assert b"--host NAME" in answer.body


def test_a_name_that_it_is_given(topic: str) -> None:
    with serving(topic, "--host", "selections.example.org") as served:
        assert served.ask("/v1/selections", {"Host": "selections.example.org"}).status == 200
        assert served.ask("/v1/selections", {"Host": "localhost"}).status == 200
        assert served.ask("/v1/selections", {"Host": "evil.example"}).status == 421


@pytest.fixture(scope="module")
def guarded(topic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(SECRET + "\n")
    return file


@pytest.mark.parametrize("by", ["file", "environment"])
def test_who_has_no_token_sees_nothing(topic: str, guarded: Path, by: str) -> None:
    given = ("--token-file", str(guarded)) if by == "file" else ()
    with serving(topic, *given, env=None if given else {"SLUICEWAY_TOKEN": SECRET}) as served:
        for path in ("/v1/selections", "/v1/selections/spam/mail", "/events", "/nowhere"):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {SECRET}"}):
                answer = served.ask(path, headers)
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert b"free" not in answer.body
        assert served.evaluate("spam/mail").status == 401
        for path in ("/healthz", "/readyz", "/page/page.js"):
            assert served.ask(path).status == 200
        assert served.ask("/v1/selections/spam/mail", AS_PROGRAM).json["version"] == 200
        assert served.ask("/v1/selections/spam/mail", {"Authorization": f"bearer {SECRET}"}).status == 200
        assert served.evaluate("spam/mail/free", headers=AS_PROGRAM).json["value"] is True
        assert next(served.events(headers=AS_PROGRAM))[0] == "streams"
        _people(served)
        assert SECRET not in served.process.stderr + served.process.stdout


def _people(served: Served) -> None:
    """Type it once."""
    form = served.ask("/")
    assert form.status == 401
    assert b'<input id="token" name="token" type="password"' in form.body
    wrong = served.ask("/login", body=b"token=wrong")
    assert wrong.status == 401
    assert b"That is not the token." in wrong.body
    assert wrong.headers["Set-Cookie"] is None
    assert served.ask("/login", body=b"token=" + b"x" * 5000).status == 413
    right = served.ask("/login", body=f"token={SECRET}".encode())
    assert (right.status, right.headers["Location"]) == (303, "/")
    cookie = right.headers["Set-Cookie"]
    assert SECRET not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    behind = served.ask("/login", {"X-Forwarded-Proto": "https"}, f"token={SECRET}".encode())
    assert "Secure" in behind.headers["Set-Cookie"]
    mine = {"Cookie": cookie.partition(";")[0]}
    assert b'id="streams"' in served.ask("/", mine).body
    assert served.ask("/v1/selections/spam/mail", mine).status == 200
    assert served.ask("/v1/selections", {"Cookie": mine["Cookie"][:-1] + "0x"}).status == 401


def test_without_a_token_the_form_leads_to_the_page(served: Served) -> None:
    assert served.ask("/login", body=b"token=any").headers["Location"] == "/"
    assert served.ask("/login", body=b"").status == 303

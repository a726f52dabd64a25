"""The page in a real browser, over a directory topic of a thousand streams."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.client.snapshots import directory_topic
from tests.serve.conftest import HOSTILE
from tests.serve.looking import Page, append, made
from tests.serve.serving import Served, serving
from tests.support.browser import Browser

STREAMS = "1,000 streams"
LOOKS = [(1280, False), (1280, True), (375, False), (375, True)]


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = directory_topic(tmp_path_factory.mktemp("page") / "selections", [])
    names = [f"customer-{number:04d}" for number in range(998)]
    for version in (100, 200):
        append(url, *(made(version, {"free": 1.5, "len": -0.5}, stream=name, mistakes=version // 10) for name in names))
    append(url, made(300, {"free": 1.0}, stream="customer-0500", left=["len"], mistakes=120))
    append(url, made(9, {HOSTILE: 1.0, "<b>bold</b>": 0.5}, stream=HOSTILE, entered=[HOSTILE]))
    for version in range(100, 4100, 100):
        words = {"free": 1.0, f"word-{version // 1000}": -2.0, "prize": version / 4000}
        append(url, made(version, words, stream="mail", mistakes=version // 8))
    return url


@pytest.fixture(scope="module")
def served_page(thousand: str) -> Iterator[Served]:
    with serving(thousand) as running:
        yield running


@pytest.fixture
def page(browser: Browser, served_page: Served) -> Iterator[Page]:
    browser.complaints()
    browser.show(served_page.url)
    page = Page(browser)
    page.live(STREAMS)
    yield page
    complaints = browser.complaints()
    browser.driver.get("about:blank")
    assert complaints == []


def test_a_thousand_streams_searched_and_ordered(page: Page) -> None:
    assert len(page.rows) < 60, "only those in sight are drawn"
    search = page.at("search")
    search.send_keys("ER-04 spam")
    page.until(lambda: page.text("count") == "100 of 1,000 streams")
    search.clear()
    search.send_keys("nobody")
    page.until(lambda: page.text("count") == "0 of 1,000 streams")
    page.until(lambda: page.rows == [])
    search.send_keys(Keys.CONTROL, "a")
    search.send_keys(Keys.BACKSPACE)
    page.until(lambda: page.text("count") == STREAMS)
    page.at("order").send_keys("largest error")
    page.until(lambda: page.rows[0][0] == "customer-0500")
    assert page.rows[0] == ["customer-0500", "error 100.0 %", "1 selected · version 300", "+0 −1"]


def test_what_a_stream_selects(page: Page) -> None:
    page.choose("mail")
    facts = page.facts
    assert {name: facts[name] for name in ("version", "selected", "instances seen", "error so far")} == {
        "version": "4,000", "selected": "3", "instances seen": "4,003", "error so far": "12.5 %",
    }  # fmt: skip
    assert page.text("operator") == "flow spam · ofs (k=3, eta=0.2)"
    assert page.selected == [["word-4", "-2", "", "4,000"], ["free", "1", "", "4,000"], ["prize", "1", "", "4,000"]]
    assert "7 features, 40 snapshots" in page.at("timeline").text
    charts = [figure.text.splitlines() for figure in page.browser.driver.find_elements(By.TAG_NAME, "figure")]
    assert [chart[0] for chart in charts] == ["error lately", "error rate", "mistakes"]
    assert charts[2][1] == "500"


def test_it_follows(page: Page, thousand: str) -> None:
    """The stream that is shown, the list, and a stream that is new."""
    page.choose("customer-0007")
    append(thousand, made(300, {"free": 1.2, "prize": 3.0}, stream="customer-0007", entered=["prize"], left=["len"]))
    page.until(lambda: page.facts["version"] == "300")
    assert page.selected == [["prizeentered", "3", "", "300"], ["free", "1.2", "", "300"], ["lenleft", ""]]
    assert page.text("changes") == "1 entered, 1 left with the newest snapshot, made at its interval."
    assert "3 features, 3 snapshots" in page.at("timeline").text
    assert page.facts["newest snapshot"].endswith(" ago")
    page.at("search").send_keys("customer-0007")
    page.until(lambda: [row[2] for row in page.rows] == ["2 selected · version 300"])
    assert re.fullmatch(r"\+1 −1 · \d+ (s|min)", page.rows[0][3])
    page.at("search").clear()
    page.at("order").send_keys("newest")
    page.until(lambda: page.rows and page.rows[0][0] == "customer-0007")


def test_much_and_nothing(page: Page, thousand: str) -> None:
    many = {f"word-{number:03d}": 1000.0 - number for number in range(120)}
    append(thousand, made(300, many, stream="customer-0009", left=["len"]), made(300, {}, stream="customer-0010"))
    page.choose("customer-0009")
    page.until(lambda: page.facts["version"] == "300")
    assert (len(page.selected), page.text("more")) == (51, "Show 70 more")
    page.at("more").click()
    assert (len(page.selected), page.text("more")) == (121, "Show less")
    page.choose("customer-0010")
    page.until(lambda: page.selected == [["Nothing is selected."]])


def test_names_stay_names(page: Page) -> None:
    page.choose(HOSTILE)
    assert [row[0] for row in page.selected] == [f"{HOSTILE}entered", "<b>bold</b>"]
    assert page.text("title") == HOSTILE
    assert page.browser.driver.title == f"{HOSTILE} – Selections"
    assert page.browser.driver.find_elements(By.CSS_SELECTOR, "main script, main b:not(.timeline b)") == []


def test_all_of_it_by_keys(page: Page) -> None:
    page.keys("/")
    assert page.focused == "search"
    page.keys("customer")
    page.keys(Keys.ARROW_DOWN)
    assert (page.focused, page.active) == ("list", "customer-0000")
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert page.active == "customer-0001"
    page.keys(Keys.END)
    assert page.active == "customer-0997"
    page.keys(Keys.PAGE_UP)
    assert "customer-0900" < page.active < "customer-0997"
    page.keys(Keys.HOME, Keys.ARROW_DOWN, Keys.ENTER)
    page.until(lambda: page.text("title") == "customer-0001" and page.facts)
    chosen = page.browser.driver.find_element(By.CSS_SELECTOR, '.row[aria-selected="true"]')
    assert chosen.text.startswith("customer-0001")
    for _ in range(20):
        page.keys(Keys.TAB)
        if page.focused == "CANVAS":
            break
    page.keys("/")
    assert page.browser.run("return document.activeElement.matches('.timeline input')"), "its own search"
    page.browser.run("document.activeElement.blur()")
    page.keys(Keys.ESCAPE)
    assert (page.focused, page.browser.run("return location.hash")) == ("list", "")


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_it_can_be_read(page: Page, served_page: Served, width: int, dark: bool) -> None:
    """On a phone, by day and by night: nothing beyond the edge, and no text that is hard to see."""
    page.browser.show(served_page.url, width=width, dark=dark)
    page.live(STREAMS)
    phone = width < 760
    assert page.at("streams").is_displayed()
    assert page.at("detail").is_displayed() is not phone
    assert page.faint() == []
    page.choose("mail")
    page.browser.frame()
    assert page.at("streams").is_displayed() is not phone
    assert page.faint() == []
    assert page.nameless() == []
    edges = "return [document.documentElement.scrollWidth, document.getElementById('detail').scrollWidth]"
    assert max(page.browser.run(edges)) <= width
    background = page.browser.run("return getComputedStyle(document.documentElement).backgroundColor")
    assert (background == "rgb(255, 255, 255)") is not dark
    if phone:
        page.at("back").click()
        page.until(lambda: page.at("streams").is_displayed())
        assert not page.at("detail").is_displayed()


def test_a_token_is_typed_once(browser: Browser, thousand: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open-sesame")
    with serving(thousand, "--token-file", str(token)) as served:
        browser.show(f"{served.url}/#spam/mail")
        page = Page(browser)
        page.at("token").send_keys("wrong", Keys.ENTER)
        page.until(lambda: "That is not the token." in browser.driver.page_source)
        page.at("token").send_keys("open-sesame", Keys.ENTER)
        page.live(STREAMS)
        browser.complaints()
        browser.driver.refresh()
        page.live(STREAMS)
        assert browser.run("return document.cookie") == "", "scripts do not see it"
        assert browser.complaints() == []
        browser.driver.get("about:blank")


def test_the_server_may_be_away_for_a_while(browser: Browser, thousand: str) -> None:
    with serving(thousand) as served:
        browser.show(f"{served.url}/#spam/mail")
        page = Page(browser)
        page.live(STREAMS)
        page.until(lambda: page.facts)
        address = served.url.removeprefix("http://")
    page.until(lambda: page.text("state-text") == "no connection to the server; trying again")
    assert page.facts["version"] == "4,000", "what was told stays"
    with serving(thousand, "--listen", address):
        page.live(STREAMS)
        assert "40 snapshots" in page.at("timeline").text
    browser.driver.get("about:blank")
    browser.complaints()

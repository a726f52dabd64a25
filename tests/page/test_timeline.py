"""The timeline of selected features in a real browser: what it draws, and mouse, keys and search on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.page.pages import WORDS, large, page_of, small, snapshot
from tests.support.browser import Browser


def shown(browser: Browser, tmp_path: Path, data: dict[str, Any] | None, **look: Any) -> WebElement:
    """A page with it; its canvas."""
    browser.show(page_of(tmp_path / "page.html", data), **look)
    browser.frame()
    return browser.driver.find_element(By.TAG_NAME, "canvas")


def names(browser: Browser) -> list[str]:
    """Of the rows, from the top."""
    found: list[str] = browser.run("return Array.from(timeline.rows, (feature) => timeline.snapshots.names[feature])")
    return found


def seen(browser: Browser) -> list[float] | None:
    """The part that is shown, where it is not all."""
    found: list[float] | None = browser.run(
        "const view = timeline.view; return view && [view.x0, view.x1, view.y0, view.y1]"
    )
    return found


def text(browser: Browser, name: str) -> str:
    return browser.driver.find_element(By.CLASS_NAME, f"timeline-{name}").text


def at(browser: Browser, snapshot: int, row: int) -> tuple[int, int]:
    """Where the middle of a cell lies, from the middle of the canvas."""
    x, y = browser.run(
        """const { x0, x1, y0, y1 } = timeline._shown(), { snapshots } = timeline;
        const box = timeline.canvas.getBoundingClientRect();
        const place = (snapshots.at.values[arguments[0]] + snapshots.until(arguments[0])) / 2;
        const x = timeline.gutter + (place - x0) / (x1 - x0) * timeline.width;
        return [x - box.width / 2, (arguments[1] + 0.5 - y0) / (y1 - y0) * timeline.height - box.height / 2]""",
        snapshot,
        row,
    )
    return round(x), round(y)


def colour(browser: Browser, snapshot: int, row: int) -> list[int]:
    """Of the middle of a cell."""
    x, y = at(browser, snapshot, row)
    found: list[int] = browser.run(
        """const { canvas } = timeline, box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
        const x = (arguments[0] + box.width / 2) * ratio, y = (arguments[1] + box.height / 2) * ratio;
        const one = new OffscreenCanvas(1, 1).getContext("2d");
        one.drawImage(canvas, Math.floor(x), Math.floor(y), 1, 1, 0, 0, 1, 1);
        return Array.from(one.getImageData(0, 0, 1, 1).data)""",
        x,
        y,
    )
    return found[:3]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_cell_has_the_shade_of_its_weight(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    shown(browser, tmp_path, small(), width=width, dark=dark)
    nothing, faint, full = (colour(browser, snapshot, row) for snapshot, row in ((9, 1), (0, 0), (0, 1)))
    negative = colour(browser, 9, 2)
    away = [abs(sum(one) - sum(nothing)) for one in (faint, full)]
    assert 0 < away[0] < away[1]
    assert full[2] > full[0]
    assert negative[0] > negative[2]
    assert (sum(nothing) < 200) is dark
    assert "negative weight" in text(browser, "legend")
    wide = browser.run("return document.documentElement.scrollWidth")
    assert wide <= width
    assert browser.complaints() == []


def test_hovering_says_what_is_there(browser: Browser, tmp_path: Path) -> None:
    canvas = shown(browser, tmp_path, small())
    ActionChains(browser.driver).move_to_element_with_offset(canvas, *at(browser, 3, 1)).perform()
    assert text(browser, "tip").splitlines() == [
        "casino",
        "version 400 · 2025-11-16T00:03:00Z",
        "weight 2.000",
        "first at version 100, held 50 % of the time",
    ]
    ActionChains(browser.driver).move_to_element_with_offset(canvas, *at(browser, 3, 2)).perform()
    assert text(browser, "tip").splitlines()[2] == "not selected"
    ActionChains(browser.driver).move_by_offset(0, 400).perform()
    assert text(browser, "tip") == ""


def test_dragging_zooms_and_a_double_click_shows_all(browser: Browser, tmp_path: Path) -> None:
    canvas = shown(browser, tmp_path, large(200, 100, 40))
    from_x, from_y = at(browser, 20, 50)
    to_x, to_y = at(browser, 60, 100)
    drag = ActionChains(browser.driver).move_to_element_with_offset(canvas, from_x, from_y).click_and_hold()
    drag.move_by_offset(to_x - from_x, to_y - from_y).release().perform()
    browser.frame()
    view = seen(browser)
    assert view == pytest.approx([2150, 6150, 50.5, 100.5], rel=0.02)
    shift = ActionChains(browser.driver).key_down(Keys.SHIFT).move_to_element(canvas).click_and_hold()
    shift.move_by_offset(100, 0).release().key_up(Keys.SHIFT).perform()
    browser.frame()
    moved = seen(browser)
    assert view is not None
    assert moved is not None
    assert moved[0] < view[0]
    assert moved[1] - moved[0] == pytest.approx(view[1] - view[0])
    ActionChains(browser.driver).double_click(canvas).perform()
    assert seen(browser) is None
    assert browser.complaints() == []


def test_search_keeps_the_rows_whose_names_have_the_text(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, large(200, 100, 40))
    browser.driver.find_element(By.TAG_NAME, "input").send_keys("WORD-11")
    browser.frame()
    assert sorted(names(browser)) == sorted(f"word-{at}" for at in (11, *range(110, 120)))
    assert text(browser, "count") == "11 of 200 features, 100 snapshots"
    browser.driver.find_element(By.TAG_NAME, "input").send_keys("zzz")
    browser.frame()
    assert names(browser) == []
    assert browser.complaints() == []


def test_rows_are_ordered_by_entry_weight_or_time(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, small())
    found = {}
    for by in ("entry", "weight", "held"):
        browser.run("timeline.order(arguments[0])", by)
        browser.frame()
        found[by] = names(browser)
    assert found == {
        "entry": ["free", "casino", "len"],
        "weight": ["len", "free", "casino"],
        "held": ["free", "casino", "len"],
    }


def test_all_of_it_goes_by_keys(browser: Browser, tmp_path: Path) -> None:
    canvas = shown(browser, tmp_path, large(200, 100, 40))
    canvas.send_keys(Keys.ARROW_DOWN)
    first = text(browser, "tip").splitlines()
    assert first[1] == "version 10,000"
    canvas.send_keys(Keys.ARROW_LEFT, Keys.ARROW_DOWN)
    second = text(browser, "tip").splitlines()
    assert second[1] == "version 9,900"
    assert second[0] != first[0]
    canvas.send_keys("+")
    zoomed = seen(browser)
    assert zoomed is not None
    assert zoomed[0] > 100
    canvas.send_keys(*[Keys.ARROW_DOWN] * 120)
    followed = seen(browser)
    assert followed is not None
    assert followed[2] > zoomed[2]
    canvas.send_keys("0")
    assert seen(browser) is None
    canvas.send_keys("/")
    assert browser.run("return document.activeElement === timeline.searching")
    browser.driver.find_element(By.TAG_NAME, "summary").click()
    browser.frame()
    rows = browser.driver.find_elements(By.CSS_SELECTOR, ".timeline-table tr")
    assert len(rows) == 101
    assert "and 100 more" in text(browser, "table")


def test_a_page_that_stays_open_appends_and_forgets(browser: Browser, tmp_path: Path) -> None:
    browser.show(page_of(tmp_path / "page.html", None, "{ keep: 100 }"))
    browser.frame()
    assert text(browser, "count") == "0 features, 0 snapshots"
    for version in range(10, 60, 10):
        browser.run("timeline.append(arguments[0])", snapshot(version, {WORDS[version // 20]: 1.0, "free": 0.5}))
    browser.run("timeline.append(arguments[0])", snapshot(50, {"twice": 1.0}))  # a topic that is read again
    browser.frame()
    assert text(browser, "count") == "3 features, 5 snapshots"
    browser.run("timeline._look({ x0: 30, x1: 60, y0: 0, y1: 3 })")
    browser.run("timeline.append(arguments[0])", snapshot(60, {"free": 0.5}))
    assert seen(browser) == [40, 70, 0, 3]  # the newest stays in sight
    browser.run("timeline.append(arguments[0])", snapshot(10, {"other": 0.5}, generation=1))
    assert browser.run("return timeline.snapshots.at.last()") == 70
    for version in range(20, 1_500, 10):
        browser.run("timeline.append(arguments[0])", snapshot(version, {"new": 1.0}, generation=1))
    browser.frame()
    kept = browser.run("return timeline.snapshots.length")
    assert 100 <= kept <= 125
    assert text(browser, "count") == f"1 feature, {kept} snapshots"
    browser.run("timeline.destroy()")
    assert browser.run("return document.getElementById('here').childElementCount") == 0
    assert browser.complaints() == []


def test_five_thousand_features_in_two_thousand_snapshots(
    browser: Browser, tmp_path: Path, record_property: Any
) -> None:
    """Drawn in half a second of script, and at hand from then on.

    What is bounded is how long the page was busy, by the browser's own count. How long it took goes with the test's
    report; `make bench` has it as a figure.
    """
    browser.show(page_of(tmp_path / "page.html", large(5_000, 2_000, 1_000), when_asked=True))
    browser.frame()
    canvas = browser.driver.find_element(By.TAG_NAME, "canvas")
    search = browser.driver.find_element(By.TAG_NAME, "input")

    def busy(what: str, act: Callable[[], object], *, script: float, task: float) -> None:
        before = browser.busy()
        act()
        browser.frame()
        after = browser.busy()
        took = {name: after[name] - before[name] for name in after}
        record_property(what, took)
        assert 0 < took["script"] < script, (what, took)
        assert took["task"] < task, (what, took)

    busy("drawing", lambda: browser.run("begin()"), script=0.5, task=2.0)
    record_property("milliseconds", browser.run("return took"))
    assert text(browser, "count") == "5,000 features, 2,000 snapshots"
    hover = ActionChains(browser.driver).move_to_element(canvas)
    busy("hovering", hover.perform, script=0.25, task=0.5)
    assert "more here" in text(browser, "tip")
    for key in "++-0":
        busy("zooming", lambda key=key: canvas.send_keys(key), script=0.5, task=1.0)  # type: ignore[misc]
    busy("searching", lambda: search.send_keys("word-4999"), script=0.5, task=1.0)
    assert names(browser) == ["word-4999"]
    assert browser.complaints() == []


def test_on_paper_it_is_light(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, small(), dark=True)
    assert sum(colour(browser, 9, 1)) < 200
    browser.tell("Emulation.setEmulatedMedia", media="print")
    browser.frame()
    assert sum(colour(browser, 9, 1)) > 600

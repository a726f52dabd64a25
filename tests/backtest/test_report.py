"""The report in a real browser: nothing on its console, what it says, and that its parts answer to mouse and keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from sluiceway.backtest import report
from sluiceway.backtest.report import REPORT
from sluiceway.backtest.results import Results
from sluiceway.backtest.run import backtest
from tests.backtest.worlds import columns, flow, instances, topic_of
from tests.support.browser import Browser


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    place = tmp_path_factory.mktemp("report")
    topic_of(place / "instances", instances(1_500))
    file = flow(place, {"name": "ofs", "k": 3}, emit={"every": 50})
    known = place / "known.txt"
    known.write_text("new\n")
    return backtest(file, {"operator.k": [1, 3, 8]}, known=known, out=place / "out")


def cells(browser: Browser, section: str) -> list[list[str]]:
    rows = browser.driver.find_elements(By.CSS_SELECTOR, f"#{section} tbody tr")
    return [[cell.text.strip() for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


def choose(browser: Browser, name: str, value: str) -> None:
    Select(browser.driver.find_element(By.ID, name)).select_by_value(value)


def legend(browser: Browser) -> list[str]:
    found = browser.driver.find_elements(By.CSS_SELECTOR, ".u-legend .u-series .u-label")
    return [label.text for label in found][1:]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_has_all_of_it_on_any_screen(browser: Browser, results: Results, width: int, dark: bool) -> None:
    browser.show(results.folder / REPORT, width=width, dark=dark)
    browser.frame()
    assert browser.complaints() == []
    assert browser.driver.find_element(By.ID, "sentence").text == f"{results.sentence}."
    assert [row[0] for row in cells(browser, "variants")] == [row["label"] for row in results.rows("error")]
    assert len(cells(browser, "differences")) == 2
    assert len(cells(browser, "known")) == 3
    assert len(cells(browser, "stability")) == 6
    assert browser.run("return document.documentElement.scrollWidth") <= width
    paper, ink = browser.run(
        "const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"
    )
    assert (brightness(paper) < brightness(ink)) is dark


def brightness(colour: str) -> float:
    """Relative luminance, as WCAG has it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read(browser: Browser, results: Results, dark: bool) -> None:
    """Contrast: 4.5 to 1 for all text, 3 to 1 for the lines of curves."""
    browser.show(results.folder / REPORT, dark=dark)
    texts, lines, paper = browser.run(
        """const seen = new Set();
        for (const one of document.querySelectorAll("body *"))
          if (one.checkVisibility() && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim()))
            seen.add(getComputedStyle(one).color);
        const lines = [...document.querySelectorAll("svg.swatch")].map((one) => getComputedStyle(one).color);
        return [[...seen], lines, getComputedStyle(document.body).backgroundColor]"""
    )

    def contrast(colour: str) -> float:
        low, high = sorted((brightness(colour), brightness(paper)))
        return (high + 0.05) / (low + 0.05)

    assert len(texts) > 2
    assert all(contrast(colour) >= 4.5 for colour in texts if colour != "rgba(0, 0, 0, 0)"), texts
    assert len(set(lines)) == 3
    assert all(contrast(colour) >= 3 for colour in lines)


def test_headings_sort_the_table_and_ticks_choose_the_curves(browser: Browser, results: Results) -> None:
    browser.show(results.folder / REPORT)
    button = browser.driver.find_element(By.XPATH, "//th[starts-with(., 'stability')]/button")
    button.send_keys(Keys.ENTER)
    by = [row["label"] for row in results.rows("stability")]
    assert [row[0] for row in cells(browser, "variants")] == by
    browser.run("return document.activeElement").send_keys(Keys.ENTER)
    assert [row[0] for row in cells(browser, "variants")] == by[::-1]
    assert len(legend(browser)) == 3
    browser.driver.find_elements(By.CSS_SELECTOR, "#variants input")[0].click()
    assert legend(browser) == [row["label"] for row in results.rows("error") if row["label"] != by[-1]]
    assert browser.complaints() == []


def test_curves_of_every_measure_way_and_stream(browser: Browser, results: Results) -> None:
    browser.show(results.folder / REPORT)
    for way in ("window", "cumulative", "fading"):
        choose(browser, "way", way)
        measures = [
            option.get_attribute("value") for option in browser.driver.find_elements(By.CSS_SELECTOR, "#measure option")
        ]
        assert ("auc" in measures) is (way == "window")
        for measure in measures:
            choose(browser, "measure", str(measure))
    choose(browser, "measure", "error")
    choose(browser, "way", "cumulative")
    chart = browser.driver.find_element(By.ID, "chart")
    for stream in ("", "s1"):
        choose(browser, "curve-stream", stream)
        chart.send_keys(*[Keys.ARROW_RIGHT] * 3)
        values = browser.driver.find_elements(By.CSS_SELECTOR, ".u-legend .u-value")
        assert all("%" in value.text for value in values[1:])
    ActionChains(browser.driver).move_to_element(chart).perform()
    browser.frame()
    assert browser.complaints() == []


def test_the_timeline_of_any_variant_and_stream(browser: Browser, results: Results) -> None:
    browser.show(results.folder / REPORT)
    for number in range(3):
        choose(browser, "timeline-variant", str(number))
        for stream in ("s0", "s1"):
            choose(browser, "timeline-stream", stream)
            browser.frame()
            line = results.timeline(stream, number)
            found: dict[str, Any] = browser.run(
                """const { names, versions, features, weights } = timeline.snapshots;
                const list = (column) => Array.from(column.values.subarray(0, column.length));
                return { names, versions: list(versions), features: list(features), weights: list(weights) }"""
            )
            assert found["names"] == line.names
            assert found["versions"] == line.versions
            assert found["features"] == line.features
            assert found["weights"] == pytest.approx(line.weights)
    browser.driver.find_element(By.CSS_SELECTOR, "#picture input").send_keys("ne")
    browser.frame()
    assert browser.run("return timeline.rows.length") == 1
    assert browser.complaints() == []


def test_without_predictions_there_are_no_curves(browser: Browser, tmp_path: Path) -> None:
    topic_of(tmp_path / "features", columns(60))
    file = flow(tmp_path, {"name": "saola"}, "features", emit={"every": 10})
    found = backtest(file, {"operator.name": ["saola", "alpha-investing"]}, out=tmp_path / "out")
    browser.show(found.folder / REPORT)
    browser.frame()
    assert not browser.driver.find_element(By.ID, "curves").is_displayed()
    assert browser.driver.find_element(By.ID, "picture").is_displayed()
    assert len(cells(browser, "variants")) == 2
    assert browser.complaints() == []


def test_it_needs_no_network_and_no_text_ends_its_script(browser: Browser, results: Results, tmp_path: Path) -> None:
    content = json.loads((results.folder / "results.json").read_text())
    content["flow"] = "<b>bold</b>"
    content["variants"][0]["label"] = "</script><script>globalThis.broken = true</script>{{title}}"
    page = Results(results.folder, content).report(tmp_path / "odd.html")
    text = page.read_text()
    addresses = {address for address in re.findall(r"https?://[^\s\"'`)]+", text) if "w3.org" not in address}
    assert addresses == {"https://github.com/leeoniya/uPlot"}  # where the library's head says it comes from
    browser.show(page)
    browser.frame()
    assert browser.run("return globalThis.broken ?? null") is None
    assert browser.driver.title.startswith("<b>bold</b>: ")
    assert any("{{title}}" in row[0] for row in cells(browser, "variants"))
    assert browser.complaints() == []


def test_on_paper(browser: Browser, results: Results) -> None:
    browser.show(results.folder / REPORT, dark=True)
    browser.tell("Emulation.setEmulatedMedia", media="print")
    browser.frame()
    assert brightness(browser.run("return getComputedStyle(document.body).backgroundColor")) == pytest.approx(1)
    assert not browser.driver.find_element(By.TAG_NAME, "nav").is_displayed()
    printed = browser.tell("Page.printToPDF", printBackground=True)
    assert len(printed["data"]) > 10_000
    assert browser.complaints() == []


def test_a_page_is_not_larger_than_browsers_like(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads(report_data(results.report(results.folder / "all.html")))
    assert len(data["timelines"]) == 6
    assert data["left_out"] == 0
    monkeypatch.setattr(report, "CELLS", sum(line["indptr"][-1] for line in data["timelines"]) - 1)
    data = json.loads(report_data(results.report(results.folder / "some.html")))
    assert data["left_out"] >= 1
    assert len(data["timelines"]) + data["left_out"] == 6


def report_data(page: Path) -> str:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return found[1]

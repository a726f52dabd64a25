"""Pictures of a report in a real browser: the first backtest of docs/backtesting.md, as its commands make it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.docs.generate import DOCS
from tests.docs.pages import blocks, run
from tests.support.browser import Browser, any_browser

PAGE = DOCS / "backtesting.md"
PICTURE = DOCS / "images" / "report.png"
WIDTHS = (1280, 390)


def draw_all(folder: Path) -> Iterator[Path]:
    """The picture in docs/, down to the end of the timeline, and four to look at in `folder`."""
    with any_browser() as browser, tempfile.TemporaryDirectory() as place:
        report = backtested(Path(place))
        yield draw(browser, report, PICTURE, width=WIDTHS[0], down_to="#timeline")
        folder.mkdir(parents=True, exist_ok=True)
        yield from looks(browser, report, folder)


def backtested(place: Path, instances: int = 20_000) -> Path:
    """The report of the page's first backtest."""
    typed = [block.code for block in blocks(PAGE) if block.language == "sh"]
    last = next(at for at, code in enumerate(typed) if code.startswith("sluiceway backtest"))
    code = "\n".join(["set -e", *typed[: last + 1]]).replace("--instances 20000", f"--instances {instances}")
    run(code, place, timeout=300)
    return place / "first" / "report.html"


def looks(browser: Browser, report: Path, folder: Path) -> Iterator[Path]:
    """The whole page, light and dark, on a desk and in a hand."""
    for width in WIDTHS:
        for dark in (False, True):
            name = f"report-{'dark' if dark else 'light'}-{width}.png"
            yield draw(browser, report, folder / name, width=width, dark=dark)


def draw(
    browser: Browser, report: Path, path: Path, *, width: int, dark: bool = False, down_to: str | None = None
) -> Path:
    browser.show(report, width=width, dark=dark)
    browser.frame()
    browser.picture(path, down_to)
    return path

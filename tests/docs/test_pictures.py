"""Pictures of a report: the whole page, at the sizes that were asked for, and dark where it is dark."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.docs import pictures
from tests.support.browser import Browser


def size(picture: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


def test_one_for_the_page_and_four_to_look_at(browser: Browser, tmp_path: Path) -> None:
    report = pictures.backtested(tmp_path, instances=2_000)
    four = list(pictures.looks(browser, report, tmp_path))
    assert [(path.name, size(path)[0]) for path in four] == [
        ("report-light-1280.png", 1280), ("report-dark-1280.png", 1280),
        ("report-light-390.png", 390), ("report-dark-390.png", 390),
    ]  # fmt: skip
    one = pictures.draw(browser, report, tmp_path / "one.png", width=1280, down_to="#timeline")
    assert 1_000 < size(one)[1] < size(four[0])[1] < size(four[2])[1]
    assert four[0].read_bytes() != four[1].read_bytes()
    assert browser.complaints() == []


def test_the_one_in_the_docs_is_whole() -> None:
    width, height = size(pictures.PICTURE)
    assert width == pictures.WIDTHS[0]
    assert height > 1_500

"""The page in a browser: what it shows, by its own names for its parts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from sluiceway.schemas import encode
from tests.support.browser import Browser

PATIENCE = 60.0


def made(
    version: int, selected: dict[str, float], *, stream: str, flow: str = "spam", entered: Sequence[str] = (),
    left: Sequence[str] = (), mistakes: int = 0, ts: int = 0,
) -> bytes:  # fmt: skip
    """A snapshot as a flow writes it, as a line of a directory topic."""
    ordered = sorted(selected.items(), key=lambda item: -abs(item[1]))
    content = encode.snapshot(
        offset=version, flow=flow, stream=stream, operator="ofs", version=version, seen=version + 3, generation=0,
        ts=ts, reason="interval", n_selected=len(selected), selected=[(name, by, version) for name, by in ordered],
        entered=list(entered), left=list(left), metrics={"mistakes": mistakes, "error_rate": mistakes / version},
        params={"k": 3, "eta": 0.2}, source={"instances": (0, version)},
    ).value  # fmt: skip
    assert content is not None
    return content + b"\n"


def append(topic: str, *lines: bytes) -> None:
    path = Path(topic.removeprefix("dir:")) / "part-00000.jsonl"
    with path.open("ab") as file:
        file.write(b"".join(lines))


class Page:
    """What somebody sees."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def at(self, name: str) -> WebElement:
        return self.browser.driver.find_element(By.ID, name)

    def text(self, name: str) -> str:
        """As it is, whether it is in sight or not."""
        return str(self.browser.run("return document.getElementById(arguments[0])?.textContent ?? ''", name))

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"it did not come within {PATIENCE:.0f} s; {self.browser.complaints()}")
            time.sleep(0.02)

    def live(self, streams: str) -> None:
        self.until(lambda: self.text("state-text") == "live" and self.text("count") == streams)
        self.browser.frame()

    @property
    def rows(self) -> list[list[str]]:
        """Of the list, those that are drawn, by their place."""
        found: list[list[str]] = self.browser.run(
            "return [...document.querySelectorAll('.row')].sort((one, other) =>"
            " one.ariaPosInSet - other.ariaPosInSet).map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        return found

    @property
    def facts(self) -> dict[str, str]:
        found: dict[str, str] = self.browser.run(
            "return Object.fromEntries([...document.querySelectorAll('#facts > div')].map((fact) =>"
            " [fact.firstChild.textContent, fact.lastChild.textContent]))"
        )
        return found

    @property
    def selected(self) -> list[list[str]]:
        found: list[list[str]] = self.browser.run(
            "return [...document.querySelectorAll('#selected tbody tr')].map((row) =>"
            " [...row.children].map((cell) => cell.textContent))"
        )
        return found

    @property
    def active(self) -> str:
        """The row that keys would choose."""
        return str(
            self.browser.run(
                "return document.getElementById(document.getElementById('list').getAttribute('aria-activedescendant'))"
                "?.firstChild.textContent ?? ''"
            )
        )

    @property
    def focused(self) -> str:
        return str(self.browser.run("return document.activeElement.id || document.activeElement.tagName"))

    def keys(self, *keys: str) -> None:
        ActionChains(self.browser.driver).send_keys(*keys).perform()
        self.browser.frame()

    def choose(self, stream: str, flow: str = "spam") -> None:
        self.browser.run(
            "location.hash = `${encodeURIComponent(arguments[0])}/${encodeURIComponent(arguments[1])}`", flow, stream
        )
        self.until(lambda: self.text("title") == stream and self.facts)

    def faint(self) -> list[str]:
        """Texts in sight that stand out from what is behind them by less than 4.5 to 1."""
        found: list[str] = self.browser.run(CONTRASTS)
        return [json.dumps(each, ensure_ascii=False) for each in found]

    def nameless(self) -> list[str]:
        """What can be used or looked at, and has no name for those who do not see it."""
        nodes = self.browser.tell("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "combobox", "image", "link", "listbox", "option", "region", "searchbox", "table", "textbox"}
        used = [node for node in nodes if not node.get("ignored") and node["role"]["value"] in roles]
        assert len({node["role"]["value"] for node in used}) > 5
        return [f"{node['role']['value']} {node}" for node in used if not node.get("name", {}).get("value")]


CONTRASTS = """
const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
};
const light = ([red, green, blue]) => {
  const part = (value) => ((value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
};
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const colour = rgba(getComputedStyle(node).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return rgba("Canvas");
};
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const says = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim());
  if (!says || !node.checkVisibility() || node.closest("noscript, option")) continue;
  const style = getComputedStyle(node), drawn = node instanceof SVGElement ? style.fill : style.color;
  const [one, other] = [light(rgba(drawn)), light(behind(node))].sort((a, b) => b - a);
  const contrast = (one + 0.05) / (other + 0.05);
  if (contrast < 4.5) found.push([node.textContent.trim().slice(0, 40), drawn, Math.round(contrast * 100) / 100]);
}
return found;
"""

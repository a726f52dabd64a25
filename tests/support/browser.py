"""A real browser without a screen: Debian's chromium, or whatever answers by that name, driven by its own driver."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService


class BrowserUnavailable(Exception):
    """There is none to start."""


class Browser:
    """One page of it; what pages say on their console is kept."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def show(self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """A page, a file or an address, as a screen of this width has it."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.tell("Emulation.setEmulatedMedia", media="", features=scheme)
        self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.driver.get(page.as_uri() if isinstance(page, Path) else page)

    def tell(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        """Script in the page; what it returns."""
        return self.driver.execute_script(script, *arguments)

    def frame(self) -> None:
        """Wait until the page has drawn what it was to draw."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )

    def busy(self) -> dict[str, float]:
        """Seconds of script, and of all tasks with it, by the browser's own count; one page's differ by what it did."""
        self.tell("Performance.enable")  # counts on where it is enabled already
        found = {metric["name"]: metric["value"] for metric in self.tell("Performance.getMetrics")["metrics"]}
        return {"script": found["ScriptDuration"], "task": found["TaskDuration"]}

    def complaints(self) -> list[str]:
        """What is on the console since it was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def picture(self, path: Path, down_to: str | None = None) -> None:
        """The whole page from its top, as far down as it goes, or as what this selector finds."""
        self.run("scrollTo(0, 0)")
        width, height = self.run(
            """const end = arguments[0] && document.querySelector(arguments[0]).getBoundingClientRect().bottom;
            return [innerWidth, Math.ceil(end || document.documentElement.scrollHeight)]""",
            down_to,
        )
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def any_browser() -> Iterator[Browser]:
    binary, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if binary is None or driver is None:
        raise BrowserUnavailable("chromium and chromedriver are not both on the PATH")
    options = ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        started = Chrome(options=options, service=ChromeService(driver))
    except WebDriverException as problem:
        raise BrowserUnavailable(f"chromium does not start: {problem.msg}") from None
    try:
        started.set_script_timeout(60)
        yield Browser(started)
    finally:
        started.quit()

"""What a backtest's report and live pages are made of: plain script and style that need no network.

| file | what it is |
|---|---|
| `report.html`, `report.js`, `report.css` | a backtest's report; `{{name}}` stands for what is put in |
| `timeline.js`, `timeline.css` | which features were selected when: the head of the script says how a page uses it |
| `vendor/uplot/` | uPlot, which draws curves (MIT, its licence beside it) |
"""

from __future__ import annotations

from importlib.resources import files


def part(name: str) -> str:
    """A file's text."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")

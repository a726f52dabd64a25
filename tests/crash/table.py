"""The table of deaths at the end of a test run, whichever process of the run they were in."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from tests.crash.harness import Death

DEATHS = pytest.StashKey[list[Death]]()
VERDICTS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[DEATHS] = []
    config.stash[VERDICTS] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of a parallel run hands over what it knows."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["deaths"] = [asdict(death) for death in session.config.stash[DEATHS]]
        output["verdicts"] = session.config.stash[VERDICTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[DEATHS] += [Death(**death) for death in output.get("deaths", ())]
    node.config.stash[VERDICTS] += output.get("verdicts", ())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    deaths, verdicts = config.stash[DEATHS], config.stash[VERDICTS]
    if not verdicts and not deaths:
        return
    terminalreporter.section("deaths")
    if config.getoption("--crash-full"):
        columns = "{:<34} {:<28} {:>8} {:>11} {:>8}"
        terminalreporter.write_line(columns.format("series", "died", "commits", "read again", "pause"))
        for death in deaths:
            pause = "-" if death.pause is None else f"{death.pause:.1f} s"
            terminalreporter.write_line(columns.format(death.series, death.moment, death.commits, death.again, pause))
    for verdict in verdicts:
        terminalreporter.write_line(verdict)
    commits, again = sum(death.commits for death in deaths), sum(death.again for death in deaths)
    terminalreporter.write_line(
        f"{len(deaths)} deaths, {commits:,} commits of lanes by the runs that died, {again:,} records read again"
    )

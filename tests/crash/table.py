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
        columns = "{:<34} {:<28} {:>13} {:>12} {:>15} {:>6}"
        terminalreporter.write_line(
            columns.format("series", "died", "epochs closed", "output ahead", "records skipped", "peers")
        )
        for death in deaths:
            skipped = "-" if death.skipped is None else death.skipped
            terminalreporter.write_line(
                columns.format(death.series, death.moment, death.closed, death.ahead, skipped, death.peers)
            )
    epochs, skipped = sum(death.closed for death in deaths), sum(death.skipped or 0 for death in deaths)
    useful = sum(bool(death.skipped) for death in deaths)
    for verdict in verdicts:
        terminalreporter.write_line(verdict)
    terminalreporter.write_line(
        f"{len(deaths)} deaths, {epochs} epochs closed before them; after {useful} of them output was out which the"
        f" store did not know: {skipped} records, skipped"
    )

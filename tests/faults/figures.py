"""What came of all schedules, at the end of a test run, whichever process of the run they were in."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tests.faults.play import Played


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    found: list[dict[str, Any]] = [
        value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "faults"
    ]
    failed = [report for report in terminalreporter.stats.get("failed", ()) if "test_a_schedule[" in report.nodeid]
    if found:
        total = {field.name: sum(one[field.name] for one in found) for field in fields(Played)}
        seconds = sum(report.duration for report in reports if "test_a_schedule[" in report.nodeid)
        terminalreporter.section("faults")
        terminalreporter.write_line(
            f"{len(found) + len(failed)} schedules in {seconds:.0f} s: {total['deaths']} deaths,"
            f" {total['outages']} outages, {total['stops']} stops with a sentence,"
            f" {total['compacted']} compactions seen,"
            f" {total['records']:,} records compared, {len(failed)} differ"
        )
        terminalreporter.write_line(
            f"{total['events']} events took place, {total['cut_off']} were cut off by the end of the input,"
            f" {total['skipped']} skipped for want of a tool"
        )

"""What tests of backtests share."""

from __future__ import annotations

import pytest

from tests.cli.calling import Call, calling


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command in this process: `call("promote", "out", 0, "flow.toml")`."""
    monkeypatch.setenv("COLUMNS", "80")
    return calling(capsys, monkeypatch)

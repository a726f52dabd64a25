"""What tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calling import Call, calling
from tests.cli.flows import AnyFlow, BrokerFlow, DirectoryFlow
from tests.support import Topics
from tests.support.flow import sluiceway


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command in this process: `call("operators", "ofs")`."""
    monkeypatch.setenv("COLUMNS", "80")
    return calling(capsys, monkeypatch)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a demo that has run; to be read only."""
    directory = tmp_path_factory.mktemp("demo") / "made"
    done = sluiceway("demo", "--directory", directory, "--instances", "20000")
    assert done.code == 0, done.stderr
    return directory


@pytest.fixture(params=["directories", "kafka"])
def flow(request: pytest.FixtureRequest, tmp_path: Path) -> AnyFlow:
    """A flow of two lanes that has not run yet and reads for ever, on either kind of topic."""
    if request.param == "directories":
        return DirectoryFlow(tmp_path)
    topics: Topics = request.getfixturevalue("topics")
    return BrokerFlow(topics, tmp_path)

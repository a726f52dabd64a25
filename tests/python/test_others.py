"""Operators of other packages: known by their entry points everywhere, and held to the same laws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.operators import describe
from sluiceway.errors import SettingsError
from sluiceway.flows.settings import Settings
from sluiceway.operators import others, registry
from sluiceway.operators.learners.ofs import OFS
from sluiceway.sklearn import OnlineSelector

MODULE = '''
from sluiceway.operators.bank.sparse import BankedOFS
from sluiceway.operators.kinds.joint import JOINT
from sluiceway.operators.kinds.learner import LEARNER
from sluiceway.operators.learners.ofs import OFS
from sluiceway.operators.registry import Entry

class Mine(OFS):
    """An operator of another package."""
    NAME = "mine"
    BANKED = BankedOFS

class Apart:
    """Decides in its own way."""
    def __init__(self, k=1): ...

JOINT_ENTRY = Entry(Apart, kind=JOINT, summary="by itself", paper="none", time="O(nnz)", state="O(k)")
ENTRY = Entry(Mine, kind=LEARNER, summary="as ofs, by another name", paper="none", time="O(nnz)", state="O(k)")
WRONG = Mine
'''
POINTS = """[sluiceway.operators]
mine = their_operators:ENTRY
broken = their_operators:NOTHING
no-entry = their_operators:WRONG
apart = their_operators:JOINT_ENTRY
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Another package, installed."""
    (tmp_path / "their_operators.py").write_text(MODULE)
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    others.points.cache_clear()
    yield tmp_path
    others.points.cache_clear()
    sys.modules.pop("their_operators", None)


def test_another_package_s_operator_is_known_by_its_name(installed: Path) -> None:
    entry = registry.get("mine")
    assert entry.cls.__name__ == "Mine"
    assert registry.learner("mine") is entry.cls
    assert registry.needs("mine", "k")
    assert describe("mine", entry)["summary"] == "as ofs, by another name"
    selector = OnlineSelector("mine", k=2).fit([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], [0, 1])
    assert selector.learner_.state()["operator"] == "mine"
    with pytest.raises(SettingsError, match='did you mean "mine"'):
        registry.get("mime")


def test_what_is_wrong_with_it_is_told_with_its_package(installed: Path) -> None:
    with pytest.raises(SettingsError, match=r'operator "broken" of theirs cannot be loaded: AttributeError: .*NOTHING'):
        registry.get("broken")
    with pytest.raises(SettingsError, match=r'operator "no-entry" of theirs: their_operators:WRONG must be a .*Entry'):
        registry.get("no-entry")


def test_a_joint_operator_that_compiled_code_does_not_know_runs_in_no_flow(installed: Path) -> None:
    topics = {"instances": "dir:in", "selections": "dir:out", "dead_letters": "dir:dead"}
    with pytest.raises(SettingsError, match="operator 'apart' runs in no flow: its class is not"):
        Settings.parse({"flow": {"name": "theirs"}, "topics": topics, "operator": {"name": "apart"}})


def test_the_list_holds_it(installed: Path) -> None:
    (installed / "theirs-1.0.dist-info" / "entry_points.txt").write_text(
        "[sluiceway.operators]\nmine = their_operators:ENTRY\nofs = their_operators:ENTRY\n"
    )
    listed = registry.operators()
    assert list(listed) == [*registry.OPERATORS, "mine"]
    assert listed["ofs"].cls is OFS, "ours keep their names"


def test_a_flow_runs_it(installed: Path) -> None:
    """By the same commands, from the flow's file on."""
    (installed / "theirs-1.0.dist-info" / "entry_points.txt").write_text(
        "[sluiceway.operators]\nmine = their_operators:ENTRY\n"
    )
    (installed / "flow.toml").write_text(
        '[flow]\nname = "theirs"\n[topics]\ninstances = "dir:instances"\nselections = "dir:selections"\n'
        'dead_letters = "dir:dead"\n[input]\nstop = "end"\n[operator]\nname = "mine"\nk = 1\n'
    )
    (installed / "instances").mkdir()
    (installed / "instances" / "_topic.json").write_text('{"partitions": 1}')
    (installed / "instances" / "part-00000.jsonl").write_text('{"x": {"a": 1.0, "b": 0.5}, "y": 1}\n')
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); from sluiceway.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "run", str(installed / "flow.toml")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    [snapshot] = (installed / "selections" / "part-00000.jsonl").read_text().splitlines()
    assert '"operator":"mine"' in snapshot
    assert '"feature":"a"' in snapshot



"""The wheel holds the real folders under one import package, and the checkout links to them."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.links import LINKS, links_complaint

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "flows": "sluiceway/flows",
    "operators": "sluiceway/operators",
    "schemas": "sluiceway/schemas",
    "src/sluiceway": "sluiceway",
}


def git(*arguments: str) -> str:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT), cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(*pip, "--target", str(target), str(wheel), cwd=target)
    return target


def sources() -> set[str]:
    """What git would commit of the folders, as the wheel should name it."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *FOLDERS)
    expected = set()
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_symlink() or not path.exists():
            continue
        folder = next(folder for folder in FOLDERS if name.startswith(folder + "/"))
        expected.add(FOLDERS[folder] + name.removeprefix(folder))
    return expected


def test_the_wheel_holds_every_file_of_the_folders_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = {name.partition(".dist-info/")[2] for name in archive.namelist()} - {""}
    expected = sources()
    assert {"sluiceway/py.typed", "sluiceway/operators/__init__.py"} <= expected
    assert sorted(names - expected) == []
    assert sorted(expected - names) == []
    assert "licenses/LICENSE" in metadata


def test_the_installed_wheel_works_from_an_unrelated_directory(installed: Path, tmp_path: Path) -> None:
    script = (
        "import sys, importlib; sys.path.insert(0, sys.argv[1])\n"
        "for name in ('flows', 'operators', 'operators.contract', 'schemas', 'schemas.batch', 'errors'):\n"
        "    module = importlib.import_module('sluiceway.' + name)\n"
        "    print(module.__file__)"
    )
    lines = run(sys.executable, "-c", script, str(installed), cwd=tmp_path).splitlines()
    assert len(lines) == 6
    for line in lines:
        assert Path(line).is_relative_to(installed), line


def test_the_links_are_committed_as_links() -> None:
    listed = git("ls-files", "-s", "--", *(f"src/sluiceway/{name}" for name in LINKS)).splitlines()
    assert {line.split("\t")[1]: line.split()[0] for line in listed} == {
        f"src/sluiceway/{name}": "120000" for name in LINKS
    }
    for name in LINKS:
        link = ROOT / "src" / "sluiceway" / name
        assert link.is_symlink()
        assert link.readlink() == Path("../..") / name


def test_a_checkout_without_links_is_noticed(tmp_path: Path) -> None:
    assert links_complaint(ROOT) is None
    package = tmp_path / "src" / "sluiceway"
    package.mkdir(parents=True)
    for name in LINKS:
        (package / name).write_text(f"../../{name}")  # what git leaves there
    assert "enable git core.symlinks" in str(links_complaint(tmp_path))


CLIENT = (
    "import sys\n"
    "sys.path.insert(0, sys.argv.pop(1))\n"
    "class Finder:\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name.partition('.')[0] in ('bytewax', 'llvmlite', 'numba', 'scipy'):\n"
    "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    "sys.meta_path.insert(0, Finder())\n"
)
"""The installed wheel with its own requirements alone."""


def test_the_wheel_by_itself_is_the_client(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    required = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    alone = {re.split(r"[<>=! ;\[]", one)[0] for one in required if "extra ==" not in one}
    assert alone == {"confluent-kafka", "msgspec", "numpy", "orjson", "pydantic", "rich", "typer"}
    engine = {re.split(r"[<>=! ;\[]", one)[0] for one in required if "extra == 'engine'" in one}
    assert engine == {"bytewax", "numba", "scipy"}


def without_the_engine(installed: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-c", CLIENT + code, str(installed), *arguments)
    return subprocess.run(command, cwd=installed, capture_output=True, text=True, check=False)


def test_the_client_alone_reads_selections(installed: Path, tmp_path: Path) -> None:
    topic = tmp_path / "selections"
    topic.mkdir()
    (topic / "_topic.json").write_text('{"partitions": 1}')
    (topic / "part-00000.jsonl").touch()
    code = f"import sluiceway\nprint(sluiceway.latest('dir:{topic}'), sluiceway.SelectionMask.__name__)"
    done = without_the_engine(installed, code)
    assert (done.returncode, done.stdout) == (0, "{} SelectionMask\n"), done.stderr
    main = "from sluiceway.cli import main\nsys.argv[0] = 'sluiceway'\nmain()"
    done = without_the_engine(installed, main, "watch", f"dir:{topic}", "--once")
    assert done.returncode == 0, done.stderr


def test_what_needs_the_engine_says_so(installed: Path) -> None:
    install = "needs the engine (numba), which is not installed: pip install 'sluiceway[engine]'"
    done = without_the_engine(installed, "import sluiceway\nsluiceway.OFS")
    assert done.stderr.splitlines()[-1] == f"ImportError: sluiceway.OFS {install}"
    main = "from sluiceway.cli import main\nsys.argv[0] = 'sluiceway'\nmain()"
    done = without_the_engine(installed, main, "operators")
    assert (done.returncode, done.stderr) == (2, f"sluiceway: this command {install}\n")

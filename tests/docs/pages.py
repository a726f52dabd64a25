"""The fenced blocks of a page. The word after the language says what a block needs: nothing, `kafka`, or not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    language: str
    needs: str
    code: str


def blocks(page: Path) -> list[Block]:
    found = []
    for _, info, code in FENCE.findall(page.read_text()):
        language, _, needs = info.strip().partition(" ")
        found.append(Block(language, needs, code))
    return found


def script(page: Path, needs: str = "") -> str:
    """All runnable blocks of a page in one shell, as a reader types them."""
    parts = ["set -euo pipefail", "set -m", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for block in blocks(page):
        if block.needs == needs and block.language == "sh":
            parts.append(block.code)
        elif block.needs == needs and block.language == "python":
            parts.append(f"python - <<'PYTHON'\n{block.code}PYTHON\n")
    return "\n".join(parts)


def checkout(folder: Path) -> Path:
    """A folder in which `make` works as in a fresh checkout whose .venv is ready, and which may be filled at will."""
    root = folder / "checkout"
    (root / ".venv").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root / name)
    for part in Path(sys.prefix).iterdir():
        if part.name != ".ready":
            (root / ".venv" / part.name).symlink_to(part)
    (root / ".venv" / ".ready").touch()
    return root


def run(code: str, where: Path, timeout: float) -> str:
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", code],
        cwd=where,
        env={"PATH": path, "HOME": str(where), "LC_ALL": "C.UTF-8", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout

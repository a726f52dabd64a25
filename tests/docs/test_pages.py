"""Generated parts are current, links lead somewhere, and every command runs as written."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path

import pytest
from typer.main import get_command

from sluiceway.cli import app
from sluiceway.operators.registry import OPERATORS
from tests.docs import generate
from tests.docs.pages import ROOT, blocks, checkout, run, script

PAGES = generate.pages()
RUNNABLE = [
    page for page in PAGES if any(block.language in ("sh", "python") and not block.needs for block in blocks(page))
]


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text()
    assert generate.current(text) == text, "run `make docs`"


def test_every_operator_has_a_page_with_words_of_its_own() -> None:
    for name, entry in OPERATORS.items():
        page = generate.operator_page(name)
        assert page.exists(), f"run `make docs` for {name}, and say when to use it"
        words = page.read_text().partition("## When to use it\n")[2].strip()
        assert len(words) > 60, name
        assert words != generate.sentence(entry.summary), f"say in {page} when to use {name}"
    pages = {page.stem for page in (ROOT / "docs" / "operators").glob("*.md")} - {"README"}
    assert pages == set(OPERATORS)


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, f"{page}: {target}"


def test_paths_of_the_architecture_exist() -> None:
    """They are those of the import package."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"\b((?:cli|flows|operators|schemas|topics)/[\w/]*(?:\.py)?)", text)
    assert len(paths) > 20
    for path in paths:
        assert (ROOT / "src" / "sluiceway" / path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_command_named_exists(page: Path) -> None:
    """Also those in prose and in blocks that are not run; placeholders stand for arguments."""
    verbs = set(get_command(app).commands)  # type: ignore[attr-defined]
    text = page.read_text()
    for verb in re.findall(r"(?:^|`|\| |= )sluiceway ([a-z][a-z-]*)", text, re.MULTILINE):
        assert verb in verbs, verb
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE):
        assert target in targets, target


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_that_are_not_run_parse(page: Path) -> None:
    group = get_command(app)
    for block in blocks(page):
        lines = block.code.replace("\\\n", " ").splitlines()
        for line in lines if block.language in ("", "sh") and "<<" not in block.code.split("\n")[0] else []:
            for part in re.split(r"[|&>]", line):
                words = shlex.split(part, comments=True)
                while words and "=" in words[0]:
                    del words[0]
                if words[:1] == ["sluiceway"]:
                    command = group.commands[words[1]]  # type: ignore[attr-defined]
                    command.make_context(words[1], words[2:])


def test_some_pages_run() -> None:
    assert {names(page) for page in RUNNABLE} >= {"README.md", "docs/getting-started.md"}


@pytest.mark.parametrize("page", RUNNABLE, ids=names)
def test_blocks_that_need_no_broker_run_as_written(page: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    run(script(page).replace("127.0.0.1:9465", address), checkout(tmp_path), timeout=280)

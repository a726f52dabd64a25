"""The links in src/sluiceway to the folders at the repository's root."""

from __future__ import annotations

from pathlib import Path

LINKS = ("flows", "operators", "schemas")


def links_complaint(root: Path) -> str | None:
    """One sentence if this checkout has text files where the links should be."""
    broken = [name for name in LINKS if not (root / "src" / "sluiceway" / name).is_dir()]
    if not broken:
        return None
    return (
        f"src/sluiceway/{broken[0]} does not lead to {broken[0]}/: this checkout was made without symbolic "
        "links; enable git core.symlinks and check out again."
    )

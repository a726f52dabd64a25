"""A disk of its own for the output of flows, to be filled to the brim."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

SIZE = 32 << 20
PAGE = 4096


class SmallDisk:
    """Memory, mounted as a file system, which only root may do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def mounted(cls, path: Path) -> SmallDisk | None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            return None
        return cls(path) if done.returncode == 0 else None

    def emptied(self) -> Path:
        """Nothing of what was there before is needed any more."""
        for found in self.path.iterdir():
            shutil.rmtree(found) if found.is_dir() else found.unlink()
        return self.path

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """As long as the block runs there is no room for another page."""
        ballast = self.path / "ballast"
        try:
            with ballast.open("wb") as file, contextlib.suppress(OSError):
                while True:
                    os.write(file.fileno(), bytes(PAGE))
            yield
        finally:
            ballast.unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], capture_output=True, check=False)

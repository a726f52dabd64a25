"""Calling the command: in this process where that is enough, on a terminal of its own where looks matter."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from sluiceway.cli import main
from tests.support.flow import Done

Call = Callable[..., Done]


def calling(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line in this process: quick, for verbs that neither run a flow nor read standard input."""

    def call(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["sluiceway", *map(str, arguments)])
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(SystemExit) as ended:
            main()
        signal.signal(signal.SIGTERM, before)  # which means nothing any more to a program that leaves
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, out, err)

    return call


class Terminal:
    """The command on a terminal of 80 columns and 24 lines."""

    def __init__(self, *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sluiceway", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._ours = ours
        self._raw = b""

    @property
    def text(self) -> str:
        """All that was ever written, without the terminal's own codes."""
        written = re.sub(r"\x1b\[\d*[AK]", "\n", self._raw.decode(errors="replace"))  # a frame drawn over the last
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written).replace("\r", "")

    @property
    def coloured(self) -> bool:
        return re.search(rb"\x1b\[[0-9;]*(3[0-7]|9[0-7])m", self._raw) is not None

    def until(self, wanted: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        while wanted not in self.text:
            if not self._read(0.2) and self._process.poll() is not None:
                raise AssertionError(f"it ended without {wanted!r}:\n{self.text}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {wanted!r} within {timeout:.0f} s:\n{self.text}")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self, timeout: float = 60.0) -> int:
        deadline = time.monotonic() + timeout
        while self._process.poll() is None or self._read(0.0):
            self._read(0.1)
            if time.monotonic() > deadline:
                raise TimeoutError(f"it did not end within {timeout:.0f} s:\n{self.text}")
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self._ours, 65_536)
        except OSError:  # the other side is closed
            return False
        self._raw += chunk
        return bool(chunk)

"""The real program in a process of its own."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import holdfast
from holdfast.archive import VolumeReport
from holdfast.cli.main import run

SOURCE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@dataclass(frozen=True)
class Shell:
    """A directory to run `holdfast` in."""

    directory: Path

    def __call__(self, *arguments: str | Path, code: int = 0, input: bytes = b"", **variables: str) -> Result:
        """Runs `holdfast` with the arguments, and expects the exit code."""
        done = self.run(self.command(*arguments), input=input, capture_output=True, env=self.environment(**variables))
        result = Result(done.returncode, done.stdout, done.stderr.decode())
        assert result.code == code, result
        assert "Traceback" not in result.errors
        return result

    def quick(self, *arguments: str | Path, code: int = 0) -> Result:
        """The same in this process: for many small questions. Paths must be absolute."""
        words = ["holdfast", "-a", str(self.directory), *map(str, arguments)]
        log = logging.getLogger("holdfast")
        handlers, level = list(log.handlers), log.level
        output, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        try:
            with patch("sys.argv", words), redirect_stdout(output), redirect_stderr(errors):
                found = run()
        finally:
            log.handlers, log.level = handlers, level
        output.flush()
        written = output.buffer
        assert isinstance(written, io.BytesIO)
        result = Result(found, written.getvalue(), errors.getvalue())
        assert result.code == code, result
        return result

    def volume(self, name: str) -> VolumeReport:
        """What the library says of a volume: faster than asking the program."""
        with holdfast.open(self.directory, read_only=True) as archive:
            (report,) = [report for report in archive.volumes() if report.settings.name == name]
            return report

    def keys(self) -> list[str]:
        """All contentkeys, sorted."""
        with holdfast.open(self.directory, read_only=True) as archive:
            return sorted(str(key) for batch in archive.contents.scan() for key, _ in batch)

    def content(self, key: str) -> bytes:
        with holdfast.open(self.directory, read_only=True) as archive:
            return archive.contents.get(holdfast.ContentKey.parse(key))

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Runs any command here; options are those of `subprocess.run`."""
        return subprocess.run(command, check=False, cwd=self.directory, **{"env": self.environment(), **options})

    def start(self, *arguments: str | Path) -> subprocess.Popen[bytes]:
        """Starts `holdfast` with pipes to all its streams."""
        pipe = subprocess.PIPE
        command = self.command(*arguments)
        return subprocess.Popen(
            command, cwd=self.directory, env=self.environment(), stdin=pipe, stdout=pipe, stderr=pipe
        )

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "holdfast", *map(str, arguments)]

    def environment(self, **variables: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST")}
        return inherited | {"PYTHONPATH": str(SOURCE), "HOLDFAST_INDEX_AUTOMATIC": "false"} | variables

    def file(self, name: str, content: bytes | str) -> Path:
        path = self.directory / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

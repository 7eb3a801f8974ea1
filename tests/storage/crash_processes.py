"""A handle on `crash_peer`, another process at an archive."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import crash_peer

from holdfast import ContentKey


class Peer:
    """A handle on another process at the archive."""

    def __init__(self, path: Path, temporary: Path | None = None) -> None:
        command = [sys.executable, crash_peer.__file__, str(path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary or path.parent)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def expect(self, key: ContentKey, content: bytes) -> None:
        assert self.ask(f"get {key}") == hashlib.sha256(content).hexdigest()

    def watch(self, key: ContentKey, content: bytes) -> None:
        assert self.ask(f"watch {key} {hashlib.sha256(content).hexdigest()}") == "ok"

    def end(self) -> int:
        """How often it did its work, without any error."""
        told = json.loads(self.ask("end"))
        assert told["errors"] == [], told["errors"]
        return int(told["rounds"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

"""The access log: a line per request, in a format that log analysers read.

    127.0.0.1 - - [16/Nov/2026:08:23:01 +0000] "GET /main/2026/http://example.com/ HTTP/1.1" 200 512 "-" "curl/8" 1234

Apache's combined format, then the microseconds that the response took. `-` stands for a missing value, also for the
request line of a malformed request. Whatever a client can choose is escaped, so that a line is always one line.

Lines are written by a thread several times a second: a slow disk delays no response. If too many lines wait, further
ones are dropped and counted.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

from holdfast.web.server.counters import Counters

log = logging.getLogger("holdfast.web")

_WAITING_BYTES_MAX = 8 << 20
_ODD = re.compile(r"[^ !#-\[\]-~]")  # control characters, quote, backslash, and beyond ASCII
_ENTRANCE = b"/_hf/"
_TICKET = re.compile(rb"(?<=[?&]ticket=)[^&]+")  # a reader of the log must not get in by it
_MODE = 0o640


class AccessLogEntry(NamedTuple):
    """One request. Its scope is that of ASGI, or holds only the client's address."""

    scope: Mapping[str, Any]
    status: int
    sent: int  # bytes of the body
    seconds: float


class AccessLog:
    """Appended to by all workers; each write is of whole lines, which the kernel does not mix. On the event loop."""

    def __init__(self, path: Path | None, counters: Counters, *, to_errors: bool = False) -> None:
        self._path = path
        self._counters = counters
        self._descriptor = 2 if to_errors else -1
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._writer = ThreadPoolExecutor(1)  # one thread: lines stay in order
        self._written: Future[None] | None = None
        self._second, self._date = 0, ""
        self.wanted = to_errors or path is not None
        self.reopen()

    @classmethod
    def of(cls, root: Path, name: str, counters: Counters) -> Self:
        """By the setting `serve.access_log`: a file, `-` for standard error, or none."""
        return cls(root / name if name and name != "-" else None, counters, to_errors=name == "-")

    def add(self, entry: AccessLogEntry) -> None:
        """The line is written a little later."""
        line = self._line(entry)
        if self._waiting_bytes + len(line) > _WAITING_BYTES_MAX:
            self._counters.add("access_log_lost")
            return
        self._lines.append(line)
        self._waiting_bytes += len(line)

    def _line(self, entry: AccessLogEntry) -> bytes:
        scope = entry.scope
        now = int(time.time())
        if now != self._second:
            self._second, self._date = now, time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(now))
        client = scope.get("client")
        headers = dict(scope.get("headers", ()))
        fields = [headers.get(name, b"").decode("latin-1") for name in (b"referer", b"user-agent")]
        referer, agent = (_ODD.sub(_escaped, field) or "-" for field in fields)
        text = (
            f'{client[0] if client else "-"} - - [{self._date}] "{_request_line(scope)}" {entry.status} '
            f'{entry.sent or "-"} "{referer}" "{agent}" {int(entry.seconds * 1e6)}\n'
        )
        return text.encode("ascii", "backslashreplace")

    def flush(self) -> None:
        """Has a thread write the waiting lines, unless it still writes earlier ones."""
        if self._lines and (self._written is None or self._written.done()):
            lines, self._lines, self._waiting_bytes = self._lines, [], 0
            self._written = self._writer.submit(self._write, b"".join(lines))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            log.warning("cannot write the access log: %s", error)

    def reopen(self) -> None:
        """After the file was moved by log rotation."""
        if self._path is None:
            return
        opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        if self._descriptor == -1:
            self._descriptor = opened
        else:  # under the same number: the thread may be about to write to it
            os.dup2(opened, self._descriptor, inheritable=False)
            os.close(opened)

    def close(self) -> None:
        self._writer.submit(self._write, b"".join(self._lines))
        self._writer.shutdown()
        self._lines = []
        if self._path is not None:
            os.close(self._descriptor)


def _request_line(scope: Mapping[str, Any]) -> str:
    if "method" not in scope:
        return "-"
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    if target.startswith(_ENTRANCE):
        target = _TICKET.sub(b"-", target)
    return _ODD.sub(_escaped, f"{scope['method']} {target.decode('latin-1')} HTTP/{scope['http_version']}")


def _escaped(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"

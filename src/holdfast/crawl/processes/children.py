"""The child processes of a crawl: a fetcher and some parse workers.

They import what they need at once, then wait for a first frame that says what to do: a command starts them first and
opens its archive meanwhile. The parse workers import once: the first forks the others. All end when their sockets are
closed.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from socket import socket, socketpair
from typing import Self

from holdfast.env.child_process import start_child

_FETCHER = "holdfast.crawl.fetch.process"
_PARSE_WORKER = "holdfast.crawl.parse.worker"
_END_TIMEOUT_S = 5.0


class CrawlChildren:
    """The processes, and our ends of their sockets. Use it in a `with`, or close it."""

    def __init__(self, workers: int = 0) -> None:
        """`workers` parse workers; 0: one for each core."""
        count = workers or os.cpu_count() or 1
        between = [socketpair() for _ in range(count)]  # fetcher, worker
        controls = [socketpair() for _ in range(1 + count)]  # we, child
        self.fetcher, *self.workers = (ours for ours, _ in controls)
        for_fetcher = [controls[0][1], *(fetcher for fetcher, _ in between)]
        for_workers = [
            each for (_, worker), (_, control) in zip(between, controls[1:], strict=True) for each in (worker, control)
        ]
        self._processes = {
            "fetcher": _started(_FETCHER, for_fetcher),
            "parse worker": _started(_PARSE_WORKER, for_workers),
        }
        for each in (*for_fetcher, *for_workers):
            each.close()

    def failures(self) -> list[str]:
        """The processes that ended abnormally."""
        return [name for name, process in self._processes.items() if process.wait(_END_TIMEOUT_S)]

    def close(self) -> None:
        """Ends them; running work is lost. Idempotent."""
        for each in (self.fetcher, *self.workers):
            each.close()
        for process in self._processes.values():
            try:
                process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _started(module: str, sockets: list[socket]) -> subprocess.Popen[bytes]:
    """A process whose arguments are the descriptors of its sockets."""
    descriptors = [each.fileno() for each in sockets]
    return start_child(
        module,
        arguments=list(map(str, descriptors)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,  # Ctrl-C is for the crawl
    )

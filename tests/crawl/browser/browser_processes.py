"""The processes that a crawl has started, as /proc tells of them."""

from __future__ import annotations

import os
import select
import signal
from contextlib import ExitStack, suppress
from pathlib import Path


def descendants() -> dict[int, str]:
    """Of this process: their ids and command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    ours: dict[int, str] = {}
    for pid in parents:
        at = pid
        while at in parents and at != os.getpid():
            at = parents[at]
        if at == os.getpid() and pid != at:
            ours[pid] = command_of(pid)
    return ours


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def browsers() -> dict[int, str]:
    return {pid: command for pid, command in descendants().items() if "--headless" in command or "--type=" in command}


def renderers() -> list[int]:
    return [pid for pid, command in browsers().items() if "--type=renderer" in command]


def mains() -> list[int]:
    """Of each browser the one that the others belong to."""
    return [pid for pid, command in browsers().items() if "--type=" not in command]


def fetchers() -> list[int]:
    return [pid for pid, command in descendants().items() if "fetching.process" in command]


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def gone(pids: list[int], patience_s: float = 20.0) -> bool:
    """Whether all of them end in reasonable time; those that only wait to be counted have ended."""
    with ExitStack() as closing:
        return all(_ended(pid, patience_s, closing) for pid in pids)


def _ended(pid: int, patience_s: float, closing: ExitStack) -> bool:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    closing.callback(os.close, descriptor)
    return bool(select.select([descriptor], [], [], patience_s)[0])

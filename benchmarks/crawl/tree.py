"""A program and all the processes that it starts: run to their end, and charged together.

Processor time is what the kernel adds up for a program and the children that it waited for; children that it did not
wait for are counted as they were last seen. Memory is looked at several times a second: proportional set sizes, in
which a page that several processes share counts once.

A program that hangs after its work is done can be ended when it has been idle for some time.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from benchmarks.harness.measure import Cost
from benchmarks.harness.process import ChildFailed

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_EVERY_S = 0.2
_PAUSE_S = 0.02
_STOP_TIMEOUT_S = 20.0
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Manner:
    """How a program is run."""

    directory: Path  # where it starts
    good: tuple[int, ...] = (0,)  # exit codes that are no failure
    environment: Mapping[str, str] | None = None
    idle_s: float | None = None  # ended when its processes have used no processor time for so long
    timeout_s: float = 7_200.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that was run."""

    cost: Cost
    start: float  # seconds since 1970
    was_idle: bool  # it did not end by itself


def run_tree(command: Sequence[str | Path], manner: Manner) -> Ended:
    """Runs it to its end. Raises ChildFailed with what it said last if it failed."""
    with tempfile.TemporaryFile() as said:
        start, began = time.time(), time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=manner.directory,
            env=dict(manner.environment) if manner.environment is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        watch = _Watch(process.pid)
        try:
            was_idle = _await(process, watch, manner, began)
            seconds = time.perf_counter() - began
        finally:
            watch.stop()
            used_s = _reap(process)
        if not was_idle and process.returncode not in manner.good:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise ChildFailed(f"'{command[0]}' ended with {process.returncode} and said: {(lines or ['nothing'])[-1]}")
    return Ended(Cost(seconds, max(used_s, watch.cpu_s), 0, watch.peak_bytes), start, was_idle)


def family(pid: int) -> list[int]:
    """The process and all its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, [])
    return found


def cpu_of(pids: Iterable[int]) -> float:
    """User and system time of those processes that are alive, in seconds."""
    return sum(_cpu_s(fields) for fields in map(_stat, pids) if fields)


def spent_by(pid: int) -> float:
    """User and system time of a process and its descendants, also of those that have ended and were waited for."""
    fields = [each for each in map(_stat, family(pid)) if each]
    return sum(_cpu_s(each) + _cpu_s(each[2:]) for each in fields)


@dataclass(slots=True)
class _Seen:
    """The processes of a tree, over time. For the watching thread."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    peak_bytes: int = 0
    busy_at: float = field(default_factory=time.perf_counter)

    def look(self, root: int) -> None:
        total, before = 0, sum(self.cpu_s.values())
        for pid in family(root):
            fields = _stat(pid)
            if fields:
                self.cpu_s[pid] = _cpu_s(fields)
                total += memory_of(pid)
        self.peak_bytes = max(self.peak_bytes, total)
        if sum(self.cpu_s.values()) > before:
            self.busy_at = time.perf_counter()


class _Watch:
    """Looks at a tree from a thread of its own until it is stopped."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen = _Seen()
        self._stopping = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        return sum(self._seen.cpu_s.values())

    @property
    def busy_at(self) -> float:
        """When processor time was last seen to grow, by the performance counter."""
        return self._seen.busy_at

    @property
    def peak_bytes(self) -> int:
        return self._seen.peak_bytes

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._seen.look(self._root)
            if self._stopping.wait(_EVERY_S):
                return


def _await(process: subprocess.Popen[bytes], watch: _Watch, manner: Manner, began: float) -> bool:
    """Until it has ended (False) or has been idle for long enough (True)."""
    pidfd = os.pidfd_open(process.pid)
    try:
        while not select.select([pidfd], [], [], _EVERY_S)[0]:
            now = time.perf_counter()
            if manner.idle_s is not None and now - watch.busy_at > manner.idle_s:
                return True
            if now - began > manner.timeout_s:
                raise ChildFailed(f"it did not end within {manner.timeout_s:,.0f} s")
        return False
    finally:
        os.close(pidfd)


def _reap(process: subprocess.Popen[bytes]) -> float:
    """Ends what is still alive of the session that was started here; returns the processor time of all of it."""
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if not pid:
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while not pid:
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; none if the process is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_s(fields: Sequence[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def memory_of(pid: int) -> int:
    """Its proportional set size, or what is resident where that is not told; 0 if it is gone."""
    for name, label in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = (_PROC / str(pid) / name).read_text().splitlines()
        except OSError:
            continue
        found = next((line for line in lines if line.startswith(label)), None)
        if found is not None:
            return int(found.split()[1]) << 10
    return 0

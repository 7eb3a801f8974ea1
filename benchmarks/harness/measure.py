"""The clock: wall time, processor time and memory of one piece of work."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
SEED = 20_261  # of every shuffle, so that all subjects see the same order
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a piece of work took. Processor time and memory include the subject's servers."""

    seconds: float
    cpu_s: float
    rss_before_bytes: int
    rss_peak_bytes: int


def measured(work: Callable[[], T], pids: Sequence[int] = ()) -> tuple[T, Cost]:
    """Does the work and says what it cost. `pids` are server processes to be charged too."""
    reset_peak(pids)
    before = resident(pids)
    cpu = cpu_seconds(pids)
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    return result, Cost(seconds, cpu_seconds(pids) - cpu, before, peak(pids))


def cpu_seconds(pids: Sequence[int] = ()) -> float:
    """User and system time of this process, its ended children, and the given processes."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return total


def resident(pids: Sequence[int] = ()) -> int:
    """Resident bytes now."""
    return _status("self", "VmRSS") + sum(_status(pid, "VmRSS") for pid in pids)


def peak(pids: Sequence[int] = ()) -> int:
    """The most resident bytes since `reset_peak`, or since the process began where that cannot be reset."""
    return _status("self", "VmHWM") + sum(_status(pid, "VmHWM") for pid in pids)


def reset_peak(pids: Sequence[int] = ()) -> None:
    for pid in ("self", *pids):
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:  # not permitted everywhere; the peak is then that of the whole process
            return


def _status(pid: int | str, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    return 0


def bytes_on_disk(directory: Path) -> tuple[int, int]:
    """(allocated, apparent) bytes of all files below the directory."""
    allocated = apparent = 0
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            stat = path.stat()
            allocated += stat.st_blocks * 512
            apparent += stat.st_size
    return allocated, apparent

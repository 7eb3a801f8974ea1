"""A peer that is run as a program: what it cost, and what it said if it failed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.measure import Cost
from benchmarks.harness.process import ChildFailed, Unavailable


def find_program(name: str, package: str) -> str:
    """Where the program is: beside this interpreter, or on the path. Raises Unavailable."""
    beside = sysconfig.get_path("scripts")
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        raise Unavailable(f"no program '{name}': pip install {package}")
    return found


def run_program(command: Sequence[str | Path], output: Path) -> Cost:
    """Runs it to its end, standard output into a file. Raises ChildFailed with what it said last."""
    with output.open("wb") as out, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            last = said[-1] if said else "nothing"
            raise ChildFailed(f"'{command[0]}' ended with {process.returncode} and said: {last}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, 0, usage.ru_maxrss << 10)


def less(cost: Cost, start_up: Cost) -> Cost:
    """The cost without that of starting up."""
    seconds = max(cost.seconds - start_up.seconds, 1e-9)
    return Cost(seconds, max(cost.cpu_s - start_up.cpu_s, 0.0), start_up.rss_peak_bytes, cost.rss_peak_bytes)

"""Where a run took place: processor, memory, disk, kernel, interpreter, commit, package versions."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

_SYNCS = 50


def machine_facts(directory: Path) -> dict[str, str | int | float]:
    """Facts of this machine; `directory` is where the stores under test live."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "file_system": _file_system(directory),
        "fdatasync_ms": round(_fdatasync_ms(directory), 3),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "commit": commit(),
    }


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the distributions that are installed; 'missing' for the others."""
    versions = {}
    for name in sorted(set(names), key=str.lower):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "missing"
    return versions


def debian_versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of the Debian packages that are installed; 'missing' for the others."""
    versions = {}
    for name in sorted(set(names)):
        try:
            done = subprocess.run(
                ["dpkg-query", "--show", "--showformat=${Version}", name], capture_output=True, text=True, check=False
            )
            versions[name] = done.stdout.strip() or "missing"
        except OSError:  # not a Debian
            versions[name] = "missing"
    return versions


def commit() -> str:
    """The commit that this code came from, with '+' if the tree has changes; 'unknown' outside a repository."""
    here = Path(__file__).parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return head + ("+" if _git(here, "status", "--porcelain") else "")


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _file_system(directory: Path) -> str:
    """The type of the file system that holds the directory, from the longest mount point above it."""
    best, kind = "", "unknown"
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return kind
    path = str(directory.resolve())
    for fields in mounts:
        point = fields[1].rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _fdatasync_ms(directory: Path) -> float:
    """The mean time of a 4 KB append made durable."""
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        start = time.perf_counter()
        for _ in range(_SYNCS):
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
        return (time.perf_counter() - start) / _SYNCS * 1e3

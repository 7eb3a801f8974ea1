"""`holdfast doctor`: finds problems of this machine and the archive, and suggests fixes."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from holdfast.cli.options import archive_option, json_option
from holdfast.cli.terminal import show_json, show_table
from holdfast.env.extras import EXTRAS, is_installed
from holdfast.errors import ArchiveNotFound, HoldfastError

OK, NOTE, PROBLEM = "ok", "note", "problem"
_FILES_MIN = 4096
_FREE_BYTES_MIN = 1 << 30
_SYNCS = 5
_SYNC_SLOW_S = 0.05


class DoctorFinding(NamedTuple):
    """One thing that was looked at."""

    state: str
    subject: str
    text: str


@click.command()
@archive_option
@json_option
def doctor(*, archive: Path, as_json: bool) -> int:
    """Look for problems of this machine and of the archive, and say what to do about them.

    Changes nothing. Exits with 1 if there is a problem; notes are no problems.
    """
    found = [*_machine(), *_extras(), *_archive(archive)]
    if as_json:
        for each in found:
            show_json(each._asdict())
    else:
        show_table(("STATE", "SUBJECT", "FINDING"), [list(each) for each in found], left=3)
    return int(any(each.state == PROBLEM for each in found))


def _machine() -> Iterator[DoctorFinding]:
    import pycurl

    python = platform.python_version()
    yield DoctorFinding(OK if sys.version_info >= (3, 11) else PROBLEM, "python", f"{python} on {platform.platform()}")
    curl = next(part for part in pycurl.version.split() if part.startswith("libcurl"))
    can_http2 = bool(pycurl.version_info()[4] & pycurl.VERSION_HTTP2)
    yield DoctorFinding(OK if can_http2 else NOTE, "libcurl", curl if can_http2 else f"{curl}, without HTTP/2")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    enough = limit in (resource.RLIM_INFINITY, -1) or limit >= _FILES_MIN
    advice = "" if enough else f": raise it to {_FILES_MIN} ('ulimit -Hn', or LimitNOFILE in a systemd unit)"
    yield DoctorFinding(OK if enough else PROBLEM, "open files", f"limit {limit}{advice}")
    yield _space("temporary files", Path(tempfile.gettempdir()))


def _space(subject: str, path: Path) -> DoctorFinding:
    from holdfast.env.units import rounded_size

    free = shutil.disk_usage(path).free
    state = OK if free >= _FREE_BYTES_MIN else PROBLEM
    return DoctorFinding(state, subject, f"{rounded_size(free)} free in '{path}'")


def _extras() -> Iterator[DoctorFinding]:
    for extra, (_, purpose) in EXTRAS.items():
        if not is_installed(extra):
            yield DoctorFinding(
                NOTE, f"extra {extra}", f"not installed; for {purpose}: pip install 'holdfast[{extra}]'"
            )
        else:
            yield DoctorFinding(OK, f"extra {extra}", f"installed; for {purpose}")
    if is_installed("browser"):
        from holdfast.crawl.browser.open import available, executable_of
        from holdfast.crawl.job.job import BrowserSettings

        reason = available(BrowserSettings())
        yield DoctorFinding(NOTE if reason else OK, "browser", reason or executable_of(BrowserSettings()))


def _archive(path: Path) -> Iterator[DoctorFinding]:
    from holdfast.archive import open as open_archive

    try:
        archive = open_archive(path, read_only=True)
    except ArchiveNotFound:
        yield DoctorFinding(NOTE, "archive", f"none in '{path}': name one with -a, or create one with 'holdfast init'")
        return
    except (HoldfastError, OSError) as error:
        yield DoctorFinding(PROBLEM, "archive", str(error))
        return
    with archive:
        captures = sum(total.captures for total in archive.catalog.totals()[0].values())
        yield DoctorFinding(OK, "archive", f"'{path.resolve()}', {captures:,} captures")
        for report in archive.volumes():
            name = f"volume {report.settings.name}"
            if report.stat is None:
                yield DoctorFinding(PROBLEM, name, f"down: {report.reason}")
            elif report.stat.free_bytes is not None and report.stat.free_bytes < _FREE_BYTES_MIN:
                yield DoctorFinding(PROBLEM, name, "less than 1 GiB is free: add a volume, or compact this one")
            else:
                yield DoctorFinding(OK, name, report.settings.state.value)
        pending = archive.index.pending()
        if pending:
            yield DoctorFinding(NOTE, "index", f"{pending:,} records are not indexed yet: 'holdfast index update'")
        else:
            yield DoctorFinding(OK, "index", "up to date")
    yield _space("disk", path)
    yield from _sync_time(path)
    yield from _writer(path)


def _sync_time(path: Path) -> Iterator[DoctorFinding]:
    """How long a durable write takes: it bounds single stores."""
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            times = []
            for _ in range(_SYNCS):
                started = time.perf_counter()
                file.write(b"x" * 4096)
                file.flush()
                os.fdatasync(file.fileno())
                times.append(time.perf_counter() - started)
    except OSError as error:
        yield DoctorFinding(NOTE, "durable write", f"cannot write to '{path}': {error.strerror}")
        return
    median_s = sorted(times)[_SYNCS // 2]
    advice = "; slow: store in batches, or use a disk with a write cache that survives power loss"
    slow = median_s > _SYNC_SLOW_S
    yield DoctorFinding(NOTE if slow else OK, "durable write", f"{median_s * 1000:.1f} ms{advice if slow else ''}")


def _writer(path: Path) -> Iterator[DoctorFinding]:
    from holdfast.env.lock import WriterLock
    from holdfast.env.paths import LOCK

    holder = WriterLock.holder(path / LOCK)
    yield DoctorFinding(OK, "writer", "none" if holder is None else f"process {holder} writes to the archive")

"""The servers: how each is given the files, and how it is started at its best.

pywb comes in two forms. `wayback` is the program that its users begin with: one process, many greenlets. For service
its makers recommend uWSGI, which here gets as many processes as Holdfast. Targets compare with whichever is faster.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.archive.crawl import Crawls
from benchmarks.harness.figure import OURS
from benchmarks.harness.process import ChildFailed, Unavailable

WORKERS = 2
_ADDRESS = "127.0.0.1"
_THREADS = 16  # of 'wayback', as many as there are connections
_GREENLETS = 100  # of each process of uWSGI
_PYWB_COLLECTION = "bench"
_PREPARE_TIMEOUT_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are: the server's directory, its ports, and the interpreter that has pywb."""

    directory: Path
    port: int
    replay_port: int
    pywb: str

    @property
    def origin(self) -> str:
        return f"http://{_ADDRESS}:{self.port}"

    @property
    def replay_origin(self) -> str:
        return f"http://{_ADDRESS}:{self.replay_port}"


@dataclass(frozen=True, slots=True)
class ReplayServer:
    """One of them. `prepare` and `command` raise Unavailable if it is not here."""

    title: str
    how: str  # in a few words, how it runs
    collection: str
    prepare: Callable[[Crawls, Place], None]
    command: Callable[[Place], list[str]]
    has_replay_port: bool = False  # archived pages have an origin of their own
    directory: str = ""  # of another server, whose files it uses; '' for its own

    def origin_for(self, place: Place, *, is_replay: bool) -> str:
        return place.replay_origin if is_replay and self.has_replay_port else place.origin


def _import(crawls: Crawls, place: Place) -> None:
    archive = str(place.directory / "archive")
    _run([sys.executable, "-m", "holdfast", "init", archive], place.directory)
    _run([sys.executable, "-m", "holdfast", "import", "-a", archive, *map(str, crawls.files)], place.directory)


def _serve(place: Place) -> list[str]:
    # fmt: off
    return [
        sys.executable, "-m", "holdfast", "serve", "-a", str(place.directory / "archive"), "--host", _ADDRESS,
        "-p", str(place.port), "--replay-port", str(place.replay_port), "--workers", str(WORKERS),
    ]
    # fmt: on


def _add(crawls: Crawls, place: Place) -> None:
    manage = _beside(place.pywb, "wb-manager", "pywb")
    _run([manage, "init", _PYWB_COLLECTION], place.directory)
    _run([manage, "add", _PYWB_COLLECTION, *map(str, crawls.files)], place.directory)


def _wayback(place: Place) -> list[str]:
    wayback = _beside(place.pywb, "wayback", "pywb")
    return [wayback, "-b", _ADDRESS, "-p", str(place.port), "-t", str(_THREADS), "-d", str(place.directory)]


def _uwsgi(place: Place) -> list[str]:
    """Behind its own router, which keeps connections open; without it, each would end with its first answer."""
    # fmt: off
    return [
        _beside(place.pywb, "uwsgi", "uwsgi"), "--http", f"{_ADDRESS}:{place.port}", "--http-keepalive=60",
        "--http-auto-chunked", "--chdir", str(place.directory), "--module", "pywb.apps.wayback", "--master",
        "--processes", str(WORKERS),
        "--gevent", str(_GREENLETS), "--buffer-size", "65536", "--disable-logging", "--die-on-term", "--need-app",
    ]
    # fmt: on


def _beside(python: str, name: str, package: str) -> str:
    """A program of the environment that the interpreter belongs to."""
    found = Path(python).absolute().parent / name
    if not found.is_file():
        raise Unavailable(
            f"no program '{name}' beside '{python}': pip install {package} there, and name it with --pywb"
        )
    return str(found)


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_PREPARE_TIMEOUT_S,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ChildFailed(f"'{command[0]}' ended with {done.returncode} and said: {(said or ['nothing'])[-1]}")


SERVERS: dict[str, ReplayServer] = {
    OURS: ReplayServer(
        "Holdfast", f"'holdfast serve --workers {WORKERS}'", "main", _import, _serve, has_replay_port=True
    ),
    "pywb-uwsgi": ReplayServer(
        "pywb, uWSGI",
        f"uWSGI, {WORKERS} processes of {_GREENLETS} greenlets, no log",
        _PYWB_COLLECTION,
        _add,
        _uwsgi,
    ),
    "pywb": ReplayServer(
        "pywb, wayback",
        f"'wayback -t {_THREADS}', one process",
        _PYWB_COLLECTION,
        _add,
        _wayback,
        directory="pywb-uwsgi",
    ),
}


def pywb_versions(python: str) -> dict[str, str]:
    """Versions of what the other environment has; 'missing' for what is not there."""
    code = (
        "from importlib import metadata as m\n"
        "for name in ('pywb', 'uWSGI', 'gevent'):\n"
        "    try: print(name, m.version(name))\n"
        "    except m.PackageNotFoundError: print(name, 'missing')"
    )
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return {"pywb": "missing"}
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())

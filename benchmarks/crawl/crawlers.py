"""The crawlers: what each does with a page, and how it is started at its fastest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness.figure import OURS
from benchmarks.harness.process import ChildFailed, Unavailable

AT_ONCE = 32  # fetches at a time, for those that can
_WGET2_THREADS = 8  # 32 made no difference beyond the noise
_DRIVER = Path(__file__).with_name("scrapy_crawl.py")
_NOT_FOUND = 8  # wget's exit code when a server answered with an error, such as 404


@dataclass(frozen=True, slots=True)
class Crawler:
    """One of them. `prepare` and `command` raise Unavailable if it is not here."""

    title: str
    keeps: str  # what becomes of a page
    command: Callable[[str, Path], list[str]]  # URL to start from, directory to keep things in
    prepare: Callable[[Path], None] = lambda _: None  # in that directory, before the clock starts
    good: tuple[int, ...] = (0,)
    hangs: bool = False  # when all is done; the clock then stops with the last request
    packages: tuple[str, ...] = ()  # distributions whose versions the report names
    program: str = ""  # whose `--version` the report names


def _holdfast(url: str, directory: Path) -> list[str]:
    # fmt: off
    return [
        sys.executable, "-m", "holdfast", "--archive", str(directory / "archive"), "crawl", url,
        "--name", "bench", "--scope", "host", "--robots", "ignore", "--no-sitemap",
        "--delay", "0", "--per-host", str(AT_ONCE), "--workers", str(AT_ONCE), "--quiet",
    ]
    # fmt: on


def _init(directory: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "init", str(directory / "archive")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailed(f"'holdfast init' ended with {done.returncode} and said: {done.stderr.strip()}")


def _scrapy(url: str, directory: Path) -> list[str]:
    if find_spec("scrapy") is None:
        raise Unavailable("no package 'scrapy': pip install 'holdfast[bench]'")
    return [sys.executable, "-W", "ignore", str(_DRIVER), url, str(directory / "bodies"), str(AT_ONCE)]


def _wget(url: str, directory: Path) -> list[str]:
    # fmt: off
    return [
        _program("wget"), "--no-config", "--quiet", "--execute", "robots=off", "--recursive", "--level=inf",
        f"--warc-file={directory / 'crawl'}", "--warc-cdx", "--delete-after", f"--directory-prefix={directory}", url,
    ]
    # fmt: on


def _wget2(url: str, directory: Path) -> list[str]:
    # fmt: off
    return [
        _program("wget2"), "--no-config", "--quiet", "--robots=off", "--recursive", "--level=0",
        f"--max-threads={_WGET2_THREADS}", f"--output-document={directory / 'bodies'}", url,
    ]
    # fmt: on


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"no program '{name}': install the Debian package of that name")
    return found


CRAWLERS: dict[str, Crawler] = {
    OURS: Crawler(
        "Holdfast",
        "archive: contents once, zstd, requests, catalog; durable",
        _holdfast,
        _init,
        packages=("pycurl", "rocksdict", "turbohtml", "uvloop", "zstandard"),
    ),
    "scrapy": Crawler("Scrapy", "bodies in one file, not compressed, not synced", _scrapy, packages=("Scrapy", "lxml")),
    "wget": Crawler("wget --warc", "gzip WARC and CDX, not synced", _wget, good=(0, _NOT_FOUND), program="wget"),
    "wget2": Crawler(
        "wget2",
        "bodies in one file, not compressed, not synced",
        _wget2,
        good=(0, _NOT_FOUND),
        hangs=True,
        program="wget2",
    ),
}


def program_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Versions of those crawlers that are no Python packages; 'missing' for what is not here."""
    versions = {}
    for program in (CRAWLERS[name].program for name in names if CRAWLERS[name].program):
        versions[program] = "missing"
        if shutil.which(program):
            done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
            words = done.stdout.split()
            versions[program] = next((word for word in words if word[:1].isdigit()), "unknown")
    return versions

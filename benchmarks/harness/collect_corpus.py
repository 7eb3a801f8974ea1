#!/usr/bin/env python3
"""Collect more than 20,000 distinct real HTML pages from Debian's documentation packages.

    collect_corpus.py DIR

Packages are fetched with `apt-get download` and unpacked with `dpkg-deb -x`, so nothing is installed and root is not
needed. Each distinct page becomes DIR/<2 hex>/<sha256>.html. DIR/CORPUS.json is written last and says what the corpus
holds; while it is there and names enough pages, another run does nothing. An interrupted run is simply run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Metapackages stand for the version that the release carries; `resolve` follows them.
PACKAGES = (
    "cppreference-doc-en-html",
    "debian-handbook",
    "default-jdk-doc",
    "git-doc",
    "libboost1.81-doc",
    "linux-doc",
    "postgresql-doc",
    "python-django-doc",
    "python3-doc",
    "rust-doc",
)
PAGES_MIN = 20_001
PAGE_BYTES_MAX = 2_000_000
SUMMARY = "CORPUS.json"


class CorpusError(Exception):
    """The corpus cannot be collected; the message says why and what to do."""


@dataclass
class Corpus:
    """What has been collected so far; becomes CORPUS.json."""

    packages: dict[str, str] = field(default_factory=dict)  # name to version
    pages: int = 0
    bytes: int = 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(*command: str, cwd: Path | None = None) -> str:
    """The standard output of `command`; raises CorpusError if it fails or does not exist."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise CorpusError(f"cannot find '{command[0]}': the corpus is collected on Debian or a relative") from None
    except subprocess.CalledProcessError as failure:
        raise CorpusError(f"'{' '.join(command)}' failed: {failure.stderr.strip()}") from None
    return done.stdout


def resolve(package: str) -> list[str]:
    """`package` and the documentation packages it depends on; empty if the release has no such package."""
    try:
        depends = run("apt-cache", "depends", "--important", package)
        run("apt-cache", "show", "--no-all-versions", package)
    except CorpusError:
        return []
    words = [line.split()[-1] for line in depends.splitlines() if "Depends:" in line]
    return [package, *(word for word in words if word.endswith("-doc") or "-doc-" in word)]


def available(packages: tuple[str, ...]) -> list[str]:
    """The packages to fetch, warning about those the release lacks."""
    found: dict[str, None] = {}
    for package in packages:
        names = resolve(package)
        if not names:
            say(f"warning: this release has no package '{package}'; going on without it")
        found.update(dict.fromkeys(names))
    if not found:
        raise CorpusError("no documentation package is known here; run 'apt-get update' first")
    return list(found)


def unpack(package: str, room: Path) -> str:
    """Download `package` and unpack it below `room`/tree; returns its version."""
    # As root, apt would try to download as a user who cannot write to our private directory.
    run("apt-get", "download", "--quiet", "--option", "APT::Sandbox::User=root", package, cwd=room)
    (archive,) = room.glob("*.deb")
    run("dpkg-deb", "--extract", str(archive), str(room / "tree"))
    return run("dpkg-deb", "--field", str(archive), "Version").strip()


def pages_below(tree: Path) -> Iterator[bytes]:
    """Every page of a useful size, in a fixed order."""
    for path in sorted(tree.rglob("*.html")):
        if path.is_file() and not path.is_symlink() and 1 <= path.stat().st_size <= PAGE_BYTES_MAX:
            yield path.read_bytes()


def collect(directory: Path, packages: list[str]) -> Corpus:
    """Fetch every package and write its pages; a page seen before, in any package, is not written again."""
    corpus = Corpus()
    seen: set[str] = set()
    for number, package in enumerate(packages, 1):
        say(f"[{number}/{len(packages)}] {package}")
        with tempfile.TemporaryDirectory(prefix="holdfast-corpus-") as room:
            corpus.packages[package] = unpack(package, Path(room))
            for page in pages_below(Path(room) / "tree"):
                digest = hashlib.sha256(page).hexdigest()
                if digest in seen:
                    continue
                seen.add(digest)
                keep(page, directory / digest[:2] / f"{digest}.html")
                corpus.pages += 1
                corpus.bytes += len(page)
        say(f"    {corpus.pages:,} pages, {corpus.bytes / 1e6:,.0f} MB so far")
    return corpus


def keep(data: bytes, path: Path) -> None:
    """Write `path` whole or not at all."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(data)
    partial.replace(path)


def complete(directory: Path) -> bool:
    """Whether an earlier run finished here."""
    try:
        summary = json.loads((directory / SUMMARY).read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return int(summary.get("pages", 0)) >= PAGES_MIN


def main() -> int:
    parser = argparse.ArgumentParser(description="Collect real HTML pages from Debian documentation packages.")
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the pages go; made if missing")
    directory: Path = parser.parse_args().directory
    if complete(directory):
        say(f"corpus in '{directory}' is complete")
        return 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        corpus = collect(directory, available(PACKAGES))
        if corpus.pages < PAGES_MIN:
            raise CorpusError(f"only {corpus.pages:,} pages found, {PAGES_MIN:,} needed; add packages to PACKAGES")
        keep(json.dumps(asdict(corpus), indent=2).encode() + b"\n", directory / SUMMARY)
    except (CorpusError, OSError) as failure:
        say(f"error: {failure}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; run again to start over")
        return 130
    say(f"collected {corpus.pages:,} pages in '{directory}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())

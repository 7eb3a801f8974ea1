"""Lookups in a sorted CDXJ file: our own plain binary search, and pywb as a program beside us.

Both search by seeking in the file, read the lines of the URL and parse the JSON of each; neither keeps anything in
memory between two lookups but the open file, and pywb not even that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from benchmarks.archive.crawl import CRAWLS
from benchmarks.archive.program import run_program
from benchmarks.archive.sample import WARM_UP
from benchmarks.archive.workload import ArchiveWorkload
from benchmarks.harness.figure import Figure
from benchmarks.harness.measure import Cost, measured
from benchmarks.harness.process import ChildFailed, Unavailable
from holdfast.formats.cdx.cdxj import CdxjRow, parse_cdxj
from holdfast.urls import url_key

_BLOCK = 8_192
_DRIVER = Path(__file__).with_name("pywb_lookup.py")


class CdxjFile:
    """A sorted CDXJ file. For one thread."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size

    def lookup(self, url: str) -> list[CdxjRow]:
        """All lines of the URL, by time."""
        wanted = url_key(url).encode("utf-8", "surrogateescape") + b" "
        return [parse_cdxj(line.decode("utf-8", "surrogateescape")) for line in self._lines(wanted)]

    def _lines(self, wanted: bytes) -> Iterator[bytes]:
        self._seek(wanted)
        for line in self._stream:
            if line.startswith(wanted):
                yield line
            elif line > wanted:
                return

    def _seek(self, wanted: bytes) -> None:
        """To a line less than one block before the first that may begin with `wanted`."""
        low, high = 0, self._size // _BLOCK
        while high - low > 1:
            middle = (low + high) // 2
            self._stream.seek(middle * _BLOCK)
            self._stream.readline()  # the rest of a line that began before
            line = self._stream.readline()
            if line and line < wanted:
                low = middle
            else:
                high = middle
        self._stream.seek(low * _BLOCK)
        if low:
            self._stream.readline()


def look_up_file(path: Path, urls: Sequence[str], form: str) -> list[Figure]:
    """Our own search over the file."""
    with path.open("rb") as stream:
        file = CdxjFile(stream, path.stat().st_size)
        for url in urls[:WARM_UP]:
            file.lookup(url)
        found, cost = measured(lambda: sum([len(file.lookup(url)) for url in urls]))
    _check(found, urls)
    return [Figure("cdxj-file", ArchiveWorkload.LOOKUP, len(urls), cost, form=form)]


def look_up_with_pywb(path: Path, urls: Sequence[str], form: str, python: str) -> list[Figure]:
    """pywb's index source over the file, in an interpreter that has pywb; it times itself."""
    asked, answer = path.with_suffix(".urls"), path.with_suffix(".pywb.json")
    asked.write_text("\n".join(urls), encoding="utf-8")
    try:
        run_program([python, "-W", "ignore", _DRIVER, path, asked, str(WARM_UP)], answer)
    except (ChildFailed, OSError) as failure:
        if isinstance(failure, OSError) or "No module named" in str(failure):
            raise Unavailable(f"no pywb in '{python}': name an interpreter that has it with --pywb") from failure
        raise
    values = json.loads(answer.read_text())
    _check(values["found"], urls)
    cost = Cost(values["seconds"], values["cpu_s"], values["rss_before_bytes"], values["rss_peak_bytes"])
    return [Figure("pywb", ArchiveWorkload.LOOKUP, len(urls), cost, form=form)]


def _check(found: int, urls: Sequence[str]) -> None:
    if found != len(urls) * len(CRAWLS):
        raise ChildFailed(f"{found} captures were found, expected {len(urls) * len(CRAWLS)}")

"""Looks URLs up in a sorted CDXJ file with pywb, for `python -m benchmarks archive`.

A program of its own, because pywb's licence does not go with Holdfast's and its packages do not go with each other:
it is run by an interpreter that has pywb, needs nothing of Holdfast, and prints one JSON object.

    python pywb_lookup.py FILE.cdxj URLS WARM_UP
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> None:
    path, asked, warm_up = sys.argv[1:]
    query: Any = import_module("pywb.warcserver.index.query").CDXQuery
    source = import_module("pywb.warcserver.index.indexsource").FileIndexSource(path)
    urls = Path(asked).read_text(encoding="utf-8").splitlines()

    def look_up(url: str) -> int:
        return len(list(source.load_index(query({"url": url}).params)))

    for url in urls[: int(warm_up)]:
        look_up(url)
    rss_before = _peak_bytes()
    cpu, start = time.process_time(), time.perf_counter()
    found = sum([look_up(url) for url in urls])
    values = {
        "found": found,
        "seconds": time.perf_counter() - start,
        "cpu_s": time.process_time() - cpu,
        "rss_before_bytes": rss_before,
        "rss_peak_bytes": _peak_bytes(),
    }
    print(json.dumps(values))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()

"""Makes tables with so many links, then computes ranks in a process of its own and tells its memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CHILD = """
import json, sys
from pathlib import Path
from holdfast.env.files import LocalFiles
from holdfast.index.ranks.ranks import Tables, update_ranks
directory = Path(sys.argv[1])
report = update_ranks(LocalFiles(), directory, Tables((directory / "captures",), (directory / "links",)))
facts = Path("/proc/self/status").read_text()  # not getrusage: that remembers the parent of before exec
peak = int(facts.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps({"pages": report.pages, "links": report.links, "peak_bytes": peak}))
"""


def ranked(directory: Path, links: int) -> dict[str, int]:
    """Captures of a fifth as many pages; half of what is linked to was not captured, and few pages get most links."""
    _write_tables(directory, captures=links // 5, links=links)
    answer = subprocess.run([sys.executable, "-c", CHILD, directory], capture_output=True, check=True, text=True)
    told: dict[str, int] = json.loads(answer.stdout)
    return told


def _write_tables(directory: Path, captures: int, links: int) -> None:
    random = np.random.default_rng(1)
    pages = random.integers(0, 2**64 - 1, 4 * captures, dtype=np.uint64)
    source = random.integers(0, captures, links)
    target = (len(pages) * random.random(links) ** 2).astype(int)
    of_captures = {
        "page": pages[:captures],
        "number": np.arange(captures, dtype=np.uint64),
        "timestamp": _repeated("20261101000000", captures),
        "type": _repeated("response", captures),
    }
    of_links = {
        "page": pages[source],
        "number": source.astype(np.uint64),
        "target_page": pages[target],
        "kind": _repeated("link", links),
    }
    pq.write_table(pa.table(of_captures), directory / "captures")
    pq.write_table(pa.table(of_links), directory / "links")


def _repeated(text: str, times: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(times, np.int8), [text])

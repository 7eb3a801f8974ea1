"""The calendar counts versions by content (N9)."""

from __future__ import annotations

import re
from pathlib import Path

from serving import ask, serving

from holdfast.archive import Archive
from holdfast.archive.create import init
from holdfast.archive.ingest.exchange import Exchange, page

URL = "http://v.example/"


def redirect(url: str, timestamp: str) -> Exchange:
    head = f"HTTP/1.1 301 Moved\r\nLocation: https://v.example/{timestamp}\r\nContent-Length: 0\r\n\r\n"
    return Exchange(url, head.encode(), b"", timestamp)


def test_n9_versions_count_contents_and_not_redirects(tmp_path: Path) -> None:
    init(tmp_path / "a")
    texts = ("one", "two", "one", "one", "two", "three")
    pages = [page(URL, text.encode(), timestamp=f"2020010{day}000000") for day, text in enumerate(texts, 1)]
    moves = [redirect(URL, f"2020020{day}000000") for day in range(1, 4)]
    only = [redirect("http://moved.example/", f"2020020{day}000000") for day in range(1, 4)]
    with Archive(tmp_path / "a") as archive:
        archive.add([*pages, *moves, *only], collection="main")
    with serving(tmp_path / "a") as served:
        text = re.sub(r"<[^>]+>|\s+", " ", ask(f"{served.controls}/main/*/{URL}", Accept="text/html").text)
        moved = re.sub(
            r"<[^>]+>|\s+", " ", ask(f"{served.controls}/main/*/http://moved.example/", Accept="text/html").text
        )
    assert re.search(r"9 captures +from .* in 3 versions", text)
    assert re.search(r"3 captures +from .* all redirects or errors", moved)

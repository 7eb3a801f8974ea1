"""The captures in the shared samples, read by warcio, so that what is served can be compared with what was captured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "warc"
SOPA = (
    "wikipedia-sopa/wikipedia-blackout/sopa-wikipedia-homepage.warc.gz",
    "wikipedia-sopa/wikipedia-post-blackout/main-page.warc.gz",
    "wikipedia-sopa/wikipedia-post-blackout/post-blackout.warc.gz",
)
BLACKBOOK = (
    "blackbook/IAH-20080430204825-00000-blackbook-truncated.warc.gz",
    "blackbook/IAH-20080430204825-00000-blackbook-truncated.arc.gz",
    "blackbook/IAH-urls-wget.warc.gz",
)
DEDUP = (
    "iipc-dedup/20130729-heritrix-original.warc.gz",
    "iipc-dedup/20130729-heritrix-revisit-with-http-headers.warc.gz",
    "iipc-dedup/20141124-heritrix-server-not-modified.warc.gz",
    "iipc-dedup/20141129-heritrix-original.warc.gz",
    "iipc-dedup/20141129-heritrix-revisit-with-http-headers-and-new-warc-headers.warc.gz",
)
ARC = ("jwat/arc/small_BNF.arc", "jwat/arc/1-1-20110922131213-00000-svc-VirtualBox.arc", "warcio/example.arc.gz")
OTHERS = (
    "warcio/example.warc.gz",
    "warcio/example-iana.org-chunked.warc",
    "warcio/example-resource.warc.gz",
    "commoncrawl/whirlwind.warc.gz",
)
COLLECTIONS = {"sopa": SOPA, "blackbook": BLACKBOOK, "dedup": DEDUP, "arc": ARC, "others": OTHERS}


@dataclass(frozen=True)
class Sampled:
    """A record that stands for a page."""

    collection: str
    kind: str  # 'response', 'revisit' or 'resource'
    url: str
    timestamp: str
    status: int  # 0 for a resource
    mime: str  # in lower case, without parameters
    location: str
    payload: bytes  # without chunks and encodings; of a revisit nothing

    @property
    def is_page(self) -> bool:
        return self.mime in ("text/html", "application/xhtml+xml")


@cache
def sampled(collection: str) -> list[Sampled]:
    """What the files of a collection hold under http and https."""
    found = [each for name in COLLECTIONS[collection] for each in _read(SAMPLES / name, collection)]
    return [each for each in found if each.url.startswith(("http://", "https://"))]


def _read(path: Path, collection: str) -> Iterator[Sampled]:
    from warcio.archiveiterator import ArchiveIterator

    with path.open("rb") as file:
        for record in ArchiveIterator(file, arc2warc=True):
            if record.rec_type in ("response", "revisit", "resource"):
                yield _sampled(record, collection)


def _sampled(record: Any, collection: str) -> Sampled:
    http = record.http_headers
    mime = (http.get_header("content-type") if http else record.rec_headers.get_header("content-type")) or ""
    date = record.rec_headers.get_header("WARC-Date")
    return Sampled(
        collection,
        record.rec_type,
        record.rec_headers.get_header("WARC-Target-URI"),
        "".join(letter for letter in date if letter.isdigit())[:14],
        int(http.get_statuscode()) if http else 0,
        mime.partition(";")[0].strip().lower(),
        (http.get_header("location") if http else "") or "",
        b"" if record.rec_type == "revisit" else record.content_stream().read(),
    )

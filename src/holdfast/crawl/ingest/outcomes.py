"""What an answer means for the row of its URL, and for the numbers of the crawl."""

from __future__ import annotations

from collections import Counter

from holdfast.crawl.frontier import UrlRow, UrlState
from holdfast.crawl.frontier.rows import GONE
from holdfast.crawl.ingest.tally import CrawlTally
from holdfast.crawl.processes.messages import FetchKind, FetchOutcome, ParsedPage
from holdfast.crawl.schedule.revisit import History
from holdfast.formats.http import HTML_TYPES

NOT_MODIFIED = 304
_PARTIAL = 206


def visited(reading: ParsedPage, row: UrlRow) -> UrlRow:
    """The row after an answer."""
    at = int(reading.started)
    row = row._replace(state=UrlState.DONE, outcome=FetchOutcome.OK, status=reading.status, visited=at, attempts=0)
    if 200 <= reading.status < 400:
        row = row._replace(reached=at)
    if reading.status == NOT_MODIFIED and reading.unchanged:
        return row._replace(history=History.decode(row.history).after(False, reading.started).encode())
    if not 200 <= reading.status < 300:
        return row
    if reading.truncated or reading.status == _PARTIAL:  # nobody may say "not modified" of a part
        return row._replace(etag="", modified="")
    changed = bool(row.signature) and not reading.unchanged
    return row._replace(
        signature=reading.signature.hex(),
        digest=reading.digest,
        date=reading.date,
        etag=reading.etag,
        modified=reading.modified,
        history=History.decode(row.history).after(changed, reading.started).encode(),
    )


def count(reading: ParsedPage, row: UrlRow, tally: CrawlTally, errors: Counter[str], *, new: bool) -> str:
    """Counts an answer, and says in a word what it was. What is no page, but robots.txt or a sitemap, counts apart."""
    if reading.status != NOT_MODIFIED and not reading.withheld:
        tally.content_bytes += reading.size
        tally.new_bytes += reading.size if new else 0
    if row.kind != FetchKind.PAGE:
        tally.besides += 1
        return _word(reading, new=new)
    tally.fetched += 1
    tally.pages += reading.status == 200 and reading.mime in HTML_TYPES
    tally.truncated += bool(reading.truncated)
    tally.new += new
    word = _word(reading, new=new)
    tally.duplicates += bool(reading.size) and not new and reading.status != NOT_MODIFIED and not reading.withheld
    if word == "error":
        errors[f"status {reading.status}"] += 1
    tally.unchanged += word == "unchanged"
    tally.redirects += word == "redirect"
    tally.gone += word == "gone"
    tally.errors += word == "error"
    tally.changed += bool(row.signature) and word in ("new", "duplicate", "empty")
    return word


def _word(reading: ParsedPage, *, new: bool) -> str:
    if reading.withheld:
        return "withheld"
    if reading.unchanged:
        return "unchanged"
    if reading.location:
        return "redirect"
    if reading.status in GONE:
        return "gone"
    if reading.status >= 500:
        return "error"
    return "new" if new else "duplicate" if reading.size else "empty"

"""The record that says of a crawl who made it, and how."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime
from secrets import token_bytes

import holdfast
from holdfast.archive import Archive
from holdfast.crawl.fetch.request import USER_AGENT
from holdfast.crawl.job.job import CrawlJob
from holdfast.formats import open_records
from holdfast.formats.warc.compose import ID_BYTES, WarcHead, record_id, warcinfo_parts
from holdfast.records.draft import Drafting, RecordDraft


def describe(job: CrawlJob, visit: int, archive: Archive) -> RecordDraft:
    """A warcinfo record for a visit."""
    date = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d%H%M%S")
    facts = [
        ("software", f"Holdfast {holdfast.__version__}"),
        ("isPartOf", job.name),
        ("description", f"visit {visit} of the crawl '{job.name}', scope {job.scope}, {_seeds(job)}"),
        ("robots", "obey" if job.fetch.robots else "ignore"),
        ("http-header-user-agent", _user_agent(job)),
    ]
    head = WarcHead("warcinfo", date, record_id(token_bytes(ID_BYTES)))
    raw = b"".join(warcinfo_parts(head, facts))
    settings = archive.settings.records
    (record,) = open_records(io.BytesIO(raw), strict=True)
    return Drafting(settings, job.collection or settings.collection).draft(record)


def _seeds(job: CrawlJob) -> str:
    return f"{len(job.seeds)} seed" if len(job.seeds) == 1 else f"{len(job.seeds)} seeds"


def _user_agent(job: CrawlJob) -> str:
    """What servers are told; a header of that name wins."""
    given = [value for name, value in job.fetch.headers if name.lower() == "user-agent"]
    return given[0] if given else job.fetch.user_agent or USER_AGENT

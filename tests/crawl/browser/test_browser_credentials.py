"""Credentials of a crawl with a browser: what pages load passes the same fetcher, so the same rule holds (W17)."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_site import OTHER, Reply, crawled, job_of, needs_browser, serving

from holdfast.model import RecordId

pytestmark = needs_browser

SECRET = "c0ffee-and-harbour"
SCRIPT = """
fetch('/own.json');
fetch('//%(other)s:%(port)d/theirs.json', {mode: 'no-cors'});
fetch('/leave');
navigator.sendBeacon('//%(other)s:%(port)d/beacon', 'told');
"""


@pytest.mark.parametrize("credentials", ["headers", "page"])
def test_what_a_page_loads_from_others_comes_without_credentials(tmp_path: Path, credentials: str) -> None:
    """Also where a request of the page is redirected to others; and a page cannot send another in their place."""
    with serving({}) as site:
        there = f"//{OTHER}:{site.port}"
        script = SCRIPT % {"other": OTHER, "port": site.port}
        if credentials == "page":
            script += "fetch('/own.json?2', {headers: {Authorization: 'Bearer of-the-page'}});"
        site.pages |= {
            "/": Reply(f'<img src="{there}/p.png"><iframe src="{there}/f"></iframe><script>{script}</script>'.encode()),
            "/own.json": Reply(b"{}", "application/json"),
            "/leave": Reply(status=302, headers={"Location": f"http:{there}/landed"}),
            "/f": Reply(b"framed"),
        }
        headers = (("Authorization", f"Bearer {SECRET}"), ("Cookie", f"a={SECRET}"))
        with crawled(tmp_path, job_of(site, fetch={"headers": headers})) as result:
            theirs = [each for each in site.requests if each.host.startswith(OTHER)]
            ours = [each for each in site.requests if not each.host.startswith(OTHER)]
            assert {each.path for each in theirs} >= {"/robots.txt", "/p.png", "/f", "/theirs.json", "/landed"}
            assert SECRET not in repr(theirs)
            assert {"/", "/own.json", "/leave", "/robots.txt"} <= {each.path for each in ours}
            assert {each.headers["authorization"] for each in ours} == {f"Bearer {SECRET}"}
            assert {each.headers["cookie"] for each in ours} == {f"a={SECRET}"}
            archive = result.archive
            for batch in archive.journal.names():
                for record in archive.records.entries_from(RecordId(batch, 0)):
                    assert SECRET.encode() not in record.data

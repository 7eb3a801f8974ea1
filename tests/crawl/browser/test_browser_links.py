"""What pages ask of crawlers holds for the page as scripts have made it, too; what pages share is loaded once (W17)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from browser_site import Reply, Site, crawled, job_of, needs_browser, serving

from holdfast.crawl.job.job import ScopeKind

pytestmark = needs_browser

MADE = """<script>
const link = document.createElement('a');
link.href = '/marked'; link.rel = 'nofollow'; document.body.append(link);
const other = document.createElement('a');
other.href = '/free'; document.body.append(other);
</script>"""


def asking(site: Site) -> None:
    site.pages |= {
        "/": Reply(b"<body><a href=/kept-back>k</a><a href=/closed>c</a>" + MADE.encode()),
        "/kept-back": Reply(b"<meta name=robots content=noarchive><body>secret"),
        "/closed": Reply(b"<body><a href=/behind>b</a>" + MADE.encode(), headers={"X-Robots-Tag": "nofollow"}),
        **{each: Reply(b"<body>there") for each in ("/marked", "/free", "/behind")},
    }


def test_tags_of_a_page_that_scripts_have_made(tmp_path: Path) -> None:
    with serving({}) as site:
        asking(site)
        job = job_of(site, scope=ScopeKind.HOST, fetch={"robots_tags": True})
        with crawled(tmp_path, job) as result:
            asked = {request.path for request in site.requests} - {"/robots.txt", "/favicon.ico"}
            assert asked == {"/", "/kept-back", "/closed", "/free"}
            assert result.has(site.url("/closed"))
            assert result.has(f"urn:text:{site.url('/closed')}")
            for prefix in ("", "urn:dom:", "urn:text:"):
                assert not result.has(prefix + site.url("/kept-back"))


def test_what_pages_share_is_loaded_once(tmp_path: Path) -> None:
    """Icons too; not what a script asks for, nor what its server forbids to keep."""
    names = ("/", "/a", "/b", "/c")
    body = b"""<link rel=stylesheet href=/s.css><img src=/i.png><img src=/fresh.png><img src=/gone.png>
        <script src=/a.js></script>page %s"""
    with serving({}) as site:
        site.pages |= {each: Reply(body % each.encode()) for each in names}
        site.pages |= {
            "/s.css": Reply(b"p { color: red }", "text/css"),
            "/i.png": Reply(b"no picture", "image/png"),
            "/fresh.png": Reply(b"no picture either", "image/png", headers={"Cache-Control": "private, no-store"}),
            "/a.js": Reply(b"fetch('/told.json')", "text/javascript"),
            "/told.json": Reply(b"{}", "application/json"),
            "/favicon.ico": Reply(b"icon", "image/x-icon"),
        }
        with crawled(tmp_path, job_of(site, *names, browser={"tabs": 2})) as result:
            asked = Counter(request.path for request in site.requests)
            once = ("/favicon.ico", "/s.css", "/i.png", "/a.js", "/gone.png", *names)
            assert {each: asked[each] for each in once} == dict.fromkeys(once, 1)
            assert {each: len(result.rows(site.url(each))) for each in once} == dict.fromkeys(once, 1)
            assert (asked["/fresh.png"], asked["/told.json"]) == (4, 4)

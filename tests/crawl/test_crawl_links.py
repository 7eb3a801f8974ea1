"""Which links of a page a crawl follows (W17)."""

from __future__ import annotations

from pathlib import Path

import pytest
from crawl_runs import captured, crawled, job_for, log_rows, make_archive
from crawl_sites import LittleWeb, linking, page
from hostile_web.exchange import plain

from holdfast.crawl.policy.robots_tags import RobotsTags, read_robots_tags
from holdfast.formats.html.links.document import Document
from holdfast.formats.record import Headers


def test_names_of_files_in_scripts_are_found(tmp_path: Path) -> None:
    """In the page, and in a script elsewhere, which runs in the page: there they are relative to the page."""
    script = "image.src = 'far.png'; import('./module.js')"
    web = LittleWeb(
        {
            "/": page("<script>image.src = 'pixel.png'; sheet('2j.css')</script><iframe src=/deep/page.html></iframe>"),
            "/deep/page.html": page("<script src=/js/x.js></script>"),
            "/js/x.js": plain(200, script, kind="text/javascript"),
            "/js/module.js": plain(200, "", kind="text/javascript"),
            "/pixel.png": plain(200, "1", kind="image/png"),
            "/2j.css": plain(200, "2", kind="text/css"),
            "/deep/far.png": plain(200, "3", kind="image/png"),
        }
    )
    path = make_archive(tmp_path / "archive")
    with web.serving():
        crawled(path, job_for(web, sitemap=False))  # type: ignore[arg-type]
        want = {"/pixel.png", "/2j.css", "/deep/far.png", "/js/module.js"}
        assert {web.url(each) for each in want} <= captured(path)


# -- what pages ask of crawlers ----------------------------------------------------------------------------------------

AT = "http://example.com/"
OPEN = RobotsTags()
NO_LINKS = OPEN._replace(follow=False)
NOT_KEPT = OPEN._replace(archive=False)


@pytest.mark.parametrize(
    ("text", "fields", "tags"),
    [
        ("<meta name=robots content='index, follow'>", [], OPEN),
        ("<META NAME=Robots CONTENT=' NoFollow '>", [], NO_LINKS),
        ("<meta name=robots content=none>", [], NO_LINKS),
        ("<meta name=robots content='noindex,noarchive'>", [], NOT_KEPT),
        ("<meta name=Holdfast content=nofollow>", [], NO_LINKS),
        ("<meta name=googlebot content='nofollow,noarchive'>", [], OPEN),
        ("<!-- <meta name=robots content=nofollow> -->", [], OPEN),
        ("", ["nofollow"], NO_LINKS),
        ("", ["noindex", "holdfast: noarchive, nofollow"], RobotsTags(follow=False, archive=False)),
        ("", ["otherbot: noarchive, nofollow"], OPEN),
        ("", ["unavailable_after: 25 Jun 2030 15:00:00 PST"], OPEN),
        ("<a rel='external NoFollow' href=a>a</a><a href=b>b</a>", [], OPEN._replace(unfollowed=frozenset([f"{AT}a"]))),
        ("<a rel=nofollow href=a>a</a><a href=a#b>again</a>", [], OPEN),
        ("<base href=/d/><area rel=nofollow href=a#x>", [], OPEN._replace(unfollowed=frozenset([f"{AT}d/a"]))),
    ],
)
def test_what_pages_ask_for(text: str, fields: list[str], tags: RobotsTags) -> None:
    headers = Headers([("X-Robots-Tag", each) for each in fields])
    document = Document(AT, f"<!doctype html>{text}".encode(), "text/html", headers, 200)
    assert read_robots_tags(document, "Holdfast/1.0 (web archive crawler)") == tags


def asking_web() -> LittleWeb:
    return LittleWeb(
        {
            "/": page(linking("/meta", "/field", "/kept-back") + "<a rel=nofollow href=/marked>m</a>"),
            "/meta": page("<meta name=robots content=nofollow><img src=/needed.png>" + linking("/from-meta")),
            "/field": page(linking("/from-field"), ("X-Robots-Tag", "nofollow")),
            "/kept-back": page("<meta name=robots content=noarchive>" + linking("/from-kept-back")),
            **{each: page(each) for each in ("/marked", "/from-meta", "/from-field", "/from-kept-back")},
            "/needed.png": plain(200, "1", ("X-Robots-Tag", "holdfast: noindex"), kind="image/png"),
        }
    )


def test_what_is_in_scope_is_captured_whatever_pages_ask_for(tmp_path: Path) -> None:
    path, web = make_archive(tmp_path / "archive"), asking_web()
    with web.serving():
        crawled(path, job_for(web, sitemap=False))  # type: ignore[arg-type]
        assert {web.url(each.removeprefix("little.test")) for each in web.pages} <= captured(path)


def test_a_crawl_may_obey_what_pages_ask_for(tmp_path: Path) -> None:
    """Also when it looks again at a page that it has not kept and that has not changed."""
    path, web = make_archive(tmp_path / "archive"), asking_web()
    with web.serving():
        for duplicates in (0, 5):
            summary = crawled(path, job_for(web, sitemap=False, robots_tags=True))  # type: ignore[arg-type]
            assert summary.tally.duplicates == duplicates
        asked, found = set(web.asked()), captured(path)
        assert asked == {"/", "/meta", "/field", "/kept-back", "/needed.png", "/from-kept-back"}
        assert found == {web.url(each) for each in asked - {"/kept-back"} | {"/robots.txt"}}
        held = [row for row in log_rows(path, "fetch") if row["result"] == "withheld"]
        assert [(row["url"], row["note"]) for row in held] == [(web.url("/kept-back"), "not kept: noarchive")] * 2

"""Which links of a page a crawl follows (W17)."""

from __future__ import annotations

from pathlib import Path

from crawl_runs import captured, crawled, job_for, make_archive
from crawl_sites import LittleWeb, page

from holdfast.testing.web.exchange import plain


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

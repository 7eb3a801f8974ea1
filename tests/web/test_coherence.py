"""How well the parts of a page fit together in time (N9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pages_kept import html, kept

from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.config import AccessRule, ServeSettings
from holdfast.web.auth.access import Access
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import Origins, WebContext, open_site
from holdfast.web.server.counters import Counters
from holdfast.web.ui import coherence as coherence_module
from holdfast.web.ui.coherence import coherence

URL = "http://a.example/"
BODY = """<!doctype html><link rel=stylesheet href=/s.css><img src=/near.png><img src=/far.png><img src=/gone.png>
<a href=/elsewhere>no part</a>"""
CSS = b"@import 'more.css'; body { background: url(/ground.png) } p { background: url(/near.png) }"


@contextmanager
def opened(path: Path, exchanges: Sequence[Exchange], warning_s: int = 86400) -> Iterator[WebContext]:
    kept(path, exchanges)
    settings = ServeSettings(coherence_warning_s=warning_s)
    origins = Origins("http://127.0.0.1:1", "http://127.0.0.1:2")
    site = open_site(path, settings, origins, Counters.make(), Tokens())
    try:
        yield site
    finally:
        site.archive.close()


def part(name: str, timestamp: str, body: bytes = b"x", kind: str = "image/png") -> Exchange:
    return page(URL + name, body, kind, timestamp)


def captures() -> list[Exchange]:
    return [
        html(URL, "20200102000000", BODY),
        part("s.css", "20200102000010", CSS, "text/css"),
        part("near.png", "20200102000005"),
        part("far.png", "20250102000000"),
        part("ground.png", "20190102000000"),
        part("more.css", "20200102000000", b"p{background:url(/deep.png)}", "text/css"),
    ]


def test_parts_of_the_page_and_of_its_style_sheets_are_found(tmp_path: Path) -> None:
    with opened(tmp_path / "archive", captures()) as site:
        report = coherence(site, URL, "2020", "main")
    distances = {each.url.removeprefix(URL): each.distance_s for each in report.parts}
    assert distances["near.png"] == 5 and distances["s.css"] == 10 and distances["ground.png"] == -365 * 86400
    assert next(iter(distances)) == "far.png"
    assert [(each.url, each.reason) for each in report.missing] == [(URL + "gone.png", "not archived")]
    vias = {each.url.removeprefix(URL): each.via for each in report.parts}
    assert vias["ground.png"] == vias["more.css"] == URL + "s.css" and vias["near.png"] == ""
    assert "deep.png" not in vias and "elsewhere" not in vias


def test_the_spread_warns_beyond_the_limit(tmp_path: Path) -> None:
    with opened(tmp_path / "archive", captures()) as site:
        report = coherence(site, URL, "2020", None)
    assert (report.earliest, report.latest) == ("20190102000000", "20250102000000")
    assert report.is_warning and report.spread_s == 2192 * 86400
    values = report.as_dict()
    assert values["is_warning"] is True and values["spread_s"] == report.spread_s and len(values["parts"]) == 5


def test_a_page_that_fits_together_does_not_warn(tmp_path: Path) -> None:
    with opened(
        tmp_path / "archive", [html(URL, "20200102000000", "<img src=/i.png>"), part("i.png", "20200102000009")]
    ) as site:
        report = coherence(site, URL, "", "main")
    assert (report.spread_s, report.is_warning, report.missing) == (9, False, ())


def test_blocked_and_excluded_parts_are_missing(tmp_path: Path) -> None:
    with opened(tmp_path / "archive", captures()) as site:
        rules = [AccessRule(rule="block", url=URL + "far.png"), AccessRule(rule="exclude", url=URL + "near.png")]
        site.access = Access(rules)
        report = coherence(site, URL, "2020", "main")
    missing = {each.url.removeprefix(URL): each.reason for each in report.missing}
    assert missing == {"far.png": "blocked", "near.png": "not archived", "gone.png": "not archived"}


def test_pages_with_too_many_parts_are_cut(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.setattr(coherence_module, "PARTS_MAX", 10)  # type: ignore[attr-defined]
    many = "".join(f"<img src=/{number}.png>" for number in range(50))
    with opened(tmp_path / "archive", [html(URL, "20200102000000", many)]) as site:
        report = coherence(site, URL, "2020", "main")
    assert report.is_cut and len(report.missing) == 10


def test_what_is_no_page_has_no_parts(tmp_path: Path) -> None:
    with opened(tmp_path / "archive", [part("i.png", "20200102000009", bytes(range(256)))]) as site:
        report = coherence(site, URL + "i.png", "2020", "main")
    assert (report.parts, report.missing, report.spread_s) == ((), (), 0)

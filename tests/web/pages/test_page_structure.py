"""Every page, whoever reads it: outline, names, labels, and nothing from elsewhere (P)."""

from __future__ import annotations

import pytest
from page_archive import BUSY, HOME, LONG, MARKUP
from page_reading import faults
from page_visits import ask
from serving import Served

from holdfast.web.ui.display import path_to

PAGES = {
    "home": "/",
    "collection": "/main/",
    "no words": "/search",
    "words": "/search?q=museum+rooms",
    "no such words": "/search?q=zeppelin",
    "calendar": f"/main/*/{HOME}",
    "calendar of a year": f"/main/2020*/{HOME}",
    "calendar of a day": f"/all/20250303*/{BUSY}",
    "calendar of no day": f"/all/19990303*/{BUSY}",
    "addresses": "/all/*/museum.example/*",
    "no addresses": "/all/*/nobody.example/*",
    "not archived": f"/main/2020/{HOME}rooms/south",
    "another collection": "/main/2020/http://only.example/",
    "markup": path_to("main", "*", MARKUP),
    "long": path_to("main", "*", LONG),
    "no such collection": f"/nowhere/*/{HOME}",
    "no such file": "/static/nothing.css",
    "no such name": "/search?q=x&collection=UPPER",
}


@pytest.mark.parametrize("target", PAGES.values(), ids=PAGES)
def test_pages_can_be_read_by_everybody(served: Served, target: str) -> None:
    visit = ask(served.controls, target)
    assert visit.headers["content-type"] == "text/html; charset=utf-8"
    assert faults(visit.page) == []
    assert visit.page.all("a")[0].attributes == {"class": "skip", "href": "#main"}


@pytest.mark.parametrize("target", PAGES.values(), ids=PAGES)
def test_pages_carry_the_strict_policy(served: Served, target: str) -> None:
    headers = ask(served.controls, target).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        f"frame-src {served.replay}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


def test_the_banner_can_be_read_by_everybody_and_frames_the_other_origin_only(served: Served) -> None:
    visit = ask(served.controls, f"/main/20211230093000/{HOME}")
    assert visit.status == 200
    outside = [fault for fault in faults(visit.page) if " leads to " in fault]
    assert [fault for fault in faults(visit.page) if fault not in outside] == []
    assert all(served.replay in fault for fault in outside)
    frame = visit.page.one("iframe")
    assert frame.attributes["src"].startswith(f"{served.replay}/_hf/enter?to=%2Fmain%2F20211230093000mp_%2Fhttp")
    assert frame.attributes["sandbox"].split() == [
        *("allow-scripts", "allow-forms", "allow-same-origin", "allow-downloads", "allow-modals")
    ]
    assert f"frame-src {served.replay};" in visit.headers["content-security-policy"]

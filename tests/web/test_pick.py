"""Captures nearest to a time, or not newer than it: per request and by setting, the same everywhere (H8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pages_kept import answer, html, kept
from serving import Answer, Served, ask, serving

import holdfast
from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.config import AccessRule
from holdfast.errors import CaptureNotFound, InvalidSetting, UnknownName
from holdfast.web.auth.access import Access

URL = "http://a.example/"
IMAGE, SHEET, LATER = f"{URL}i.png", f"{URL}s.css", f"{URL}later.png"
OLD, NEW, ASKED = "20200101000000", "20220101000000", "20211201000000"  # the new one is nearer


def captures() -> list[Exchange]:
    text = f"<link rel=stylesheet href=/s.css><img src=/i.png><img src={LATER}><a href=/next>next</a>"
    return [
        *(html(URL, time, f"<title>{time}</title>{text}") for time in (OLD, NEW)),
        page(IMAGE, b"first", "image/png", "20190101000000"),
        page(IMAGE, b"of the crawl", "image/png", "20200101000007"),
        page(IMAGE, b"later", "image/png", NEW),
        *(page(SHEET, f"body {{ background: url(/{time}.png) }}".encode(), "text/css", time) for time in (OLD, NEW)),
        page(LATER, b"too late", "image/png", NEW),
        html(f"{URL}busted?_=1", OLD),
        html(f"{URL}busted?_=2", NEW),
        answer(f"{URL}moved", OLD, "302 Found", ["Location: /next"]),
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept(tmp_path_factory.mktemp("pick") / "archive", captures())


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    with serving(path) as there:
        yield there


@pytest.fixture(scope="module")
def by_setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = kept(tmp_path_factory.mktemp("by setting") / "archive", captures())
    with (path / "holdfast.toml").open("a") as settings:
        settings.write('\n[records]\npick = "not-newer"\n')
    with serving(path) as there:
        yield there


def at(got: Answer) -> str:
    """The time of the capture that was answered with."""
    year = got.headers["memento-datetime"].split()[3]
    return {"2019": "2019", "2020": OLD, "2022": NEW}[year]


def test_which_capture_stands_for_a_time(path: Path) -> None:
    with holdfast.open(path, read_only=True) as archive:
        for time, nearest, not_newer in (
            (ASKED, NEW, OLD),
            ("2021", NEW, OLD),
            ("2022", NEW, NEW),  # up to its end
            (OLD, OLD, OLD),
            ("20220101000001", NEW, NEW),
            ("", NEW, NEW),
        ):
            assert archive.get(URL, time).capture.timestamp == nearest
            assert archive.get(URL, time, pick="not-newer").capture.timestamp == not_newer
            assert archive.get(URL, time, "main", "not-newer").capture.timestamp == not_newer
        assert archive.get(URL, "2019").capture.timestamp == OLD
        with pytest.raises(CaptureNotFound, match=f"no capture of '{URL}' up to 2019"):
            archive.get(URL, "2019", pick="not-newer")
        with pytest.raises(UnknownName, match="unknown pick 'newest': one of nearest, not-newer"):
            archive.get(URL, pick="newest")


def test_a_page_that_may_not_be_newer_keeps_the_time_that_was_asked_for(served: Served) -> None:
    near = ask(f"{served.replay}/main/{ASKED}mp_/{URL}")
    assert (near.status, near.headers["location"]) == (302, f"/main/{NEW}mp_/{URL}")
    got = ask(f"{served.replay}/main/not-newer/{ASKED}mp_/{URL}")
    assert (got.status, at(got), f"<title>{OLD}" in got.text) == (200, OLD, True)
    for modifier, url in (("im_", IMAGE), ("cs_", SHEET), ("mp_", f"{URL}next")):
        assert f"/main/not-newer/{ASKED}{modifier}/{url}" in got.text
    assert 'data-prefix="/main/not-newer/"' in got.text
    assert f'data-timestamp="{ASKED}"' in got.text


def test_parts_of_the_page_are_not_newer_either(served: Served) -> None:
    place = f"{served.replay}/main/not-newer/{ASKED}"
    assert ask(f"{place}im_/{IMAGE}").body == b"of the crawl", "a few seconds after the page, and not after the time"
    sheet = ask(f"{place}cs_/{SHEET}")
    assert (at(sheet), f"/main/not-newer/{ASKED}im_/{URL}{OLD}.png" in sheet.text) == (OLD, True)
    missing = ask(f"{place}im_/{LATER}")
    assert (missing.status, f"the first capture after it is of {NEW}" in missing.text) == (404, True)
    assert ask(f"{served.replay}/main/{ASKED}im_/{IMAGE}").body == b"later"
    moved = ask(f"{place}mp_/{URL}moved")
    assert (moved.status, moved.headers["location"]) == (302, f"/main/not-newer/{ASKED}mp_/{URL}next")
    assert at(ask(f"{place}mp_/{URL}busted?_=3", Sec_Fetch_Dest="image")) == OLD, "also without its cache buster"


def test_two_times_of_one_capture_are_two_answers(served: Served) -> None:
    """They differ in the addresses within: neither the cache nor a browser may take one for the other."""
    first, second = (ask(f"{served.replay}/main/not-newer/{time}mp_/{URL}") for time in ("20210101000000", ASKED))
    assert at(first) == at(second) == OLD
    assert first.headers["etag"] != second.headers["etag"]
    assert ("/20210101000000im_/" in first.text, f"/{ASKED}im_/" in second.text) == (True, True)
    again = ask(f"{served.replay}/main/not-newer/{ASKED}mp_/{URL}", If_None_Match=second.headers["etag"])
    assert again.status == 304


def test_a_time_that_is_not_whole_is_made_whole_first(served: Served) -> None:
    for asked, whole in (("2021", "20211231235959"), ("202102", "20210228235959")):
        got = ask(f"{served.replay}/main/not-newer/{asked}mp_/{URL}")
        assert (got.status, got.headers["location"]) == (302, f"/main/not-newer/{whole}mp_/{URL}")
    newest = ask(f"{served.replay}/main/not-newer/mp_/{URL}")
    assert newest.headers["location"] > f"/main/not-newer/{NEW}mp_/{URL}", "up to now"
    assert at(ask(served.replay + newest.headers["location"])) == NEW


def test_the_header_says_the_same_as_the_address(served: Served) -> None:
    got = ask(f"{served.replay}/main/{ASKED}mp_/{URL}", X_Holdfast_Pick="not-newer")
    assert (at(got), f"/main/not-newer/{ASKED}im_/{IMAGE}" in got.text) == (OLD, True)
    assert at(ask(f"{served.replay}/main/{ASKED}id_/{URL}", X_Holdfast_Pick="not-newer")) == OLD
    assert at(ask(f"{served.controls}/main/not-newer/{ASKED}id_/{URL}")) == OLD
    assert at(ask(f"{served.controls}/main/nearest/{ASKED}id_/{URL}", X_Holdfast_Pick="not-newer")) == NEW
    refused = ask(f"{served.replay}/main/{ASKED}mp_/{URL}", X_Holdfast_Pick="oldest")
    assert (refused.status, "unknown pick 'oldest'" in refused.text) == (400, True)


def test_the_timegate_leads_to_what_is_not_newer(served: Served) -> None:
    date = "Wed, 01 Dec 2021 00:00:00 GMT"
    near = ask(f"{served.controls}/main/timegate/{URL}", Accept_Datetime=date)
    assert near.headers["location"] == f"{served.controls}/main/{NEW}/{URL}"
    for address, header in ((f"/main/not-newer/timegate/{URL}", ""), (f"/main/{URL}", "not-newer")):
        got = ask(f"{served.controls}{address}", Accept_Datetime=date, X_Holdfast_Pick=header)
        assert (got.status, got.headers["location"]) == (302, f"{served.controls}/main/not-newer/{ASKED}/{URL}")
        led = ask(got.headers["location"])
        assert led.headers["location"] == f"{served.replay}/main/not-newer/{ASKED}mp_/{URL}"
        assert at(ask(led.headers["location"])) == OLD
    early = "Tue, 01 Jan 2019 00:00:00 GMT"
    assert ask(f"{served.controls}/main/not-newer/{URL}", Accept_Datetime=early).status == 404


def test_people_get_the_banner_of_the_capture_at_the_time_they_asked_for(served: Served) -> None:
    moved = ask(f"{served.controls}/main/not-newer/2021/{URL}", Accept="text/html")
    assert (moved.status, moved.headers["location"]) == (302, f"/main/not-newer/20211231235959/{URL}")
    got = ask(f"{served.controls}/main/not-newer/{ASKED}/{URL}", Accept="text/html")
    assert (got.status, at(got)) == (200, OLD)
    assert quote(f"/main/not-newer/{ASKED}mp_/{URL}", safe="") in got.text
    assert ", the last up to 1 December 2021, 00:00:00 UTC" in got.text
    assert f'data-pick="not-newer" data-url="{URL}" data-timestamp="{ASKED}" data-captured="{OLD}"' in got.text
    near = json.loads(
        ask(f"{served.controls}/api/near?url={URL}&timestamp={ASKED}&collection=main&pick=not-newer").body
    )
    assert (near["timestamp"], near["path"]) == (OLD, f"/main/not-newer/{ASKED}/{URL}")
    assert near["upto"] == "1 December 2021, 00:00:00 UTC"
    assert near["next"]["path"] == f"/main/not-newer/{NEW}/{URL}"
    missing = ask(f"{served.controls}/main/not-newer/2019/{URL}", Accept="text/html")
    assert missing.status == 404
    assert "Captured later" in missing.text
    assert f'href="/main/not-newer/{OLD}/{URL}"' in missing.text


def test_programs_choose_by_a_parameter(served: Served) -> None:
    def asked(address: str) -> dict[str, object]:
        got = ask(f"{served.controls}{address}")
        assert got.status == 200, got.text
        found: dict[str, object] = json.loads(got.body)
        return found

    assert asked(f"/api/nearest?url={URL}&timestamp={ASKED}")["timestamp"] == NEW
    assert asked(f"/api/nearest?url={URL}&timestamp={ASKED}&pick=not-newer")["timestamp"] == OLD
    assert ask(f"{served.controls}/api/nearest?url={URL}&timestamp=2019&pick=not-newer").status == 404
    assert ask(f"{served.controls}/api/nearest?url={URL}&pick=newest").status == 400
    compared = asked(f"/api/compare?url={URL}&a=2020&b={ASKED}&pick=not-newer")
    assert [compared[side]["timestamp"] for side in ("a", "b")] == [OLD, OLD]  # type: ignore[index]
    coherence = asked(f"/api/coherence?url={URL}&timestamp={ASKED}&pick=not-newer")
    assert (coherence["timestamp"], coherence["latest"]) == (OLD, "20200101000007")
    assert [each["url"] for each in coherence["missing"]] == [LATER, f"{URL}{OLD}.png"]  # type: ignore[attr-defined]
    available = asked(f"/wayback/available?url={URL}&timestamp={ASKED}&pick=not-newer")
    assert available["archived_snapshots"]["closest"]["timestamp"] == OLD  # type: ignore[index]
    page_ = ask(f"{served.controls}/compare?url={URL}&a=2020&b={ASKED}&pick=not-newer", Accept="text/html")
    assert (page_.status, NEW in page_.text) == (200, False)


def test_the_setting_decides_where_a_request_does_not(by_setting: Served) -> None:
    got = ask(f"{by_setting.replay}/main/{ASKED}mp_/{URL}")
    assert (got.status, at(got), f"/main/{ASKED}im_/{IMAGE}" in got.text) == (200, OLD, True)
    assert ask(f"{by_setting.replay}/main/{ASKED}im_/{IMAGE}").body == b"of the crawl"
    near = ask(f"{by_setting.replay}/main/nearest/{ASKED}mp_/{URL}")
    assert near.headers["location"] == f"/main/nearest/{NEW}mp_/{URL}"
    assert f"/main/nearest/{NEW}im_/{IMAGE}" in ask(f"{by_setting.replay}/main/nearest/{NEW}mp_/{URL}").text
    gate = ask(f"{by_setting.controls}/main/{URL}", Accept_Datetime="Wed, 01 Dec 2021 00:00:00 GMT")
    assert gate.headers["location"] == f"{by_setting.controls}/main/{ASKED}/{URL}"
    found = json.loads(ask(f"{by_setting.controls}/api/nearest?url={URL}&timestamp={ASKED}").body)
    assert found["timestamp"] == OLD
    with holdfast.open(by_setting.site.archive.path, read_only=True) as archive:
        assert archive.get(URL, ASKED).capture.timestamp == OLD
        assert archive.get(URL, ASKED, pick="nearest").capture.timestamp == NEW


def test_what_rules_exclude_does_not_stand_for_a_time(served: Served) -> None:
    before = served.site.access
    served.site.access = Access((AccessRule(rule="exclude", url=URL, to="20200101"),))
    try:
        got = ask(f"{served.replay}/main/not-newer/{ASKED}mp_/{URL}")
        assert (got.status, OLD in got.text) == (404, False)
    finally:
        served.site.access = before


def test_a_setting_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "a")
    with (tmp_path / "a" / "holdfast.toml").open("a") as settings:
        settings.write('\n[records]\npick = "oldest"\n')
    with pytest.raises(InvalidSetting, match=r"records\.pick"):
        holdfast.open(tmp_path / "a")

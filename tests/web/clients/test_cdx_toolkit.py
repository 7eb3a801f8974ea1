"""cdx_toolkit, unmodified, asks our CDX server in both of its habits (I10)."""

from __future__ import annotations

import pytest
from client_archive import PAGES, TIMES, A
from serving import Served

cdx_toolkit = pytest.importorskip("cdx_toolkit")
HABITS = ("/main/cdx", "/cdx/search/cdx")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is polite to archives that many share: three seconds between two requests."""
    from cdx_toolkit import myrequests

    monkeypatch.setitem(myrequests.retry_info, "127.0.0.1", {"next_fetch": 0, "minimum_interval": 0})


@pytest.mark.parametrize("habit", HABITS)
def test_captures_are_found_with_their_fields_by_either_name(served: Served, habit: str) -> None:
    cdx = cdx_toolkit.CDXFetcher(source=served.controls + habit)
    found = cdx.get(f"{A}/")
    assert [each["timestamp"] for each in found] == list(TIMES)
    assert {(each["url"], each["mime"], each["status"]) for each in found} == {(f"{A}/", "text/html", "200")}
    assert [each["timestamp"] for each in cdx.get(f"{A}/", from_ts="202402", to="2024")] == [TIMES[1]]
    assert cdx.get("http://nowhere.example/", limit=5) == []


@pytest.mark.parametrize("habit", HABITS)
def test_pages_are_read_to_their_end(served: Served, habit: str) -> None:
    cdx = cdx_toolkit.CDXFetcher(source=served.controls + habit)
    assert len({each["url"] for each in cdx.iter("many.example/*")}) == 250
    assert len(list(cdx.iter("many.example/*", limit=70))) == 70
    assert cdx.get_size_estimate("many.example/*", as_pages=True) >= 1


def test_filters_and_a_limit_hold(served: Served) -> None:
    cdx = cdx_toolkit.CDXFetcher(source=served.controls + "/main/cdx")
    assert [each["url"] for each in cdx.get("www.a.example/*", filter="=status:404")] == [f"{A}/gone"]
    assert [each["status"] for each in cdx.get("www.a.example/*", filter=["!=status:200", "!~url:.*gone"])] == ["301"]
    assert [each["timestamp"] for each in cdx.get(f"{A}/", limit=2)] == list(TIMES[:2])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves a temporary file open
def test_the_content_of_a_capture_is_fetched_from_replay(served: Served) -> None:
    cdx = cdx_toolkit.CDXFetcher(source=served.controls + "/main/cdx", wb=served.controls + "/main")
    found = cdx.get(f"{A}/", limit=1)[0]
    assert found.text == PAGES[TIMES[0]]
    record = found.fetch_warc_record()
    assert record.rec_headers.get_header("WARC-Target-URI") == f"{A}/"

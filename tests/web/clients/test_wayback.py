"""The `wayback` package, unmodified: what it asks of web.archive.org is answered by us (I10).

The name of its host is fixed in the package. So the server is told that this is its public address, and the requests of
the session go to where it listens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from client_archive import PAGES, TIMES, A
from serving import serving

from holdfast.config import ServeSettings

wayback = pytest.importorskip("wayback")
PUBLIC = "https://web.archive.org"


class Detour(requests.adapters.HTTPAdapter):
    """Sends what is for the public address to the one that it has here."""

    def __init__(self, here: str) -> None:
        super().__init__()
        self._here = here

    def send(self, request: requests.PreparedRequest, **options: object) -> requests.Response:  # type: ignore[override]
        asked = request.url or ""
        request.headers["Host"] = urlsplit(PUBLIC).netloc
        request.url = self._here + asked.removeprefix(PUBLIC)
        response = super().send(request, **options)  # type: ignore[arg-type]
        response.url = request.url = asked
        return response


@pytest.fixture(scope="module")
def client(archive_path: Path) -> Iterator[wayback.WaybackClient]:
    with serving(archive_path, replace(ServeSettings(), hosts=(urlsplit(PUBLIC).netloc,))) as there:
        there.site.controls_origin = PUBLIC  # as the setting 'serve.controls_url' does
        session = wayback.WaybackSession(search_calls_per_second=0, memento_calls_per_second=0, retries=0)
        session.mount(PUBLIC, Detour(there.controls))
        with wayback.WaybackClient(session) as made:
            yield made


def test_a_search_yields_records_and_goes_on_by_resume_keys(client: wayback.WaybackClient) -> None:
    found = list(client.search(f"{A}/"))
    assert [f"{each.timestamp:%Y%m%d%H%M%S}" for each in found] == list(TIMES)
    assert {(each.statuscode, each.mimetype, each.original) for each in found} == {(200, "text/html", f"{A}/")}
    many = list(client.search("many.example", match_type="host", limit=60))
    assert len({each.original for each in many}) == 250


def test_a_search_takes_the_filters_and_times_of_the_internet_archive(client: wayback.WaybackClient) -> None:
    gone = list(client.search("www.a.example/", match_type="host", filter_field="statuscode:404"))
    assert [each.original for each in gone] == [f"{A}/gone"]
    since = list(client.search(f"{A}/", from_date=datetime(2024, 2, 1, tzinfo=UTC)))
    assert len(since) == 2
    assert len(list(client.search(f"{A}/", limit=-1, fast_latest=True))) == 1


def test_a_memento_comes_as_it_was_with_its_links(client: wayback.WaybackClient) -> None:
    record = next(iter(client.search(f"{A}/")))
    with client.get_memento(record) as memento:
        assert memento.text == PAGES[TIMES[0]]
        assert (memento.ok, memento.url, memento.memento_url) == (True, f"{A}/", f"{PUBLIC}/web/{TIMES[0]}id_/{A}/")
        assert memento.links["original"]["url"] == f"{A}/"
        assert memento.links["next memento"]["url"].endswith(f"{TIMES[1]}id_/{A}/")
    with client.get_memento(f"{A}/gone", timestamp=TIMES[0]) as missing:
        assert missing.status_code == 404


def test_a_redirect_is_followed_within_the_archive(client: wayback.WaybackClient) -> None:
    with client.get_memento(f"{A}/old", timestamp=TIMES[0]) as memento:
        assert (memento.url, memento.text) == (f"{A}/", PAGES[TIMES[0]])
        assert [each.url for each in memento.history] == [f"{A}/old"]
    with pytest.raises(wayback.exceptions.NoMementoError):
        client.get_memento("http://nowhere.example/", timestamp=TIMES[0])

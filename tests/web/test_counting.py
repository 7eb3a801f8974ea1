"""What a server counts of its requests: each once, by what it was about and what came of it (W17)."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from pages_kept import answer, html, kept
from serving import Served, ask, serving
from starlette.responses import Response, StreamingResponse
from waiting import wait_until

from holdfast.errors import VolumeDown
from holdfast.web.server.counters import KINDS

A = "http://a.example"
TIME = "20240102030405"
BROWSER = "text/html,*/*"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    captures = [html(f"{A}/", TIME), html(f"{A}/s?v=1", TIME), answer(f"{A}/gone", TIME, "404 Not Found")]
    with serving(kept(tmp_path_factory.mktemp("counting") / "archive", captures)) as there:
        yield there


def counted(served: Served, address: str, *, accept: str = "*/*", referrer: str = "") -> tuple[int, dict[str, int]]:
    """The status, and what was counted for this request."""
    counters = served.site.counters

    def state() -> Counter[str]:
        found = Counter({f"{kind} {status}": count for kind, status, count in counters.requests()})
        return found + Counter({name: counters.total(name) for name in ("captures_missing", "fuzzy_matches")})

    before = state()
    status = ask(address, Accept=accept, Referer=referrer).status
    wait_until(lambda: sum(n for name, n in (state() - before).items() if " " in name) > 0, "the request is counted")
    return status, dict(state() - before)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (f"/main/{TIME}/{A}/", "banner 2xx"),
        (f"/main/2024/{A}/", "replay 3xx"),
        (f"/main/*/{A}/", "calendar 2xx"),
        (f"/main/{TIME}id_/{A}/", "raw 2xx"),
        (f"/main/{TIME}id_/{A}/gone", "raw 4xx"),
        (f"/main/timemap/link/{A}/", "timemap 2xx"),
        (f"/main/timegate/{A}/", "timegate 3xx"),
        (f"/main/cdx?url={A}/", "cdx 2xx"),
        (f"/cdx/search/cdx?url={A}/", "cdx 2xx"),
        ("/api/collections", "api 2xx"),
        ("/api/none", "api 4xx"),
        ("/wayback/available?url=a.example", "api 2xx"),
        ("/health", "operations 2xx"),
        ("/status", "operations 2xx"),
        ("/static/style.css", "static 2xx"),
        ("/favicon.ico", "static 2xx"),
        ("/", "page 2xx"),
        ("/main", "collection 2xx"),
        (f"/nowhere/{TIME}id_/{A}/", "raw 4xx"),
        (f"/main/2024xx_/{A}/", "other 4xx"),
    ],
)
def test_a_request_counts_once_as_what_it_was(served: Served, target: str, kind: str) -> None:
    assert counted(served, f"{served.controls}{target}", accept=BROWSER)[1] == {kind: 1}
    assert kind.split(maxsplit=1)[0] in KINDS


@pytest.mark.parametrize("target", ["{t}/{u}", "{t}id_/{u}", "timegate/{u}", "timemap/link/{u}", "*/{u}"])
@pytest.mark.parametrize("accept", [BROWSER, "*/*"])
def test_what_is_not_archived_counts_as_missing(served: Served, target: str, accept: str) -> None:
    address = f"{served.controls}/main/{target.format(t=TIME, u=f'{A}/none')}"
    assert counted(served, address, accept=accept) == (404, {"missing 4xx": 1, "captures_missing": 1})


def test_the_replay_origin_counts_alike(served: Served) -> None:
    page = f"{served.replay}/main/{TIME}mp_/{A}/"
    assert counted(served, page)[1] == {"replay 2xx": 1}
    assert counted(served, f"{page}none")[1] == {"missing 4xx": 1, "captures_missing": 1}
    assert counted(served, f"{served.replay}/_hf/runtime.js")[1] == {"static 2xx": 1}
    assert counted(served, f"{served.replay}/i.png", referrer=page) == (307, {"stray 3xx": 1})
    assert counted(served, f"{served.replay}/i.png") == (404, {"stray 4xx": 1})


def test_a_url_that_is_found_by_another_counts_as_fuzzy(served: Served) -> None:
    address = f"{served.replay}/main/{TIME}id_/{A}/s?v=1&_=1699999999"
    assert counted(served, address) == (200, {"raw 2xx": 1, "fuzzy_matches": 1})


def test_a_failure_of_the_server_counts_as_one(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.app.server.cdx", None)
    assert counted(served, f"{served.controls}/main/cdx?url={A}/") == (500, {"cdx 5xx": 1})


@pytest.mark.parametrize(
    "error", [ValueError("a defect"), VolumeDown("a disk is gone")], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("pieces", [[], [b"some"]], ids=["before the body", "in the body"])
def test_a_failure_behind_the_head_counts_as_one_of_the_server(
    served: Served, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], error: Exception
) -> None:
    async def failing() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        raise error

    async def cdx(*_: object) -> Response:
        return StreamingResponse(failing())

    monkeypatch.setattr("holdfast.web.app.server.cdx", cdx)
    counters = served.site.counters
    before = {name: counters.total(name) for name in ("errors", "cdx.5xx", "cdx.2xx")}
    address = f"{served.controls}/main/cdx?url={A}/"
    if pieces:
        with pytest.raises(http.client.IncompleteRead):
            ask(address)
    else:
        assert ask(address).status == 500
    wait_until(lambda: counters.total("errors") > before["errors"], "the error is counted")
    assert {name: counters.total(name) - count for name, count in before.items()} == {
        "errors": 1,
        "cdx.5xx": 1,
        "cdx.2xx": 0,
    }

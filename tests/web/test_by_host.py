"""A server on all addresses of its machine answers each request under the name it came by (W17)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pages_kept import html, kept

from holdfast.config import ServeSettings
from holdfast.errors import Throttled
from holdfast.web.app import App, ControlsApp, ReplayApp
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import Origins, WebContext, open_site
from holdfast.web.server.counters import Counters
from holdfast.web.server.host_names import NAMES_MAX, ByHost, named_app

URL = "http://a.example/"
TIME = "20240102030405"
ORIGINS = Origins("http://192.0.2.1:8080", "http://192.0.2.1:8081")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept(tmp_path_factory.mktemp("by host") / "archive", [html(URL, TIME)])


@pytest.fixture
def site(path: Path) -> Iterator[WebContext]:
    opened = open_site(path, ServeSettings(host="0.0.0.0"), ORIGINS, Counters.make(), Tokens())
    yield opened
    opened.archive.close()
    opened.counters.close()


def asked(app: Any, host: str, target: str) -> tuple[dict[str, str], str]:
    """Headers and body of the answer."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": target,
        "raw_path": target.encode(),
        "query_string": b"",
        "headers": [(b"host", host.encode()), (b"accept", b"text/html")],
        "server": ("192.0.2.1", 8080),
        "client": ("192.0.2.9", 9),
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
    }
    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return headers, b"".join(each.get("body", b"") for each in sent[1:]).decode()


@pytest.mark.parametrize("host", ["vm", "192.0.2.7", "[2001:db8::7]"])
def test_frames_and_links_have_the_name_that_was_asked_by(site: WebContext, host: str) -> None:
    headers, body = asked(named_app(site, ControlsApp), f"{host}:8080", f"/main/{TIME}/{URL}")
    assert f'src="http://{host}:8081/_hf/enter' in body
    assert f"frame-src http://{host}:8081" in headers["content-security-policy"]
    assert f"http://{host}:8080/main/timegate/" in headers["link"]


def test_a_page_that_is_in_the_cache_under_one_name_is_not_given_out_under_another(site: WebContext) -> None:
    app = named_app(site, ReplayApp)
    for host in ("vm", "192.0.2.1", "vm", "192.0.2.7"):
        _, body = asked(app, f"{host}:8081", f"/main/{TIME}mp_/{URL}")
        assert f'data-controls="http://{host}:8080"' in body
    assert len(site.replies) == 3
    assert site.counters.total("cache_hits") == 1


def test_names_that_are_made_up_do_not_fill_the_memory(site: WebContext) -> None:
    made: list[str] = []

    def make(named: WebContext) -> App:
        made.append(named.controls_origin)
        return ControlsApp(named)

    app = ByHost(site, make)
    for number in range(NAMES_MAX + 3):
        asked(app, f"192.0.2.{number + 10}:8080", "/health")
        asked(app, "vm:8080", "/health")
    assert made.count("http://vm:8080") == 1
    asked(app, "192.0.2.10:8080", "/health")
    assert made.count("http://192.0.2.10:8080") == 2


@pytest.mark.parametrize(
    "settings",
    [
        ServeSettings(),
        ServeSettings(host="0.0.0.0", replay_url="https://replay.example"),
        ServeSettings(host="0.0.0.0", controls_url="https://archive.example"),
    ],
)
def test_where_the_settings_name_the_server_there_is_one_name(path: Path, settings: ServeSettings) -> None:
    site = open_site(path, settings, ORIGINS, Counters.make(), Tokens())
    try:
        assert isinstance(named_app(site, ControlsApp), App)
    finally:
        site.archive.close()
        site.counters.close()


def test_limits_on_streams_hold_for_all_names_together(site: WebContext) -> None:
    most = site.settings.streams_max // 4
    with ExitStack() as running:
        for number in range(most):
            running.enter_context(site.at(f"name{number}.example").streams.admitted("192.0.2.9"))
        with pytest.raises(Throttled), site.at("another.example").streams.admitted("192.0.2.9"):
            pass

"""The browser's own network log, and a trap in the place of the web, see nothing but our two origins (W17)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error
from replay_browser import Stage, Tab, hosts_in_log, needs_browser, staged, strangers
from ways_out import WAYS_OUT, connecting_page, url_of, ways_out

pytestmark = needs_browser

ALLOWLISTS_SINCE = 152  # versions of Chromium that know the header which also closes WebRTC
# What a page began is under way before these have come back.
_FENCE = """async () => {
  await new Promise((done) => { const w = new Worker(URL.createObjectURL(new Blob(["postMessage(1)"]))); w.onmessage = done });
  await fetch("/_hf/runtime.js").then((r) => r.text());
  await new Promise((done) => requestIdleCallback(done, { timeout: 500 }));
}"""


@pytest.fixture(scope="module")
def udp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(1)
        yield bound


def visit(tab: Tab, way: str) -> None:
    """Opens the page; where it goes then is its own affair."""
    tab.page.goto(f"{tab.stage.served.controls}/main/20240102030405/{url_of(way)}")
    frame = tab.framed(lambda frame: "/main/" in frame.url or "error" in frame.url)
    try:
        frame.evaluate(_FENCE)
    except Error:  # it is on its way elsewhere: the next page is the fence
        tab.framed(lambda frame: "/main/" in frame.url or "error" in frame.url)


def test_w17_no_request_leaves_the_archive_ever(tmp_path: Path) -> None:
    with staged(tmp_path, ways_out()) as stage:
        for worker in (True, False):
            with stage.context(worker=worker) as tab:
                for way in (*WAYS_OUT, "calm"):
                    visit(tab, way)
        stage.browser.close()
        log = hosts_in_log(stage.log)
        assert strangers(stage.trap.hosts, stage.served) == set()
        assert strangers(log, stage.served) == set()
        assert stage.served.replay.removeprefix("http://") in log


def test_w17_the_trap_and_the_log_notice_who_leaves(tmp_path: Path) -> None:
    with staged(tmp_path, ways_out()) as stage:
        stage.blank.set_content("<img src=http://control.live.example/x.png>")
        stage.browser.close()
        assert strangers(stage.trap.hosts, stage.served) == {"control.live.example"}
        assert "control.live.example" in hosts_in_log(stage.log)


def test_w17_no_peer_is_connected_to(tmp_path: Path, udp: socket.socket) -> None:
    exchanges = [*ways_out(), connecting_page(udp.getsockname()[1])]
    with staged(tmp_path, exchanges) as stage, stage.context() as tab:
        if int(stage.browser.version.split(".")[0]) < ALLOWLISTS_SINCE:
            pytest.skip("this browser does not know Connection-Allowlist")
        try:
            visit(tab, "connecting")
        except Error:  # Chromium ends a page that tries
            pass
        with pytest.raises(TimeoutError):
            udp.recv(1000)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with staged(tmp_path_factory.mktemp("calm"), ways_out()) as stage, stage.context() as tab:
        yield tab


def refused(tab: Tab, expression: str) -> str:
    """The name of the error that an expression gives in the archived page, in a realm without our scripts."""
    frame = tab.open(url_of("calm"))
    answer: str = frame.evaluate(f"(async () => {{ try {{ return String(await ({expression})) }} catch (e) {{ return e.name }} }})()")
    return answer


@pytest.mark.parametrize("name", ["document", "localStorage", "sessionStorage", "location.href"])
def test_h8_an_archived_page_cannot_look_into_the_controls(calm: Tab, name: str) -> None:
    assert refused(calm, f"top.{name}") == "SecurityError"


def test_h8_an_archived_page_cannot_ask_the_controls(calm: Stage | Tab) -> None:
    assert isinstance(calm, Tab)
    controls = calm.stage.served.controls
    made = "Object.assign(document.createElement('iframe'), {src: 'about:blank'})"
    inner = f"document.body.appendChild({made}).contentWindow"
    assert refused(calm, f"fetch('{controls}/api/').then((r) => r.status)") == "404"  # of the archive, which has no such page
    for mode in ("cors", "no-cors"):
        assert refused(calm, f"Reflect.get({inner}, 'eval')(\"Promise.resolve(1)\") && new Promise((done, fail) => "
                             f"setTimeout(() => fetch('{controls}/api/', {{mode: '{mode}'}}).then((r) => done(r.status), fail)))") == "404"


def test_h8_names_of_ours_are_hidden_from_the_cookies_of_pages(calm: Tab) -> None:
    calm.context.add_cookies([{"name": "hf_plain", "value": "secret", "url": calm.stage.served.replay}])
    assert refused(calm, "document.cookie") == ""
    assert refused(calm, "(document.cookie = 'hf_ticket=x', document.cookie)") == ""


def test_h8_an_archived_page_cannot_lead_the_frame_to_the_controls(calm: Tab) -> None:
    frame = calm.open(url_of("calm"))
    frame.evaluate(f"void setTimeout(() => {{ window.location = '{calm.stage.served.controls}/api/' }})")
    moved = calm.framed(lambda frame: "calm" not in frame.url)
    assert moved.url.startswith(f"{calm.stage.served.replay}/main/")

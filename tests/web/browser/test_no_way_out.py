"""The browser's own network log, and a trap in the place of the web, see nothing but our two origins (W17)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from firefox_browser import FirefoxFrame, firefox, firefox_tab, missing_firefox
from playwright.sync_api import Error, Frame
from replay_browser import Stage, Tab, hosts_in_log, needs_browser, staged, strangers
from ways_out import DOCUMENTS, TIME, WAYS_OUT, connecting_page, documents, in_data, stun_call, url_of, ways_out

pytestmark = needs_browser

ALLOWLISTS_SINCE = 152  # versions of Chromium that know the header which also closes WebRTC
WITHOUT_ALLOWLISTS = (
    "--disable-features=ConnectionAllowlists,ConnectionAllowlist",
    "--disable-blink-features=ConnectionAllowlist",
)
# What a page began is under way before these have come back.
_FENCE = """async () => {
  await fetch("/_hf/runtime.js").then((response) => response.text(), () => "");
  await new Promise((done) => requestIdleCallback(done, { timeout: 300 }));
}"""


@pytest.fixture(scope="module")
def udp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(2)
        yield bound


def visit(tab: Tab, way: str) -> None:
    """Opens the page; where it goes then is its own affair."""
    with suppress(Error):  # it is on its way elsewhere
        tab.page.goto(f"{tab.stage.served.controls}/main/{TIME}/{url_of(way)}")
    tab.until(lambda: has_gone_in(tab))
    try:
        innermost(tab).evaluate(_FENCE)
    except Error:  # the next page is the fence
        tab.until(lambda: has_gone_in(tab))


def innermost(tab: Tab) -> Frame:
    """The archived page, or the page that says that it is none."""
    top = tab.page.main_frame
    return next(iter(top.child_frames), top)


def has_gone_in(tab: Tab) -> bool:
    return "/main/" in innermost(tab).url or "error" in innermost(tab).url


def visit_alone(tab: Tab, way: str) -> None:
    """The same without the banner, whose frame holds it back."""
    with suppress(Error):
        tab.page.goto(f"{tab.stage.served.replay}/main/{TIME}mp_/{url_of(way)}")
        if way not in DOCUMENTS:  # no script runs in those, not even ours: their load is the fence
            tab.page.evaluate(_FENCE)


def version_of(stage: Stage) -> int:
    return int(stage.browser.version.split(".")[0])


def has_nobody_left(stage: Stage, *, may_connect: bool) -> None:
    """Chromium connects to where a frame is led while it still asks the policy, which then refuses the request; with
    allowlists it does not even connect."""
    stage.browser.close()
    log = hosts_in_log(stage.log)
    assert strangers(stage.trap.hosts, stage.served) == set()
    assert may_connect or strangers(log, stage.served) == set()
    assert stage.served.replay.removeprefix("http://") in log


@pytest.mark.parametrize("switches", [(), pytest.param(WITHOUT_ALLOWLISTS, marks=pytest.mark.soak)])
def test_w17_no_request_leaves_the_archive_ever(tmp_path: Path, switches: tuple[str, ...]) -> None:
    with staged(tmp_path, [*ways_out(), *documents()], switches) as stage:
        for worker in (True, False):
            with stage.context(worker=worker) as tab:
                for way in (*WAYS_OUT, "gallery", "calm"):
                    visit(tab, way)
                for way in (*WAYS_OUT, "gallery", *DOCUMENTS, "early", "calm"):
                    visit_alone(tab, way)
                assert "calm" in tab.page.title()
        may_connect = bool(switches) or version_of(stage) < ALLOWLISTS_SINCE
        has_nobody_left(stage, may_connect=may_connect)


@pytest.mark.skipif(bool(missing_firefox), reason=missing_firefox or "there is a Firefox")
def test_w17_no_request_leaves_the_frame_in_firefox(tmp_path: Path) -> None:
    with staged(tmp_path, [*ways_out(), *documents()]) as stage, firefox(stage) as browser:
        with firefox_tab(stage, browser) as tab:
            for way in (*WAYS_OUT, "gallery", "calm"):
                with suppress(AssertionError):  # the page before is on its way elsewhere
                    tab.page.goto(f"{stage.served.controls}/main/{TIME}/{url_of(way)}")
                frames: list[FirefoxFrame] = []  # of one moment: the page may replace its frame

                def is_archived(found: list[FirefoxFrame] = frames) -> bool:
                    found[:] = [frame for frame in tab.page.child_frames if "/main/" in frame.url]
                    return bool(found)

                tab.until(is_archived)
                with suppress(AssertionError):  # the next page is the fence
                    frames[0].evaluate(f"({_FENCE})()")
            assert "calm" in tab.page.evaluate("document.title")
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_w17_a_service_worker_of_a_page_is_dismissed_at_the_entrance(tmp_path: Path) -> None:
    with staged(tmp_path, ways_out()) as stage, stage.context() as tab:
        tab.open(url_of("calm"))
        tab.page.goto(f"{stage.served.replay}/_hf/enter?to=x")
        here = (
            "navigator.serviceWorker.getRegistrations().then((all) => all.map((each) => new URL(each.scope).pathname))"
        )
        tab.page.evaluate("navigator.serviceWorker.register('/_hf/worker.js?x', {scope: '/main/'})")
        assert len(tab.page.evaluate(here)) == 2
        tab.open(url_of("calm"))
        tab.page.goto(f"{stage.served.replay}/_hf/enter?to=x")
        assert tab.page.evaluate(here) == ["/"]


def test_w17_the_trap_and_the_log_notice_who_leaves(tmp_path: Path) -> None:
    with staged(tmp_path, ways_out()) as stage:
        stage.blank.set_content("<img src=http://control.live.example/x.png>")
        stage.browser.close()
        assert strangers(stage.trap.hosts, stage.served) == {"control.live.example"}
        assert "control.live.example" in hosts_in_log(stage.log)


def test_w17_no_peer_is_connected_to(tmp_path: Path, udp: socket.socket) -> None:
    port = udp.getsockname()[1]
    with staged(tmp_path, [connecting_page(port)]) as stage:
        if version_of(stage) < ALLOWLISTS_SINCE:
            pytest.skip("this browser does not know Connection-Allowlist")
        with stage.context() as tab, suppress(Error):  # Chromium ends a page that tries
            visit(tab, "connecting")
        with pytest.raises(TimeoutError):
            udp.recv(1000)
        stage.blank.evaluate(f"() => {{ {stun_call(port)} }}")
        assert udp.recv(1000)  # so it would have been noticed


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with staged(tmp_path_factory.mktemp("calm"), ways_out()) as stage, stage.context() as tab:
        yield tab


def refused(tab: Tab, expression: str) -> str:
    """The name of the error that an expression gives in the archived page, in a realm without our scripts."""
    frame = tab.open(url_of("calm"))
    answer: str = frame.evaluate(
        f"(async () => {{ try {{ return String(await ({expression})) }} catch (e) {{ return e.name }} }})()"
    )
    return answer


@pytest.mark.parametrize("name", ["document", "localStorage", "sessionStorage", "location.href"])
def test_h8_an_archived_page_cannot_look_into_the_controls(calm: Tab, name: str) -> None:
    assert refused(calm, f"top.{name}") == "SecurityError"


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_h8_an_archived_page_cannot_ask_the_controls(calm: Tab, mode: str) -> None:
    asked = f"{calm.stage.served.controls}/api/"
    assert refused(calm, f"fetch('{asked}').then((r) => r.status)") == "404"  # of the archive, which has no such page
    native = f"fetch(`{asked}`, {{mode: `{mode}`}}).then((r) => r.type, (e) => e.name)"
    native += ".then((told) => parent.postMessage(told, `*`))"
    elsewhere = f"""new Promise((done) => {{
      addEventListener("message", (event) => done(event.data));
      const frame = document.createElement("iframe");
      frame.src = {in_data(native)};
      document.body.append(frame);
    }})"""
    assert refused(calm, elsewhere) == "TypeError"  # where no script of ours has run, the policy holds


def test_h8_names_of_ours_are_hidden_from_the_cookies_of_pages(calm: Tab) -> None:
    calm.context.add_cookies([{"name": "hf_plain", "value": "secret", "url": calm.stage.served.replay}])
    assert refused(calm, "document.cookie") == ""
    assert refused(calm, "(document.cookie = 'hf_ticket=x', document.cookie)") == ""


def test_h8_an_archived_page_cannot_lead_the_frame_to_the_controls(calm: Tab) -> None:
    frame = calm.open(url_of("calm"))
    frame.evaluate(f"void setTimeout(() => {{ window.location = '{calm.stage.served.controls}/api/' }})")
    calm.until(lambda: "calm" not in innermost(calm).url)  # soon the banner's page says that this is not archived
    controls, replay = calm.stage.served.controls, calm.stage.served.replay
    assert calm.page.url.startswith(f"{controls}/main/")
    assert all(frame.url.startswith(f"{replay}/") for frame in calm.page.main_frame.child_frames)

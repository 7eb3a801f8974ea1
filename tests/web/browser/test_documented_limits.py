"""Limits of replay that docs/status.md and docs/how-to/replay-rules.md name, each as it is (P3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from replay_browser import Stage, needs_browser, staged, strangers, until
from serving import ask

from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.web.replay.rules import ReplayRules

pytestmark = needs_browser

A, B = "http://a.example", "http://b.example"
TIME, LATER = "20240102030405", "20240102030407"
SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg'><title>as it was</title><script>document.title = 'changed'</script></svg>"
)
ASKING = """<script>fetch('/never').then((got) => { window.never = got.status });
new WebSocket('ws://a.example/').onclose = (e) => { window.socketCode = e.code };
</script>"""
SPELLINGS = """<style>a[href="/there"] { color: rgb(1, 2, 3) }</style><a id=there href="/there">there</a>
<script>window.shown = {};
(function (w) { shown.computed = w["loc" + "ation"].href })(window);
(({location}) => { shown.pattern = location.href })(window);
{ const {document: {location: l}} = window; shown.inner = l.href }
shown.function = (function location() {}).name;
shown.stack = new Error("x").stack;
shown.script = document.currentScript.text;
onerror = (text, address) => { shown.address = address; return true };
setTimeout(() => { throw new Error("x") });
fetch("/script.js").then((got) => got.text()).then((text) => { shown.fetched = text });
shown.escaped = \\u006cocation.href;
shown.literal = location.href;
shown.named = String(function () { return location });
</script>
<script>document.write("<script>shown.written = loca"); document.write("tion.href</" + "script>")</script>
<script>shown.markup = document.body.innerHTML; shown.colour = getComputedStyle(there).color;
shown.ready = true</script>
"""
SANDBOXING = """<iframe id=held></iframe><script>
window.heard = [];
onmessage = (e) => heard.push(e.data);
held.sandbox.add("allow-scripts");
held.src = "/sandboxed";
</script>"""
SANDBOXED = "<img src=/late.svg><script>parent.postMessage('for another', 'http://b.example')</script>"
SENDING = """<iframe id=there src=/receiving></iframe><script>
there.onload = () => {
  const w = there.contentWindow, send = w["post" + "Message"];
  w.postMessage("by name", "*");
  send.call(w, "by a computed name", "*");
}
</script>"""
RECEIVING = """<script>window.sources = {};
onmessage = (e) => { sources[e.data] = e.source === window ? "itself" : e.source === parent ? "the sender" : "" };
</script>"""
MANY = ReplayRules.LOOK_AT + 1


def captures() -> Iterator[Exchange]:
    yield page(f"{A}/asking", ASKING, "text/html", TIME)
    yield page(f"{A}/framing", f"<iframe src='{B}/framed'></iframe>", "text/html", TIME)
    yield page(f"{B}/framed", "<p id=secret>of the other site", "text/html", TIME)
    yield page(f"{A}/spellings", SPELLINGS, "text/html", TIME)
    yield page(f"{A}/script.js", "location.reload()", "text/javascript", TIME)
    yield page(f"{A}/sandboxing", SANDBOXING, "text/html", TIME)
    yield page(f"{A}/sandboxed", SANDBOXED, "text/html", TIME)
    yield page(f"{A}/sending", SENDING, "text/html", TIME)
    yield page(f"{A}/receiving", RECEIVING, "text/html", TIME)
    yield page(f"{A}/drawing.svg", SVG, "image/svg+xml", TIME)
    yield page(f"{A}/form", f"<form method=post action='{B}/take'><input name=q value=1><button>go", "text/html", TIME)
    yield page(f"{B}/take", "<title>by GET</title>", "text/html", TIME)
    yield page(f"{A}/strict", "<img id=late src=/late.svg>", "text/html", TIME)
    yield page(
        f"{A}/late.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='7' height='7'/>", "image/svg+xml", LATER
    )
    for number in range(MANY):  # in the order of their keys; those of /few and the last of /many are alike
        yield page(f"{A}/many?n={number:05}&utm_source=x", str(number), "text/plain", TIME)
    yield page(f"{A}/few?n=1&utm_source=x", "found", "text/plain", TIME)
    yield page(f"{A}/exact?n=1&utm_source=x", "another", "text/plain", TIME)
    yield page(f"{A}/exact?n=1", "itself", "text/plain", "20200101000000")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(Path(tmp_path_factory.mktemp("limits")), list(captures())) as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_what_was_not_captured_is_not_found_and_web_sockets_fail(stage: Stage) -> None:
    with stage.context() as tab:
        frame = tab.open(f"{A}/asking", TIME)
        assert until(frame, "window.never") == 404
        assert until(frame, "window.socketCode") == 1006


def test_one_archived_site_can_reach_into_another(stage: Stage) -> None:
    with stage.context() as tab:
        frame = tab.open(f"{A}/framing", TIME)
        secret = "document.querySelector('iframe').contentDocument?.getElementById('secret')?.textContent"
        assert until(frame, secret) == "of the other site"


def test_some_spellings_show_the_replayed_address(stage: Stage) -> None:
    """Those of docs/protocol/rewriting.md#scripts; what they lead to is in the archive all the same."""
    with stage.context() as tab:
        frame = tab.open(f"{A}/spellings", TIME)
        assert until(frame, "window.shown.ready && shown.fetched && shown.address")
        shown = frame.evaluate("window.shown")
    replayed = f"{stage.served.replay}/main/{TIME}mp_/{A}/spellings"
    assert shown["literal"] == f"{A}/spellings"
    assert [shown[each] for each in ("computed", "pattern", "inner", "escaped", "written", "address")] == [replayed] * 6
    assert replayed in shown["stack"]
    assert shown["function"] == "__hf_location"
    assert "__hf_location" in shown["script"]
    assert shown["fetched"] == "__hf_location.reload()"
    assert f"/main/{TIME}mp_/{A}/there" in shown["markup"]
    assert shown["colour"] != "rgb(1, 2, 3)"
    assert "__hf_location" in shown["named"]


def test_a_frame_sandboxed_by_its_token_list_loads_no_parts_and_its_messages_reach_others(stage: Stage) -> None:
    with stage.context() as tab:
        frame = tab.open(f"{A}/sandboxing", TIME)
        assert until(frame, "window.heard[0]") == "for another"
        (sandboxed,) = frame.child_frames
        assert until(sandboxed, "document.images[0].complete")
        assert sandboxed.evaluate("document.images[0].naturalWidth") == 0


def test_a_message_sent_by_a_function_taken_by_a_computed_name_has_that_window_as_its_source(stage: Stage) -> None:
    with stage.context() as tab:
        frame = tab.open(f"{A}/sending", TIME)
        assert until(frame, "Object.keys(there.contentWindow.sources || {}).length === 2")
        sources = frame.evaluate("there.contentWindow.sources")
    assert sources == {"by name": "the sender", "by a computed name": "itself"}


def test_a_drawing_that_is_a_document_is_shown_without_its_scripts(stage: Stage) -> None:
    with stage.context() as tab:
        tab.page.goto(f"{stage.served.replay}/main/{TIME}mp_/{A}/drawing.svg")
        assert tab.page.title() == "as it was"


def test_a_form_posted_to_another_host_shows_the_capture_of_its_address(stage: Stage) -> None:
    with stage.context() as tab:
        tab.open(f"{A}/form", TIME).click("button")
        assert tab.at(f"{B}/take").title() == "by GET"


def test_not_newer_at_its_own_second_a_page_lacks_what_was_fetched_after_it(stage: Stage) -> None:
    with stage.context() as tab:
        for time, width in ((TIME, 0), ("20240103", 7)):
            frame = tab.open(f"{A}/strict", f"not-newer/{time}")
            assert frame.evaluate("[late.complete, late.naturalWidth]") == [True, width]


def test_rules_are_asked_only_where_the_url_itself_has_no_capture(stage: Stage) -> None:
    assert ask(f"{stage.served.replay}/main/{TIME}mp_/{A}/few?n=1&utm_source=y").body == b"found"
    assert ask(f"{stage.served.replay}/main/{TIME}mp_/{A}/exact?n=1").body == b"itself"


def test_rules_look_at_a_thousand_captures_that_begin_alike(stage: Stage) -> None:
    def found(number: int) -> int:
        return ask(f"{stage.served.replay}/main/{TIME}mp_/{A}/many?n={number:05}&utm_source=y").status

    assert [found(0), found(MANY - 2)] == [200, 200]
    assert found(MANY - 1) == 404

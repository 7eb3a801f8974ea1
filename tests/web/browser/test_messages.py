"""Messages between windows have the archived origins and the real windows, and reach whom they are meant for (P3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from replay_browser import Stage, Tab, missing, needs_browser, staged, strangers, until

from holdfast.archive.ingest.exchange import Exchange, page

pytestmark = needs_browser

TIME = "20240102030405"
NEWS, SHOP = "https://news.example", "http://shop.example:8080"
HEAD = "<!doctype html><html><head><title>messages</title></head><body>"

# Asked by the parent, a frame tells whatever it hears, and answers whom it heard.
FRAME = """<script>
addEventListener("message", (e) => {
  const w = e.source;
  const about = { heard: e.data, origin: e.origin, isParent: w === parent, isTop: w === top, ports: e.ports.length };
  if (e.ports.length) e.ports[0].postMessage("by port");
  w.postMessage(about, e.origin === "null" ? "*" : e.origin);
});
parent.postMessage("ready", "*");
</script>"""

PAGE = f"""{HEAD}<iframe id=near src="{NEWS}/near"></iframe><iframe id=far src="{SHOP}/far"></iframe>
<iframe id=documented srcdoc='{FRAME.replace("'", "&#39;")}'></iframe>
<iframe id=boxed sandbox="allow-scripts" srcdoc='{FRAME.replace("'", "&#39;")}'></iframe>
<script>
seen = {{ ready: {{}}, told: {{}}, ports: [] }};
const names = ["near", "far", "documented", "boxed"];
const nameOf = (w) => names.find((name) => document.getElementById(name).contentWindow === w);
addEventListener("message", (e) => {{
  if (e.data === "ready") return void (seen.ready[nameOf(e.source)] = e.origin);
  if (e.data === "deep") return void (seen.deep = [e.origin, e.source === frames[0].frames[0]]);
  if (e.source === window) return void (seen.own = [e.data, e.origin]);
  (seen.told[nameOf(e.source)] ||= []).push([e.data.heard, e.origin, e.data.origin, e.data.isParent, e.data.isTop]);
}});
function send() {{
  postMessage("own", location.origin);
  postMessage("not ours", "{SHOP}");
  for (const name of names) {{
    const w = document.getElementById(name).contentWindow;
    w.postMessage("any", "*");
    w.postMessage("news", "{NEWS}");
    w["postMessage"]("shop", {{ targetOrigin: "{SHOP}/path?x" }});
    w.postMessage("same", "/");
    w.postMessage("by default");
    w.postMessage.call(w, "called", "*");
    const {{ port1, port2 }} = new MessageChannel();
    port1.onmessage = (e) => seen.ports.push([name, e.data, e.origin]);
    w.postMessage("port", "*", [port2]);
  }}
  try {{ frames[1].postMessage("x", "no origin") }} catch (e) {{ seen.failed = [e.name, e instanceof DOMException] }}
  const made = new MessageEvent("message", {{ origin: "https://made.example", data: 1 }});
  seen.made = made.origin;
}}
</script></body></html>"""


def captures() -> Iterator[Exchange]:
    deep = f"<iframe src={SHOP}/deep></iframe>"
    yield page(f"{NEWS}/messages", PAGE.encode(), timestamp=TIME)
    yield page(f"{NEWS}/near", f"{HEAD}{FRAME}{deep}".encode(), timestamp=TIME)
    yield page(f"{SHOP}/far", f"{HEAD}{FRAME}".encode(), timestamp=TIME)
    yield page(
        f"{SHOP}/deep",
        f"{HEAD}<script>((w) => w.top.postMessage('deep', '{NEWS}'))(self)</script>".encode(),
        timestamp=TIME,
    )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(Path(tmp_path_factory.mktemp("messages")), list(captures())) as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_p3_messages_tell_archived_origins_and_reach_only_their_targets(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/messages")
    until(frame, "names.every((name) => name in seen.ready) && seen.deep")
    frame.evaluate("send()")
    until(frame, "seen.ports.length === 4 && seen.own && Object.values(seen.told).flat().length === 19")
    seen = frame.evaluate("seen")
    assert seen["ready"] == {"near": NEWS, "far": SHOP, "documented": NEWS, "boxed": "null"}
    assert seen["deep"] == [SHOP, True]
    assert seen["own"] == ["own", NEWS]
    near = ["any", "news", "same", "by default", "called", "port"]
    heard = {
        "near": near,
        "far": ["any", "shop", "called", "port"],
        "documented": near,
        "boxed": ["any", "called", "port"],
    }
    origins = {"near": NEWS, "far": SHOP, "documented": NEWS, "boxed": "null"}
    assert seen["told"] == {
        name: [[text, origins[name], NEWS, True, True] for text in texts] for name, texts in heard.items()
    }
    assert sorted(seen["ports"]) == [[name, "by port", ""] for name in ("boxed", "documented", "far", "near")]
    assert seen["failed"] == ["SyntaxError", True]
    assert seen["made"] == "https://made.example"

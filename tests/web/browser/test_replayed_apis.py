"""What the interfaces of a page tell it is what they told when it was captured (P3, W17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_pages import PNG
from replay_browser import Stage, Tab, missing, needs_browser, staged, strangers, until

from holdfast.archive.ingest.exchange import Exchange, page

pytestmark = needs_browser

TIME = "20240102030405"
LATER = "20240102040506"
NEWS, CDN = "https://news.example", "https://cdn.example"
HEAD = "<!doctype html><html><head><meta charset=utf-8><title>x</title><script>window.seen = {}</script>"
NOTE = "const note = (name) => (value) => { seen[name] = value }, failed = (name) => (e) => note(name)('failed: ' + e);"

MODULES = f"""{HEAD}
<script type=importmap>{{"imports": {{"bare": "./m/bare.js", "m/": "{CDN}/m/", "{CDN}/from.js": "/m/to.js"}},
  "scopes": {{"/m/": {{"bare": "/m/scoped.js"}}, "/pages/": {{"own": "/m/own.js"}}}}}}</script>
<script type=module src="../m/counted.js"></script>
<script type=module>
import {{ count }} from "../m/counted.js"; import "/m/counted.js"; import "{NEWS}/m/counted.js";
import data from "../m/data.json" with {{ type: "json" }};
import bare from "bare"; import inner from "/m/inner.js"; import own from "own"; import to from "{CDN}/from.js";
await import("../m/counted.js"); await import("../m/" + "counted.js"); await import("{NEWS}/m/" + "counted.js");
const lazy = await import("../m/" + "data.json", {{ with: {{ type: "json" }} }});
seen.modules = [count.n, data.name, lazy.default.name, bare, inner, own, to];
const s = document.createElement("script"); s.type = "module"; s.src = "../m/counted.js";
s.onload = () => {{ seen.loaded = count.n }}; document.head.append(s);
</script>
<script>import("../m/counted.js").then((m) => {{ seen.classic = m.count.n }})</script></head></html>"""

ADDRESSES = f"""{HEAD}</head><body><div id=box style="background: url({CDN}/p.png)">x</div>
<object><param name=movie value="{CDN}/film.swf"><param name=x value="/y"></object>
<script>{NOTE}
const host = ["https:", "", "cdn.example"].join("/");
fetch(host + "/data.json").then((r) => note("plain")([r.url, r.redirected, r.type, r.status]), failed("plain"));
fetch(host + "/later.json").then((r) => note("later")([r.url, r.redirected]), failed("later"));
fetch(host + "/moved").then((r) => note("moved")([r.url, r.redirected]), failed("moved"));
const xhr = new XMLHttpRequest(); xhr.onload = () => note("xhr")(xhr.responseURL);
xhr.open("GET", host + "/moved"); xhr.send();
const audio = new Audio(host + "/sound.ogg"); seen.audio = [audio.src, audio.currentSrc || audio.src];
try {{ history.pushState(null, "", host + "/x") }} catch (e) {{ seen.pushed = [e.name, e instanceof DOMException] }}
history.replaceState({{}}, "", "/addresses?x=1#y"); seen.replaced = [location.href, document.URL, history.state];
const made = document.createElement("div"); document.body.append(made);
made.style.backgroundImage = `url("${{host}}/p.png")`;
made.style.setProperty("border-image-source", `url(${{host}}/p.png)`);
seen.style = [made.style.backgroundImage, made.style.getPropertyValue("border-image-source"),
  getComputedStyle(made).backgroundImage, box.getAttribute("style"), box.style.backgroundImage,
  /url\\("[^"]*"\\)/.exec(box.style.cssText)[0]];
document.cookie = "__Host-a=1; Secure; Path=/"; document.cookie = "__Secure-b=2; Secure";
seen.cookie = document.cookie.split("; ").sort();
seen.own = [document.referrer, document.domain, document.location.href];
addEventListener("load", () => {{
  const names = (type) => performance.getEntriesByType(type).map((entry) => entry.name);
  seen.navigation = names("navigation");
  seen.resources = names("resource").filter((name) => name.includes("/main/"));
  seen.byName = performance.getEntriesByName(host + "/p.png").length > 0;
}});
</script></body></html>"""

BLOBS = f"""{HEAD}</head><body><script>{NOTE}
const text = `<!doctype html><body><img id=i src="{CDN}/p.png"><scr` + `ipt>parent.seen.frame =
  [location.protocol, origin]; fetch("{CDN}/data.json").then((r) => r.json()).then((j) => {{
  parent.seen.fetched = j.name }})</scr` + `ipt>`;
const frame = document.createElement("iframe");
frame.src = URL.createObjectURL(new Blob([text], {{ type: "text/html" }})); document.body.append(frame);
const worker = new Worker(URL.createObjectURL(new Blob([`import {{ count }} from "{NEWS}/m/counted.js";
  const later = await import("{NEWS}/m/" + "own.js");
  postMessage([count.n, later.default, self.location.protocol, origin])`],
  {{ type: "text/javascript" }})), {{ type: "module" }});
worker.onmessage = (e) => note("module")(e.data); worker.onerror = failed("module");
const asking = new Blob(["postMessage([((w) => w.location.protocol)(self), origin])"]);
const classic = new Worker(URL.createObjectURL(asking));
classic.onmessage = (e) => note("classic")(e.data);
const script = document.createElement("script");
const telling = new Blob(["seen.script = ((w) => w.location.href)(window)"], {{ type: "text/javascript" }});
script.src = URL.createObjectURL(telling);
document.head.append(script);
import(URL.createObjectURL(new Blob(["export default ((w) => w.location.href)(self)"], {{ type: "text/javascript" }})))
  .then((m) => note("imported")(m.default), failed("imported"));
const shared = new SharedWorker("/m/shared.js", {{ name: "x" }}); shared.port.onmessage = (e) => note("shared")(e.data);
new Blob(["location"]).text().then(note("blob"));
</script></body></html>"""

BOXED = f"""{HEAD}</head><body><iframe sandbox="allow-scripts" src="{CDN}/inside"></iframe>
<script>addEventListener("message", (e) => {{ seen.boxed = [e.origin, e.data] }})</script></body></html>"""
INSIDE = f"""{HEAD}<link rel=stylesheet href=/inside.css></head><body><img id=i src=/p.png><div id=d>x</div>
<script src=/inside.js></script><script>
addEventListener("load", () => {{
  let stored = "none"; try {{ stored = localStorage.length }} catch (e) {{ stored = e.name }}
  fetch("/data.json").then((r) => r.json(), (e) => ({{ name: String(e) }})).then((j) => parent.postMessage(
    [location.href, origin, i.naturalWidth, getComputedStyle(d).color, seen.linked, stored, j.name], "*"));
}});
</script></body></html>"""


def redirect(url: str, to: str) -> Exchange:
    return Exchange(url, f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode(), b"", TIME)


def captures() -> Iterator[Exchange]:
    texts = {f"{NEWS}/pages/modules": MODULES, f"{NEWS}/addresses": ADDRESSES, f"{NEWS}/blobs": BLOBS}
    for url, text in (texts | {f"{NEWS}/boxed": BOXED, f"{CDN}/inside": INSIDE}).items():
        yield page(url, text.encode(), timestamp=TIME)
    scripts = {
        f"{NEWS}/m/counted.js": "export const count = { n: globalThis.runs = (globalThis.runs || 0) + 1 }",
        f"{NEWS}/pages/m/bare.js": "export default 'bare'",
        f"{NEWS}/m/scoped.js": "export default 'scoped'",
        f"{NEWS}/m/own.js": "export default 'own'",
        f"{NEWS}/m/to.js": "export default 'to'",
        f"{NEWS}/m/inner.js": "import bare from 'bare'; export default 'inner with ' + bare",
        f"{NEWS}/m/shared.js": "onconnect = (e) => e.ports[0].postMessage([((w) => w.location.href)(self), self.name])",
        f"{CDN}/inside.js": "seen.linked = ((w) => w.location.hostname)(window)",
    }
    for url, text in scripts.items():
        yield page(url, text.encode(), "text/javascript", TIME)
    yield page(f"{NEWS}/m/data.json", b'{"name": "data"}', "application/json", TIME)
    yield page(f"{CDN}/data.json", b'{"name": "cdn"}', "application/json", TIME)
    yield page(f"{CDN}/later.json", b"{}", "application/json", LATER)
    yield page(f"{CDN}/p.png", PNG, "image/png", TIME)
    yield page(f"{CDN}/inside.css", b"#d { color: rgb(1, 2, 3) }", "text/css", TIME)
    yield redirect(f"{CDN}/moved", f"{CDN}/data.json")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(Path(tmp_path_factory.mktemp("apis")), list(captures())) as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_p3_a_module_is_one_whichever_way_it_is_imported(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/pages/modules")
    until(frame, "seen.modules && seen.loaded && seen.classic")
    assert frame.evaluate("seen.modules") == [1, "data", "data", "bare", "inner with scoped", "own", "to"]
    assert frame.evaluate("[seen.loaded, seen.classic, runs]") == [1, 1, 1]


def test_p3_addresses_read_back_are_the_archived_ones(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/addresses")
    until(frame, "seen.plain && seen.later && seen.moved && seen.xhr && seen.navigation")
    seen = frame.evaluate("seen")
    assert seen["plain"] == [f"{CDN}/data.json", False, "basic", 200]
    assert seen["later"] == [f"{CDN}/later.json", False]
    assert seen["moved"] == [f"{CDN}/data.json", True]
    assert seen["xhr"] == f"{CDN}/data.json"
    assert seen["audio"] == [f"{CDN}/sound.ogg"] * 2
    assert seen["pushed"] == ["SecurityError", True]
    assert seen["replaced"] == [f"{NEWS}/addresses?x=1#y", f"{NEWS}/addresses?x=1#y", {}]
    picture = f'url("{CDN}/p.png")'
    assert seen["style"] == [picture, picture, picture, f"background: url({CDN}/p.png)", picture, picture]
    assert seen["cookie"] == ["__Host-a=1", "__Secure-b=2"]
    assert seen["own"] == ["", "news.example", f"{NEWS}/addresses?x=1#y"]
    assert seen["navigation"] == [f"{NEWS}/addresses"]
    assert (seen["resources"], seen["byName"]) == ([], True)
    values = frame.evaluate(
        "[...document.querySelectorAll('param')].map((each) => each.getAttributeNode('value').value)"
    )
    assert values == [f"/main/{TIME}oe_/{CDN}/film.swf", "/y"]


def test_p3_blobs_that_are_pages_and_scripts_run_in_the_archive(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/blobs")
    until(
        frame,
        "['frame', 'fetched', 'module', 'classic', 'script', 'imported', 'shared', 'blob'].every((n) => n in seen)",
    )
    seen = frame.evaluate("seen")
    assert seen["frame"] == ["blob:", NEWS]
    assert seen["fetched"] == "cdn"
    assert seen["module"] == [1, "own", "blob:", NEWS]
    assert seen["classic"] == ["blob:", NEWS]
    assert (seen["script"], seen["imported"]) == (f"{NEWS}/blobs", f"{NEWS}/blobs")
    assert seen["shared"] == [f"{NEWS}/m/shared.js", "x"]
    assert seen["blob"] == "location"
    assert until(frame.child_frames[0], "document.getElementById('i').naturalWidth") == 1


def test_p3_sandboxed_frames_are_shown_with_their_parts(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/boxed")
    seen = until(frame, "seen.boxed")
    assert seen == ["null", [f"{CDN}/inside", "null", 1, "rgb(1, 2, 3)", "cdn.example", "SecurityError", "cdn"]]

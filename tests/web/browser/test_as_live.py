"""What a script is told in replay is what it was told on the live page (P3).

Each expectation is what Chromium gives for the same expression on the same page, served as that host.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_pages import PNG
from replay_browser import Stage, Tab, missing, needs_browser, staged, strangers, until

from holdfast.archive.ingest.exchange import Exchange, page

pytestmark = needs_browser

TIME = "20240102030405"
NEWS, CDN = "http://news.example", "http://cdn.example"
URL = f"{NEWS}/a/page?q=1"

EXPECTED: dict[str, Any] = {
    # the place
    "delete window.location": False,
    "(delete document.location, delete window.top, [location.href, document.location.href, top === window])": [
        URL,
        URL,
        True,
    ],
    "Object.keys(JSON.parse(JSON.stringify(location))).join(' ')": (
        "ancestorOrigins href origin protocol host hostname port pathname search hash"
    ),
    "(location.origin = 'http://x.example', location.href)": URL,
    "new DOMParser().parseFromString('', 'text/html').location": None,
    "document.implementation.createHTMLDocument('').location": None,
    # modules
    "import('/m/m.js').then((m) => [m.url, m.resolved, m.mapped, m.same, m.own])": [
        f"{NEWS}/m/m.js",
        f"{NEWS}/m/x.js",
        f"{NEWS}/mapped.js",
        True,
        3,
    ],
    f"import('{CDN}/m/m.js').then((m) => [m.url, m.rooted])": [f"{CDN}/m/m.js", f"{CDN}/p.png"],
    f"import('{CDN}/m/m.js').then((m) => fetch(m.rooted)).then((r) => [r.status, r.url])": [200, f"{CDN}/p.png"],
    "new Promise((done) => { new Worker('/m/worker.js', {type: 'module'}).onmessage = (e) => done(e.data) })": [
        f"{NEWS}/m/worker.js",
        f"{NEWS}/m/m.js",
    ],
    # fields of responses
    "fetch('/data').then((r) => ['x-total', 'link', 'last-modified', 'etag', 'content-type', 'memento-datetime',"
    " 'content-security-policy', 'set-cookie'].map((name) => r.headers.get(name)))": [
        "7",
        '</data?page=2>; rel="next"',
        "Mon, 01 Jan 2024 00:00:00 GMT",
        '"x"',
        "application/json",
        None,
        None,
        None,
    ],
    "fetch('/data').then((r) => r.headers === r.headers && r.clone().headers.get('x-total'))": "7",
    "asked('/data').then((x) => [x.getResponseHeader('X-Total'), x.getResponseHeader('ETag'), x.getResponseHeader('y'),"
    " x.getResponseHeader('memento-datetime'), x.getAllResponseHeaders()])": [
        "7",
        '"x"',
        None,
        None,
        'content-length: 7\r\ncontent-type: application/json\r\netag: "x"\r\n'
        "last-modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
        'link: </data?page=2>; rel="next"\r\nx-total: 7\r\n',
    ],
    # storages
    "[String(localStorage), localStorage.constructor === Storage, localStorage === localStorage]": [
        "[object Storage]",
        True,
        True,
    ],
    "(localStorage.clear(), Storage.prototype.setItem.call(localStorage, 'k', 1), localStorage.l = 2,"
    " [Storage.prototype.getItem.call(localStorage, 'k'), localStorage.length, localStorage.key(1) !== null,"
    " Object.entries(localStorage).sort().join(), 'k' in localStorage, localStorage.none])": [
        "1",
        2,
        True,
        "k,1,l,2",
        True,
        None,
    ],
    "patched()": [1, "v"],
    "failure(() => localStorage.setItem('k'))": "TypeError",
    "failure(() => Storage.prototype.getItem.call({}, 'k'))": "TypeError",
    "opened('db').then(() => indexedDB.databases()).then((all) => all.map((each) => each.name))": ["db"],
    "caches.open('v1').then((c) => c.add('/data').then(() => Promise.all([caches.keys(), c.keys(), c.match('/data'),"
    f" caches.match('{NEWS}/data')])))"
    ".then(([names, keys, ...found]) => [names, keys.map((k) => k.url), found.map(Boolean)])": [
        ["v1"],
        [f"{NEWS}/data"],
        [True, True],
    ],
    "new BroadcastChannel('x').name": "x",
    # cookies
    "cookies('a=1', 'b=2; domain=news.example', 'c=3; domain=.news.example; path=/', 'd=4; domain=other.example',"
    " 'e=5; domain=example', 'f=6; domain=s.example', 'g=7; domain=')": "a,b,c,g,h",
    # attributes and properties
    "made('a', 'href', 'http://u:p@x.example/y', (a) => [a.username, a.password, a.href])": [
        "u",
        "p",
        "http://u:p@x.example/y",
    ],
    "made('img', 'srcset', 'p.png 1x, /q.png 2x, http://cdn.example/r.png 3x, data:,x 4x', (i) => [i.srcset,"
    " i.getAttribute('srcset')])": ["p.png 1x, /q.png 2x, http://cdn.example/r.png 3x, data:,x 4x"] * 2,
    "made('base', 'href', '/deep/', (b) => [b.href, b.getAttribute('href')])": [f"{NEWS}/deep/", "/deep/"],
    "inDocument((d, base) => { base.href = location.href; return d.links[0].href })": f"{NEWS}/a/z",
    "inDocument((d, base) => { base.setAttribute('href', '/b/'); return d.links[0].href })": f"{NEWS}/b/z",
    "svg('use', (u) => { u.setAttribute('href', '/i.svg#a'); u.setAttributeNS(XLINK, 'xlink:href', '/j.svg#b');"
    " return [u.href.baseVal, u.href.animVal, u.getAttribute('href'), u.getAttributeNS(XLINK, 'href')] })": [
        "/i.svg#a",
        "/i.svg#a",
        "/i.svg#a",
        "/j.svg#b",
    ],
    # styles
    "made('div', 'title', '', (d) => { d.style.background = 'url(/p.png)'; return [d.style.background,"
    " d.style.cssText, d.getAttribute('style')] })": [
        'url("/p.png")',
        'background: url("/p.png");',
        'background: url("/p.png");',
    ],
    "styled('a { background: url(/p.png) }')": 'a { background: url("/p.png"); }',
    "linked('/s.css').then((s) => [s.href, s.cssRules[0].href, s.cssRules[1].cssText, document.styleSheets[0].href])": [
        f"{NEWS}/s.css",
        "/t.css",
        'b { background: url("/p.png"); }',
        f"{NEWS}/s.css",
    ],
    # history
    "new Promise((done) => { onhashchange = (e) => done([e.oldURL, e.newURL]); location.hash = 'h' })": [
        URL,
        f"{URL}#h",
    ],
    "new StorageEvent('storage', {storageArea: localStorage}).storageArea === localStorage": True,
    # functions
    "[fetch.length, postMessage.length, setTimeout.length, XMLHttpRequest.prototype.open.length]": [1, 1, 1, 2],
    "framed('<p>x</p>', (w) => w.document.URL.startsWith(`blob:${origin}/`))": True,
    # windows that may not be opened
    "open('/data', 'another')": None,
}
KNOWN = """
const XLINK = "http://www.w3.org/1999/xlink";
const asked = (url) => new Promise((done) => {
  const x = new XMLHttpRequest(); x.onload = () => done(x); x.open("GET", url); x.send();
});
const failure = (call) => { try { call(); return "" } catch (e) { return e.name } };
function patched() {
  const native = Storage.prototype.setItem;
  let count = 0;
  Storage.prototype.setItem = function (...given) { count += 1; return native.apply(this, given) };
  sessionStorage.setItem("patched", "v");
  Storage.prototype.setItem = native;
  return [count, sessionStorage.getItem("patched")];
}
const opened = (name) => new Promise((done) => { indexedDB.open(name).onsuccess = done });
function cookies(...texts) {
  for (const text of texts) document.cookie = text;
  return document.cookie.split("; ").map((pair) => pair[0]).sort().join();
}
function made(tag, name, value, read) {
  const element = document.createElement(tag);
  element[name] = value;
  return read(element);
}
function inDocument(read) {
  const other = document.implementation.createHTMLDocument("");
  other.body.innerHTML = "<a href=z>z</a>";
  return read(other, other.head.appendChild(other.createElement("base")));
}
const svg = (tag, read) => read(document.createElementNS("http://www.w3.org/2000/svg", tag));
function styled(text) {
  const style = document.createElement("style");
  style.textContent = text; document.head.append(style);
  const found = style.sheet.cssRules[0].cssText;
  style.remove();
  return found;
}
const linked = (href) => new Promise((done) => {
  const link = document.createElement("link");
  link.rel = "stylesheet"; link.href = href; link.onload = () => done(link.sheet); document.head.prepend(link);
});
const framed = (text, read) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.onload = () => done(read(frame.contentWindow));
  frame.src = URL.createObjectURL(new Blob([text], { type: "text/html" })); document.body.append(frame);
});
"""
MODULE = """export const url = import.meta.url, resolved = import.meta.resolve("./x.js"),
  same = import.meta === import . meta;
export const rooted = new URL("/p.png", import.meta.url).href;
export const mapped = self.document && import.meta.resolve("mapped");
import.meta.own = 3; export const own = import.meta.own;"""


def document() -> str:
    tests = ",\n".join(f"[{json.dumps(each)}, async () => ({each})]" for each in EXPECTED)
    return f"""<!doctype html><html><head><title>x</title>
<script type=importmap>{{"imports": {{"mapped": "/mapped.js"}}}}</script></head><body><script>{KNOWN}
(async () => {{
  const seen = {{}};
  for (const [name, test] of [{tests}])
    try {{ seen[name] = await test() ?? null }} catch (e) {{ seen[name] = String(e) }}
  window.seen = seen;
}})();
</script></body></html>"""


def captures() -> Iterator[Exchange]:
    yield page(URL, document().encode(), timestamp=TIME)
    for site in (NEWS, CDN):
        yield page(f"{site}/m/m.js", MODULE.encode(), "text/javascript", TIME)
        yield page(f"{site}/p.png", PNG, "image/png", TIME)
    yield page(
        f"{NEWS}/m/worker.js",
        b"import { url } from './m.js'; postMessage([import.meta.url, url])",
        "text/javascript",
        TIME,
    )
    yield page(f"{NEWS}/s.css", b"@import '/t.css'; b { background: url(/p.png) }", "text/css", TIME)
    yield page(f"{NEWS}/t.css", b"", "text/css", TIME)
    head = (
        'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\nX-Total: 7\r\nETag: "x"\r\n'
        'Link: </data?page=2>; rel="next"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nSet-Cookie: h=1\r\n'
        "Set-Cookie: i=2; Domain=other.example\r\n\r\n"
    )
    yield Exchange(f"{NEWS}/data", head.encode(), b'{"a":1}', TIME)
    yield page(f"{NEWS}/windows", WINDOWS.encode(), timestamp=TIME)
    yield page(f"{NEWS}/next", "<title>next</title>", timestamp=TIME)
    yield page(f"{NEWS}/storing", "<script>localStorage.setItem('told', 'news')</script>", timestamp=TIME)
    yield page(f"{CDN}/storing", "<script>localStorage.setItem('told', 'cdn')</script>", timestamp=TIME)
    yield page(f"{NEWS}/hearing", HEARING, timestamp=TIME)


WINDOWS = """<iframe name=known></iframe><a id=in-frame href=/next target=known>x</a>
<a id=of-its-own href=/next target=another>x</a>"""
HEARING = f"""<script>heard = []; addEventListener("storage", (e) =>
heard.push([e.key, e.newValue, e.url, e.storageArea === localStorage]))</script>
<iframe src={CDN}/storing></iframe><iframe src={NEWS}/storing></iframe>"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if missing:
        pytest.skip(missing)
    with staged(Path(tmp_path_factory.mktemp("live")), list(captures())) as stage:
        yield stage
        assert strangers(stage.trap.hosts, stage.served) == set()


def test_p3_a_script_is_told_what_it_was_told_live(tab: Tab) -> None:
    seen = until(tab.open(URL), "window.seen")
    assert {name: seen[name] for name in EXPECTED} == EXPECTED


def test_p3_only_changes_of_its_own_site_are_heard_by_a_page(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/hearing")
    assert until(frame, "window.heard.length && heard") == [["told", "news", f"{NEWS}/storing", True]]


def test_p3_the_navigation_interface_tells_archived_addresses(stage: Stage) -> None:
    with stage.context() as tab:
        frame = tab.open(URL)
        until(frame, "window.seen")
        assert frame.evaluate("navigation.currentEntry.url") == f"{URL}#h"
        went = """new Promise((done) => {
          navigation.addEventListener("navigate", (e) => {
            e.intercept({ handler: async () => {} });
            done(e.destination.url);
          }, { once: true });
          navigation.navigate("/other");
        })"""
        assert frame.evaluate(went) == f"{NEWS}/other"
        assert until(frame, "document.URL") == f"{NEWS}/other"


def test_w17_a_link_to_a_window_of_its_own_leads_on_in_the_frame(tab: Tab) -> None:
    frame = tab.open(f"{NEWS}/windows")
    frame.evaluate("void document.getElementById('in-frame').click()")
    inner = "document.querySelector('iframe').contentDocument.title"
    assert until(frame, f"{inner} === 'next' && {inner}") == "next"
    frame.evaluate("void setTimeout(() => document.getElementById('of-its-own').click())")
    assert tab.framed(lambda each: each.url.endswith("/next")).evaluate("document.title") == "next"

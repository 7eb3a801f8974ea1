"""Pages that reach for their parts in every way that there is; all of it lies in one archive, on several hosts.

What a page found out it notes in `seen`. Nothing of `*.live.example` is archived: who asks for that wants to leave.
"""

from __future__ import annotations

import base64

from holdfast.archive.ingest.exchange import Exchange, page

NEWS = "http://news.example"
CDN = "https://cdn.example"
TIME = "20240102030405"
LATER = "20240302030405"

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_HEAD = "<!doctype html><html><head><meta charset=utf-8><title>%s</title><script>window.seen = {}</script>"

MARKUP = f"""{_HEAD % "markup"}
<base href="//cdn.example/based/">
<link rel=preconnect href="https://preconnect.live.example/"><link rel=dns-prefetch href="//dns.live.example/">
<link rel=prefetch href="{CDN}/prefetched.json"><link rel=preload as=script href="{CDN}/module.js">
<link rel=stylesheet href="{CDN}/style.css" integrity="sha384-wrong">
<style>@import "//cdn.example/imported.css"; #inline {{ background: url({CDN}/p/inline.png) }}</style>
<script src="{CDN}/classic.js" integrity="sha384-wrong" crossorigin></script>
<script type=module>import {{ name }} from "{CDN}/module.js"; seen.inlineModule = name;</script>
<script type=module src="//cdn.example/entry.js"></script>
</head><body>
<img id=absolute src="{CDN}/p/absolute.png"><img id=relative src="relative.png"><img id=rooted src="/p/rooted.png">
<img id=set srcset="{CDN}/p/set1.png 1x, //cdn.example/p/set2.png 2x" src="{NEWS}/none.png">
<picture><source srcset="/p/source.png 1x"><img id=pictured src="{NEWS}/none.png"></picture>
<div id=inline>x</div><div id=linked>x</div><div id=imported style="font-family: Archived">x</div>
<svg><image id=svg href="{CDN}/p/svg.png" /></svg>
<iframe id=framed src="{NEWS}/frame"></iframe>
<iframe id=documented srcdoc="<img id=i src='{CDN}/p/srcdoc.png'>
<script>parent.seen.srcdoc = location.href</script>"></iframe>
<object data="{NEWS}/frame"></object><video poster="{CDN}/p/poster.png"></video>
</body></html>"""

SCRIPTS = f"""{_HEAD % "scripts"}</head><body><div id=box></div><div id=styled>x</div><div id=ruled>x</div>
<script>
const note = (name) => (value) => {{ seen[name] = value }};
const failed = (name) => (error) => {{ seen[name] = "failed: " + error }};
seen.place = [location.href, document.URL, location.origin, self.origin, document.domain, top === window,
  parent === window];
const host = ["https:", "", "cdn.example"].join("/");
fetch(host + "/data.json").then((r) => r.json().then((j) => [r.url, j.name])).then(note("fetch"), failed("fetch"));
fetch("/data.json").then((r) => r.json()).then((j) => note("fetchRooted")(j.name), failed("fetchRooted"));
fetch(new Request("data.json")).then((r) => r.json())
  .then((j) => note("fetchRelative")(j.name), failed("fetchRelative"));
fetch("/search", {{ method: "POST", body: "q=1", headers: {{ "Content-Type": "application/x-www-form-urlencoded" }} }})
  .then((r) => r.text()).then(note("posted"), failed("posted"));
const xhr = new XMLHttpRequest();
xhr.onload = () => note("xhr")([xhr.responseURL, JSON.parse(xhr.responseText).name]);
xhr.open("GET", "//cdn.example/data.json"); xhr.send();
new EventSource(host + "/events").onmessage = function (event) {{ note("events")(event.data); this.close() }};
seen.beacon = navigator.sendBeacon("https://beacon.live.example/", "x");
const socket = new WebSocket("wss://socket.live.example/");
seen.socket = []; socket.onerror = () => seen.socket.push("error");
socket.onclose = (event) => seen.socket.push(event.code, socket.readyState);
import(host + "/module.js").then((m) => note("imported")(m.name), failed("imported"));
const script = document.createElement("script"); script.src = host + "/classic.js"; document.head.append(script);
const image = new Image(); image.onload = () => note("image")(image.src); image.src = host + "/p/made.png";
box.innerHTML = `<img id=inner src="${{host}}/p/inner.png"><a id=link href="/linked?x#y">x</a>`;
box.insertAdjacentHTML("beforeend", `<img id=adjacent srcset="${{host}}/p/adjacent.png 1x">`);
document.write(`<img id=written src="${{host}}/p/written.png"><scr` + `ipt src="${{host}}/written.js"></scr` + `ipt>`);
const attributed = document.createElement("img"); attributed.id = "attributed";
attributed.setAttribute("src", "//cdn.example/p/attributed.png"); box.append(attributed);
styled.style.backgroundImage = `url(${{host}}/p/styled.png)`;
const sheet = document.createElement("style"); document.head.append(sheet);
sheet.sheet.insertRule(`#ruled {{ background: url("${{host}}/p/ruled.png") }}`, 0);
const text = document.createElement("style");
text.textContent = `@import "${{host}}/imported.css";`; document.head.append(text);
seen.link = [link.href, link.host, link.pathname, link.hash, link.getAttribute("href")];
const frame = document.createElement("iframe"); document.body.append(frame);
frame.contentWindow.fetch(host + "/data.json").then((r) => r.json())
  .then((j) => note("blankFrame")(j.name), failed("blankFrame"));
const blank = document.createElement("iframe"); document.body.append(blank);
blank.contentDocument.write(`<img id=i src="${{host}}/p/blank.png">`); blank.contentDocument.close();
localStorage.key1 = "a"; localStorage.setItem("key2", "b"); document.cookie = "taste=good; domain=news.example; path=/";
seen.kept = [localStorage.length, localStorage.getItem("key1"), Object.keys(localStorage).sort().join(),
  document.cookie];
history.pushState({{}}, "", "/pushed?a=1"); seen.pushed = location.href;
history.replaceState(null, "", "{NEWS}/scripts");
navigator.serviceWorker.register("/sw.js").then(note("serviceWorker"), (error) => note("serviceWorker")(error.name));
addEventListener("message", (event) => note("message")([event.origin, event.data]));
postMessage("hello", "{NEWS}"); postMessage("not for us", "https://other.example");
</script></body></html>"""

WORKERS = f"""{_HEAD % "workers"}</head><body><script>
const note = (name) => (event) => {{ seen[name] = event.data }};
new Worker("/workers/classic.js").onmessage = note("classic");
new Worker("/workers/module.js", {{ type: "module" }}).onmessage = note("module");
const code = `importScripts("https://cdn.example/imported.js");
  fetch("https://cdn.example/data.json").then((r) => r.json())
  .then((j) => postMessage([imported, j.name]))`;
const address = URL.createObjectURL(new Blob([code]));
new Worker(address).onmessage = note("blob"); URL.revokeObjectURL(address);
const shared = new SharedWorker("/workers/shared.js"); shared.port.onmessage = note("shared");
</script></body></html>"""

CLASSIC_WORKER = f"""importScripts("{CDN}/imported.js", "/workers/own.js");
const xhr = new XMLHttpRequest(); xhr.open("GET", "{CDN}/data.json", false); xhr.send();
new WebSocket("wss://socket.live.example/").onerror = () => done("dead");
function done(socket) {{ fetch("/data.json").then((r) => r.json()).then((j) =>
  postMessage([imported, own, JSON.parse(xhr.responseText).name, j.name, location.href, socket])) }}"""

MODULE_WORKER = f"""import {{ name }} from "{CDN}/module.js"; import "./beside.js";
const later = await import(["https:", "", "cdn.example", "lazy.js"].join("/"));
const data = await (await fetch("{CDN}/data.json")).json();
postMessage([name, self.beside, later.lazy, data.name, self.location.href]);"""

LEAVING = f"""{_HEAD % "leaving"}</head><body>
<a id=link href="{CDN}/arrived">x</a><a id=upward target=_top href="{CDN}/arrived">x</a>
<a id=blank target=_blank href="{CDN}/arrived">x</a>
<form id=asking action="{CDN}/found"><input name=q value="a b"></form>
<form id=posting action="{NEWS}/search" method=post><input name=q value=1></form>
<script>
const away = "https://cdn" + ".example/arrived";
const ways = {{
  link: () => link.click(), upward: () => upward.click(), blank: () => blank.click(), asking: () => asking.submit(),
  posting: () => posting.requestSubmit(), assign: () => location.assign(away), set: () => {{ location = away }},
  href: () => {{ window.location.href = away }}, top: () => {{ top.location = away }},
  alias: () => {{ const w = window; w["loca" + "tion"] = away }},
  replace: () => document.location.replace("//cdn.example/arrived"),
  path: () => {{ location.pathname = "/frame" }},
  refresh: () => {{ const m = document.createElement("meta"); m.httpEquiv = "refresh";
    m.content = "0; url=" + away; document.head.append(m) }},
  script: () => {{ const a = document.createElement("a"); a.href = away; document.body.append(a); a.click() }},
  form: () => {{ const f = document.createElement("form"); f.action = away; document.body.append(f); f.submit() }},
}};
</script></body></html>"""

_JS, _CSS = "text/javascript", "text/css"


def archived_pages() -> list[Exchange]:
    """All of them, and what they need."""
    texts = {
        f"{NEWS}/markup": MARKUP,
        f"{NEWS}/scripts": SCRIPTS,
        f"{NEWS}/workers": WORKERS,
        f"{NEWS}/leaving": LEAVING,
        f"{NEWS}/frame": f"{_HEAD % 'frame'}"
        "<script>seen.at = [location.href, parent !== window, top === parent]</script>",
        f"{NEWS}/meta": f'{_HEAD % "meta"}<meta http-equiv=refresh content="0; URL={CDN}/arrived">',
        f"{CDN}/arrived": f"{_HEAD % 'arrived'}</head>arrived",
        f"{CDN}/found?q=a+b": f"{_HEAD % 'found'}</head>found",
        f"{NEWS}/parts": f"{_HEAD % 'parts'}</head>"
        f"<img src={CDN}/p/absolute.png><img src=/late.png><img src=/gone.png>",
    }
    scripts = {
        f"{CDN}/classic.js": "seen.classic = document.currentScript.src",
        f"{CDN}/written.js": "seen.written = document.currentScript.src",
        f"{CDN}/module.js": "import { part } from './parts/part.js'; export const name = 'module with ' + part",
        f"{CDN}/parts/part.js": "import '/parts/rooted.js'; export const part = 'part'",
        f"{CDN}/parts/rooted.js": "globalThis.rooted = true",
        f"{CDN}/entry.js": "import('./lazy.js').then(m => seen.lazy = m.lazy + ' ' + globalThis.rooted)",
        f"{CDN}/lazy.js": "export const lazy = 'lazy'",
        f"{CDN}/imported.js": "self.imported = 'imported'",
        f"{NEWS}/workers/own.js": "self.own = 'own'",
        f"{NEWS}/workers/beside.js": "self.beside = 'beside'",
        f"{NEWS}/workers/classic.js": CLASSIC_WORKER,
        f"{NEWS}/workers/module.js": MODULE_WORKER,
        f"{NEWS}/workers/shared.js": "onconnect = (e) => fetch('https://cdn.example/data.json').then((r) => r.json())"
        ".then((j) => e.ports[0].postMessage([j.name, location.href]))",
    }
    styles = {
        f"{CDN}/style.css": f"@import '/deep.css'; #linked {{ background: url({CDN}/p/linked.png) }}",
        f"{CDN}/deep.css": "#linked { color: rgb(1, 2, 3) }",
        f"{CDN}/imported.css": "@font-face { font-family: Archived; src: url(//cdn.example/font.woff2) }",
    }
    pictures = "absolute set1 set2 source inline linked svg srcdoc poster made inner adjacent written attributed styled"
    names = [f"{CDN}/p/{name}.png" for name in (*pictures.split(), "ruled", "blank", "rooted")]
    return [
        *(page(url, text.encode(), timestamp=TIME) for url, text in texts.items()),
        *(page(url, text.encode(), _JS, TIME) for url, text in scripts.items()),
        *(page(url, text.encode(), _CSS, TIME) for url, text in styles.items()),
        *(page(url, PNG, "image/png", TIME) for url in (*names, f"{CDN}/based/relative.png")),
        page(f"{NEWS}/late.png", PNG, "image/png", LATER),
        page(f"{CDN}/font.woff2", b"no font at all", "font/woff2", TIME),
        page(f"{CDN}/data.json", b'{"name": "cdn"}', "application/json", TIME),
        page(f"{CDN}/prefetched.json", b"{}", "application/json", TIME),
        page(f"{NEWS}/data.json", b'{"name": "news"}', "application/json", TIME),
        page(f"{CDN}/events", b"data: told\n\n", "text/event-stream", TIME),
        _posted(),
    ]


def _posted() -> Exchange:
    """The answer to a form, which is found by what was posted."""
    body = b"q=1"
    request = (
        b"POST /search HTTP/1.1\r\nHost: news.example\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    answer = b"<!doctype html><title>results</title>results of q=1"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(answer)
    return Exchange(f"{NEWS}/search", head, answer, TIME, request)

"""Pages that want to leave: each asks for something at a host of its own below `live.example`, in whatever way.

`inner` is a window that the page makes for itself, in which no script of ours has run before the page's own.
"""

from __future__ import annotations

from holdfast.archive.ingest.exchange import Exchange, page

TIME = "20240102030405"
_INNER = "document.body.insertAdjacentHTML('beforeend', '<iframe></iframe>'); const inner = frames[0];"
_FRAME = "const f = document.createElement('iframe');"
_END = "document.body.append(f);"

# %s is the host that the page wants to reach
WAYS_OUT = {
    "data-frame": '<iframe src="data:text/html,<img src=http://%s/x.png>"></iframe>',
    "data-frame-made": f"<script>{_FRAME} f.src = 'data:text/html,<img src=http://%s/x.png>'; {_END}</script>",
    "sandboxed": '<iframe sandbox="allow-scripts" srcdoc="<img src=http://%s/x.png>"></iframe>',
    "sandboxed-made": f"<script>{_FRAME} f.sandbox = 'allow-scripts'; "
    f"f.srcdoc = \"<script>document.write('<im' + 'g src=http://%s/x.png>')<\\/script>\"; {_END}</script>",
    "blob-frame": f"<script>{_FRAME} f.src = URL.createObjectURL(new Blob(['<img src=http://%s/x.png>"
    f"<script>fetch(\"http://%s/f\")<\\/script>'], {{type: 'text/html'}})); {_END}</script>",
    "script-frame": f"<script>{_FRAME} f.src = \"javascript:'<im' + 'g src=http://%s/x.png>"
    f"<script>fetch(`http://%s/f`)</scr' + 'ipt>'\"; {_END}</script>",
    "inner-fetch": f"<script>{_INNER} inner.fetch('http://%s/x').catch(() => 0)</script>",
    "inner-beacon": f"<script>{_INNER} inner.navigator.sendBeacon('http://%s/x')</script>",
    "inner-socket": f"<script>{_INNER} try {{ new inner.WebSocket('ws://%s/x') }} catch {{}}</script>",
    "inner-preconnect": f"<script>{_INNER} const l = inner.document.createElement('link'); l.rel = 'preconnect'; "
    "l.href = 'http://%s/'; inner.document.head.append(l)</script>",
    "inner-worker": f"<script>{_INNER} new inner.Worker('data:text/javascript,"
    'try{importScripts("http://%s/x.js")}catch(e){};fetch("http://%s/y")\')</script>',
    "preconnect": '<link rel=preconnect href="http://%s/"><link rel=dns-prefetch href="http://%s/">'
    '<link rel=prefetch href="http://%s/x"><link rel=prerender href="http://%s/y">',
    "speculation": "<script type=speculationrules>"
    '{"prefetch": [{"urls": ["http://%s/x"], "eagerness": "immediate"}]}</script>',
    "speculation-made": "<script>const s = document.createElement('script'); s.type = 'speculationrules'; "
    's.textContent = \'{"prefetch": [{"urls": ["http://%s/x"], "eagerness": "immediate"}], '
    '"prerender": [{"urls": ["http://%s/y"], "eagerness": "immediate"}]}\'; document.head.append(s)</script>',
    "data-worker": "<script>new Worker('data:text/javascript,try{importScripts(\"http://%s/x.js\")}catch(e){}')</script>",
    "meta": '<meta http-equiv=refresh content="0; url=http://%s/">',
    "alias": "<script>const w = window; setTimeout(() => { w['loca' + 'tion'] = 'http://%s/' })</script>",
    "post": "<script>const f = document.createElement('form'); f.action = 'http://%s/'; f.method = 'post'; "
    "document.body.append(f); f.submit()</script>",
    "named-frame": "<iframe name=inner></iframe><script>frames.inner['loca' + 'tion'] = 'http://%s/'</script>",
    "worker-gone": f"<script>{_INNER} const c = inner.navigator.serviceWorker; (async () => {{ "
    "try { await (await c.getRegistration('/')).unregister() } catch {} "
    "const i = inner.document.createElement('img'); i.src = 'http://%s/y.png' })()</script>",
    "elements": '<svg><image href="http://%s/x.png"/><use href="http://%s/y.svg#a"/></svg><object data="http://%s/o"></object>'
    '<embed src="http://%s/e"><video src="http://%s/v" poster="http://%s/p"></video><audio src="http://%s/a"></audio>'
    '<link rel=manifest href="http://%s/m"><link rel=icon href="http://%s/i"><input type=image src="http://%s/n">'
    '<table background="http://%s/t"><tr><td></table><applet code="http://%s/c"></applet>',
    "window": "<script>window.open('http://%s/'); const a = document.createElement('a'); a.href = 'http://%s/'; "
    "a.target = '_blank'; a.click()</script>",
    "ping": "<a id=p href='#x' ping='http://%s/'>x</a>"
    "<script>p.click(); p.setAttribute('ping', 'http://%s/2'); p.click()</script>",
    "stylesheet": "<script>const s = new CSSStyleSheet(); s.replaceSync('body { background: red }'); "
    "document.adoptedStyleSheets = [s]; s.cssRules[0].style.backgroundImage = 'url(http://%s/x.png)'; "
    "document.body.style.cssText = 'border-image: url(http://%s/y.png) 1'</script>",
    "shadow": "<div id=d></div><script>d.attachShadow({mode: 'open'}).innerHTML = "
    "'<style>@import \"http://%s/x.css\"</style><im' + 'g src=http://%s/y.png>'</script>",
    "data-beacons": '<iframe sandbox src="data:text/html,<style>@import url(http://%s/a.css)</style><img src=http://%s/b>'
    "<link rel=preload as=image href=http://%s/p><link rel=preconnect href=http://%s/><link rel=dns-prefetch href=http://%s/>"
    '<meta http-equiv=refresh content=0;url=http://%s/m>"></iframe>'
    '<object data="data:text/html,<img src=http://%s/o>"></object><embed src="data:text/html,<img src=http://%s/e>">'
    '<iframe src="data:image/svg+xml,<svg xmlns=%%22http://www.w3.org/2000/svg%%22><image href=%%22http://%s/i%%22/></svg>">'
    "</iframe>",
    "data-leaving": f"<script>{_FRAME} f.src = 'data:text/html,<script>open(`http://%s/o`); top.location = `http://%s/t`"
    f"<\\/script>'; {_END}</script>",
    "blob-documents": "<script>for (const [type, text] of [['text/xml', '<?xml-stylesheet type=\"text/xsl\" "
    "href=\"http://%s/x.xsl\"?><a/>'], ['image/svg+xml', '<svg xmlns=\"http://www.w3.org/2000/svg\"><script>"
    'location = "http://%s/l"; fetch("http://%s/f")<\\/script></svg>\']]) {'
    f"{_FRAME} f.src = URL.createObjectURL(new Blob([text], {{type}})); {_END} }}</script>",
    "transformed": "<script>const read = (t) => new DOMParser().parseFromString(t, 'text/xml'); "
    "const p = new XSLTProcessor(); "
    'p.importStylesheet(read(\'<xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0">'
    '<xsl:template match="/"><img src="http://%s/x.png"/></xsl:template></xsl:stylesheet>\')); '
    "document.body.append(p.transformToFragment(read('<a/>'), document))</script>",
}


_SVG = "<svg xmlns='http://www.w3.org/2000/svg'>"
_SECOND = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<script>location = 'http://early.live.example/'</script>"
_TAKE_OVER = f"/main/{TIME}mp_/http://drawing-worker.example/sw.js"
# Documents that are no pages: fields of their heads, and what they are.
DOCUMENTS = {
    "drawing": (
        "Content-Type: image/svg+xml",
        f"{_SVG}<script>fetch('http://%s/f'); navigator.sendBeacon('http://%s/b'); open('http://%s/o'); "
        "location = 'http://%s/l'</script><image href='http://%s/i'/><use href='http://%s/u#a'/><foreignObject>"
        "<iframe xmlns='http://www.w3.org/1999/xhtml' src='http://%s/fr'/></foreignObject></svg>",
    ),
    "drawing-worker": (
        "Content-Type: image/svg+xml",
        f"{_SVG}<script>navigator.serviceWorker.register('{_TAKE_OVER}').then(() => location.reload())</script></svg>",
    ),
    "transforming": (
        "Content-Type: text/xml",
        "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='http://%s/x.xsl'?><a/>",
    ),
    "styled": (
        "Content-Type: application/xml",
        "<?xml version='1.0'?><?xml-stylesheet type='text/css' href='http://%s/x.css'?>"
        "<a xmlns='http://www.w3.org/1999/xhtml'><script>location = 'http://%s/n'</script></a>",
    ),
    "untyped": ("X: y", "<!doctype html><body><script>fetch('http://%s/f'); location = 'http://%s/l'</script>"),
}
_SERVICE_WORKER = b"""onfetch = (event) => event.respondWith(new Response(
    "<img src=http://taken-over.live.example/i>", {headers: {"content-type": "text/html"}}))"""


def documents() -> list[Exchange]:
    """Those above, one that hides a second answer behind its status, and a page that shows all of them."""
    found = [_document(name, field, text) for name, (field, text) in DOCUMENTS.items()]
    early = Exchange(url_of("early"), b"HTTP/1.1 103 Early Hints\r\nContent-Type: text/html\r\n\r\n", _SECOND, TIME)
    worker = page("http://drawing-worker.example/sw.js", _SERVICE_WORKER, "text/javascript", TIME)
    urls = [url_of(name) for name in (*DOCUMENTS, "early")]
    shown = "".join(f"<iframe src={url}></iframe><object data={url}></object><embed src={url}>" for url in urls)
    return [*found, early, worker, page(url_of("gallery"), f"<!doctype html><body>{shown}".encode(), timestamp=TIME)]


def _document(name: str, field: str, text: str) -> Exchange:
    body = text.replace("%s", f"{name}.live.example").encode()
    return Exchange(url_of(name), f"HTTP/1.1 200 OK\r\n{field}\r\n\r\n".encode(), body, TIME)


def url_of(way: str) -> str:
    return f"http://{way}.example/"


def ways_out() -> list[Exchange]:
    """The pages, and one that stays where it is."""
    end = "<script>addEventListener('load', () => { window.isLoaded = true })</script>"
    pages = {way: text.replace("%s", f"{way}.live.example").replace("%%", "%") for way, text in WAYS_OUT.items()}
    head = "<!doctype html><html><head><title>%s</title>%s</head><body>%s</body></html>"
    exchanges = [page(url_of(way), (head % (way, end, text)).encode(), timestamp=TIME) for way, text in pages.items()]
    return [*exchanges, page(url_of("calm"), (head % ("calm", end, "calm")).encode(), timestamp=TIME)]


def connecting_page(port: int) -> Exchange:
    """One that asks a STUN server, in a frame of another origin, which no script of ours can get ready."""
    text = (
        f"<!doctype html><html><body><script>{_FRAME} f.src = {in_data(stun_call(port))}; {_END}</script></body></html>"
    )
    return page("http://connecting.example/", text.encode(), timestamp=TIME)


def stun_call(port: int) -> str:
    call = f"const p = new RTCPeerConnection({{iceServers: [{{urls: `stun:127.0.0.1:{port}`}}]}});"
    return f"{call} p.createDataChannel(`x`); p.createOffer().then((o) => p.setLocalDescription(o))"


def in_data(script: str) -> str:
    """An expression for the address of a page that is data and runs this script, which quotes by backticks only."""
    return f"'data:text/html,' + encodeURIComponent('<script>{script}</' + 'script>')"

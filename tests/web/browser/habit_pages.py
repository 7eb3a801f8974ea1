"""Captures of pages that do what many sites do: clocks, chance, JSONP, posted searches, films."""

from __future__ import annotations

import json
import struct
import wave
from collections.abc import Iterator
from io import BytesIO

from holdfast.archive.ingest.exchange import Exchange, page

TIME = "20040102030405"
SHOP, CDN = "http://shop.example", "http://cdn.example"
HEAD = "<!doctype html><html><head><meta charset=utf-8><title>x</title><script>window.seen = {}</script>"
HOUR_MS = 3_600_000

CLOCK = f"""{HEAD}</head><body><iframe src="about:blank"></iframe><script>
const inner = document.querySelector("iframe").contentWindow;
const year = new Intl.DateTimeFormat("en", {{ year: "numeric", timeZone: "UTC" }});
class Later extends Date {{ get next() {{ return this.getUTCFullYear() + 1 }} }}
const near = (time) => Math.abs(time - Date.UTC(2004, 0, 2, 3, 4, 5)) < {HOUR_MS};
seen.near = [Date.now(), new Date().getTime(), +new Date(Date()), performance.timeOrigin,
  performance.timing.navigationStart,
  performance.timing.toJSON().navigationStart,
  inner.Date.now(), new inner.Date().getTime()].map(near);
seen.said = [year.format(), year.formatToParts()[0].value, year.format(0), new Later().next, new Date(0).getTime()];
seen.kind = [new Date() instanceof Date, new Date().constructor === Date, Date.name, Date.length,
  String(Date.now).includes("native code"), Date.UTC(2000, 0), Date.parse("2000-01-01"), typeof Date()];
if (window.Temporal) seen.near.push(near(Temporal.Now.instant().epochMilliseconds),
  near(Temporal.Now.zonedDateTimeISO("UTC").epochMilliseconds),
  Temporal.Now.plainDateISO("UTC").year === 2004);
seen.random = [Math.random(), Math.random(), Math.random()];
document.cookie = "kept=1; expires=" + new Date(Date.now() + {HOUR_MS}).toUTCString();
document.cookie = "over=1; expires=" + new Date(Date.now() - 1000).toUTCString();
seen.cookie = document.cookie;
const text = `postMessage([Math.abs(Date.now() - Date.UTC(2004, 0, 2, 3, 4, 5)) < {HOUR_MS}, Math.random() < 1])`;
const worker = new Worker(URL.createObjectURL(new Blob([text]))), linked = new Worker("/clock.js");
worker.onmessage = (e) => {{ seen.worker = e.data }}; linked.onmessage = (e) => {{ seen.linked = e.data }};
</script></body></html>"""
CLOCK_WORKER = f"postMessage([Math.abs(Date.now() - Date.UTC(2004, 0, 2, 3, 4, 5)) < {HOUR_MS}, Math.random() < 1])"

ASKING = f"""{HEAD}</head><body><script>
const jsonp = (address, name) => {{
  const made = "call_" + Math.floor(performance.now() * 1e6) + "_" + name;
  window[made] = (value) => {{ seen[name] = value }};
  const script = document.createElement("script");
  script.src = address + made + "&_=" + performance.now(); document.head.append(script);
}};
jsonp("{CDN}/feed?callback=", "plain"); jsonp("{CDN}/guarded?x=1&jsonp=", "guarded"); jsonp("{CDN}/own?fn=", "own");
const busted = (name, address) => fetch(address).then((r) => r.text()).then((t) => {{ seen[name] = t }});
busted("busted", "{CDN}/data?q=1&_=" + performance.now()); busted("ruled", "/v99/data?token=abc");
busted("strict", "/only?id=7&other=" + performance.now());
const post = (name, body, type) => fetch("/search", {{ method: "POST", body, headers: {{ "Content-Type": type }} }})
  .then((r) => r.text()).then((t) => {{ seen[name] = t }});
const form = "application/x-www-form-urlencoded";
post("first", "q=cats&page=1", form); post("second", "q=cats&page=2", form); post("alike", "q=dogs&page=1&_=77", form);
post("nearest", "q=dogs&page=9", form);
post("json", JSON.stringify({{ find: {{ word: "owls" }}, ts: performance.now() }}), "application/json");
</script></body></html>"""

FILM = f"""{HEAD}</head><body><audio id=sound preload=auto src="{CDN}/sound.wav"></audio>
<audio id=parts preload=auto src="{CDN}/parts.wav"></audio><script>
const ranged = (name, url, range) => fetch(url, {{ headers: {{ Range: range }} }}).then(async (r) => {{
  seen[name] = [r.status, r.headers.get("Content-Range"), (await r.arrayBuffer()).byteLength] }});
ranged("middle", "{CDN}/sound.wav", "bytes=1000-1999"); ranged("last", "{CDN}/parts.wav", "bytes=1900000-1900099");
ranged("beyond", "{CDN}/parts.wav", "bytes=9000000-");
async function play(name, list) {{
  const lines = async (url) => (await (await fetch(url)).text()).split("\\n")
    .filter((line) => line && !line.startsWith("#"));
  const [variant] = await lines(list);
  const segments = await lines(new URL(variant, list));
  const text = async (each) => (await fetch(new URL(each, new URL(variant, list)))).text();
  seen[name] = await Promise.all(segments.map(text));
}}
play("hls", "{CDN}/film/master.m3u8");
fetch("{CDN}/film/film.mpd").then((r) => r.text()).then(async (text) => {{
  const read = new DOMParser().parseFromString(text, "text/xml");
  const base = new URL(read.querySelector("BaseURL").textContent, "{CDN}/film/film.mpd");
  const media = read.querySelector("SegmentTemplate").getAttribute("media").replace("$Number$", 1);
  seen.dash = await (await fetch(new URL(media, base))).text();
}});
</script></body></html>"""
MASTER = "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n/film/low/list.m3u8\n"
LIST = f"#EXTM3U\n#EXTINF:1,\none.ts\n#EXTINF:1,\n{CDN}/film/low/two.ts\n#EXTINF:1,\n//cdn.example/film/low/three.ts\n"
MPD = f"""<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>{CDN}/film/dash/</BaseURL><Period><AdaptationSet>
<SegmentTemplate media="/film/dash/$Number$.m4s"/></AdaptationSet></Period></MPD>"""

RULES = """
[[rule]]
site = "shop.example"
ignore = ["token"]
alike = [['/v\\d+/', '/v/']]

[[rule]]
site = "shop.example/only"
only = ["id"]

[[rule]]
site = "cdn.example/own"
jsonp = ["fn"]
"""


def sound(seconds: int) -> bytes:
    made = BytesIO()
    with wave.open(made, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(struct.pack("<h", 7) * 8000 * seconds)
    return made.getvalue()


def part(url: str, whole: bytes, begin: int, end: int) -> Exchange:
    place = f"bytes {begin}-{end - 1}/{len(whole)}"
    head = f"HTTP/1.1 206 Partial\r\nContent-Type: audio/wav\r\nContent-Range: {place}\r\n\r\n"
    return Exchange(url, head.encode(), whole[begin:end], TIME)


def posted(url: str, body: bytes, kind: str, answer: str) -> Exchange:
    request = (
        f"POST /search HTTP/1.1\r\nHost: shop.example\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    return Exchange(url, head, answer.encode(), TIME, request.encode() + body)


def captures() -> Iterator[Exchange]:
    for name, text in (("clock", CLOCK), ("other", CLOCK), ("asking", ASKING), ("film", FILM)):
        yield page(f"{SHOP}/{name}", text.encode(), timestamp=TIME)
    texts = {
        f"{SHOP}/clock.js": CLOCK_WORKER,
        f"{CDN}/feed?callback=jQuery1124_99&_=1": "/**/jQuery1124_99({'from': 'feed'});",
        f"{CDN}/guarded?x=1&jsonp=old.name": "typeof old.name === 'function' && old.name([1, 'old.name'])",
        f"{CDN}/own?fn=once": "once(3)",
    }
    for url, text in texts.items():
        yield page(url, text.encode(), "text/javascript", TIME)
    data = {
        f"{CDN}/data?q=1&_=5": "busted",
        f"{SHOP}/v12/data?token=xyz": "ruled",
        f"{SHOP}/only?id=7&other=1": "seven",
    }
    for url, text in (data | {f"{SHOP}/only?id=8": "eight", f"{CDN}/data?q=2": "wrong"}).items():
        yield page(url, text.encode(), "text/plain", TIME)
    form = "application/x-www-form-urlencoded"
    for body, answer in (("q=cats&page=1", "cats 1"), ("q=cats&page=2", "cats 2"), ("q=dogs&page=1&_=3", "dogs 1")):
        yield posted(f"{SHOP}/search", body.encode(), form, answer)
    asked = {"find": {"word": "owls"}, "ts": 1}
    yield posted(f"{SHOP}/search", json.dumps(asked).encode(), "application/json", "owls")
    whole = sound(120)
    yield page(f"{CDN}/sound.wav", whole, "audio/wav", TIME)
    for begin, end in ((0, 700_000), (700_000, 1_500_000), (1_500_000, len(whole))):
        yield part(f"{CDN}/parts.wav", whole, begin, end)
    yield page(f"{CDN}/film/master.m3u8", MASTER.encode(), "application/vnd.apple.mpegurl", TIME)
    yield page(f"{CDN}/film/low/list.m3u8", LIST.encode(), "application/x-mpegurl", TIME)
    yield page(f"{CDN}/film/film.mpd", MPD.encode(), "application/dash+xml", TIME)
    for name in ("low/one.ts", "low/two.ts", "low/three.ts", "dash/1.m4s"):
        yield page(f"{CDN}/film/{name}", name.encode(), "video/mp2t", TIME)

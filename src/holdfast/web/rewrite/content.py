"""The content of a capture, rewritten by its kind; the manifests of films, HLS and DASH, too.

Three things decide the kind of a capture: the address says what the page wanted (`js_`, `cs_`), the browser how it will
use it (`Sec-Fetch-Dest`), the archived server what it was (`Content-Type`). Servers are often wrong about types, so the
first two have precedence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from html import unescape
from xml.sax.saxutils import escape, quoteattr

from holdfast.formats.html.charset import charset_of
from holdfast.formats.http import HTML_TYPES
from holdfast.web.replay.response import Archived
from holdfast.web.request import DOCUMENTS
from holdfast.web.rewrite.addresses import Scene, base_url, rewrite
from holdfast.web.rewrite.css import rewrite_css
from holdfast.web.rewrite.html import rewrite_html
from holdfast.web.rewrite.javascript import is_module, rewrite_script
from holdfast.web.rewrite.runtime import Runtime

_CSS = "text/css"
_SCRIPT_TYPES = frozenset(
    (
        *("text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript"),
        *("text/jscript", "application/ecmascript", "text/x-javascript"),
    )
)
_HLS_TYPES = frozenset(("application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl", "audio/x-mpegurl"))
_SCRIPTS = frozenset(("script", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet"))
_LOOKED_AT = 64 << 10
_WORKERS = frozenset(("worker", "sharedworker"))


class CaptureKind(StrEnum):
    HTML = "html"
    FRAGMENT = "fragment"  # HTML requested by a script: not a document, so the runtime is not inserted
    CSS = "css"
    SCRIPT = "script"
    WORKER = "worker"  # a script in a worker
    HLS = "hls"
    DASH = "dash"
    PLAIN = "plain"  # left as it is


def use_of(dest: str) -> str:
    """The use of a response, as far as it matters: one of a few words, whatever the client sent."""
    if dest in DOCUMENTS or not dest:
        return "document"
    if dest in _SCRIPTS:
        return "worker" if dest in _WORKERS else "script"
    return dest if dest in ("style", "empty") else "part"


def kind_of(mime: str, modifier: str, dest: str, url: str) -> CaptureKind:
    """`dest` is '' where the browser did not say."""
    is_vague = dest in ("", "empty")
    if dest in _SCRIPTS or (modifier == "js_" and is_vague):
        if mime == _CSS or mime.endswith("json"):  # module imports of data
            return CaptureKind.CSS if mime == _CSS else CaptureKind.PLAIN
        return CaptureKind.WORKER if dest in _WORKERS else CaptureKind.SCRIPT
    if dest == "style" or (modifier == "cs_" and is_vague):
        return CaptureKind.CSS if mime not in HTML_TYPES or dest == "style" else CaptureKind.HTML
    if mime in HTML_TYPES:
        if modifier == "im_" and dest and dest not in DOCUMENTS:
            return CaptureKind.PLAIN
        return CaptureKind.FRAGMENT if dest == "empty" else CaptureKind.HTML
    if mime == _CSS:
        return CaptureKind.CSS
    if mime in _SCRIPT_TYPES:
        return CaptureKind.SCRIPT
    if is_vague and modifier == "mp_":  # requested by a script, which resolves addresses itself
        return CaptureKind.PLAIN
    path = url.partition("?")[0].lower()
    if mime in _HLS_TYPES or (path.endswith(".m3u8") and not mime.startswith("video/")):
        return CaptureKind.HLS
    if mime == "application/dash+xml" or (path.endswith(".mpd") and mime in ("", "text/xml", "application/xml")):
        return CaptureKind.DASH
    return CaptureKind.PLAIN


def rewritten(
    plain: bytes, archived: Archived, scene: Scene, kind: CaptureKind, run: Runtime, controls_origin: str
) -> tuple[bytes, str]:
    """The new content and its Content-Type. `plain` is the payload without its encodings."""
    named = archived.content_type
    match kind:
        case CaptureKind.HTML:
            is_rooted = _is_rooted(plain, scene.url)
            tag = run.tag(scene.prefix, scene.timestamp, scene.url, controls_origin, is_rooted=is_rooted)
            return _page(plain, archived, scene, tag)
        case CaptureKind.FRAGMENT:
            return _page(plain, archived, scene, b"")
        case CaptureKind.CSS:
            return rewrite_css(plain, scene), named if "css" in named else _CSS
        case CaptureKind.SCRIPT:
            return _script(plain, scene), _script_type(named)
        case CaptureKind.WORKER:
            prelude = run.worker_prelude(module=is_module(plain))
            return prelude + _script(plain, scene), _script_type(named)
        case CaptureKind.HLS:
            return rewrite_hls(plain, scene), named or "application/vnd.apple.mpegurl"
        case CaptureKind.DASH:
            return rewrite_dash(plain, scene), named or "application/dash+xml"
        case CaptureKind.PLAIN:
            return plain, named


def _is_rooted(plain: bytes, url: str) -> bool:
    """Whether most links of a page within its site, as far as it is looked at, are written without the host."""
    origin = base_url(url).origin.encode("utf-8", "surrogateescape")
    rooted, unschemed, whole = (plain.count(b' href="' + each, 0, _LOOKED_AT) for each in (b"/", b"//", origin))
    return rooted - unschemed >= whole


def _page(plain: bytes, archived: Archived, scene: Scene, tag: bytes) -> tuple[bytes, str]:
    mime = archived.mime or "text/html"
    page = rewrite_html(plain, scene, charset_of(archived.content_type), tag, is_xml=mime == "application/xhtml+xml")
    return page.content, f"{mime}; charset={page.charset}"


def _script(plain: bytes, scene: Scene) -> bytes:
    """JSON that was requested as a script stays as it is."""
    if plain.lstrip()[:1] in (b"{", b"["):
        try:
            json.loads(plain)
        except (ValueError, RecursionError):
            return rewrite_script(plain, scene)
        return plain
    return rewrite_script(plain, scene)


def _script_type(named: str) -> str:
    """Browsers run modules only with a JavaScript type; archived servers were less strict."""
    return named if "javascript" in named or "ecmascript" in named or "wasm" in named else "text/javascript"


_HLS_LINE = re.compile(rb"^[ \t]*+(?!#)([^\s#][^\r\n]*?)[ \t]*+\r?$", re.MULTILINE)
_HLS_URI = re.compile(rb'^(#[^\r\n]*?\b(?:X-ASSET-URI|X-ASSET-LIST|URI)=")([^"\r\n]*+)(")', re.MULTILINE)
_DASH_ELEMENT = re.compile(
    rb"(<(?:[\w.-]+:)?(?:BaseURL|Location|PatchLocation)(?:\s[^<>]*+)?>\s*+)([^<>]*?)(\s*+</)", re.IGNORECASE
)
_DASH_ATTRIBUTE = re.compile(
    rb"""(\s(?:media|initialization|index|sourceURL|bitstreamSwitching|xlink:href|href)\s*+=\s*+)("[^"<]*+"|'[^'<]*+')"""
)


def rewrite_hls(text: bytes, scene: Scene) -> bytes:
    """A playlist; whatever does not begin as one stays as it is."""
    if not text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"#EXTM3U"):
        return text
    text = _HLS_URI.sub(lambda found: found[1] + _address(found[2], scene) + found[3], text)
    return _HLS_LINE.sub(lambda found: found[0].replace(found[1], _address(found[1], scene), 1), text)


def rewrite_dash(text: bytes, scene: Scene) -> bytes:
    """A media presentation description; anything else stays as it is."""
    if b"MPD" not in text:
        return text
    text = _DASH_ELEMENT.sub(lambda found: found[1] + _changed(found[2], found[2], scene, escape) + found[3], text)
    return _DASH_ATTRIBUTE.sub(lambda found: found[1] + _changed(found[2], found[2][1:-1], scene, quoteattr), text)


def _changed(old: bytes, text: bytes, scene: Scene, escaped: Callable[[str], str]) -> bytes:
    """`old` itself where the address needs no change, so that its spelling is kept."""
    plain = unescape(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    new = _address(plain, scene)
    return old if new == plain else escaped(new.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _address(reference: bytes, scene: Scene) -> bytes:
    """Rewrites an address of a manifest. Players never request pages, so the modifier is `im_`."""
    if not reference.lower().startswith((b"http:", b"https:", b"/")):
        return reference
    text = reference.decode("utf-8", "surrogateescape")
    return rewrite(text, scene, "im_").encode("utf-8", "surrogateescape")

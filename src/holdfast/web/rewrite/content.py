"""The content of a capture, rewritten by the rules of its kind."""

from __future__ import annotations

from holdfast.formats.html.charset import charset_of
from holdfast.web import runtime
from holdfast.web.capture.kinds import CaptureKind
from holdfast.web.capture.response import Archived
from holdfast.web.rewrite.addresses import Scene
from holdfast.web.rewrite.css import rewrite_css
from holdfast.web.rewrite.html import rewrite_html
from holdfast.web.rewrite.javascript import is_module, rewrite_script
from holdfast.web.rewrite.manifests import rewrite_dash, rewrite_hls


def rewritten(
    plain: bytes, archived: Archived, scene: Scene, kind: CaptureKind, controls_origin: str
) -> tuple[bytes, str]:
    """The new content and its Content-Type. `plain` is the payload without its encodings."""
    named = archived.content_type
    match kind:
        case CaptureKind.HTML:
            tag = runtime.runtime_tag(scene.prefix, scene.timestamp, scene.url, controls_origin)
            return _page(plain, archived, scene, tag)
        case CaptureKind.FRAGMENT:
            return _page(plain, archived, scene, b"")
        case CaptureKind.CSS:
            return rewrite_css(plain, scene), named if "css" in named else "text/css"
        case CaptureKind.SCRIPT:
            return _script(plain, scene), _script_type(named)
        case CaptureKind.WORKER:
            prelude = runtime.worker_prelude(module=is_module(plain))
            return prelude + _script(plain, scene), _script_type(named)
        case CaptureKind.HLS:
            return rewrite_hls(plain, scene), named or "application/vnd.apple.mpegurl"
        case CaptureKind.DASH:
            return rewrite_dash(plain, scene), named or "application/dash+xml"
        case CaptureKind.PLAIN:
            return plain, named


def _page(plain: bytes, archived: Archived, scene: Scene, tag: bytes) -> tuple[bytes, str]:
    mime = archived.mime or "text/html"
    page = rewrite_html([plain], scene, charset_of(archived.content_type), tag, is_xml=mime == "application/xhtml+xml")
    body = b"".join(page.pieces)
    return body, f"{mime}; charset={page.charset}" if page.charset else mime


def _script(plain: bytes, scene: Scene) -> bytes:
    """JSON that was requested as a script stays as it is."""
    if plain.lstrip()[:1] in (b"{", b"[") and _is_json(plain):
        return plain
    return rewrite_script(plain, scene)


def _is_json(plain: bytes) -> bool:
    import json

    try:
        json.loads(plain)
    except (ValueError, RecursionError):
        return False
    return True


def _script_type(named: str) -> str:
    """Browsers run modules only under a type of JavaScript; archived servers were not always so strict."""
    return named if "javascript" in named or "ecmascript" in named or "wasm" in named else "text/javascript"

"""What kind of thing a capture is for the browser that asks for it, which decides how it is rewritten.

The address says what the page wanted (`js_`, `cs_`), the browser says what it will do with it (`Sec-Fetch-Dest`), the
archived server said what it was (`Content-Type`). Pages lie about their types, so the first two weigh more.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.formats.http import HTML_TYPES

CSS_TYPES = frozenset(("text/css",))
SCRIPT_TYPES = frozenset(
    (
        *("text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript"),
        *("text/jscript", "application/ecmascript", "text/x-javascript"),
    )
)
HLS_TYPES = frozenset(("application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl", "audio/x-mpegurl"))
DASH_TYPES = frozenset(("application/dash+xml",))
DOCUMENTS = frozenset(("document", "iframe", "frame", "embed", "object"))
SCRIPTS = frozenset(("script", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet"))
WORKERS = frozenset(("worker", "sharedworker"))


class CaptureKind(StrEnum):
    HTML = "html"
    FRAGMENT = "fragment"  # HTML that a script asked for: no document, so nothing of ours is put into it
    CSS = "css"
    SCRIPT = "script"
    WORKER = "worker"  # a script that runs by itself
    HLS = "hls"
    DASH = "dash"
    PLAIN = "plain"  # left as it is


def use_of(dest: str) -> str:
    """For what an answer is wanted, as far as it makes a difference: one word of few, whatever a client says."""
    if dest in DOCUMENTS or not dest:
        return "document"
    if dest in SCRIPTS:
        return "worker" if dest in WORKERS else "script"
    return dest if dest in ("style", "empty") else "part"


def kind_of(mime: str, modifier: str, dest: str, url: str) -> CaptureKind:
    """`dest` is '' where the browser did not say."""
    if dest in SCRIPTS or (modifier == "js_" and dest in ("", "empty")):
        return _script(mime, dest)
    if dest == "style" or (modifier == "cs_" and dest in ("", "empty")):
        return CaptureKind.CSS if mime not in HTML_TYPES or dest == "style" else CaptureKind.HTML
    if mime in HTML_TYPES:
        if modifier == "im_" and dest and dest not in DOCUMENTS:
            return CaptureKind.PLAIN
        return CaptureKind.FRAGMENT if dest == "empty" else CaptureKind.HTML
    if mime in CSS_TYPES:
        return CaptureKind.CSS
    if mime in SCRIPT_TYPES:
        return CaptureKind.SCRIPT
    return _manifest(mime, url)


def _script(mime: str, dest: str) -> CaptureKind:
    if mime.endswith("json") or mime in CSS_TYPES:  # module imports of data
        return CaptureKind.PLAIN if mime not in CSS_TYPES else CaptureKind.CSS
    return CaptureKind.WORKER if dest in WORKERS else CaptureKind.SCRIPT


def _manifest(mime: str, url: str) -> CaptureKind:
    path = url.partition("?")[0].lower()
    if mime in HLS_TYPES or (path.endswith(".m3u8") and not mime.startswith(("text/html", "video/"))):
        return CaptureKind.HLS
    if mime in DASH_TYPES or (path.endswith(".mpd") and mime in ("", "text/xml", "application/xml")):
        return CaptureKind.DASH
    return CaptureKind.PLAIN

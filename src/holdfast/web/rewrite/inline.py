"""Inline scripts, import maps and styles of a page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.formats.http import media_type
from holdfast.web.rewrite.addresses import Scene, rewrite
from holdfast.web.rewrite.css import rewrite_css

if TYPE_CHECKING:
    from holdfast.web.rewrite.markup import Tag

SPECULATION = "speculationrules"  # what a browser may prefetch
_SCRIPT_ENDINGS = ("javascript", "ecmascript", "jscript", "livescript")
_PACKAGES = ("text/", "application/")


def rewrite_inline(tag: Tag, content: bytes, scene: Scene) -> bytes:
    """The content of a <script> or <style>."""
    if tag.name == b"style":
        return rewrite_css(content, scene)
    if not content or content.isspace():
        return content
    kind = media_type(tag.value(b"type"))
    if kind == "importmap":
        return rewrite_import_map(content, scene)
    if kind and kind != "module" and not _is_script(kind):
        return content
    from holdfast.web.rewrite.javascript import rewrite_script

    return rewrite_script(content, scene, module=kind == "module")


def rewrite_import_map(content: bytes, scene: Scene) -> bytes:
    """The URLs of `imports` and `scopes`; without `integrity`, which is of the scripts as they were."""
    try:
        known = json.loads(content)
        if not isinstance(known, dict):
            return content
        known.pop("integrity", None)
        if "imports" in known:
            known["imports"] = _mapped(known["imports"], scene)
        if isinstance(scopes := known.get("scopes"), dict):
            known["scopes"] = {_url(place, scene): _mapped(names, scene) for place, names in scopes.items()}
        return json.dumps(known).replace("<", "\\u003c").encode("ascii")
    except (ValueError, RecursionError):
        return content


def _mapped(names: object, scene: Scene) -> object:
    if not isinstance(names, dict):
        return names
    return {_url(name, scene): _url(url, scene) if isinstance(url, str) else url for name, url in names.items()}


def _url(text: str, scene: Scene) -> str:
    return rewrite(text, scene, "js_")


def _is_script(kind: str) -> bool:
    return kind.startswith(_PACKAGES) and kind.rstrip("0123456789.").endswith(_SCRIPT_ENDINGS)

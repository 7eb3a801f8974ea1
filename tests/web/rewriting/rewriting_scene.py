"""Where the pages of these tests stand, and how to rewrite them in one call."""

from __future__ import annotations

from holdfast.web.rewrite.addresses import Scene
from holdfast.web.rewrite.html import rewrite_html

SCENE = Scene("/main/", "20200102030405", "https://example.com/dir/page.html")
HEAD = b"<script src=/_hf/runtime.js></script>"


def at(modifier: str) -> str:
    return f"/main/20200102030405{modifier}/"


def rewritten(markup: str, *, scene: Scene = SCENE, is_xml: bool = False) -> str:
    """Without what is put into the head."""
    return rewrite_html(markup.encode(), scene, "utf-8", b"", is_xml=is_xml).content.decode()


def page(content: bytes, *, head: bytes = HEAD, charset: str = "utf-8") -> bytes:
    return rewrite_html(content, SCENE, charset, head).content


def parts(text: str) -> list[str]:
    """A list in few lines."""
    return text.split("¦")

"""What modules import: addresses in `import` and `export ... from`, and in import maps.

A name that is no address (`import "react"`) and one that is relative (`import "./a.js"`) stay: the browser resolves the
first by the page's import map and the second by the module's own address, which ends in its archived URL.
"""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.replay.rewriting.addresses import Scene, rewrite

MODIFIER = "js_"

_GAP = rb"(?:\s|/\*(?:[^*]|\*(?!/))*+\*/)*+"
_LITERAL = re.compile(rb"""(?:"(?P<double>[^"\\\n\r]*+)"|'(?P<single>[^'\\\n\r]*+)')""")
_BARE = re.compile(rb"(?:import|export)" + _GAP + rb"(?=[\"'])")
_CALL = re.compile(rb"import" + _GAP + rb"\(" + _GAP + rb"(?=[\"'])")
_CALL_END = re.compile(_GAP + rb"[,)]")
_CLAUSE = re.compile(rb"[^\"'();=.]*+")  # what may stand between `import` and the literal
_FROM = re.compile(rb"(?<![\w$])from\s*+\Z")
_FROM_BYTES = 64
_STATEMENT = re.compile(
    rb"(?:\A\s*+|[;}\n\r][ \t]*+|\*/\s*+)(?:import\s*+(?:[\"'{*]|[\w$]+\s*+(?:,|from\b))|export\s*+(?:[{*]|default\b|"
    rb"(?:async|function|class|const|let|var)\b))"
)


def is_module(text: bytes) -> bool:
    """Whether the script has an import or an export that only a module may have."""
    return (b"import" in text or b"export" in text) and _STATEMENT.search(text) is not None


class Specifiers:
    """Finds the literals that one text imports. They are to be asked for in the order of the text."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._clause_end = 0  # up to there nothing but a clause has been seen

    def at(self, at: int) -> tuple[int, int] | None:
        """Where the literal stands that the word `import` or `export` at `at` is about, without its quotes."""
        text = self._text
        if found := _CALL.match(text, at):
            literal = _LITERAL.match(text, found.end())
            return _span(literal) if literal and _CALL_END.match(text, literal.end()) else None
        start = found.end() if (found := _BARE.match(text, at)) else self._clause(at)
        literal = _LITERAL.match(text, start)
        if literal is None or (found is None and not _FROM.search(text, max(at, start - _FROM_BYTES), start)):
            return None
        return _span(literal)

    def _clause(self, at: int) -> int:
        if at >= self._clause_end:
            found = _CLAUSE.match(self._text, at)
            assert found is not None  # it may be empty
            self._clause_end = found.end()
        return self._clause_end


def _span(literal: re.Match[bytes]) -> tuple[int, int]:
    return literal.span("double") if literal["double"] is not None else literal.span("single")


def rewrite_specifier(name: bytes, scene: Scene) -> bytes:
    """The address as it is asked for in the archive; whatever is no address as it is."""
    if not name.startswith((b"http:", b"https:", b"/")):
        return name
    return rewrite(name.decode("utf-8", "surrogateescape"), scene, MODIFIER).encode("utf-8", "surrogateescape")


def rewrite_import_map(text: bytes, scene: Scene) -> bytes:
    """The content of `<script type="importmap">`. What is no JSON object stays; integrity is dropped."""
    try:
        read = json.loads(text)
    except ValueError:
        return text
    if not isinstance(read, dict):
        return text
    read.pop("integrity", None)
    imports = _rewrite_names(read.get("imports"), scene)
    scopes = read.get("scopes")
    if isinstance(scopes, dict):
        read["scopes"] = {_address(where, scene): _rewrite_names(names, scene) for where, names in scopes.items()}
    return json.dumps({**read, "imports": imports}).replace("<", "\\u003c").encode("ascii")


def _rewrite_names(names: Any, scene: Scene) -> Any:
    if not isinstance(names, dict):
        return {}
    return {_address(name, scene): _address(address, scene) for name, address in names.items()}


def _address(name: Any, scene: Scene) -> Any:
    return rewrite_specifier(name.encode(), scene).decode() if isinstance(name, str) else name

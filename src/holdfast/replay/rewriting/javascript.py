"""Scripts of archived pages, so that they believe to run where they were captured.

    location.href = top.x            ->  __hf_location.href = __hf_top.x
    window.location, self.top        ->  __hf_of(window).location, __hf_of(self).top
    const {location} = props         ->  const {location:__hf_location} = props
    import a from "https://cdn/a.js" ->  import a from "/main/20240102030405js_/https://cdn/a.js"
    import(name)                     ->  import(__hf_to(name))

`location` and `top` cannot be redefined by a script of ours, so these two words are renamed in the text; `runtime.js`
defines what they are renamed to. The renaming is sound because every identifier of the name is renamed, also where it
is declared: a local variable `top` becomes a local variable `__hf_top`. Names of members and keys stay. A member of
something that may be a window (`window`, `self`, `parent`, ...) is asked of `__hf_of`, which gives back as it is
whatever is no window or document.

What is not understood stays as it was: JSON passes unharmed, and a text without the words is not read at all. Nothing
here is needed for safety (see docs/protocol/replay-safety.md): a word that is missed shows the replayed address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.replay.rewriting.addresses import Scene
from holdfast.replay.rewriting.modules import Specifiers, rewrite_specifier
from holdfast.replay.rewriting.tokens import Script, Token

_WORDS = (b"location", b"top", b"import", b"export")
_NEEDED = re.compile(rb"(?<![\w$])(?:location|top|import|export)(?![\w$])")
_NEW_NAMES = {b"location": b"__hf_location", b"top": b"__hf_top"}
_WINDOWS = {
    b"location": frozenset(b"window self this document globalThis top parent frames opener".split()),
    b"top": frozenset(b"window self globalThis parent frames".split()),
}
# A module that imports, exports or declares the name for others means something of its own by it, everywhere.
_BINDING = (
    rb"(?<![\w$.])(?:import|export)\s*+(?:[\w$]+\s*+,\s*+)?(?:\{[^{}]*?(?<![\w$])%b(?![\w$])|\*\s*+as\s+%b(?![\w$])|"
    rb"(?:(?:default\s+)?(?:async\s+)?(?:var|let|const|function|class)[\s*]++)?%b(?![\w$]))"
)
_BOUND = {name: re.compile(_BINDING % (name, name, name)) for name in _NEW_NAMES}
_METHOD = re.compile(rb"\((?:[^()]|\((?:[^()]|\([^()]*+\))*+\))*+\)\s*+\{")
_ASSIGNS = re.compile(rb"=(?![=>])")
_METHOD_BYTES_MAX = 1000
_OPERATORS = b"?:&|=!<>+-*/%~^(["
_VALUE_WORDS = frozenset(b"case return typeof void new in of await yield delete throw instanceof else".split())


def rewrite_script(text: bytes, scene: Scene, *, module: bool | None = None) -> bytes:
    """The script with its addresses and its view of the place changed. `module`: None if it is not known."""
    if not any(word in text for word in _WORDS) or not _NEEDED.search(text):
        return text
    parts: list[bytes] = []
    at = 0
    for start, end, instead in sorted(_edits(Script(text), scene, is_classic=module is False)):
        if start >= at:
            parts += (text[at:start], instead)
            at = end
    return b"".join((*parts, text[at:])) if parts else text


def _edits(script: Script, scene: Scene, *, is_classic: bool) -> Iterator[tuple[int, int, bytes]]:
    """Stretches of the text and what stands there instead."""
    text = script.text
    names = {name for name in _NEW_NAMES if name in text and (is_classic or not _BOUND[name].search(text))}
    specifiers = Specifiers(text)
    imports: set[int] = set()  # brackets of imports of something that only the running script knows
    for token in script.tokens():
        if not token.text:
            if token.start in imports:
                yield token.end, token.end, b")"
        elif token.text in names:
            yield from _name(script, token)
        elif token.text in (b"import", b"export"):
            span = specifiers.at(token.start)
            if span is not None:
                yield *span, rewrite_specifier(text[slice(*span)], scene)
            elif token.text == b"import" and _is_dynamic(script, token):
                bracket = script.after(token.end)
                imports.add(bracket)
                yield bracket + 1, bracket + 1, b"__hf_to("


def _is_dynamic(script: Script, token: Token) -> bool:
    """Whether it is `import(...)`, and no method of that name."""
    at = script.after(token.end)
    text = script.text
    if text[at : at + 1] != b"(" or script.before(token.start)[1] == b".":
        return False
    argument = script.after(at + 1)
    if text.startswith((b")", b",", b"__hf_to("), argument):
        return False
    return not _METHOD.match(text, at, at + _METHOD_BYTES_MAX)


def _name(script: Script, token: Token) -> Iterator[tuple[int, int, bytes]]:
    """The change of one `location` or `top`; none if it is the name of a member or a key."""
    end, before = script.before(token.start)
    if before == b"." and script.text[end - 3 : end] != b"...":
        yield from _member(script, token, end - 1)
    elif _is_shorthand(script, token, before):
        yield token.start, token.end, token.text + b":" + _NEW_NAMES[token.text]
    elif not _is_key(script, token, before):
        yield token.start, token.end, _NEW_NAMES[token.text]


def _member(script: Script, token: Token, dot: int) -> Iterator[tuple[int, int, bytes]]:
    """Of `window.location` the owner changes; that of anything which is surely no window does not."""
    text = script.text
    dot -= text[dot - 1 : dot] == b"?"
    end, owner = script.before(dot)
    start = end - len(owner)
    if owner in _WINDOWS[token.text] and script.before(start)[1] not in (b".", b"new", b"#"):
        inner = _NEW_NAMES[b"top"] if owner == b"top" else owner
        yield start, end, b"__hf_of(" + inner + b")"


def _is_shorthand(script: Script, token: Token, before: bytes) -> bool:
    """Whether it is key and value at once, in an object or in a pattern."""
    if before not in (b"{", b",") or not script.open or script.open[-1].sign != b"{":
        return False
    at = script.after(token.end)
    ends = script.text[at : at + 1] in (b",", b"}") or _ASSIGNS.match(script.text, at) is not None
    return ends and script.is_object(script.open[-1].start)


def _is_key(script: Script, token: Token, before: bytes) -> bool:
    """Whether it names a member of an object, a method or a field of a class."""
    text = script.text
    at = script.after(token.end)
    after = text[at : at + 1]
    is_value = before != b"" and (before in _OPERATORS or before in _VALUE_WORDS)
    if after == b":":
        return not is_value
    if after == b"(" and before != b"function":
        return _METHOD.match(text, at, at + _METHOD_BYTES_MAX) is not None
    if script.open and script.open[-1].sign == b"{" and not is_value:
        return before in (b"static", b"get", b"set") or script.is_class(script.open[-1].start)
    return False

"""Scripts of archived pages, changed so that they run as if at their own URL.

    location.href = top.x            ->  __hf_location.href = __hf_top.x
    window.location, self.top        ->  __hf_of(window).location, __hf_of(self).top
    const {location} = props         ->  const {location:__hf_location} = props
    import a from "https://cdn/a.js" ->  import a from "/main/20240102030405js_/https://cdn/a.js"
    import(name)                     ->  import(__hf_to(name))

`location` and `top` cannot be redefined by a script of ours, so these two words are renamed in the text; `runtime.js`
defines what they are renamed to. The renaming is sound because every identifier of the name is renamed, also where it
is declared: a local variable `top` becomes a local variable `__hf_top`. Names of members and keys stay. A member of
something that may be a window (`window`, `self`, `parent`, ...) goes through `__hf_of`, which returns anything that is
no window or document as it is.

Module specifiers that are no address (`import "react"`) or relative (`import "./a.js"`) stay: the browser resolves the
first by the page's import map and the second by the module's own address, which ends in its archived URL.

The scanner passes over strings, templates, comments and regular expressions in one step each, so that what is found is
code. A text that is no script (JSON, a page, a script cut short) gives fewer tokens and never an error; one without the
words is not scanned at all. Time is linear: what has no end ends with its line, or with the text.

Safety does not depend on it (see docs/protocol/replay-safety.md): a word that is missed shows the replayed address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.web.rewrite.addresses import Scene, rewrite

_TOKEN = re.compile(
    rb"""
      (?P<quiet> "(?:[^"\\\n\r]|\\.)*+"?+  |  '(?:[^'\\\n\r]|\\.)*+'?+ )
    | (?P<comment> //[^\n\r]*+  |  /\*(?:[^*]|\*(?!/))*+(?:\*/)?+  |  <!--[^\n\r]*+ )
    | (?P<slash> / )
    | (?P<tick> ` )
    | (?P<open> [({\[] )
    | (?P<close> [)}\]] )
    | (?P<word> (?<![\w$\\\#\x80-\xff]) (?:location|top|import|export) (?![\w$\\\x80-\xff]) )
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(rb"/(?![*/])(?:[^\\/\[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*+\])++/[a-z]*+")
_REGEX_USED = re.compile(rb"\s*+\.(?:test|exec|source|match)\b")
_TEMPLATE = re.compile(rb"(?:[^`\\$]|\\.|\$(?!\{))*+(?P<end>`|\$\{)?", re.DOTALL)
_GAP = re.compile(rb"(?:\s|//[^\n\r]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_IN_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$" + bytes(range(128, 256)))
_CLASS = re.compile(rb"(?<![\w$.])class\b[^{}();=]*+\Z")
_CASE = re.compile(rb"(?<![\w$.])(?:case\b[^{}?:]*+|default\s*+):\s*+\Z")
_BEFORE_EXPRESSION = frozenset(
    b"return typeof case in of delete void throw new else do instanceof yield await default extends".split()
)
_BEFORE_OBJECT = (_BEFORE_EXPRESSION - {b"else", b"do", b"extends"}) | {b"var", b"let", b"const"}
_BACK_BYTES = 300  # how far is looked back for the head of a class or of a case
_WORD_BYTES_MAX = 64
_PATIENCE = 8  # so many times the length of the text is read in vain for ends of regular expressions

HOLE = b"${"  # the bracket that opens an expression in a template


class Bracket(NamedTuple):
    """One that is open."""

    start: int
    sign: bytes  # one of ( [ { or the opening of a hole


class ScriptToken(NamedTuple):
    """A word that matters, or the end of a bracket."""

    start: int
    end: int
    text: bytes


class Script:
    """One text, read once from its start to its end."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.open: list[Bracket] = []  # those around the token that was given last
        self._comments: dict[int, int] = {}  # end -> start
        self._patience = _PATIENCE * len(text)

    def tokens(self) -> Iterator[ScriptToken]:
        """The words, and each closing bracket with the position of its opening one as `start`."""
        at, text, search = 0, self.text, _TOKEN.search
        while (found := search(text, at)) is not None:
            at, kind = found.end(), found.lastgroup
            if kind == "open":
                self.open.append(Bracket(found.start(), found.group()))
            elif kind == "close":
                if self.open:
                    bracket = self.open.pop()
                    yield ScriptToken(bracket.start, found.start(), b"")
                    if bracket.sign == HOLE:
                        at = self._template(at)
            elif kind == "word":
                yield ScriptToken(found.start(), at, found.group())
            elif kind == "comment":
                self._comments[at] = found.start()
            elif kind == "slash":
                at = self._slash(found.start())
            elif kind == "tick":
                at = self._template(at)

    def before(self, at: int) -> tuple[int, bytes]:
        """What stands before `at`, gaps and comments passed over: where it ends, and its last sign or whole word."""
        text = self.text
        while at and (text[at - 1] <= 32 or at in self._comments):
            at = self._comments.get(at, at - 1)
        start = at
        while start and at - start < _WORD_BYTES_MAX and text[start - 1] in _IN_WORD:
            start -= 1
        return at, text[start:at] if start < at else text[at - 1 : at] if at else b""

    def after(self, at: int) -> int:
        """The position of what stands after `at`, gaps and comments passed over."""
        found = _GAP.match(self.text, at)
        assert found is not None  # a gap may be empty
        return found.end()

    def is_object(self, brace: int) -> bool:
        """Whether the brace at this position opens an object or a pattern, and not a block or a class."""
        at, sign = self.before(brace)
        if sign == b":":
            return not _CASE.search(self.text[max(0, at - _BACK_BYTES) : at])
        if sign == b">":
            return self.text[at - 2 : at] != b"=>"
        if sign[:1] and sign[0] in _IN_WORD:
            return sign in _BEFORE_OBJECT
        return sign != b"" and sign in b"([,=?&|+-!<*%^~/"

    def is_class(self, brace: int) -> bool:
        """Whether the brace at this position opens the body of a class."""
        return bool(_CLASS.search(self.text[max(0, brace - _BACK_BYTES) : brace]))

    def _template(self, at: int) -> int:
        """The position after the text of a template: at its end, or inside its next hole."""
        found = _TEMPLATE.match(self.text, at)
        assert found is not None  # it may be empty
        if found["end"] == HOLE:
            self.open.append(Bracket(found.end(), HOLE))
        return found.end()

    def _slash(self, at: int) -> int:
        """The position after a regular expression that begins here, or after the sign of a division."""
        divides = self._divides(at)
        if divides or self._patience <= 0:
            return at + 1
        regex = _REGEX.match(self.text, at)
        if regex is None:
            self._patience -= max(self.text.find(b"\n", at), at) - at or len(self.text) - at
            return at + 1
        return regex.end() if divides is False or _REGEX_USED.match(self.text, regex.end()) else at + 1

    def _divides(self, at: int) -> bool | None:
        """Whether a slash here is a division; None after a condition or a block, where only what follows decides."""
        end, sign = self.before(at)
        if not sign:
            return False
        if sign[0] in _IN_WORD:
            return sign not in _BEFORE_EXPRESSION or self.text[end - len(sign) - 1 : end - len(sign)] == b"."
        if sign in b")}":
            return None
        return sign in b"]\"'`" or self.text[end - 2 : end] in (b"++", b"--")


MODIFIER = "js_"

_MODULE_GAP = rb"(?:\s|/\*(?:[^*]|\*(?!/))*+\*/)*+"
_LITERAL = re.compile(rb"""(?:"(?P<double>[^"\\\n\r]*+)"|'(?P<single>[^'\\\n\r]*+)')""")
_BARE = re.compile(rb"(?:import|export)" + _MODULE_GAP + rb"(?=[\"'])")
_CALL = re.compile(rb"import" + _MODULE_GAP + rb"\(" + _MODULE_GAP + rb"(?=[\"'])")
_CALL_END = re.compile(_MODULE_GAP + rb"[,)]")
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
    """Finds the literals that one text imports. To be called in the order of the text."""

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
    """The archive's address of a specifier; anything that is not an address as it is."""
    if not name.startswith((b"http:", b"https:", b"/")):
        return name
    return rewrite(name.decode("utf-8", "surrogateescape"), scene, MODIFIER).encode("utf-8", "surrogateescape")


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


def _is_dynamic(script: Script, token: ScriptToken) -> bool:
    """Whether it is `import(...)`, and no method of that name."""
    at = script.after(token.end)
    text = script.text
    if text[at : at + 1] != b"(" or script.before(token.start)[1] == b".":
        return False
    argument = script.after(at + 1)
    if text.startswith((b")", b",", b"__hf_to("), argument):
        return False
    return not _METHOD.match(text, at, at + _METHOD_BYTES_MAX)


def _name(script: Script, token: ScriptToken) -> Iterator[tuple[int, int, bytes]]:
    """The change of one `location` or `top`; none if it is the name of a member or a key."""
    end, before = script.before(token.start)
    if before == b"." and script.text[end - 3 : end] != b"...":
        yield from _member(script, token, end - 1)
    elif _is_shorthand(script, token, before):
        yield token.start, token.end, token.text + b":" + _NEW_NAMES[token.text]
    elif not _is_key(script, token, before):
        yield token.start, token.end, _NEW_NAMES[token.text]


def _member(script: Script, token: ScriptToken, dot: int) -> Iterator[tuple[int, int, bytes]]:
    """Of `window.location` the owner changes; that of anything which is surely no window does not."""
    text = script.text
    dot -= text[dot - 1 : dot] == b"?"
    end, owner = script.before(dot)
    start = end - len(owner)
    if owner in _WINDOWS[token.text] and script.before(start)[1] not in (b".", b"new", b"#"):
        inner = _NEW_NAMES[b"top"] if owner == b"top" else owner
        yield start, end, b"__hf_of(" + inner + b")"


def _is_shorthand(script: Script, token: ScriptToken, before: bytes) -> bool:
    """Whether it is key and value at once, in an object or in a pattern."""
    if before not in (b"{", b",") or not script.open or script.open[-1].sign != b"{":
        return False
    at = script.after(token.end)
    ends = script.text[at : at + 1] in (b",", b"}") or _ASSIGNS.match(script.text, at) is not None
    return ends and script.is_object(script.open[-1].start)


def _is_key(script: Script, token: ScriptToken, before: bytes) -> bool:
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

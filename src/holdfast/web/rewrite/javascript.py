"""Scripts of archived pages, changed so that they run as if at their own URL.

    location.href = top.x            ->  __hf_location.href = __hf_top.x
    f(w).location, w["top"]          ->  __hf_of(f(w)).location, __hf_of(w)["top"]
    window[key]                      ->  window[__hf_key(window,key)]
    const {location: l} = window     ->  const {location: l} = __hf_all(window)
    const {location} = props         ->  const {location:__hf_location} = __hf_all(props)
    eval(text), (0, eval)(text)      ->  eval(__hf_js(text)), (0, __hf_eval)(text)
    with (object) location           ->  with (__hf_in(object))with(__hf_names()) __hf_location
    import a from "https://cdn/a.js" ->  import a from "/main/20240102030405js_/https://cdn/a.js"
    import(name)                     ->  import(__hf_to(name))
    import.meta.url                  ->  __hf_meta(import.meta).url

Browsers do not let a script redefine `location` and `top` of a window, and `location` of a document; all else that
tells the place can be redefined, and the runtime does so. So these names are changed in the text, whoever owns them:

- Every identifier of the name is renamed, including declarations: a local variable `top` becomes `__hf_top`.
- Where a member of the name is read or written, its owner goes through `__hf_of`. That returns any object unchanged
  but a window or a document, for which it returns a view with the archived place.

Windows and documents themselves stay as they are: they keep their identity, native functions take them, and nothing
but these members costs time. `eval` is one of the names, because the text it runs has to be changed as well; the
runtime has the same rewriter for that (`parts/script.js`), and tests hold both to the same examples. The owner of
`.postMessage` goes through `__hf_of`, too, since only there it is known which window sends.

Bare (`import "react"`) and relative (`import "./a.js"`) module specifiers stay: the browser resolves the first by the
page's import map and the second by the module's own address, which ends in its archived URL.

The scanner skips strings, templates, comments and regular expressions, so that it finds only code. A text that is not a
script (JSON, a page, a truncated script) gives fewer tokens and never an error; a text without the words is not
scanned. Time is linear: an unterminated token ends with its line or with the text.

Safety does not depend on it (see docs/protocol/replay-safety.md): a word that is missed shows the replayed address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.web.rewrite.addresses import Scene, resolved, rewrite

_WORD = rb"(?:location|top|eval|with|postMessage|import|export)(?![\w$\\\x80-\xff])"
# What is passed over, then a token. Strings and other words are passed over here, since a turn of the loop costs more.
_TOKEN = re.compile(
    rb"""
    (?: [^\w$\\\#"'/`(){}\[\]<\x80-\xff]++
      | (?!%b)[\w$\x80-\xff]++
      | "(?:[^"\\\n\r]++|\\.)*+"?+  |  '(?:[^'\\\n\r]++|\\.)*+'?+
      | [\\\#][\w$\\\#\x80-\xff]*+
      | <(?!!--)
    )*+
    (?: (?P<open> [({\[] )
      | (?P<close> [)}\]] )
      | (?P<word> %b )
      | (?P<comment> //[^\n\r]*+  |  /\*(?:[^*]++|\*(?!/))*+(?:\*/)?+  |  <!--[^\n\r]*+ )
      | (?P<slash> / )
      | (?P<tick> ` )
    )
    """
    % (_WORD, _WORD),
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(rb"/(?![*/])(?:[^\\/\[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*+\])++/[a-z]*+")
_REGEX_USED = re.compile(rb"\s*+\.(?:test|exec|source|match)\b")
_TEMPLATE = re.compile(rb"(?:[^`\\$]++|\\.|\$(?!\{))*+(?P<end>`|\$\{)?", re.DOTALL)
_GAP = re.compile(rb"(?:\s++|//[^\n\r]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_IN_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$" + bytes(range(128, 256)))
_CLASS = re.compile(rb"(?<![\w$.])class\b[^{}();=]*+\Z")
_CASE = re.compile(rb"(?<![\w$.])(?:case\b[^{}?:]*+|default\s*+):\s*+\Z")
_BEFORE_EXPRESSION = frozenset(
    b"return typeof case in of delete void throw new else do instanceof yield await default extends".split()
)
_BEFORE_OBJECT = (_BEFORE_EXPRESSION - {b"else", b"do", b"extends"}) | {b"var", b"let", b"const"}
_BEFORE_OPERAND = _BEFORE_EXPRESSION - {b"else", b"do"}
_BACK_BYTES = 300  # how far is looked back for the head of a class or of a case
_WORD_BYTES_MAX = 64
_PATIENCE = 8  # text lengths spent on failed searches for the end of a regular expression
_WINDOWS = frozenset(b"window self globalThis document top parent frames opener".split())
_WINDOW_ENDS = frozenset(name[-2:] for name in _WINDOWS)
_BEFORE_KEY = frozenset((b'"', b"'", b"`", b" ", b"\n"))
_BEFORE_GROUP = frozenset(b"if while for with switch catch".split())  # what follows their brackets is a statement
_AFTER_DIGITS = ord("9") + 1
_ROUND = ord("(")
_NOT_OWNERS = frozenset(b"of super async function class".split())

HOLE = b"${"  # the bracket that opens an expression in a template


Bracket = tuple[int, bytes]  # where it opens; one of ( [ { or the opening of a hole


class ScriptToken(NamedTuple):
    """A word or a `[` that may matter, or a bracket that closes."""

    start: int
    end: int
    text: bytes


class Owner(NamedTuple):
    """The expression before a member's name."""

    start: int
    is_optional: bool  # it has a `?.` in it


class Script:
    """One text, read once from its start to its end."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.open: list[Bracket] = []  # those around the token that was given last
        self.watched: set[int] = set()  # brackets whose end matters, by where they open
        self._comments: dict[int, int] = {}  # end -> start
        self._pairs: dict[int, int] = {}  # closing bracket -> opening one
        self._owners: dict[int, Owner | None] = {}  # by the end of the expression
        self._objects: dict[int, bool] = {}  # by its brace
        self._patience = _PATIENCE * len(text)

    def tokens(self) -> Iterator[ScriptToken]:
        """The words, each `[` that may matter, and where watched brackets close; `start` is then where they open."""
        at, text, match = 0, self.text, _TOKEN.match
        opened, pairs = self.open, self._pairs
        while (found := match(text, at)) is not None:
            kind = found.lastgroup
            assert kind is not None  # each token has a name
            start, at = found.span(kind)
            if kind == "open":
                sign = text[start:at]
                opened.append((start, sign))
                if sign == b"[" and (text[at : at + 1] in _BEFORE_KEY or text[start - 2 : start] in _WINDOW_ENDS):
                    yield ScriptToken(start, at, sign)
            elif kind == "close":
                if opened:
                    bracket, sign = opened.pop()
                    pairs[start] = bracket
                    if bracket in self.watched:
                        yield ScriptToken(bracket, start, b"")
                    if sign == HOLE:
                        at = self._template(at)
            elif kind == "word":
                yield ScriptToken(start, at, text[start:at])
            elif kind == "comment":
                self._comments[at] = start
            elif kind == "slash":
                at = self._slash(start)
            else:
                at = self._template(at)

    def before(self, at: int, *, max_bytes: int = _WORD_BYTES_MAX) -> tuple[int, bytes]:
        """The token before `at`, skipping gaps and comments: where it ends, and its last character or whole word."""
        text = self.text
        while at and (text[at - 1] <= 32 or at in self._comments):
            at = self._comments.get(at, at - 1)
        start = at
        while start and at - start < max_bytes and text[start - 1] in _IN_WORD:
            start -= 1
        return at, text[start:at] if start < at else text[at - 1 : at] if at else b""

    def after(self, at: int) -> int:
        """The position of the token after `at`, skipping gaps and comments."""
        found = _GAP.match(self.text, at)
        assert found is not None  # a gap may be empty
        return found.end()

    def owner(self, end: int) -> Owner | None:
        """The expression that ends at `end`, if a member of it follows; None if it cannot be a window, or is unclear.

        return a.b(c)?.[d]      if (x) (y)      new A().b      new A.b (None: what is constructed is the member)
               ^                       ^        ^
        """
        links: list[int] = []  # ends of the expressions within this one
        owner = self._owner(end, links)
        for link in links:
            self._owners[link] = owner
        return owner

    def _owner(self, end: int, links: list[int]) -> Owner | None:
        at, start, is_optional, has_call = end, -1, False, False
        while True:
            at, sign = self.before(at, max_bytes=len(self.text))
            if at in self._owners:
                known = self._owners[at]
                return known and Owner(known.start, known.is_optional or is_optional)
            if sign[:1] and sign[0] in _IN_WORD:
                start = at - len(sign) - (self.text[at - len(sign) - 1 : at - len(sign)] == b"#")
                link, is_optional_link = self._link(start)
                if link < 0:
                    is_bare = at == end
                    if sign in _BEFORE_EXPRESSION or sign[0] < _AFTER_DIGITS or (is_bare and sign in _NOT_OWNERS):
                        return None
                    return self._from(start, is_optional, has_call=has_call)
                links.append(at)
                at, is_optional = link, is_optional or is_optional_link
                continue
            opened = self._pairs.get(at - 1, -1) if sign in (b")", b"]") else -1
            if opened < 0:
                return None
            links.append(at)
            before, sign = self.before(opened)
            if self.text[before - 2 : before] == b"?.":
                at, start, is_optional, has_call = before - 2, opened, True, True
            elif sign in (b")", b"]") or (sign[:1] and sign[0] in _IN_WORD and not self._is_keyword(before, sign)):
                at, start, has_call = before, opened, has_call or self.text[opened] == _ROUND
            elif sign in _BEFORE_GROUP:
                return Owner(start, is_optional) if start >= 0 else None
            elif sign != b"" and (sign in b"}\"'`" or sign in _NOT_OWNERS):
                return None
            else:
                return self._from(opened, is_optional, has_call=has_call)

    def _link(self, start: int) -> tuple[int, bool]:
        """Where the expression ends of which the name at `start` is a member, -1 if of none; and if it is by `?.`."""
        end, sign = self.before(start)
        if sign != b"." or self.text[end - 3 : end] == b"...":
            return -1, False
        is_optional = self.text[end - 2 : end] == b"?."
        return end - 1 - is_optional, is_optional

    def _is_keyword(self, end: int, word: bytes) -> bool:
        if word not in _BEFORE_EXPRESSION and word not in _BEFORE_GROUP and word not in _NOT_OWNERS:
            return False
        return self._link(end - len(word))[0] < 0

    def _from(self, start: int, is_optional: bool, *, has_call: bool) -> Owner | None:
        """The owner that begins here, or with the `new` before it."""
        end, sign = self.before(start)
        if sign == b"new" and self._link(end - len(sign))[0] < 0:
            return Owner(end - len(sign), is_optional) if has_call else None
        return None if sign in (b"@", b"function", b"class") else Owner(start, is_optional)

    def is_object(self, brace: int) -> bool:
        """True if the brace opens an object or a pattern, not a block or a class."""
        around = []  # this brace, and those that decide on it
        while brace not in self._objects:
            around.append(brace)
            at, sign = self.before(brace)
            if sign != b":":
                self._objects[brace] = self._begins_object(at, sign)
            elif (outer := self._outer(at)) is not None:
                brace = outer
            else:
                self._objects[brace] = not self._is_label(at)
        answer = self._objects[brace]
        self._objects.update(dict.fromkeys(around, answer))
        return answer

    def _outer(self, colon_end: int) -> int | None:
        """The brace right before the one word before the colon: what it opens decides if that is a key or a label."""
        end, word = self.before(colon_end - 1)
        before, sign = self.before(end - len(word))
        return before - 1 if sign == b"{" and word[0] in _IN_WORD else None

    def _is_label(self, colon_end: int) -> bool:
        """Whether the colon ends the label of a block, or of a case."""
        if _CASE.search(self.text[max(0, colon_end - _BACK_BYTES) : colon_end]):
            return True
        end, word = self.before(colon_end - 1)
        if not word or word[0] not in _IN_WORD:
            return False
        sign = self.before(end - len(word))[1]
        return sign == b"" or (sign not in _BEFORE_OPERAND and sign not in b"([,?=&|+-!<>*%^~/.")

    def _begins_object(self, at: int, sign: bytes) -> bool:
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
            self.open.append((found.end(), HOLE))
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
        """True if a slash here divides; None after `}`, where only the following text decides."""
        end, sign = self.before(at)
        if not sign:
            return False
        if sign[0] in _IN_WORD:
            return sign not in _BEFORE_EXPRESSION or self.text[end - len(sign) - 1 : end - len(sign)] == b"."
        if sign == b")":
            return self.before(self._pairs.get(end - 1, 0))[1] not in _BEFORE_GROUP
        if sign == b"}":
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


def rewrite_specifier(name: bytes, scene: Scene, *, is_inline: bool = False) -> bytes:
    """The archive's address of a specifier; a bare name as it is, and a relative one that has its script's address."""
    if is_inline and name.startswith((b"./", b"../")):
        text = resolved(name.decode("utf-8", "surrogateescape"), scene, MODIFIER)
        return text.encode("utf-8", "surrogateescape") if text else name
    if not name.startswith((b"http:", b"https:", b"/")):
        return name
    return rewrite(name.decode("utf-8", "surrogateescape"), scene, MODIFIER).encode("utf-8", "surrogateescape")


_POST = b"postMessage"
_WORDS = (b"location", b"top", b"eval", _POST, b"import", b"export")
_NEEDED = re.compile(rb"(?<![\w$])(?:location|top|eval|postMessage|import|export)(?![\w$])")
_INDEXED = re.compile(rb"(?:window|self|globalThis|document|parent|frames|opener)\s*+\[(?![\"'0-9\]])")
_NEW_NAMES = {b"location": b"__hf_location", b"top": b"__hf_top", b"eval": b"__hf_eval"}
# A module that imports or exports the name means its own binding by it, everywhere.
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
_BEFORE_LABEL = frozenset((b"break", b"continue"))
_KEY = re.compile(rb"""\[\s*+(["'`])(?:location|top|eval|postMessage)\1\s*+\]""")
_FIXED_KEY = re.compile(rb"""\[\s*+(?:[0-9]|(["'`])[^"'`\\$]*+\1\s*+\]|\]|__hf_key\()""")
_ARITHMETIC = b"-+*/%<>"
# What a pattern takes apart, if it is a plain name or a member of one.
_SOURCE = re.compile(rb"\}\s*+=\s*+([a-zA-Z_$][\w$]*+(?:\s*+\.\s*+[a-zA-Z_$][\w$]*+)*+)\s*?(?=[,;)}\]\n\r]|\Z)")
_SOURCE_BYTES_MAX = 200
# The second argument of an import.
_ATTRIBUTES = re.compile(rb",\s*+\{\s*+[\"']?(?:with|assert)[\"']?\s*+:\s*+\{[^{}]*+\}\s*+,?+\s*+\}\s*+,?+\s*+\Z")
_ATTRIBUTES_BYTES_MAX = 200
_META = re.compile(_MODULE_GAP + rb"\." + _MODULE_GAP + rb"meta(?![\w$])")
_META_OF = b"__hf_meta("
_OURS = b"__hf_"
_WITH = b"with"
_OF = b"__hf_of("


def rewrite_script(text: bytes, scene: Scene, *, module: bool | None = None, is_inline: bool = False) -> bytes:
    """The script with its addresses and its view of the place changed.

    `module`: None if it is not known. `is_inline`: part of a page, whose address is no script's; a module that it
    imports must have the same address as for other scripts, so that it is the same module.
    """
    has_words = any(word in text for word in _WORDS) and _NEEDED.search(text)
    if not has_words and not _INDEXED.search(text):
        return text
    parts: list[bytes] = []
    at = 0
    rewriter = _Rewriter(Script(text), scene, is_classic=module is False, is_inline=is_inline)
    for start, end, instead in sorted(rewriter.edits()):
        if start >= at:
            parts += (text[at:start], instead)
            at = end
    return b"".join((*parts, text[at:])) if parts else text


_Edits = Iterator[tuple[int, int, bytes]]


class _Rewriter:
    """Finds what changes in one script."""

    def __init__(self, script: Script, scene: Scene, *, is_classic: bool, is_inline: bool) -> None:
        self._script, self._text, self._scene = script, script.text, scene
        self._names = {name for name in _NEW_NAMES if is_classic or not _BOUND[name].search(script.text)}
        self._specifiers = Specifiers(script.text)
        self._is_inline = is_inline
        self._to = b"__hf_from(" if is_inline else b"__hf_to("
        self._calls: set[int] = set()  # brackets whose content is now the argument of a function of ours
        self._withs: set[int] = set()  # those among them after `with`

    def edits(self) -> _Edits:
        """Stretches of the text and what stands there instead."""
        for token in self._script.tokens():
            if not token.text:
                yield from self._closed(token)
            elif token.text == b"[":
                yield from self._index(token)
            elif token.text == _POST:
                yield from self._member(token) or ()
            elif token.text in _NEW_NAMES:
                yield from self._name(token)
            elif token.text == _WITH:
                yield from self._with(token)
            else:
                yield from self._import(token)

    def _closed(self, token: ScriptToken) -> _Edits:
        if token.start in self._withs:
            yield token.end, token.end + 1, b"))with(__hf_names())"
        elif token.start in self._calls:
            found = _ATTRIBUTES.search(self._text, max(token.start, token.end - _ATTRIBUTES_BYTES_MAX), token.end)
            end = found.start() if found else token.end
            yield end, end, b")"
        else:
            found = _SOURCE.match(self._text, token.end, token.end + _SOURCE_BYTES_MAX)
            if found and not found[1].startswith(_OURS):
                yield found.start(1), found.start(1), b"__hf_all("
                yield found.end(1), found.end(1), b")"

    def _wrapped(self, bracket: int, call: bytes) -> _Edits:
        """Makes what the bracket holds the argument of a function."""
        self._calls.add(bracket)
        self._script.watched.add(bracket)
        yield bracket + 1, bracket + 1, call

    def _import(self, token: ScriptToken) -> _Edits:
        meta = _META.match(self._text, token.end) if token.text == b"import" else None
        if meta is not None:
            if self._script.before(token.start)[1] != b"." and not self._text.endswith(_META_OF, 0, token.start):
                yield token.start, token.start, _META_OF
                yield meta.end(), meta.end(), b")"
            return
        span = self._specifiers.at(token.start)
        if span is not None:
            yield *span, rewrite_specifier(self._text[slice(*span)], self._scene, is_inline=self._is_inline)
        elif token.text == b"import" and self._is_call(token, (b"__hf_to(", b"__hf_from(")):
            yield from self._wrapped(self._script.after(token.end), self._to)

    def _is_call(self, token: ScriptToken, ours: tuple[bytes, ...]) -> bool:
        """Whether the word calls something with an argument that is not changed yet, and is no method of that name."""
        script, text = self._script, self._text
        at = script.after(token.end)
        if text[at : at + 1] != b"(" or script.before(token.start)[1] == b".":
            return False
        return not text.startswith((b")", b",", *ours), script.after(at + 1)) and not self._is_method(at)

    def _is_method(self, bracket: int) -> bool:
        """Whether the bracket holds parameters, by the body that follows."""
        return _METHOD.match(self._text, bracket, bracket + _METHOD_BYTES_MAX) is not None

    def _index(self, token: ScriptToken) -> _Edits:
        """`w["location"]`, and keys that only the running script knows, of what may be a window by its name."""
        text, script = self._text, self._script
        if _KEY.match(text, token.start):
            is_optional = text[token.start - 2 : token.start] == b"?."
            yield from self._owned(token.start - 2 * is_optional, is_optional_link=is_optional)
            return
        if not token.start or text[token.start - 1] not in _IN_WORD:
            return
        end, word = script.before(token.start)
        if word in _WINDOWS and not _FIXED_KEY.match(text, token.start):
            before = script.before(end - len(word))[1]
            if before != b"." and before not in (b"new", b"#"):
                name = _NEW_NAMES.get(word, word) if word in self._names else word
                yield from self._wrapped(token.start, b"__hf_key(" + name + b",")

    def _owned(self, end: int, *, is_optional_link: bool) -> _Edits:
        """Changes the owner, which ends here, of a member."""
        owner = self._script.owner(end)
        if owner is None or self._text.startswith(_OF, owner.start):
            return
        end = self._script.before(end)[0]
        is_glued = owner.start > 0 and self._text[owner.start - 1] in _IN_WORD
        yield owner.start, owner.start, b" " + _OF if is_glued else _OF
        if owner.is_optional and not is_optional_link:
            yield end, end, b")?." if self._text[end : end + 1] != b"." else b")?"
        else:
            yield end, end, b")"

    def _member(self, token: ScriptToken) -> _Edits | None:
        """The change of the owner of the member that is named here; None if it is none."""
        end, before = self._script.before(token.start)
        if before != b"." or self._text[end - 3 : end] == b"...":
            return None
        if token.text == b"top" and self._is_length(token, end):
            return iter(())
        is_optional = self._text[end - 2 : end] == b"?."
        return self._owned(end - 1 - is_optional, is_optional_link=is_optional)

    def _name(self, token: ScriptToken) -> _Edits:
        """The change of one `location`, `top` or `eval`."""
        script, name = self._script, token.text
        member = self._member(token)
        if member is not None:
            yield from member
            return
        end, before = script.before(token.start)
        if before in _BEFORE_LABEL and b"\n" not in self._text[end : token.start]:
            return
        if self._is_shorthand(token, before):
            script.watched.add(script.open[-1][0])
            if name in self._names:
                yield token.start, token.end, name + b":" + _NEW_NAMES[name]
        elif self._is_key(token, before):
            if script.open and script.open[-1][1] == b"{":
                script.watched.add(script.open[-1][0])
        elif name == b"eval" and self._text[script.after(token.end) : script.after(token.end) + 1] == b"(":
            if name in self._names and before != b"function" and self._is_call(token, (b"__hf_js(",)):
                yield from self._wrapped(script.after(token.end), b"__hf_js(")
        elif name in self._names:
            yield token.start, token.end, _NEW_NAMES[name]

    def _with(self, token: ScriptToken) -> _Edits:
        """Names in a `with` statement may be members of its object: the runtime finds them there by their new names."""
        script = self._script
        bracket = script.after(token.end)
        before = script.before(token.start)[1]
        if (
            self._text[bracket : bracket + 1] != b"("
            or before == b"."
            or self._text.startswith(b"__hf_in(", bracket + 1)
        ):
            return
        brace = script.open[-1][0] if script.open and script.open[-1][1] == b"{" else -1
        if brace >= 0 and (script.is_class(brace) or (before in (b"{", b",") and script.is_object(brace))):
            return  # a method of that name
        self._withs.add(bracket)
        yield from self._wrapped(bracket, b"__hf_in(")

    def _is_length(self, token: ScriptToken, dot_end: int) -> bool:
        """Whether a `.top` is surely that of a box: of a style, a term of a sum, or set."""
        after = self._script.after(token.end)
        sign = self._text[after : after + 1]
        if self._text[dot_end - 6 : dot_end] == b"style." or (sign and sign in _ARITHMETIC):
            return True
        return _ASSIGNS.match(self._text, after) is not None

    def _is_shorthand(self, token: ScriptToken, before: bytes) -> bool:
        """Whether it is key and value at once, in an object or in a pattern."""
        script = self._script
        if before not in (b"{", b",") or not script.open or script.open[-1][1] != b"{":
            return False
        at = script.after(token.end)
        ends = self._text[at : at + 1] in (b",", b"}") or _ASSIGNS.match(self._text, at) is not None
        return ends and script.is_object(script.open[-1][0])

    def _is_key(self, token: ScriptToken, before: bytes) -> bool:
        """Whether it names a member of an object, a method or a field of a class."""
        script = self._script
        at = script.after(token.end)
        after = self._text[at : at + 1]
        is_value = before != b"" and (before in _OPERATORS or before in _VALUE_WORDS)
        if after == b":":
            return not is_value
        if after == b"(" and before != b"function":
            return self._is_method(at)
        if script.open and script.open[-1][1] == b"{" and not is_value:
            return before in (b"static", b"get", b"set") or script.is_class(script.open[-1][0])
        return False

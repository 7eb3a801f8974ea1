"""Where the content of elements ends that is not markup, as the tokenizer of the HTML Standard finds it.

<style> <!-- </style>                     ends at the first </style, whatever stands before it
<script> <!-- <script> </script> </script>  within a comment that has a <script in it, at the second </script
"""

from __future__ import annotations

import re
from typing import Final

_NAMES = (b"script", b"style", b"title", b"textarea", b"iframe", b"xmp", b"noembed", b"noframes")
PLAINTEXT: Final = b"plaintext"  # has no end
NEVER: Final = re.compile(rb"(?!)")
ENDS: Final = {name: re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])") for name in _NAMES} | {PLAINTEXT: NEVER}
END_BYTES_MAX: Final = 16  # of the longest `</name ` and `--!>`
_IN_SCRIPT = re.compile(rb"</script(?=[\t\n\f\r />])|<!--")
_IN_COMMENT = re.compile(rb"-->|<(/?)script(?=[\t\n\f\r />])")
_IN_SCRIPT_IN_COMMENT = re.compile(rb"-->|</script(?=[\t\n\f\r />])")


def raw_text_end(low: bytes, at: int, name: bytes) -> int:
    """Where the end tag begins; -1 if there is none yet. `low` is in lower case."""
    if name == b"script":
        return _script_end(low, at)
    found = ENDS[name].search(low, at)
    return found.start() if found else -1


def _script_end(low: bytes, at: int) -> int:
    while found := _IN_SCRIPT.search(low, at):
        if found[0] != b"<!--":
            return found.start()
        at = found.start() + 2  # `<!-->` is a comment already
        while inside := _IN_COMMENT.search(low, at):
            at = inside.end()
            if inside[0] == b"-->":
                break
            if inside[1]:
                return inside.start()
            nested = _IN_SCRIPT_IN_COMMENT.search(low, at)
            if nested is None:
                return -1
            at = nested.end()
            if nested[0] == b"-->":
                break
        else:
            return -1
    return -1

"""The text of a page as a reader sees it: its title, and one line for each block, without scripts and styles."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turbohtml import Document, PlainText

# The renderer lays tables out in columns and numbers lists; there it drops captions and runs the words of nested tables
# together, of which old pages are full. As plain blocks, nothing is lost, added or glued.
_AS_BLOCKS = (
    "button",
    "caption",
    "center",
    "fieldset",
    "legend",
    "ol",
    "option",
    "table",
    "td",
    "textarea",
    "th",
    "tr",
)


def title_of(page: Document) -> str:
    """In one line; '' if there is none."""
    title = page.find("title")
    return " ".join(title.text.split()) if title is not None else ""


def lines_of(page: Document) -> str:
    """The lines that are not empty. Changes the tree: it cannot be used afterwards."""
    for element in page.find_all([*_AS_BLOCKS]):
        element.tag = "div"
    return "\n".join([text for line in page.to_text(_form()).split("\n") if (text := line.strip())])


@cache
def _form() -> PlainText:
    from turbohtml import PlainText

    return PlainText(layout="strict", bullet="")

"""What a page is to those who read it by other means than a screen: its outline, names and references."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

_EMPTY = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_LOADS = {"src", "href", "action", "srcset", "poster", "data", "formaction"}
_DRAWN = frozenset(("path", "circle", "polyline", "rect"))


@dataclass(slots=True)
class Element:
    name: str
    attributes: dict[str, str]
    parent: Element | None
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that is written inside, as one line."""
        return " ".join(" ".join(self.texts).split())

    def within(self, name: str) -> bool:
        return self.name == name or (self.parent is not None and self.parent.within(name))


class Page(HTMLParser):
    """A page taken apart. Raises AssertionError for tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {[each.name for each in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open[-1] if self._open else None)
        self.elements.append(element)
        if tag not in _EMPTY:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _EMPTY or tag in _DRAWN, f"<{tag}/> is not closed in HTML"
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}, self._open[-1]))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> without beginning"
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def all(self, *names: str) -> list[Element]:
        return [each for each in self.elements if each.name in names]

    def one(self, name: str, /, **attributes: str) -> Element:
        found = [each for each in self.all(name) if attributes.items() <= each.attributes.items()]
        assert len(found) == 1, f"{len(found)} of <{name}> {attributes}"
        return found[0]

    def links(self) -> dict[str, str]:
        """Text or label of each link, and where it leads."""
        named = {each.attributes.get("aria-label") or each.text: each for each in self.all("a")}
        return {name: each.attributes["href"] for name, each in named.items() if "href" in each.attributes}


def faults(page: Page) -> list[str]:
    """What keeps somebody out: see each check."""
    return [*_outline(page), *_names(page), *_references(page), *_inline(page)]


def _outline(page: Page) -> list[str]:
    found = []
    if page.one("html").attributes.get("lang") != "en":
        found.append("no language")
    if not page.one("title").text:
        found.append("no title")
    if len(page.all("main")) != 1 or len(page.all("h1")) != 1:
        found.append("not one main part with one heading")
    levels = [int(each.name[1]) for each in page.all("h1", "h2", "h3", "h4", "h5", "h6")]
    if levels[:1] != [1] or any(after - before > 1 for before, after in pairwise(levels)):
        found.append(f"headings of levels {levels}")
    if "width=device-width" not in page.one("meta", name="viewport").attributes["content"]:
        found.append("no viewport")
    return found


def _names(page: Page) -> list[str]:
    found = [f"image without alt: {each.attributes}" for each in page.all("img") if "alt" not in each.attributes]
    labelled = {each.attributes.get("for") for each in page.all("label")}
    fields = [each for each in page.all("input", "select", "textarea") if each.attributes.get("type") != "hidden"]
    found += [f"field without label: {each.attributes}" for each in fields if each.attributes.get("id") not in labelled]
    silent = [each for each in page.all("a", "button") if not (each.attributes.get("aria-label") or each.text)]
    found += [f"{each.name} without a name: {each.attributes}" for each in silent]
    found += [
        f"frame without title: {each.attributes}" for each in page.all("iframe") if "title" not in each.attributes
    ]
    drawings = [each for each in page.all("svg") if each.attributes.get("aria-hidden") != "true"]
    found += [f"drawing that is read out: {each.attributes}" for each in drawings]
    regions = [each for each in page.all("nav") if "aria-label" not in each.attributes]
    return found + [f"{each.name} without a name" for each in regions]


def _references(page: Page) -> list[str]:
    ids = [each.attributes["id"] for each in page.elements if "id" in each.attributes]
    found = [f"id {each!r} twice" for each in set(ids) if ids.count(each) > 1]
    for each in page.elements:
        for name in ("for", "aria-labelledby", "aria-describedby"):
            found += [
                f"{name}={id_!r} leads nowhere" for id_ in each.attributes.get(name, "").split() if id_ not in ids
            ]
        target = each.attributes.get("href", "")
        if each.name == "a" and target.startswith("#") and target[1:] not in ids:
            found.append(f"{target} leads nowhere")
    return found


def _inline(page: Page) -> list[str]:
    """Nothing that the policy would refuse: scripts, styles, handlers, addresses elsewhere."""
    found = [f"inline {each.name}" for each in page.all("style")]
    found += ["inline script" for each in page.all("script") if "src" not in each.attributes or each.text]
    for each in page.elements:
        found += [f"{each.name} has {name}" for name in each.attributes if name.startswith("on") or name == "style"]
        for name in _LOADS & each.attributes.keys():
            address = each.attributes[name]
            if not address.startswith(("/", "#")) or address.startswith("//"):
                found.append(f"{each.name} leads to {address!r}")
    return found

"""A page that its script builds: without a browser it is all but empty.

Some 200 ms after loading, the script fetches a list, and builds links and pictures from it. Further down stand
pictures that load when they come near the screen: some by the browser's own `loading=lazy`, some by a script that
watches for them to be scrolled to. At the end of the scrolling, a second list is fetched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from holdfast.urls import canonical
from hostile_web.exchange import Answer, plain
from hostile_web.picture import stripes

LIVE = "live.test"
_BUILT = tuple(f"/built/{number}.html" for number in range(3))
_LATE = tuple(f"/late/{number}.png" for number in range(3))
_LAZY = tuple(f"/lazy/{number}.png" for number in range(3))
_WATCHED = tuple(f"/watched/{number}.png" for number in range(3))
_DATA = "/data/list.json"
_END = "/data/end.json"
_SCRIPT = """
const built = document.getElementById("built");
async function build() {
  const list = await (await fetch("/data/" + "list" + ".json")).json();
  for (const part of list.links) {
    const link = document.createElement("a");
    link.href = ["", "built", part + ".html"].join("/");
    link.textContent = "part " + part;
    built.append(link);
  }
  for (const part of list.pictures) {
    const picture = new Image();
    picture.src = ["", "late", part + ".png"].join("/");
    built.append(picture);
  }
}
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    if (entry.target.dataset.number) entry.target.src = ["", "watched", entry.target.dataset.number + ".png"].join("/");
    else fetch("/data/" + "end" + ".json");
  }
});
document.querySelectorAll("[data-watched]").forEach((one) => watcher.observe(one));
setTimeout(build, 200);
"""


@dataclass(frozen=True, slots=True)
class LivePage:
    """The URLs of the page."""

    port: int

    @property
    def entry(self) -> str:
        return self._url("/")

    @property
    def late(self) -> frozenset[str]:
        """What only a browser that runs the script and scrolls down asks for."""
        return frozenset(map(self._url, (*_LATE, *_WATCHED, _DATA, _END)))

    @property
    def lazy(self) -> frozenset[str]:
        """What a browser loads on scrolling, though the source of the page names it."""
        return frozenset(map(self._url, _LAZY))

    @property
    def links(self) -> frozenset[str]:
        """What the page that was built links to."""
        return frozenset(map(self._url, _BUILT))

    def _url(self, path: str) -> str:
        return canonical(f"http://{LIVE}:{self.port or 80}{path}")


def live_answer(target: str) -> Answer:
    if target == "/":
        return plain(200, _page(), kind="text/html; charset=utf-8")
    if target == "/live.js":
        return plain(200, _SCRIPT, kind="text/javascript")
    if target == _DATA:
        return plain(200, json.dumps({"links": [0, 1, 2], "pictures": [0, 1, 2]}), kind="application/json")
    if target == _END:
        return plain(200, "{}", kind="application/json")
    if target in _BUILT:
        return plain(200, f"<!doctype html><title>{target}</title><p>Built.</p>", kind="text/html; charset=utf-8")
    if target in (*_LATE, *_LAZY, *_WATCHED):
        return Answer(200, (("Content-Type", "image/png"),), stripes(sum(target.encode())))
    return plain(404, "not here")


def _page() -> str:
    gap = '<div style="height: 4000px"></div>'
    lazy = "".join(f'{gap}<img loading="lazy" width="8" height="8" src="{path}">' for path in _LAZY)
    watched = "".join(
        f'{gap}<img data-watched data-number="{number}" width="8" height="8">' for number in range(len(_WATCHED))
    )
    end = f'{gap}<p data-watched style="height: 8px">The end.</p>'
    start = '<!doctype html><html><head><title>Live</title></head><body><h1>Live</h1><div id="built"></div>'
    return f'{start}{lazy}{watched}{end}<script src="/live.js"></script></body></html>\n'

"""Pages of today's frameworks and bundlers look in replay as they did live, and their scripts find nothing wrong (P3).

They are built with npm (`frontend_build`), crawled with `--browser` from a server on loopback, and replayed. Both times
a person clicks through them. Five are shown here, all of them by `make soak`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import frontend_build
import numpy
import pytest
from frontend_site import live
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page
from replay_browser import PATIENCE_MS, Stage, needs_browser, opened, strangers

import holdfast
from holdfast.archive.create import init
from holdfast.crawl.browser.open import executable_of
from holdfast.crawl.crawl import Crawl
from holdfast.crawl.job.job import BrowserSettings, CrawlJob, FetchSettings, ScopeKind

pytestmark = [needs_browser, pytest.mark.skipif(bool(frontend_build.missing()), reason=frontend_build.missing())]

PIXELS_PART_MAX = 0.02  # that differ so that a person would see it
_COLOUR_SEEN = 0.1  # of the greatest distance of two colours
# Transitions are over when the text stays the same from one frame to the next, twenty times.
_SETTLED = """() => new Promise((done) => {
  let [last, same] = ["", 0];
  const look = () => {
    const now = document.body.innerText;
    same = now === last ? same + 1 : 0;
    last = now;
    if (same >= 20) done(); else requestAnimationFrame(look);
  };
  look();
})"""
_VIEW = {"width": 900, "height": 700}

# What is clicked, one after the other, and what the page shows then. The first five are the quick ones.
STEPS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "react-vite": (("text=The second", "What the second"), ("text=All", "The fourth"), ("text=About", "About this")),
    "vue-webpack": (("button", "By id"),),
    "svelte-rollup": (),
    "react-hydrated": (("button", "Read 1 times"),),
    "jquery": (("text=About", "Since 1999"),),
    "alpine-htmx": (("#open", "The third alpine-htmx.test"), ("#again", '"name": "The third"')),
    "angular": (("text=The second", "What the second"), ("text=Back", "The fourth")),
    "angularjs": (("text=The second", "What the second"), ("text=Back", "The fourth")),
    "astro-islands": (("button", "Hello 1"),),
    "backbone-requirejs": (("text=The third", "Task 3 of backbone-requirejs.test"),),
    "charts": (),
    "lit-rollup": (("text=The first", "Clicked: HTMLLIElement"),),
    "next-export": (("text=This issue", "All of its pages"), ("text=Home", "This issue")),
    "players": (),
    "preact-esbuild": (("text=More", "#/more"),),
    "react-eval": (),
    "react-parcel": (),
    "solid-vite": (("button", "Pressed 1 times"),),
    "svelte-systemjs": (("button", "Counted 1"),),
    "vue-hydrated": (("button", "1"),),
    "vue-rspack": (("text=What the third", "vue-rspack.test 4"),),
    "vue-vite": (("text=The second", "What the second"), ("text=Back", "The fourth")),
}
QUICK = tuple(STEPS)[:5]


@dataclass
class Sites:
    """The same sites, live and replayed."""

    port: int
    live: Browser
    replayed: Stage
    archive: Path

    def url(self, name: str) -> str:
        return f"http://{name}.test:{self.port}/"

    def replay_url(self, name: str) -> str:
        """With the service worker, and without the banner around it, so that both pages have the same room."""
        with holdfast.open(self.archive, read_only=True) as archive:
            timestamp = archive.get(self.url(name)).capture.timestamp
        return f"{self.replayed.served.replay}/_hf/enter?to=/main/{timestamp}mp_/{self.url(name)}"


@dataclass
class Look:
    """A page as a person, and its developer, saw it at one moment."""

    text: str
    picture: bytes
    errors: set[str]


def _crawl(root: Path, port: int, names: tuple[str, ...]) -> None:
    init(root)
    hosts = tuple((f"{name}.test", "127.0.0.1") for name in names)
    job = CrawlJob(
        seeds=tuple(f"http://{host}:{port}/" for host, _ in hosts),
        name="built",
        scope=ScopeKind.HOST,
        sitemap=False,
        browser=BrowserSettings(enabled=True, tabs=2, idle_s=0.5),
        fetch=FetchSettings(delay=0.0, private=True, resolve=hosts, retries=0, per_host=4),
    )
    with holdfast.open(root) as archive:
        Crawl(archive, job).run()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Sites]:
    names: tuple[str, ...] = request.param
    built = {f"{name}.test": frontend_build.built(name) for name in names}
    tmp = tmp_path_factory.mktemp("built")
    with live(built) as port:
        _crawl(tmp / "archive", port, names)
        with opened(tmp / "archive", tmp / "net.json") as stage:
            browser = stage.browser.browser_type.launch(
                executable_path=executable_of(BrowserSettings()),
                args=["--no-sandbox", "--disable-background-networking", "--host-resolver-rules=MAP *.test 127.0.0.1"],
            )
            yield Sites(port, browser, stage, tmp / "archive")
            browser.close()
            assert strangers(stage.trap.hosts, stage.served) == set()


def _looks(browser: Browser, url: str, name: str) -> list[Look]:
    """The page when it is ready, and after each step."""
    context = browser.new_context(viewport=_VIEW, reduced_motion="reduce")
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        errors: set[str] = set()
        page.on("console", lambda message: errors.update(_error(message)))
        page.on("pageerror", lambda error: errors.add(str(error)))
        page.goto(url)
        page.wait_for_selector("[data-ready]", state="attached")
        looks = [_look(page, errors)]
        for selector, text in STEPS[name]:
            page.click(selector)
            page.wait_for_function("(text) => document.body.innerText.includes(text)", arg=text)
            looks.append(_look(page, errors))
        return looks
    finally:
        context.close()


def _error(message: ConsoleMessage) -> set[str]:
    if message.type != "error":
        return set()
    return {
        f"{message.text} at {re.sub('^https?://[^/]+(?:/main/[^/]+/https?://[^/]+)?', '', message.location['url'])}"
    }


def _look(page: Page, errors: set[str]) -> Look:
    page.wait_for_load_state("networkidle")
    page.evaluate(_SETTLED)
    text = page.evaluate("document.fonts.ready.then(() => document.title + '\\n' + document.body.innerText)")
    return Look(text, page.screenshot(animations="disabled", caret="hide"), set(errors))


def seen_difference(one: bytes, other: bytes) -> float:
    """The part of the pixels whose colours a person would tell apart (distance in YIQ, weighted as eyes do)."""
    first, second = (numpy.asarray(Image.open(io.BytesIO(each)).convert("RGB"), numpy.float64) for each in (one, other))
    if first.shape != second.shape:
        return 1.0
    to_yiq = numpy.array([[0.29890, 0.59597, 0.21147], [0.58662, -0.27418, -0.52262], [0.11448, -0.32180, 0.31114]])
    delta = ((first - second) @ to_yiq) ** 2 @ numpy.array([0.5053, 0.299, 0.1957])
    return float((delta > 35215 * _COLOUR_SEEN**2).mean())


def _shown_alike(sites: Sites, name: str) -> None:
    was = _looks(sites.live, sites.url(name), name)
    now = _looks(sites.replayed.browser, sites.replay_url(name), name)
    for at, (live_look, replayed_look) in enumerate(zip(was, now, strict=True)):
        assert replayed_look.text == live_look.text, at
        assert seen_difference(live_look.picture, replayed_look.picture) < PIXELS_PART_MAX, at
    assert now[-1].errors - was[-1].errors == set()


@pytest.mark.parametrize("sites", [QUICK], indirect=True, ids=["five"])
@pytest.mark.parametrize("name", QUICK)
def test_p3_a_built_page_is_in_replay_what_it_was(sites: Sites, name: str) -> None:
    _shown_alike(sites, name)


@pytest.mark.soak
@pytest.mark.parametrize("sites", [tuple(STEPS)], indirect=True, ids=["all"])
@pytest.mark.parametrize("name", STEPS)
def test_p3_all_built_pages_are_in_replay_what_they_were(sites: Sites, name: str) -> None:
    _shown_alike(sites, name)


def test_pictures_that_differ_are_told_apart() -> None:
    def picture(text: str) -> bytes:
        image = Image.new("RGB", (100, 100), "white")
        image.paste(Image.new("RGB", (30, 10), text), (10, 10))
        image.save(out := io.BytesIO(), "PNG")
        return out.getvalue()

    assert seen_difference(picture("white"), picture("#fefefe")) == 0
    assert seen_difference(picture("white"), picture("blue")) == 0.03

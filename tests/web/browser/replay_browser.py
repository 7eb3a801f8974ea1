"""A real browser in front of a served archive, and everything that it tries to reach besides."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Frame, Page, sync_playwright
from serving import Served, serving

from holdfast.archive import Archive
from holdfast.archive.create import init
from holdfast.archive.ingest.exchange import Exchange
from holdfast.config import ServeSettings
from holdfast.crawl.browser.open import available, executable_of
from holdfast.crawl.job.job import BrowserSettings

missing = available(BrowserSettings())
needs_browser = pytest.mark.skipif(bool(missing), reason=missing or "there is a browser")

PATIENCE_MS = 30_000
LOOK_MS = 50
_QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    "--no-first-run",
)
# Asked for by Chromium and by Firefox themselves, whatever they show.
_BROWSERS_OWN = ("google.com", "googleapis.com", "gvt1.com", "mozilla.com", "mozilla.net", "mozilla.org", "firefox.com")


@dataclass
class Trap:
    """Takes the place of the web: whoever connects wanted to leave."""

    port: int
    heard: list[str] = field(default_factory=list)  # 'GET http://live.example/x', 'CONNECT live.example:443'

    @property
    def hosts(self) -> list[str]:
        found = [re.match(r"\S+ (?:\w+://)?([^/\s]+)", line) for line in self.heard]
        return [each[1] for each in found if each]

    def serve(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(5)
                    with suppress(OSError):
                        self.heard.append(connection.recv(2000).split(b"\r\n")[0].decode("latin-1"))


@contextmanager
def trapped() -> Iterator[Trap]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        trap = Trap(listening.getsockname()[1])
        thread = threading.Thread(target=trap.serve, args=(listening,))
        thread.start()
        try:
            yield trap
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@dataclass
class Stage:
    """The archive served, the browser before it, the trap around it."""

    served: Served
    browser: Browser
    trap: Trap
    log: Path
    asked: list[str] = field(default_factory=list)  # by pages, frames and workers, in the browser's own words

    @cached_property
    def blank(self) -> Page:
        """A page without anything, on which expressions can be tried."""
        return self.browser.new_page()

    @contextmanager
    def context(self, *, worker: bool = True) -> Iterator[Tab]:
        """A fresh profile; without `worker` its service workers are off, as where there is no TLS."""
        context = self.browser.new_context(service_workers="allow" if worker else "block")
        context.set_default_timeout(PATIENCE_MS)
        context.on("request", lambda request: self.asked.append(request.url))
        try:
            yield Tab(self, context, context.new_page())
        finally:
            context.close()


@dataclass
class Tab:
    """A window of the browser."""

    stage: Stage
    context: BrowserContext
    page: Page

    def open(self, url: str, timestamp: str = "20240102030405") -> Frame:
        """As a person does: the page with the banner, and in it the archived page, loaded."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.stage.served.controls}/main/{timestamp}/{url}")
        return self.framed(lambda frame: archived(frame) is not None)

    def framed(self, is_it: Callable[[Frame], bool]) -> Frame:
        """The archived page in the banner's frame, once it is the one that is waited for."""
        self.page.wait_for_selector("iframe", state="attached")

        def is_there() -> bool:
            children = self.page.main_frame.child_frames
            return bool(children) and is_it(children[0])

        self.until(is_there)
        frame = self.page.main_frame.child_frames[0]
        frame.wait_for_load_state("load")
        return frame

    def until(self, is_so: Callable[[], bool]) -> None:
        """Looks again and again, while the browser goes on; also where the page's policy forbids to wait inside it."""
        for _ in range(PATIENCE_MS // LOOK_MS):
            if is_so():
                return
            self.page.wait_for_timeout(LOOK_MS)
        raise AssertionError(f"in vain: {[frame.url for frame in self.page.frames]}")

    def at(self, url: str) -> Frame:
        """Once the banner names its host too: it opens pages of other hosts anew."""
        host = urlsplit(url).hostname or ""
        self.until(lambda: host in self.page.url)
        return self.framed(lambda frame: (archived(frame) or "").rstrip("?") == url.rstrip("?"))


def archived(frame: Frame) -> str | None:
    """The archived URL that a frame shows."""
    found = re.match(r"https?://[^/]+/[a-z]+/(?:[a-z-]+/)?\d+[a-z_]*/(https?:.*)", frame.url)
    return found[1] if found else None


def until(frame: Frame, condition: str) -> Any:
    """The value of an expression in the page, once it is true."""
    return frame.wait_for_function(condition, timeout=PATIENCE_MS).json_value()


@contextmanager
def staged(
    tmp: Path, exchanges: Sequence[Exchange], switches: Sequence[str] = (), settings: ServeSettings | None = None
) -> Iterator[Stage]:
    """An archive with these captures, and a browser that can reach nothing but it."""
    root = tmp / "archive"
    init(root)
    with Archive(root) as archive:
        archive.add(exchanges, collection="main")
    with opened(root, tmp / "net.json", switches, settings) as stage:
        yield stage


@contextmanager
def opened(
    root: Path, log: Path, switches: Sequence[str] = (), settings: ServeSettings | None = None
) -> Iterator[Stage]:
    """The archive that is there, and a browser that can reach nothing but it."""
    with trapped() as trap, serving(root, settings) as served, sync_playwright() as playwright:
        ours = ";".join(urlsplit(origin).netloc for origin in (served.controls, served.replay))
        browser = playwright.chromium.launch(
            executable_path=executable_of(BrowserSettings()),
            args=[
                *_QUIET,
                *switches,
                f"--log-net-log={log}",
                "--net-log-capture-mode=Everything",
                f"--proxy-server=http://127.0.0.1:{trap.port}",
                f"--proxy-bypass-list=<-loopback>;{ours}",
            ],
        )
        try:
            yield Stage(served, browser, trap, log)
        finally:
            browser.close()


def strangers(named: Iterable[str], served: Served) -> set[str]:
    """Of these hosts and ports those that are neither ours nor of the browser's maker."""
    ours = {urlsplit(origin).netloc for origin in (served.controls, served.replay)}
    return {each for each in named if each not in ours and not each.partition(":")[0].endswith(_BROWSERS_OWN)}


def hosts_in_log(log: Path) -> set[str]:
    """Every host and port that the network service of the browser was made to ask or to connect to."""
    text = log.read_text()
    try:
        read = json.loads(text)
    except ValueError:
        read = json.loads(text.rstrip().rstrip(",") + "]}")
    kinds = {number: name for name, number in read["constants"]["logEventTypes"].items()}
    hosts: set[str] = set()
    for event in read["events"]:
        given = event.get("params") or {}
        if kinds.get(event["type"]) in (
            "URL_REQUEST_START_JOB",
            "HTTP_STREAM_JOB_CONTROLLER",
            "HOST_RESOLVER_MANAGER_REQUEST",
        ):
            named = str(given.get("url") or given.get("host") or "")
            found = re.match(r"(?:(?:https?|wss?)://)?([^/]+)", named)
            if found:
                hosts.add(found[1])
    return hosts

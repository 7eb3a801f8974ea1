"""One Chromium: started without network access or background activity, given pages, closed; and its files.

The directory of its profile and sockets has the same name whenever the same crawl runs, so that the next run finds and
empties what a killed browser left. It is not in the crawl's directory, because Chromium puts a socket there, and does
not start where the path of a socket is longer than 107 bytes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from playwright.async_api import Browser as Process
from playwright.async_api import BrowserContext, CDPSession, Error, Page, Playwright

from holdfast.crawl.browser.network import NetworkGate
from holdfast.crawl.browser.open import executable_of
from holdfast.crawl.job.job import CrawlJob

_FLAGS = (
    "--proxy-bypass-list=<-loopback>",  # else it reaches this machine without the proxy
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--no-first-run",
    "--no-pings",
    "--no-default-browser-check",
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--disable-notifications",
    "--disable-speech-api",
    "--disk-cache-size=1",
    "--mute-audio",
    "--js-flags=--max-old-space-size=512",  # MB, of a renderer
)
_UNWANTED = ["--disable-popup-blocking"]  # of those that Playwright gives
START_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 3.0
_PREFIX = "holdfast-browser-"
_VARIABLE = "TMPDIR"
_ROOT = "/tmp"
_ROOT_BYTES_MAX = 30  # leaves room for our name, Chromium's name, and its socket's
VIEWPORT = {"width": 1280, "height": 800}


class CannotStart(Exception):
    """No Chromium came up."""


class Chromium:
    """A process with one page at a time. All its requests pass the gate."""

    def __init__(
        self, process: Process, session: CDPSession, dead: socket.socket, gate: NetworkGate, job: CrawlJob
    ) -> None:
        self._process = process
        self._session = session
        self._dead = dead
        self._gate = gate
        self._job = job
        self.pages = 0  # that it has shown
        process.on("disconnected", lambda _: gate.broken("the browser ended"))

    @classmethod
    async def start(cls, playwright: Playwright, gate: NetworkGate, job: CrawlJob) -> Chromium:
        dead = socket.socket()
        try:
            dead.bind(("127.0.0.1", 0))  # bound and not listening: the port refuses, and nobody else can take it
            process = await playwright.chromium.launch(
                executable_path=executable_of(job.browser),
                args=[f"--proxy-server=http://127.0.0.1:{dead.getsockname()[1]}", *_FLAGS],
                ignore_default_args=_UNWANTED,
                chromium_sandbox=os.geteuid() != 0,  # for root there is none
                timeout=START_TIMEOUT_S * 1000,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except (Error, OSError) as error:
            dead.close()
            first = str(error).strip().partition("\n")[0]
            raise CannotStart(f"the browser does not start: {first}; try it with '--headless' by hand") from error
        session = await process.new_browser_cdp_session()
        await gate.guard(session)
        return cls(process, session, dead, gate, job)

    @property
    def alive(self) -> bool:
        return self._process.is_connected()

    async def open_page(self) -> tuple[BrowserContext, Page]:
        """A page that knows nothing of those before it."""
        self.pages += 1
        options: dict[str, Any] = {"service_workers": "block", "accept_downloads": False, "viewport": VIEWPORT}
        if self._job.fetch.user_agent:
            options["user_agent"] = self._job.fetch.user_agent
        context = await self._process.new_context(**options)
        page = await context.new_page()
        page.on("crash", lambda _: self._gate.broken("the page crashed"))
        context.on("page", _close_popup)
        return context, page

    async def close(self) -> None:
        with suppress(Error, TimeoutError):
            await asyncio.wait_for(self._process.close(), CLOSE_TIMEOUT_S)
        self._dead.close()


_closing: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly


def _close_popup(page: Page) -> None:
    task = asyncio.ensure_future(_close(page))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close(page: Page) -> None:
    with suppress(Error):
        await page.close()


def open_workspace(crawl: Path) -> Path:
    """An empty directory for the browser of the crawl in that directory; ours alone."""
    root = gettempdir() if len(os.fsencode(gettempdir())) <= _ROOT_BYTES_MAX else _ROOT
    path = Path(root) / (_PREFIX + sha256(os.fsencode(crawl.resolve())).hexdigest()[:10])
    close_workspace(path)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:  # of another user, or of a browser that has not ended yet
        return Path(mkdtemp(prefix=_PREFIX, dir=root))
    return path


def close_workspace(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)  # leaves a link alone


@contextmanager
def temporary_files_in(path: Path) -> Iterator[None]:
    """Programs that are started meanwhile put their temporary files there."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before

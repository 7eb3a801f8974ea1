"""Firefox in front of a served archive, driven by WebDriver BiDi, which Debian's build speaks without a driver.

A tab and its frames have the few methods of Playwright's that the tests of replay use, so that the same tests run.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from replay_browser import Stage, archived
from waiting import wait_until
from websockets.sync.client import ClientConnection, connect

EXECUTABLE = shutil.which("firefox-esr") or shutil.which("firefox") or ""
missing_firefox = "" if EXECUTABLE else "Firefox is not installed (firefox-esr)"
_START_S = 60
_LISTENING = re.compile(r"listening on (ws://\S+)")
_QUIET = {  # it asks its maker for nothing
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "captivedetect.canonicalURL": "",
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.push.connection.enabled": False,
    "extensions.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.active-protocols": 1,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.enabled": False,
    "toolkit.telemetry.server": "data:,",
}


class Firefox:
    """A session with a browser process."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        self.command("session.new", capabilities={})
        self.command("session.subscribe", events=["network.beforeRequestSent"])

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == number:
                assert message["type"] == "success", message
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)


@contextmanager
def _running(profile: Path) -> Iterator[str]:
    """The address of a new browser process, which ends with the block."""
    said = profile / "said"
    with said.open("w") as out:
        process = subprocess.Popen(
            [EXECUTABLE, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: _LISTENING.search(said.read_text()), "Firefox to listen", _START_S)
        found = _LISTENING.search(said.read_text())
        assert found is not None
        yield found[1]
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class _Value:
    value: Any

    def json_value(self) -> Any:
        return self.value


@dataclass
class FirefoxFrame:
    """A document in a tab."""

    browser: Firefox
    context: str

    def _tree(self) -> dict[str, Any]:
        tree: dict[str, Any] = self.browser.command("browsingContext.getTree", root=self.context)["contexts"][0]
        return tree

    @property
    def url(self) -> str:
        return str(self._tree()["url"])

    @property
    def child_frames(self) -> list[FirefoxFrame]:
        return [FirefoxFrame(self.browser, child["context"]) for child in self._tree()["children"]]

    def goto(self, url: str) -> None:
        self.browser.command("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        text = f"(async () => JSON.stringify([await ({expression})]))()"
        done = self.browser.command(
            "script.evaluate", expression=text, target={"context": self.context}, awaitPromise=True
        )
        assert done["type"] == "success", done
        return json.loads(done["result"]["value"])[0]

    def wait_for_function(self, expression: str, timeout: int = 0) -> _Value:
        found: list[Any] = []

        def is_so() -> bool:
            found[:] = [self.evaluate(expression)]
            return bool(found[0])

        wait_until(is_so, expression, timeout / 1000 or 30)
        return _Value(found[0])


@dataclass
class FirefoxTab:
    """A window of the browser: what `Tab` is to Chromium."""

    stage: Stage
    browser: Firefox
    page: FirefoxFrame

    def open(self, url: str, timestamp: str = "20240102030405") -> FirefoxFrame:
        self.page.goto("about:blank")
        self.page.goto(f"{self.stage.served.controls}/main/{timestamp}/{url}")
        return self.framed(lambda frame: archived(frame) is not None)

    def framed(self, is_it: Callable[[FirefoxFrame], bool]) -> FirefoxFrame:
        self.until(lambda: any(is_it(child) for child in self.page.child_frames[:1]))
        frame = self.page.child_frames[0]
        self.until(partial(_is_loaded, frame))
        self._note_requests()
        return frame

    def until(self, is_so: Callable[[], bool]) -> None:
        wait_until(is_so, "the page")

    def at(self, url: str) -> FirefoxFrame:
        host = urlsplit(url).hostname or ""
        self.until(lambda: host in self.page.url)
        return self.framed(lambda frame: (archived(frame) or "").rstrip("?") == url.rstrip("?"))

    def _note_requests(self) -> None:
        for event in self.browser.events:
            if event.get("method") == "network.beforeRequestSent":
                self.stage.asked.append(event["params"]["request"]["url"])
        self.browser.events.clear()


def _is_loaded(frame: FirefoxFrame) -> bool:
    try:
        return frame.evaluate("document.readyState") == "complete"
    except AssertionError:  # its document has just been replaced
        return False


@contextmanager
def firefox(stage: Stage) -> Iterator[Firefox]:
    """A Firefox that reaches nothing but the archive."""
    ours = ",".join(urlsplit(origin).netloc for origin in (stage.served.controls, stage.served.replay))
    settings = {
        "network.proxy.type": 1,
        "network.proxy.http": "127.0.0.1",
        "network.proxy.http_port": stage.trap.port,
        "network.proxy.ssl": "127.0.0.1",
        "network.proxy.ssl_port": stage.trap.port,
        "network.proxy.allow_hijacking_localhost": True,
        "network.proxy.no_proxies_on": ours,
    }
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in (_QUIET | settings).items()]
    with tempfile.TemporaryDirectory(prefix="holdfast-firefox-", ignore_cleanup_errors=True) as directory:
        profile = Path(directory)
        (profile / "user.js").write_text("\n".join(lines))
        with _running(profile) as address, connect(f"{address}/session", max_size=None) as socket:
            yield Firefox(socket)


@contextmanager
def firefox_tab(stage: Stage, browser: Firefox) -> Iterator[FirefoxTab]:
    """A tab with a store of its own."""
    user = browser.command("browser.createUserContext")["userContext"]
    context = browser.command("browsingContext.create", type="tab", userContext=user)["context"]
    try:
        yield FirefoxTab(stage, browser, FirefoxFrame(browser, context))
    finally:
        browser.command("browser.removeUserContext", userContext=user)

"""`make demo`: a small web site is crawled twice, everything of it is kept once, and the archive opens in the browser.

The site is the project's own, served on loopback until it was visited; the archive is in a temporary directory, and is
shown until Ctrl-C. All commands are the real ones, and print what they print. With a URL, that site is crawled instead,
politely and not far, and once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.testing.web.demo_site import CHANGED_SHARE, DAYS, NEW_DAYS, DemoSite

LIMIT = 100  # URLs of a site that is not ours
PORT = 8080
INTERRUPTED = 130  # the exit code of a command that Ctrl-C has stopped


class Stopped(Exception):
    """A command has failed or was stopped, and has said so itself."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


class Demo:
    """Runs commands of Holdfast on one archive before the viewer's eyes."""

    def __init__(self, archive: Path) -> None:
        self._archive = str(archive)

    def init(self) -> None:
        self._show("init", self._archive)

    def show(self, *arguments: str) -> None:
        self._show(*arguments, "-a", self._archive)

    def serve(self, port: int) -> None:
        """The archive in the browser, until Ctrl-C, which is how this is meant to end."""
        arguments = ["serve", "-a", self._archive, "-p", str(port)]
        print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
        code, _ = _run(arguments)
        if code:
            raise Stopped(code)

    def _show(self, *arguments: str) -> None:
        print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
        code, interrupted = _run(arguments)
        if interrupted:
            raise KeyboardInterrupt
        if code:
            raise Stopped(code)


def _run(arguments: Sequence[str]) -> tuple[int, bool]:
    """Runs a command to its end: Ctrl-C reaches it, too, and it may have something to put in order first.

    Returns its exit code, and whether Ctrl-C was pressed.
    """
    interrupted = False
    with subprocess.Popen([sys.executable, "-m", "holdfast", *arguments], stderr=subprocess.STDOUT) as process:
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                interrupted = True
    return process.returncode, interrupted


def visit_own_site(demo: Demo) -> None:
    """Two visits of the site that is shipped, then what the archive knows of it."""
    with DemoSite().serving() as (server, url):
        say(f"A made-up web site stands at {url}: {DAYS} pages, their pictures, styles and scripts.")
        demo.init()
        demo.show("crawl", url, "--name", "almanac", "--delay", "0")
        server.change(CHANGED_SHARE)
        say(f"The site has changed: {CHANGED_SHARE:.0%} of its pages, and {NEW_DAYS} new ones. It is visited again.")
        demo.show("crawl", url, "--name", "almanac", "--delay", "0")
        transferred = sum(entry.sent for entry in server.log())
    say(f"The server says that it has sent {transferred:,} bytes for both visits. What was saved:")
    demo.show("crawl", "status", "almanac")
    demo.show("status")
    demo.show("cdx", f"{url}days/7.html")
    demo.show("cdx", f"{url}*", "--filter", "=status:301", "--limit", "3", "--fl", "timestamp,url,status,redirect")
    demo.show("get", f"{url}style/main.css")
    demo.show("check", "--deep")


def visit(demo: Demo, url: str) -> None:
    """One visit of somebody's site, with the defaults of a careful visitor."""
    demo.init()
    demo.show("crawl", url, "--name", "demo", "--limit", str(LIMIT))
    demo.show("crawl", "status", "demo")
    demo.show("status")
    demo.show("cdx", "*", "--limit", "10", "--fl", "timestamp,status,mime,url")
    demo.show("get", url, "--headers")


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


@contextmanager
def temporary_archive() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        yield Path(directory) / "archive"


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    asked = _parse(arguments)
    try:
        with temporary_archive() as path:
            demo = Demo(path)
            visit(demo, asked.url) if asked.url else visit_own_site(demo)
            say("The archive is ready: open the first of these addresses in a browser. Ctrl-C ends it.")
            demo.serve(asked.port)
    except Stopped as stopped:
        return stopped.code
    except KeyboardInterrupt:
        say("Stopped.")
        return INTERRUPTED
    say("The archive was temporary and is gone again; README.md shows how to make one that stays.")
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.demo", description=__doc__)
    parser.add_argument("url", nargs="?", help="a site to be crawled instead of the project's own")
    parser.add_argument("--port", type=int, default=PORT, help="of the web pages; 0: any free one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

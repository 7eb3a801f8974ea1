"""`make demo`: a small web site is crawled twice, and everything of it is kept once.

The site is the project's own, served on loopback for the length of the demonstration; the archive is in a temporary
directory. All commands are the real ones, and print what they print. With a URL, that site is crawled instead, politely
and not far, and once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.testing.web.demo_site import CHANGED_SHARE, DAYS, NEW_DAYS, DemoSite

LIMIT = 100  # URLs of a site that is not ours
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

    def _show(self, *arguments: str) -> None:
        print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
        if code := _exit_code([sys.executable, "-m", "holdfast", *arguments]):
            raise Stopped(code)


def _exit_code(command: list[str]) -> int:
    """Runs it to its end: Ctrl-C reaches it, too, and it may have something to put in order first."""
    interrupted = False
    with subprocess.Popen(command, stderr=subprocess.STDOUT) as process:
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    return process.returncode


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
    try:
        with temporary_archive() as path:
            visit(Demo(path), arguments[0]) if arguments else visit_own_site(Demo(path))
    except Stopped as stopped:
        return stopped.code
    except KeyboardInterrupt:
        say("Stopped.")
        return INTERRUPTED
    say("The archive was temporary and is gone again; README.md shows how to make one that stays.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

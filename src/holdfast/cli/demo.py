"""`holdfast demo`: a small web site is crawled twice, kept once, and opened in the browser.

The site is the project's own, served on loopback until it was visited; the archive is in a temporary directory, and is
shown until Ctrl-C. All commands are the real ones, and print what they print. With a URL, that site is crawled instead,
politely and not far, and once.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

LIMIT = 100  # URLs of a site that is not ours
PORT = 8080
INTERRUPTED = 130  # the exit code of a command that Ctrl-C has stopped


class DemoStopped(Exception):
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
            raise DemoStopped(code)

    def _show(self, *arguments: str) -> None:
        print(f"\n$ holdfast {' '.join(arguments)}", flush=True)
        code, interrupted = _run(arguments)
        if interrupted:
            raise KeyboardInterrupt
        if code:
            raise DemoStopped(code)


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
    from holdfast.demo.site import CHANGED_SHARE, DAYS, NEW_DAYS, DemoSite

    with DemoSite() as site:
        url = site.url
        say(f"A made-up web site stands at {url}: {DAYS} pages, their pictures, styles and scripts.")
        demo.init()
        demo.show("crawl", url, "--name", "almanac", "--delay", "0")
        site.change(CHANGED_SHARE)
        say(f"The site has changed: {CHANGED_SHARE:.0%} of its pages, and {NEW_DAYS} new ones. It is visited again.")
        demo.show("crawl", url, "--name", "almanac", "--delay", "0")
        sent = site.sent
    say(f"The server sent {sent:,} bytes for both visits. What was saved:")
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


@click.command()
@click.argument("url", required=False)
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Of the web pages; 0: any."
)
def demo(url: str | None, port: int) -> None:
    """Crawl a small made-up site, or URL, into a temporary archive, and open it in the browser.

    Ctrl-C ends it; the archive is deleted then.
    """
    try:
        with temporary_archive() as path:
            shown = Demo(path)
            visit(shown, url) if url else visit_own_site(shown)
            say("The archive is ready: open the first of these addresses in a browser. Ctrl-C ends it.")
            shown.serve(port)
    except DemoStopped as stopped:
        raise click.exceptions.Exit(stopped.code) from stopped
    except KeyboardInterrupt:
        say("Stopped.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    say("The archive was temporary and is deleted; README.md shows how to make one that stays.")

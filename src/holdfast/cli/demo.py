"""`holdfast demo`: crawls a small web site twice, stores it once, and shows it in the browser.

The site is made up and served on loopback while it is crawled; the archive is in a temporary directory and served until
Ctrl-C. The demo runs the real commands, and sums up in a line what each has done. With a URL, it crawls that site once,
politely and not far.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

import click

from holdfast.cli.options import with_default
from holdfast.env.units import rounded_size

LIMIT = 100  # URLs of a site that is not ours
PORT = 8080
INTERRUPTED = 130  # the exit code of a command that Ctrl-C has stopped


class Demo:
    """Runs commands of Holdfast on one archive before the viewer's eyes."""

    def __init__(self, archive: Path) -> None:
        self._archive = str(archive)
        self._process: subprocess.Popen[str] | None = None  # the command that was started last

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """SIGTERM and SIGHUP end it as Ctrl-C does. Unlike that, they do not reach the command by themselves."""
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, _: int, frame: FrameType | None) -> None:
        if self._process is not None:
            self._process.terminate()
        raise KeyboardInterrupt

    def run(self, *arguments: str) -> dict[str, Any]:
        """Runs a command to its end and returns the object that it prints last.

        Ctrl-C reaches the command too, which may finish something first.
        """
        click.echo(f"$ holdfast {' '.join(arguments)}")
        with self._started(*arguments, "--json", stderr=subprocess.PIPE) as process:
            try:
                output, errors = process.communicate()
            except KeyboardInterrupt:
                process.communicate()
                raise
        if process.returncode:
            click.echo(errors, err=True, nl=False)
            raise click.exceptions.Exit(process.returncode)
        lines = output.splitlines()
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found

    def _started(self, *arguments: str, stderr: int | IO[Any] | None = None) -> subprocess.Popen[str]:
        where = (self._archive,) if arguments[0] == "init" else ("-a", self._archive)
        command = [sys.executable, "-m", "holdfast", arguments[0], *where, *arguments[1:]]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        return self._process

    def visit_own_site(self) -> list[str]:
        """Visits the built-in site twice. What there is to look at: lines with an address below the archive's."""
        from holdfast.demo.site import CHANGED, NEW, DemoSite

        with DemoSite() as site:
            url = site.url
            click.echo(f"A small made-up web site, in three languages, runs at {url}")
            self.run("init")
            _say(_visited(self.run("crawl", url, "--name", "harbour", "--delay", "0")))
            site.change()
            click.echo(f"Now {len(CHANGED)} of its pages are edited, and {len(NEW)} are new. A second visit:")
            _say(_visited(self.run("crawl", url, "--name", "harbour", "--delay", "0")))
        self._sum_up()
        page = f"{url}en/lamp.html"
        return [
            f"web/*/{page}  the calendar of a page, and both of its versions",
            f"compare?a=1990&b=2099&url={page}  what has changed in it",
            "search?q=tide  search; try lang:de Hafen, or title:storm",
            "explore  hosts and types",
            "crawls/harbour  the crawl, and each URL it met",
        ]

    def visit(self, url: str) -> list[str]:
        """Visits another site once, with the polite defaults."""
        self.run("init")
        _say(_visited(self.run("crawl", url, "--name", "demo", "--limit", str(LIMIT))))
        self._sum_up()
        return [f"web/*/{url}  the calendar of the page", "search  search", "crawls/demo  the crawl"]

    def _sum_up(self) -> None:
        checked = self.run("check", "--deep")
        _say(f"{checked['blocks']} blocks verified, {checked['faults'] or 'no'} faults")
        status = self.run("status")
        contents = status["contents"] + status["inline"]
        saved = rounded_size(status["saved_by_duplicates_bytes"]), rounded_size(status["saved_by_compression_bytes"])
        saved_text = f"duplicates save {saved[0]}, compression saves {saved[1]}"
        inline = (
            f" ({status['inline']} of them small enough to stay in records, not in blocks)" if status["inline"] else ""
        )
        _say(f"{status['captures']} captures, {contents} contents{inline}; {saved_text}")

    def serve(self, port: int, sights: list[str]) -> None:
        """Until Ctrl-C."""
        with self._started("serve", "-p", str(port), "--json") as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            if line:
                pages = json.loads(line)["pages"]
                click.echo(f"\nThe archive is at {pages}  Open it, and look at:")
                for sight in sights:
                    target, _, meaning = sight.partition("  ")
                    click.echo(f"  {pages}{target}   {meaning}")
                click.echo("Ctrl-C ends it.")
            while process.returncode is None:
                try:
                    process.wait()
                except KeyboardInterrupt:
                    continue
        if process.returncode:
            raise click.exceptions.Exit(process.returncode)  # it has printed its error


def _require_ports(port: int) -> None:
    """Raises Busy or Denied now, rather than when all is done."""
    from holdfast.config import ServeSettings
    from holdfast.web.server.listen import listen

    listen(ServeSettings(port=port), 1).close()


def _visited(found: dict[str, Any]) -> str:
    unchanged = f", {found['unchanged']} unchanged" if found["unchanged"] else ""
    return (
        f"{found['fetched']} URLs in {found['seconds']:.1f} s: {found['new']} new contents, "
        f"{found['duplicates']} duplicates{unchanged}; {rounded_size(found['transferred_bytes'])} received"
    )


def _say(text: str) -> None:
    click.echo(f"  {text}")


@click.command()
@click.argument("url", required=False)
@with_default("-p", "--port", type=click.IntRange(0, 65535), default=PORT, help="Port of the pages; 0: any.")
def demo(url: str | None, port: int) -> None:
    """Crawl a small made-up site, or URL, into a temporary archive, and open it in the browser.

    Ctrl-C ends it; the archive is deleted then.
    """
    _require_ports(port)
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
            shown = Demo(Path(directory) / "archive")
            with shown.ended_by_signals():
                shown.serve(port, shown.visit(url) if url else shown.visit_own_site())
    except KeyboardInterrupt:
        click.echo("Stopped.")
        raise click.exceptions.Exit(INTERRUPTED) from None
    click.echo("The archive was temporary and is deleted; README.md shows how to make one that stays.")

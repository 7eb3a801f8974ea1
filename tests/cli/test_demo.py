"""`make demo`, and the examples of the README, do what they say."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from program import Shell

from holdfast.errors import Busy, CrawlFailed

README = Path(__file__).parents[2] / "README.md"


def example(language: str) -> str:
    """The first block of the README in that language."""
    found = re.search(rf"^```{language}\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert found, language
    return found[1]


def run(shell: Shell, *command: str) -> subprocess.CompletedProcess[str]:
    return shell.run(command, capture_output=True, text=True)


def interrupt(process: int) -> None:
    """Ctrl-C, which reaches all processes of a terminal."""
    os.killpg(process, signal.SIGINT)


def demo(shell: Shell, *arguments: str, end: Callable[[int], None] = interrupt) -> tuple[str, dict[str, str]]:
    """Runs the demo until it serves, and ends it. What it printed, and the pages that it names."""
    command = [sys.executable, "-m", "holdfast", "demo", "--port", "0", *arguments]
    with subprocess.Popen(
        command,
        cwd=shell.directory,
        env=shell.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        printed, shown = "", {}
        for line in process.stdout:
            printed += line
            if line == "Ctrl-C ends it.\n":
                break
        for address in re.findall(r"(?:The archive is at |^  )(http://\S+)", printed, re.MULTILINE):
            with urlopen(address) as page:
                shown[address] = page.read().decode()
        end(process.pid)
        printed += process.stdout.read()
        assert process.wait() == 0, printed
    assert "stopped" in printed
    assert "Traceback" not in printed
    return printed, shown


def test_demo(shell: Shell) -> None:
    """P11: few lines, and every address that they name shows something."""
    printed, pages = demo(shell)
    assert printed.count("\n") < 25
    (blocks,) = re.findall(r"^  (\d+) blocks verified", printed, re.MULTILINE)
    (found,) = re.findall(r"(\d+) contents \((\d+) of them small enough to stay in records", printed)
    assert int(blocks) + int(found[1]) == int(found[0])
    assert len(re.findall(r"\d+ URLs in .* duplicates", printed)) == 2
    assert "unchanged" in printed
    assert "no faults" in printed
    assert len(pages) == 7
    home, calendar, compared, found, explored, crawl, study = pages.values()
    assert "<h1" in home
    assert "en/lamp.html" in calendar
    assert "lens" in compared
    assert "tide" in found
    assert "127.0.0.1" in explored
    assert "harbour" in crawl
    assert "Duplicates" in study


def test_demo_of_a_site_that_is_given(shell: Shell) -> None:
    shell.file("index.html", "<html>One page, and nothing else</html>\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(shell.directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            printed, pages = demo(
                shell, f"http://127.0.0.1:{server.server_port}/", end=lambda process: os.kill(process, signal.SIGTERM)
            )
        finally:
            server.shutdown()
            thread.join()
    assert re.search(r"\d+ URLs in ", printed)
    with pytest.raises(URLError):  # a service manager ends it by SIGTERM, and its server ends, too
        urlopen(next(iter(pages)))


def test_demo_of_a_site_that_does_not_answer(shell: Shell) -> None:
    done = run(shell, sys.executable, "-m", "holdfast", "demo", "--port", "0", "http://127.0.0.1:1/")
    assert done.returncode == CrawlFailed.exit_code, done.stdout


def test_demo_on_a_port_that_is_taken(shell: Shell) -> None:
    """It says so before it crawls anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = run(shell, sys.executable, "-m", "holdfast", "demo", "--port", port)
    assert (done.returncode, done.stdout) == (Busy.exit_code, "")
    assert "is taken by another program" in done.stderr


def test_python_example_of_the_readme(shell: Shell) -> None:
    shell("init", "my-archive")
    done = run(shell, sys.executable, "-c", example("python"))
    assert done.returncode == 0, done.stderr


def test_shell_session_of_the_readme(shell: Shell) -> None:
    """Each command runs; what stands below it in the README is its output, except where that says '...'."""
    shell.file("page.html", "<html>Hello</html>\n")
    script = f'set -e\nexec 2>&1\nholdfast() {{ "{sys.executable}" -m holdfast "$@"; }}\n'
    expected = []
    for line in example("console").splitlines():
        if line.startswith("$ "):
            script += line.removeprefix("$ ") + "\n"
        else:
            expected.append(re.escape(line).replace(r"\.\.\.", ".*"))
    done = run(shell, "bash", "-c", script)
    assert done.returncode == 0, done.stdout
    assert re.fullmatch("\n".join(expected) + "\n", done.stdout), done.stdout

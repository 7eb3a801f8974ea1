"""`make demo`, and the examples of the README, do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from program import Shell

from holdfast.errors import CrawlFailed

README = Path(__file__).parents[2] / "README.md"


def example(language: str) -> str:
    """The first block of the README in that language."""
    found = re.search(rf"^```{language}\n(.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert found, language
    return found[1]


def run(shell: Shell, *command: str) -> subprocess.CompletedProcess[str]:
    return shell.run(command, capture_output=True, text=True)


def test_demo(shell: Shell) -> None:
    done = run(shell, sys.executable, "-m", "holdfast.testing.demo")
    assert done.returncode == 0, done.stderr
    assert "visit 1: finished" in done.stdout
    assert "visit 2: finished" in done.stdout
    assert len(re.findall(r"days/7\.html 2026\d{10} ", done.stdout)) == 2
    assert "@import" in done.stdout
    assert "saved by duplicates" in done.stdout
    assert ": no faults" in done.stdout


def test_demo_of_a_site_that_is_given(shell: Shell) -> None:
    shell.file("index.html", "<html>One page, and nothing else</html>\n")
    handler = partial(SimpleHTTPRequestHandler, directory=str(shell.directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        done = run(shell, sys.executable, "-m", "holdfast.testing.demo", f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr
    assert "visit 1: finished" in done.stdout


def test_demo_of_a_site_that_does_not_answer(shell: Shell) -> None:
    done = run(shell, sys.executable, "-m", "holdfast.testing.demo", "http://127.0.0.1:1/")
    assert done.returncode == CrawlFailed.exit_code, done.stdout


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

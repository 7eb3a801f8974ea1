"""pywb, unmodified and in a process of its own, with our CDX server as its index (I10)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest
from client_archive import PAGES, PYWB_VARIABLE, TIMES, A, pywb_python
from serving import Served, ask
from waiting import wait_until

PYTHON = pywb_python()
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason=f"no interpreter with pywb: 'make test' makes one, or name it in {PYWB_VARIABLE}"
)
CONFIG = """\
debug: false
collections:
  ours:
    index:
      type: cdx
      api_url: {controls}/main/cdx?url={{url}}&closest={{closest}}&sort=closest
      replay_url: {controls}/main/{{timestamp}}id_/{{url}}
  short: cdx+{controls}/main/cdx
"""


@pytest.fixture(scope="module")
def pywb(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("pywb")
    (directory / "config.yaml").write_text(CONFIG.format(controls=served.controls))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert PYTHON is not None
    command = [str(PYTHON.with_name("wayback")), "-p", str(port), "-b", "127.0.0.1", "-d", str(directory)]
    quiet = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=quiet)
    try:
        wait_until(lambda: process.poll() is not None or _listens(port), "pywb to listen")
        assert process.poll() is None, (directory / "log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("collection", ["ours", "short"])
def test_pywb_lists_our_captures(pywb: str, collection: str) -> None:
    lines = ask(f"{pywb}/{collection}/cdx?url={A}/").text.splitlines()
    assert [line.split(" ")[1] for line in lines] == list(TIMES)


@pytest.mark.parametrize("time", TIMES)
def test_pywb_replays_our_captures(pywb: str, time: str) -> None:
    got = ask(f"{pywb}/ours/{time}id_/{A}/")
    assert (got.status, got.text) == (200, PAGES[time])
    assert got.headers["memento-datetime"]


def test_pywb_finds_the_capture_nearest_to_a_time(pywb: str) -> None:
    got = ask(f"{pywb}/ours/20240301id_/{A}/")
    while got.status in (302, 307):
        got = ask(got.headers["location"] if "://" in got.headers["location"] else pywb + got.headers["location"])
    assert got.text == PAGES[TIMES[1]]


def test_pywb_says_what_we_do_not_have(pywb: str) -> None:
    assert ask(f"{pywb}/ours/2024id_/http://nowhere.example/").status == 404

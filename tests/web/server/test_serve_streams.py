"""Streams from the real server: killed in the middle, and gone on with from the last token (N5)."""

from __future__ import annotations

import http.client
import json
import os
import signal
from pathlib import Path

from serve_program import Program, make_archive, program

from holdfast.archive import open as open_archive
from holdfast.archive.ingest.exchange import page
from holdfast.streams import StreamOptions

CAPTURES = 2000


def read(server: Program, token: str, batches: int | None) -> tuple[list[str], str]:
    """Records up to the last whole batch, and its token; after so many batches the server is killed."""
    connection = http.client.HTTPConnection("127.0.0.1", server.ports[0], timeout=60)
    connection.request("GET", f"/web/stream?fields=record,payload&token={token}")
    response = connection.getresponse()
    assert response.status == 200
    got: list[str] = []
    some: list[str] = []
    try:
        while line := response.readline():
            told = json.loads(line)
            if "record" in told:
                some.append(told["record"])
                continue
            token, got, some = told["token"], got + some, []
            if batches is not None:
                batches -= 1
                if not batches:
                    for pid in (server.process.pid, *server.workers()):
                        os.kill(pid, signal.SIGKILL)
    except (http.client.HTTPException, ConnectionError, json.JSONDecodeError):
        assert batches is not None and batches <= 0  # cut off behind what was on its way, and the client knows
    finally:
        connection.close()
    return got, token


def test_a_killed_server_loses_and_repeats_nothing(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "archive")
    with open_archive(archive) as opened:
        for first in range(0, CAPTURES, 500):
            pages = [page(f"http://a.example/{n}", os.urandom(6000)) for n in range(first, first + 500)]
            opened.add(pages, batch="one")
        expected = [str(each.record) for each in opened.stream(StreamOptions(fields=("record",)))]
    got: list[str] = []
    token = ""
    for batches in (1, 2, None):
        with program(archive, "--workers", "1") as server:
            some, token = read(server, token, batches)
            got += some
    assert got == expected

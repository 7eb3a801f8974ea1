"""One connection to its end: pipelines, failures at every stage, bodies nobody reads, the access log (W17)."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hostile import CHUNKED
from limited import PIECE, PIECES, Limited, application, read, serving
from waiting import wait_until
from wire import ask, ask_on, connect, ends, read_answer, request

from holdfast.config import ServeSettings
from holdfast.web.server import connection
from holdfast.web.server.access_log import AccessLog, AccessLogEntry
from holdfast.web.server.connection import PIPELINED_MAX
from holdfast.web.server.counters import Counters

WHOLE = b"x" * (32 << 20)  # more than the kernel takes at once
PLAIN = ServeSettings(port=0, stop_s=0.0)
HASTY = ServeSettings(port=0, stop_s=0.0, client_timeout_s=0.3)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Fails, waits or ends where the address says so; else as `application`."""
    path = scope["path"]
    if path == "/patient":
        await asyncio.sleep(1)  # several rounds of the timer
        await read(receive)
    if path not in ("/halfway", "/cut", "/behind", "/whole", "/patient", "/empty", "/short"):
        await application(scope, receive, send)
        return
    headers = [(b"content-length", b"9")] if path == "/short" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if path == "/halfway":
        raise ValueError("between head and body")
    if path == "/cut":
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        raise ValueError("in the body")
    body = b"" if path == "/empty" else WHOLE if path == "/whole" else b"all"
    await send({"type": "http.response.body", "body": body})
    if path == "/behind":
        await asyncio.sleep(0)
        raise ValueError("after the response")


@pytest.fixture(scope="module")
def plain() -> Iterator[Limited]:
    with serving(PLAIN, app=app) as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Limited]:
    with serving(HASTY, app=app) as server:
        yield server


def received(connection: socket.socket) -> bytes:
    """All until the end. Raises ConnectionResetError."""
    data = b""
    while piece := connection.recv(1 << 16):
        data += piece
    return data


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/halfway", "/short"])
def test_a_failure_between_head_and_body_is_a_500(plain: Limited, path: str) -> None:
    before = plain.counters.total("errors")
    answer = ask(plain.port, request(path))
    assert (answer.status, answer.headers["connection"]) == (500, "close")
    assert "chunked" not in answer.headers.get("transfer-encoding", "")
    wait_until(lambda: plain.counters.total("errors") == before + 1, "the error is counted")


def test_a_failure_in_the_body_is_seen_by_the_client(plain: Limited) -> None:
    with connect(plain.port) as connection:
        connection.sendall(request("/cut"))
        data = received(connection)
    assert data.endswith(b"4\r\nsome\r\n")  # without the last chunk
    with connect(plain.port) as connection, pytest.raises(ConnectionResetError):
        connection.sendall(b"GET /cut HTTP/1.0\r\n\r\n")
        received(connection)


def test_a_failure_behind_a_response_does_not_disturb_the_next(plain: Limited) -> None:
    before = plain.counters.total("errors")
    with connect(plain.port) as connection:
        connection.sendall(request("/behind") + request("/patient") + request("/last", "Connection: close"))
        data = received(connection)
    assert data.count(b"HTTP/1.1 200 OK") == 3
    assert data.endswith(b"GET /last? 0")
    assert plain.counters.total("errors") == before + 1


# -- heads -------------------------------------------------------------------------------------------------------------


def test_a_head_within_the_limit_may_come_in_pieces(plain: Limited) -> None:
    with connect(plain.port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        for number in range(90):
            connection.sendall(b"X-%d: %s" % (number, b"a" * 300))
            connection.sendall(b"a" * 300 + b"\r\n")
        assert ask_on(connection, b"\r\n").status == 200


def test_http_1_0_gets_no_chunks(plain: Limited) -> None:
    answer = ask(plain.port, b"GET /large HTTP/1.0\r\n\r\n")
    assert "transfer-encoding" not in answer.headers
    assert set(answer.body) == {ord("x")}


def test_http_1_0_is_not_told_to_go_on(plain: Limited) -> None:
    with connect(plain.port) as connection:
        connection.sendall(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na")
        assert received(connection).startswith(b"HTTP/1.1 200 ")


def test_head_does_not_invent_a_length(plain: Limited) -> None:
    assert "content-length" not in ask(plain.port, request("/empty", method="HEAD")).headers
    assert ask(plain.port, request("/empty")).headers["content-length"] == "0"


# -- pipelines ---------------------------------------------------------------------------------------------------------


def test_a_pipeline_has_a_limit_and_all_up_to_it_are_answered(plain: Limited) -> None:
    with connect(plain.port) as connection:
        connection.sendall(request("/first") + b"".join(request(f"/{number}") for number in range(1000)))
        data = received(connection)
    assert data.count(b"HTTP/1.1 200 OK") == 1 + PIPELINED_MAX
    assert data.count(b"connection: close") == 1
    assert data.endswith(b"GET /%d? 0" % (PIPELINED_MAX - 1))


def test_a_client_that_sends_ahead_without_reading_is_held_up(plain: Limited) -> None:
    with connect(plain.port, patience_s=1) as connection, pytest.raises(TimeoutError):
        connection.sendall(request("/large") * (1 << 20))  # more than the kernel takes


def test_a_request_while_a_long_response_is_being_read_is_answered(
    plain: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time between two requests begins when the response is read, not when it is written."""
    monkeypatch.setattr("holdfast.web.server.connection.KEEP_ALIVE_S", 1.0)
    with connect(plain.port) as connection:
        connection.sendall(request("/whole"))
        with connect(plain.port) as other:  # idle for longer than the other: `KEEP_ALIVE_S`
            assert ask_on(other, request("/")).status == 200
            assert ends(other)
        connection.sendall(request("/last", "Connection: close"))
        assert received(connection).endswith(b"GET /last? 0")


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [b"0\r\nX: ", b"1;"], ids=["trailer", "extension"])
def test_chunks_with_more_beside_their_data_than_data_are_refused(plain: Limited, rest: bytes) -> None:
    """The parser gathers a trailer that never ends, and neither counts as body."""
    assert ask(plain.port, CHUNKED + rest + b"a" * 2_000_000).status == 400


def test_small_chunks_are_not_too_much(plain: Limited) -> None:
    chunks = b"1;x=y\r\na\r\n" * 50_000
    assert ask(plain.port, CHUNKED + chunks + b"0\r\n\r\n").body == b"POST /? 50000"


def test_a_client_that_waits_to_be_told_is_not_late(hasty: Limited) -> None:
    with connect(hasty.port) as connection:
        connection.sendall(request("/patient", "Expect: 100-continue", "Content-Length: 3", method="PUT"))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
        assert ask_on(connection, b"abc").body == b"all"


def test_a_client_that_was_not_told_to_send_its_body_is_not_expected_to(hasty: Limited) -> None:
    with connect(hasty.port) as connection:
        answer = ask_on(connection, request("/early", "Expect: 100-continue", "Content-Length: 3", method="PUT"))
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert ends(connection)


def test_a_client_that_still_sends_is_not_reset_before_it_has_read_the_last_response(plain: Limited) -> None:
    with connect(plain.port) as connection:
        connection.sendall(request("/early", "Connection: close", "Content-Length: 9", method="PUT"))
        assert read_answer(connection).status == 200
        for _ in range(9):
            connection.sendall(b"a")  # raises if the connection is reset
        assert ends(connection)


def test_what_follows_an_early_response_is_not_counted_as_a_request(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(PLAIN, log) as server, connect(server.port) as connection:
        assert ask_on(connection, CHUNKED.replace(b"/ ", b"/early ")).status == 200
        connection.sendall(b"no chunk\r\n")
        assert ends(connection)
        assert server.counters.total("refused.4xx") == 0
    assert len(log.read_text().splitlines()) == 1


def test_a_refused_client_that_does_not_leave_is_let_go(hasty: Limited) -> None:
    wait_until(lambda: hasty.counters.total("connections_open") == 0, "the connections of other tests are gone")
    with connect(hasty.port) as connection:
        assert ask_on(connection, request("/", "Content-Length: 9", method="PUT", body=b"a")).status == 408
        wait_until(lambda: hasty.counters.total("connections_open") == 1, "it is counted")
        wait_until(lambda: hasty.counters.total("connections_open") == 0, "it is let go")


def test_time_goes_on_when_descriptors_run_out() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    with serving(HASTY) as server, connect(server.port) as slow:
        assert ask_on(slow, request("/")).status == 200  # it is accepted
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (slow.fileno() + 50, hard))
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    held.append(os.dup(0))
            assert ask_on(slow, b"GET / HTTP/1.1\r\nHost: 127").status == 408
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in held:
                os.close(descriptor)
        assert ask(server.port, request("/")).status == 200


def test_connections_far_beyond_the_limit_get_no_response() -> None:
    with serving(ServeSettings(port=0, stop_s=0.0, connections_max=2)) as server:
        many = [connect(server.port) for _ in range(40)]
        answers = [read_answer(connection).status for connection in many[2:]]
        assert set(answers) == {503, 0}
        assert server.counters.total("connections_refused") == 38
        for connection in many:
            connection.close()
        wait_until(lambda: ask(server.port, request("/")).status == 200, "there is room again")


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_disk_that_hangs_does_not_stop_the_clock(tmp_path: Path) -> None:
    log = tmp_path / "pipe"
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    with serving(HASTY, log) as server:
        try:
            for _ in range(20):  # more than the pipe takes
                assert ask(server.port, request("/", f"User-Agent: {'a' * 8192}")).status == 200
            for _ in range(2):
                assert ask(server.port, b"GET / HTTP/1.1\r\nHost: 127").status == 408
        finally:
            os.close(reader)


def test_a_response_under_way_is_finished_before_the_stop() -> None:
    bodies: list[bytes] = []
    with ThreadPoolExecutor(1) as reader, serving(ServeSettings(port=0, stop_s=60.0)) as server:
        stuck = connect(server.port)
        stuck.sendall(request("/large") + request("/behind"))
        first = stuck.recv(1)
        reader.submit(lambda: bodies.append(read_answer(stuck, first).body))
    assert len(bodies[0]) > len(PIECE) * PIECES
    assert bodies[0].endswith(b"0\r\n\r\n")
    stuck.close()


def test_a_request_that_arrives_during_the_stop_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_ARRIVAL_S", 60.0)
    settings = ServeSettings(port=0, stop_s=60.0)
    with ThreadPoolExecutor(1) as client, serving(settings) as server:
        idle, new, silent = (connect(server.port) for _ in range(3))
        assert ask_on(idle, request("/")).status == 200
        wait_until(lambda: server.counters.total("connections") == 3, "all are accepted")
        response = client.submit(lambda: ends(idle) and ask_on(new, request("/")))
        response.add_done_callback(lambda _: silent.close())
    assert response.result().status == 200
    assert response.result().headers["connection"] == "close"
    for each in (idle, new):
        each.close()


def test_a_request_that_is_aborted_by_the_stop_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(PLAIN, log) as server, connect(server.port) as stuck:
        stuck.sendall(request("/large"))
        wait_until(lambda: server.counters.total("in_flight") == 1, "it is under way")
        stuck.recv(1)
    assert '"GET /large HTTP/1.1" 200 ' in log.read_text()


def test_a_log_that_is_reopened_while_it_is_written_goes_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = Counters.make()
    log = AccessLog(tmp_path / "access.log", counters)
    other = tmp_path / "other"
    write, opened = os.write, []

    def interrupted(descriptor: int, data: bytes) -> int:
        if not opened:
            log.reopen()
            opened.append(os.open(other, os.O_WRONLY | os.O_CREAT))  # gets the number that became free
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", interrupted)
    log.add(AccessLogEntry({"client": ("127.0.0.1", 1)}, 400, 0, 0.0))
    log.close()
    os.close(opened[0])
    counters.close()
    assert other.read_bytes() == b""
    assert len((tmp_path / "access.log").read_text().splitlines()) == 1

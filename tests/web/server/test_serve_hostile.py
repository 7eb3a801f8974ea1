"""The real server under hostile requests: clean refusals, nothing leaked, and still alive (W17, N9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fuzzer import bombard
from hostile import MALFORMED, TRICKS
from serve_program import Program, add_page, configure, make_archive, program
from waiting import wait_until
from wire import Answer, ask, connect, read_answer, request

CONTROLS, REPLAY = 0, 1
QUICK = "[serve]\nclient_timeout_s = 0.5\nstop_s = 1"
LARGE = b"<p>" + b"x" * (16 << 20)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    archive = make_archive(tmp_path_factory.mktemp("hostile") / "archive")
    configure(archive, QUICK)
    add_page(archive, "http://example.com/", b"<title>Example</title><a href='/next'>next</a>")
    add_page(archive, "http://example.com/large", LARGE)
    with program(archive, "--workers", "2") as running:
        workers = set(running.workers())
        yield running
        assert set(running.workers()) == workers, "a worker died"
        code, errors = running.stop()
        assert (code, "Traceback" in errors) == (0, False), errors


def both(served: Program, raw: bytes) -> list[Answer]:
    return [ask(port, raw) for port in served.ports]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused_on_both_origins(served: Program, name: str) -> None:
    raw, status = MALFORMED[name]
    assert [answer.status for answer in both(served, raw)] == [status, status]


@pytest.mark.parametrize("number", range(len(TRICKS)), ids=lambda number: TRICKS[number][:40].decode())
def test_path_tricks_lead_nowhere(served: Program, number: int) -> None:
    raw = request(TRICKS[number].decode(), "Accept: text/html")
    for answer in both(served, raw):
        assert 200 <= answer.status < 500
        assert b"root:" not in answer.body
        assert b"[[volume]]" not in answer.body
        assert b"class Site" not in answer.body
        assert not answer.headers.get("location", "").startswith(("//", "/\\", "javascript:", "file:"))
        assert not {"set-cookie", "x"} & answer.headers.keys()


@pytest.mark.parametrize("method", ["TRACE", "PROPFIND", "LINK", "PATCH", "DELETE"])
def test_methods_that_make_no_sense_are_refused(served: Program, method: str) -> None:
    for answer in both(served, request("/", method=method)):
        assert 400 <= answer.status < 500


def test_head_is_answered_like_get_without_the_body(served: Program) -> None:
    for target in ("/", "/health", "/web/2026id_/http://example.com/"):
        got, head = served.ask(target), ask(served.ports[CONTROLS], request(target, method="HEAD"))
        assert head.status == got.status
        assert head.body == b""


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "a.127.0.0.1.nip.example"]
)
def test_a_name_that_somebody_pointed_at_us_is_not_answered(served: Program, host: str) -> None:
    """DNS rebinding: the page of another site would read the archive, or write to it."""
    assert [answer.status for answer in both(served, request("/", host=host))] == [421, 421]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "[::1]:99", "LOCALHOST", "x.localhost"])
def test_the_names_of_this_machine_are_answered(served: Program, host: str) -> None:
    assert ask(served.ports[CONTROLS], request("/health", host=host)).status == 200


def test_slow_clients_do_not_stop_others(served: Program) -> None:
    trickling = request("/main/cdx", "Content-Length: 9", method="POST", body=b"a")
    unread = request("/web/2026id_/http://example.com/large")
    port = served.ports[CONTROLS]
    slow = [connect(port) for _ in range(60)]
    try:
        for number, connection in enumerate(slow):
            connection.sendall((b"GET / HT", trickling, unread)[number % 3])
        for _ in range(20):
            assert served.ask("/health").status == 200
        assert {read_answer(connection).status for connection in slow[0::3]} == {408}
        assert {read_answer(connection).status for connection in slow[1::3]} <= {401, 403, 405, 408}
    finally:
        for connection in slow:
            connection.close()
    wait_until(lambda: sum(each["connections_open"] for each in served.status()["workers"]) <= 2, "all are gone")


def test_ten_thousand_random_requests_leave_the_server_alive(served: Program) -> None:
    statuses = asyncio.run(bombard(served.ports, seed=5, count=10_000))
    assert sum(statuses.values()) == 10_000
    assert statuses[200] > 100
    assert statuses[400] > 100
    assert served.ask("/health").status == 200

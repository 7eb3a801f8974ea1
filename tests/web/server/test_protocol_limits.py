"""Limits on requests: what is wrong, too large or too slow is refused cleanly, and holds up nobody (W17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import CHUNKED, HOST, MALFORMED
from limited import PIECE, PIECES, Limited, serving
from waiting import wait_until
from wire import ask, ask_on, connect, ends, read_answer, request

from holdfast.config import ServeSettings
from holdfast.web.server.connection import HEADER_BYTES_MAX

BODY_MAX = 1000
CALM = ServeSettings(port=0, body_bytes_max=BODY_MAX, stop_s=0.0)
HASTY = ServeSettings(
    port=0,
    client_timeout_s=0.2,
    connections_max=4,
    stop_s=0.0,
)


@pytest.fixture(scope="module")
def calm() -> Iterator[Limited]:
    with serving(CALM) as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Limited]:
    with serving(HASTY) as server:
        yield server


# -- what is answered --------------------------------------------------------------------------------------------------


def test_the_application_gets_path_and_query_as_they_were_sent(calm: Limited) -> None:
    target = "/main/2026/http://a.example/%C3%A9/../b//c?x=%20&y=/?z"
    assert ask(calm.port, request(target)).body == f"GET {target} 0".encode()


def test_letters_beyond_ascii_in_an_address_are_taken_as_if_they_were_escaped(calm: Limited) -> None:
    raw = b"GET /b\xc3\xbc/x?url=b\xc3\xbccher.example&odd=\xff HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Name: \xc3\xbc\r\n\r\n"
    told = b"GET /b%C3%BC/x?url=b%C3%BCcher.example&odd=%FF 0"
    with connect(calm.port) as connection:
        for _ in range(2):
            assert ask_on(connection, raw).body == told
    for odd in (b"G\xc3T / HTTP/1.1", b"GET / HTTP/\xb9.1", b"\xc3GET / HTTP/1.1"):
        assert ask(calm.port, odd + b"\r\nHost: 127.0.0.1\r\n\r\n").status == 400


def test_a_body_beyond_ascii_is_left_alone(calm: Limited) -> None:
    body = "ü".encode() * 10
    with connect(calm.port) as connection:
        connection.sendall(request("/", f"Content-Length: {len(body)}", method="PUT"))
        assert ask_on(connection, body).body == b"PUT /? 20"


def test_a_connection_is_used_again(calm: Limited) -> None:
    with connect(calm.port) as connection:
        bodies = [ask_on(connection, request(f"/{number}")).body for number in range(20)]
    assert bodies == [b"GET /%d? 0" % number for number in range(20)]


def test_requests_sent_without_waiting_are_answered_in_their_order(calm: Limited) -> None:
    requests = [request(f"/{number}") for number in range(50)]
    with connect(calm.port) as connection:
        connection.sendall(b"".join(requests[:-1]) + request("/last", "Connection: close"))
        data = b""
        while piece := connection.recv(1 << 16):
            data += piece
    assert data.count(b"HTTP/1.1 200 OK") == 50
    assert data.index(b"GET /7? 0") < data.index(b"GET /48? 0") < data.index(b"GET /last? 0")


def test_bodies_of_both_kinds_arrive(calm: Limited) -> None:
    assert ask(calm.port, request("/", "Content-Length: 3", method="PUT", body=b"abc")).body == b"PUT /? 3"
    assert ask(calm.port, CHUNKED + b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\n\r\n").body == b"POST /? 3"


def test_a_trailer_does_not_become_a_header(calm: Limited) -> None:
    with connect(calm.port) as connection:
        assert ask_on(connection, CHUNKED + b"0\r\nHost: evil.example\r\n\r\n").status == 200
        assert ask_on(connection, request("/next")).body == b"GET /next? 0"


def test_a_client_that_asks_first_is_told_to_go_on(calm: Limited) -> None:
    raw = request("/", "Content-Length: 3", "Expect: 100-continue", method="POST", body=b"abc")
    assert ask(calm.port, raw).body == b"POST /? 3"


def test_head_has_no_body(calm: Limited) -> None:
    with connect(calm.port) as connection:
        answer = ask_on(connection, request("/", method="HEAD"))
        assert (answer.status, answer.headers["content-length"]) == (200, "9")
        assert ask_on(connection, request("/next")).body == b"GET /next? 0"


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "TLS/1.0"])
def test_a_wish_for_another_protocol_is_ignored(calm: Limited, protocol: str) -> None:
    answer = ask(calm.port, request("/", "Connection: Upgrade", f"Upgrade: {protocol}"))
    assert (answer.status, answer.headers["connection"]) == (200, "close")


def test_a_target_with_scheme_and_host_is_understood(calm: Limited) -> None:
    assert ask(calm.port, request("http://localhost/a?b")).body == b"GET /a?b 0"
    assert ask(calm.port, request("http://localhost")).body == b"GET /? 0"


def test_http_1_0_is_answered_and_closed(calm: Limited) -> None:
    answer = ask(calm.port, b"GET / HTTP/1.0\r\n\r\n")
    assert (answer.status, answer.headers["connection"]) == (200, "close")


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_is_refused(calm: Limited, name: str) -> None:
    raw, status = MALFORMED[name]
    with connect(calm.port) as connection:
        answer = ask_on(connection, raw)
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert b"GET" not in answer.body
        connection.close()
    assert ask(calm.port, request("/after")).status == 200


def test_what_follows_a_refused_request_is_not_read(calm: Limited) -> None:
    """Else the body of one reader is the next request of another: smuggling."""
    raw = request("/", "Content-Length: 0", "Content-Length: 40", method="POST") + request("/smuggled")
    with connect(calm.port) as connection:
        connection.sendall(raw)
        data = b""
        while piece := connection.recv(1 << 16):
            data += piece
    assert data.startswith(b"HTTP/1.1 400 ")
    assert data.count(b"HTTP/1.1") == 1
    assert b"smuggled" not in data


def test_a_bad_request_behind_a_good_one_does_not_disturb_its_answer(calm: Limited) -> None:
    with connect(calm.port) as connection:
        connection.sendall(request("/good") + b"\0\0\0\0")
        answer = read_answer(connection)
        assert (answer.status, answer.body) == (200, b"GET /good? 0")
        assert ends(connection)


def test_bodies_beyond_the_limit_are_refused(calm: Limited) -> None:
    assert ask(calm.port, request("/", f"Content-Length: {BODY_MAX + 1}", method="PUT")).status == 413
    chunks = b"3e8\r\n" + b"a" * BODY_MAX + b"\r\n"
    assert ask(calm.port, CHUNKED + chunks + b"0\r\n\r\n").status == 200
    assert ask(calm.port, CHUNKED + chunks + b"1\r\na\r\n0\r\n\r\n").status == 413


def test_a_request_that_the_application_has_already_is_not_counted_as_refused_too(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(ServeSettings(port=0, body_bytes_max=BODY_MAX), log) as limited:
        assert ask(limited.port, CHUNKED + b"7d0\r\n" + b"a" * 2000 + b"\r\n").status == 413
        assert ask(limited.port, request("/", f"Content-Length: {BODY_MAX + 1}", method="PUT")).status == 413
        assert limited.counters.total("refused.4xx") == 1
    assert [line.split('" ')[1].split()[0] for line in log.read_text().splitlines()] == ["413", "413"]


def test_a_client_with_too_many_cookies_is_rid_of_them(calm: Limited) -> None:
    """Archived pages set cookies; with more of them than the head may have, nothing would ever be answered again."""
    answer = ask(calm.port, request("/", f"Cookie: a={'x' * HEADER_BYTES_MAX}"))
    assert answer.status == 431
    assert answer.headers["clear-site-data"] == '"cookies"'
    assert "clear-site-data" not in ask(calm.port, request("/")).headers


def test_a_field_that_never_ends_is_refused_while_another_request_is_answered(calm: Limited) -> None:
    before = calm.counters.total("refused.4xx")
    with connect(calm.port) as connection:
        connection.sendall(request("/large") + b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000)
        wait_until(lambda: calm.counters.total("refused.4xx") > before, "the field is refused")
        assert len(read_answer(connection).body) > len(PIECE) * PIECES
        assert ends(connection)


def test_an_error_of_the_application_is_a_500_and_counted(calm: Limited, caplog: pytest.LogCaptureFixture) -> None:
    before = calm.counters.total("errors")
    answer = ask(calm.port, request("/failing"))
    assert (answer.status, answer.headers["connection"]) == (500, "close")
    assert b"on purpose" not in answer.body
    wait_until(lambda: calm.counters.total("errors") == before + 1, "the error is counted")
    assert "cannot answer GET" in caplog.text


def test_a_header_with_a_line_break_never_goes_out(calm: Limited, caplog: pytest.LogCaptureFixture) -> None:
    answer = ask(calm.port, request("/injected"))
    assert answer.status == 500
    assert "set-cookie" not in answer.headers
    assert "cannot answer GET" in caplog.text


# -- slow clients ------------------------------------------------------------------------------------------------------


def test_a_head_that_does_not_come_in_time_is_refused(hasty: Limited) -> None:
    assert ask(hasty.port, b"GET / HTTP/1.1\r\nHost: 127").status == 408


def test_a_trickling_head_is_refused(hasty: Limited) -> None:
    with connect(hasty.port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connection.settimeout(0.01)
        answered = b""

        def trickle() -> bool:
            nonlocal answered
            try:
                answered += connection.recv(1000)
            except TimeoutError:
                connection.sendall(b"X-A: b\r\n"[:1])
            return answered != b""

        wait_until(trickle, "the server loses its patience")
    assert answered.startswith((b"HTTP/1.1 408", b"HTTP/1.1 400", b"HTTP/1.1 431"))


def test_a_client_that_says_nothing_is_let_go(hasty: Limited) -> None:
    with connect(hasty.port) as connection:
        assert ends(connection)


def test_a_connection_that_is_not_used_again_is_let_go(hasty: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.server.connection.KEEP_ALIVE_S", 0.2)
    with connect(hasty.port) as connection:
        assert ask_on(connection, request("/")).status == 200
        assert ends(connection)


def test_a_body_that_does_not_come_is_refused(hasty: Limited) -> None:
    assert ask(hasty.port, request("/", "Content-Length: 9", method="PUT", body=b"a")).status == 408


def test_a_body_that_nobody_waits_for_holds_nothing(hasty: Limited) -> None:
    with connect(hasty.port) as connection:
        assert ask_on(connection, request("/early", "Content-Length: 9", method="PUT", body=b"a")).status == 200
        assert ends(connection)


def test_a_client_that_does_not_read_is_cut_off_and_others_are_served(hasty: Limited) -> None:
    before = hasty.counters.total("stalls")
    with connect(hasty.port) as stuck:
        stuck.sendall(request("/large"))
        assert ask(hasty.port, request("/other")).status == 200
        wait_until(lambda: hasty.counters.total("stalls") > before, "the stalled client is cut off")
    wait_until(lambda: hasty.counters.total("in_flight") == 0, "its answer is given up")


def test_a_client_that_reads_gets_all_of_a_large_answer(calm: Limited) -> None:
    answer = ask(calm.port, request("/large"))
    assert len(answer.body) > len(PIECE) * PIECES
    assert answer.body.endswith(b"0\r\n\r\n")


def test_one_connection_too_many_gets_a_503(hasty: Limited) -> None:
    wait_until(lambda: hasty.counters.total("connections_open") == 0, "the connections of other tests are gone")
    held = [connect(hasty.port) for _ in range(HASTY.connections_max)]
    for connection in held:
        assert ask_on(connection, request("/")).status == 200
    with connect(hasty.port) as one_more:
        assert read_answer(one_more).status == 503
    for connection in held:
        connection.close()
    wait_until(lambda: ask(hasty.port, request("/")).status == 200, "there is room again")


# -- the log -----------------------------------------------------------------------------------------------------------


def test_the_access_log_has_a_line_for_each_request_and_no_client_can_forge_one(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(CALM, log) as server:
        agent = 'User-Agent: a" 200 1 "-" "\\ \u00e9'
        ask(server.port, request("/page?q=1", agent, "Referer: http://a.example/"))
        ask(server.port, b"GET /a\r\n127.0.0.1 - - HTTP/1.1\r\n" + HOST + b"\r\n")
    good, refused = log.read_text("ascii").splitlines()
    assert '"GET /page?q=1 HTTP/1.1" 200 15 "http://a.example/" "a\\x22 200 1 \\x22-\\x22 ' in good
    assert '\\x22\\x5c \\xc3\\xa9" ' in good
    assert good.startswith("127.0.0.1 - - [")
    assert good.rsplit(" ", 1)[1].isdigit()
    assert '"-" 400 - "-" "-" 0' in refused


def test_a_ticket_is_not_written_to_the_access_log(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with serving(CALM, log) as server:
        ask(server.port, request("/_hf/enter?to=%2Fmain%2F2024mp_%2Fhttp%3A%2F%2Fa.example%2F&ticket=1700.secret&x=1"))
        ask(server.port, request("/main/2024/http://a.example/?ticket=archived"))
    entered, archived = log.read_text("ascii").splitlines()
    assert "a.example%2F&ticket=-&x=1 HTTP/1.1" in entered
    assert "?ticket=archived HTTP/1.1" in archived

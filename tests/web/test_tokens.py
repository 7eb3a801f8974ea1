"""Tokens: reading where it is restricted, writing always; tickets for frames; guessing is slowed."""

from __future__ import annotations

import base64
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.requests import Request

from holdfast.config import ServeSettings
from holdfast.errors import Denied, InvalidSetting, Throttled, Unauthorized
from holdfast.web.auth import tokens
from holdfast.web.auth.tokens import COOKIE, SETS, WAYS, WRONG_MAX, WRONG_WITHIN_S, TokenAttempts, Tokens

READ, WRITE = "r" * 32, "w" * 32


@dataclass
class Place:
    """As much of a site as tokens look at."""

    tokens: Tokens
    controls_origin: str = "http://archive.test:8080"
    replay_origin: str = "http://archive.test:8081"


def asked(method: str = "GET", address: str = "192.0.2.1", **headers: str) -> Request:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    fields.append((b"host", b"archive.test:8080"))
    return Request({"type": "http", "method": method, "headers": fields, "client": (address, 1234)})


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_without_tokens_everybody_reads_and_nobody_writes() -> None:
    place = Place(Tokens())
    place.tokens.require_read(asked())
    place.tokens.require_ticket(asked())
    with pytest.raises(Denied, match="write_token_file"):
        tokens.may_write(place, asked("PUT", authorization=f"Bearer {WRITE}"))  # type: ignore[arg-type]


@pytest.mark.parametrize("sent", [f"Bearer {READ}", f"bearer  {READ}", basic("anybody", READ), f"Bearer {WRITE}"])
def test_a_token_lets_read(sent: str) -> None:
    Tokens([READ], [WRITE]).require_read(asked(authorization=sent))


@pytest.mark.parametrize(
    "sent", ["", READ, f"Bearer {READ}x", "Bearer", "Basic !!!", basic(READ, ""), f"Digest {READ}", "Bearer \x80\xff"]
)
def test_anything_else_does_not(sent: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        Tokens([READ]).require_read(asked(authorization=sent))
    assert tokens.error_headers(caught.value) == {"WWW-Authenticate": tokens.CHALLENGE}


def test_a_token_for_reading_does_not_let_write() -> None:
    place = Place(Tokens([READ], [WRITE]))
    with pytest.raises(Unauthorized):
        tokens.may_write(place, asked("PUT", authorization=f"Bearer {READ}"))  # type: ignore[arg-type]
    tokens.may_write(place, asked("PUT", authorization=f"Bearer {WRITE}"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({"origin": "http://archive.test:8080"}, False),
        ({"sec_fetch_site": "same-origin"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"origin": "http://archive.test:8081"}, True),  # archived pages live there
        ({"origin": "http://evil.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": "file://archive.test:8080"}, True),
        ({"sec_fetch_site": "same-site"}, True),
        ({"sec_fetch_site": "cross-site"}, True),
    ],
)
def test_pages_of_other_origins_cannot_write_even_with_a_token(headers: dict[str, str], is_refused: bool) -> None:
    place = Place(Tokens([], [WRITE]))
    request = asked("PUT", authorization=f"Bearer {WRITE}", **headers)
    if is_refused:
        with pytest.raises(Denied, match="may not change this archive"):
            tokens.may_write(place, request)  # type: ignore[arg-type]
    else:
        tokens.may_write(place, request)  # type: ignore[arg-type]


def test_a_ticket_lets_a_frame_in_for_a_minute_and_its_cookie_for_the_day() -> None:
    moment = [1000.0]
    place = Place(Tokens([READ], clock=lambda: moment[0]))
    ticket = tokens.ticket(place)  # type: ignore[arg-type]
    tokens.check_ticket(place, ticket)  # type: ignore[arg-type]
    other_worker = Place(Tokens([READ], clock=lambda: moment[0]))
    tokens.check_ticket(other_worker, ticket)  # type: ignore[arg-type]
    sent = tokens.cookie(place)  # type: ignore[arg-type]
    assert "HttpOnly" in sent
    assert READ not in sent
    value = sent.partition(";")[0]
    moment[0] += 3600
    place.tokens.require_ticket(asked(cookie=f'bad"[; {value}; x=y'))
    for bad in (ticket, ticket + "0", "", "1.2", "9" * 30 + ".x"):
        with pytest.raises(Unauthorized):
            tokens.check_ticket(place, bad)  # type: ignore[arg-type]
    for cookie in ("", f"{COOKIE}=", f"{COOKIE}={ticket}", f"x{value}"):
        with pytest.raises(Unauthorized):
            place.tokens.require_ticket(asked(cookie=cookie))
    with pytest.raises(Unauthorized):  # the other origin takes no cookies
        place.tokens.require_read(asked(cookie=value))
    moment[0] += 86400
    with pytest.raises(Unauthorized):
        place.tokens.require_ticket(asked(cookie=value))


def test_other_tokens_void_tickets() -> None:
    ticket = tokens.ticket(Place(Tokens([READ])))  # type: ignore[arg-type]
    with pytest.raises(Unauthorized):
        tokens.check_ticket(Place(Tokens(["x" * 32])), ticket)  # type: ignore[arg-type]


def tried(place: Place, token: str, address: str = "192.0.2.1") -> type[Exception] | None:
    try:
        place.tokens.require_read(asked(address=address, authorization=f"Bearer {token}"))
    except Denied as error:
        return type(error)
    return None


def test_who_guesses_is_locked_out_also_with_the_right_token_and_by_all_workers() -> None:
    moment = [1000.0]
    attempts = TokenAttempts.make()
    workers = [Place(Tokens([READ], attempts=attempts, monotonic=lambda: moment[0])) for _ in range(4)]
    assert {tried(workers[number % 4], f"guess {number}") for number in range(WRONG_MAX)} == {Unauthorized}
    for worker in workers:
        assert tried(worker, "guess") is Throttled
        assert tried(worker, READ) is Throttled, "a lock that opens for the right guess is none"
        assert tried(worker, READ, "192.0.2.2") is None
        assert tried(worker, "guess", "192.0.2.2") is Unauthorized
    moment[0] += WRONG_WITHIN_S
    assert tried(workers[0], "guess") is Unauthorized
    assert tried(workers[1], READ) is None


def test_who_was_let_in_before_is_not_locked_out_by_others_behind_the_same_address() -> None:
    moment = [1000.0]
    attempts = TokenAttempts.make()
    first, second = (Place(Tokens([READ], [WRITE], attempts, monotonic=lambda: moment[0])) for _ in range(2))
    assert tried(first, READ) is None
    for number in range(WRONG_MAX):
        assert tried(second, f"guess {number}") is Unauthorized
    assert tried(second, READ) is None, "also by a worker that has not seen it"
    assert tried(second, WRITE) is Throttled, "another token was not let in before"
    moment[0] += WRONG_WITHIN_S / 2
    assert (tried(first, READ), tried(first, "guess")) == (None, Throttled)


def test_all_addresses_of_a_network_are_one_and_those_of_sockets_are_taken() -> None:
    place = Place(Tokens([READ]))
    for number in range(WRONG_MAX):
        assert tried(place, "guess", f"2001:db8::{number:x}") is Unauthorized
    assert tried(place, "guess", "2001:db8::ffff") is Throttled
    assert tried(place, "guess", "2001:db8:0:1::1") is Unauthorized
    for number in range(WRONG_MAX):
        assert tried(place, "guess", "::ffff:192.0.2.9" if number % 2 else "192.0.2.9") is Unauthorized
    assert tried(place, "guess", "192.0.2.9") is Throttled
    assert tried(place, "guess", "") is Unauthorized


def test_memory_for_guessers_is_bounded_and_the_last_are_remembered() -> None:
    attempts = TokenAttempts.make()
    place = Place(Tokens([READ], attempts=attempts))
    size = os.fstat(attempts.descriptor).st_size
    for number in range(SETS * WAYS + 500):
        assert tried(place, "x", f"a{number}") is Unauthorized
    assert os.fstat(attempts.descriptor).st_size == size
    assert attempts.last(f"a{SETS * WAYS + 499}")[0] == 1
    assert sum(attempts.last(f"a{number}")[0] for number in range(SETS * WAYS + 500)) <= SETS * WAYS
    attempts.close()


def test_tokens_are_lines_of_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "read").write_text(f"# readers\n\n  {READ}  \n")
    (tmp_path / "read").chmod(0o600)
    (tmp_path / "write").write_text(WRITE)
    (tmp_path / "write").chmod(0o644)
    settings = ServeSettings(read_token_file="read", write_token_file="write")
    with caplog.at_level(logging.WARNING):
        found = Tokens.of(tmp_path, settings)
    assert not found.is_open
    assert found.has_writers
    assert "chmod 600" in caplog.text
    assert READ not in repr(vars(found))
    found.require_read(asked(authorization=f"Bearer {READ}"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "short\n", "päss" * 10])
def test_a_file_without_good_tokens_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "read").write_text(text)
    with pytest.raises(InvalidSetting, match="token"):
        Tokens.of(tmp_path, ServeSettings(read_token_file="read"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot read the tokens"):
        Tokens.of(tmp_path, ServeSettings(read_token_file="read"))

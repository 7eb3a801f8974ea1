"""Tokens: who may read, if not everybody, and who may write.

    Authorization: Bearer <token>            programs, and the scripts of our own pages
    Authorization: Basic <any name:token>    people: the browser asks for a name and a password
    hf_ticket=<expiry.signature>             a cookie of the replay origin, which archived scripts cannot read

Tokens are lines of a file. If there is a file for reading, whoever reads needs one of its tokens, or one for writing.
Without a file for writing nobody writes. Here only their hashes are kept, and every comparison costs the same.

After many wrong tokens an address is locked for a minute, in all workers (`server/attempts.py`): whatever token it
sends, the answer is 429. Only a token that was accepted from there before passes, so that nobody can lock out others
behind the same proxy. Addresses of one IPv6 network of 64 bits count as one: whoever has one has them all.

Archived pages lie on another origin, where a token must never go. The page with the controls, whose reader has a token,
hands the frame a ticket for a minute in its address (`ticket`); `/_hf/enter` checks it and gives a cookie for the day
(`cookie`). Both are signed with a key made of the tokens, so that any worker can check what another gave out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import stat
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.config import ServeSettings
from holdfast.errors import Denied, HoldfastError, InvalidSetting, Throttled, Unauthorized
from holdfast.web.server.token_attempts import TokenAttempts

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.web.context import WebContext

log = logging.getLogger("holdfast.web")
COOKIE = "hf_ticket"
CHALLENGE = 'Basic realm="Holdfast", charset="UTF-8"'
TOKEN_LENGTH_MIN = 16
TICKET_S = 60
COOKIE_S = 12 * 3600
WRONG_MAX = 20  # tokens from one address
WRONG_WITHIN_S = 60.0
_ACCEPTED_ANEW_S = 60.0  # after which a token that is still accepted is noted again, lest it be forgotten
_USERS_KEPT = 1000  # addresses and tokens that this worker need not look up again
_TOKEN_BYTES_MAX = 1024


class Tokens:
    """The tokens of a server. For the thread of the event loop."""

    def __init__(
        self,
        read: Sequence[str] = (),
        write: Sequence[str] = (),
        attempts: TokenAttempts | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = [_hashed(token) for token in (*read, *write)] if read else []
        self._write = [_hashed(token) for token in write]
        self._key = hashlib.sha256(b"holdfast ticket\n" + b"".join(sorted(self._read))).digest()
        self._clock = clock
        self._monotonic = monotonic
        self._attempts = attempts or TokenAttempts.make()
        self._accepted: dict[str, float] = {}  # by address and token: when it was noted

    @classmethod
    def of(
        cls, root: Path, settings: ServeSettings, write: Sequence[str] = (), attempts: TokenAttempts | None = None
    ) -> Tokens:
        """Those of the files that the settings name, and more for writing. Raises InvalidSetting.

        `attempts` is what this worker shares with others; without it, it counts for itself.
        """
        reading = read_tokens(root / settings.read_token_file) if settings.read_token_file else ()
        writing = read_tokens(root / settings.write_token_file) if settings.write_token_file else ()
        return cls(reading, (*writing, *write), attempts)

    @property
    def is_open(self) -> bool:
        """Whether everybody may read."""
        return not self._read

    @property
    def has_writers(self) -> bool:
        """Whether anybody may write at all."""
        return bool(self._write)

    def require(self, authorization: str, address: str, *, write: bool = False) -> None:
        """Raises Unauthorized, or Throttled after too many wrong ones."""
        if write and not self._write:
            raise Denied(
                "this server takes nothing in: start it with --write, or name a file of tokens in "
                "'serve.write_token_file'"
            )
        if not write and not self._read:
            return
        token = _presented(authorization)
        if not token:
            raise Unauthorized(f"a token is needed to {'write' if write else 'read'}: send 'Authorization: Bearer ...'")
        network = _network(address)
        if not _is_among(token, self._write if write else self._read):
            self._refuse_guessers(network)
            self._attempts.note(network, self._monotonic(), WRONG_WITHIN_S)
            raise Unauthorized(f"this token does not permit to {'write' if write else 'read'}")
        self._accept(f"{network} {_hashed(token).hex()}", network)

    def require_read(self, request: Request) -> None:
        """Raises Unauthorized or Throttled. Cookies do not count."""
        if self._read:
            self.require(request.headers.get("authorization", ""), _address(request))

    def require_ticket(self, request: Request) -> None:
        """The same for the replay origin, where the cookie of a ticket does as well."""
        if self._read and not any(self.is_signed("cookie", each) for each in _tickets(request)):
            self.require_read(request)

    # -- tickets ------------------------------------------------------------------------------------------------

    def signed(self, purpose: str, seconds: int) -> str:
        expiry = f"{int(self._clock()) + seconds}"
        return f"{expiry}.{self._signature(purpose, expiry)}"

    def is_signed(self, purpose: str, text: str) -> bool:
        expiry, dot, signature = text.partition(".")
        if not dot or not (expiry.isascii() and expiry.isdigit() and len(expiry) < 16):
            return False
        fits = hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(purpose, expiry).encode())
        return fits and int(expiry) > self._clock()

    def _signature(self, purpose: str, expiry: str) -> str:
        return hmac.new(self._key, f"{purpose} {expiry}".encode(), hashlib.sha256).hexdigest()

    # -- guessing -----------------------------------------------------------------------------------------------

    def _refuse_guessers(self, network: str) -> None:
        count, last_s = self._attempts.last(network)
        if count >= WRONG_MAX and self._monotonic() - last_s < WRONG_WITHIN_S:
            raise Throttled(f"too many wrong tokens from {network}: try again in a minute")

    def _accept(self, user: str, network: str) -> None:
        """Of a right token. Raises Throttled where it may be a guess: at a locked address that never sent it before."""
        now = self._monotonic()
        if now - self._accepted.get(user, -_ACCEPTED_ANEW_S) < _ACCEPTED_ANEW_S:
            return  # most requests: nothing to look up in what all share
        if not self._attempts.last(user)[0]:
            self._refuse_guessers(network)
        self._attempts.note(user, now, WRONG_WITHIN_S)
        if len(self._accepted) >= _USERS_KEPT:
            self._accepted.clear()
        self._accepted[user] = now


def may_read(site: WebContext, request: Request) -> None:
    """Raises Unauthorized or Throttled. For the origin with the controls."""
    site.tokens.require_read(request)


def may_write(site: WebContext, request: Request) -> None:
    """Raises Denied, Unauthorized or Throttled. A request that a page elsewhere made is refused before all else."""
    origin = request.headers.get("origin")
    if origin is not None and origin != site.controls_origin:
        named = urlsplit(origin)
        if named.scheme not in ("http", "https") or named.netloc != request.headers.get("host"):
            raise Denied(f"a page of {origin[:200]!r} may change nothing here")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Denied("a page of another origin may change nothing here")
    site.tokens.require(request.headers.get("authorization", ""), _address(request), write=True)


def ticket(site: WebContext) -> str:
    """For the address of a frame; empty if everybody may read."""
    return "" if site.tokens.is_open else site.tokens.signed("ticket", TICKET_S)


def check_ticket(site: WebContext, text: str) -> None:
    """Raises Unauthorized."""
    if not site.tokens.is_open and not site.tokens.is_signed("ticket", text):
        raise Unauthorized("this address was for one minute: open the page anew")


def cookie(site: WebContext) -> str:
    """The value of `Set-Cookie` for whoever came with a ticket; empty if everybody may read."""
    if site.tokens.is_open:
        return ""
    # In a frame on another site the browser sends a cookie only if it says so, and then only over TLS.
    place = "SameSite=None; Secure; Partitioned" if site.replay_origin.startswith("https:") else "SameSite=Lax"
    return f"{COOKIE}={site.tokens.signed('cookie', COOKIE_S)}; Path=/; HttpOnly; Max-Age={COOKIE_S}; {place}"


def error_headers(error: HoldfastError) -> dict[str, str]:
    """What an answer says besides an error: how to come in, or when to come back."""
    if error.http_status == 401:
        return {"WWW-Authenticate": CHALLENGE}
    if error.http_status == 429:
        return {"Retry-After": str(int(WRONG_WITHIN_S))}
    return {"Retry-After": "5"} if error.retryable else {}


def read_tokens(path: Path) -> tuple[str, ...]:
    """One to a line; empty lines and those that begin with `#` do not count. Raises InvalidSetting."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            log.warning("others may read the tokens in '%s': run 'chmod 600 %s'", path, path)
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read the tokens in '{path}': {error}") from None
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise InvalidSetting(f"no token in '{path}': write one to a line, as 'openssl rand -hex 32' gives it")
    for token in tokens:
        if not TOKEN_LENGTH_MIN <= len(token) <= _TOKEN_BYTES_MAX or not (token.isascii() and token.isprintable()):
            raise InvalidSetting(
                f"a token in '{path}' is shorter than {TOKEN_LENGTH_MIN} characters or has others than ASCII: "
                "take one as 'openssl rand -hex 32' gives it"
            )
    return tokens


def _presented(authorization: str) -> str:
    kind, _, value = authorization.strip().partition(" ")
    value = value.strip()
    if kind.lower() == "basic":
        try:
            value = base64.b64decode(value, validate=True).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    elif kind.lower() != "bearer":
        return ""
    return value[: _TOKEN_BYTES_MAX + 1]


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _is_among(token: str, hashes: Sequence[bytes]) -> bool:
    """Looks at all of them, however early one fits."""
    found = _hashed(token)
    return sum([hmac.compare_digest(found, each) for each in hashes]) > 0


def _tickets(request: Request) -> list[str]:
    """Every cookie of the name: archived pages set cookies too, and some that no parser understands."""
    pairs = [each.strip().partition("=") for each in request.headers.get("cookie", "").split(";")]
    return [value for name, _, value in pairs if name == COOKIE]


def _network(address: str) -> str:
    """What counts as one address."""
    try:
        found = ip_address(address)
    except ValueError:  # a socket of this machine has none
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""

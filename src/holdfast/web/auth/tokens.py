"""Tokens: who may read, if reading is restricted, and who may write.

    Authorization: Bearer <token>            programs, and the scripts of our own pages
    Authorization: Basic <any name:token>    people: the browser asks for a name and a password
    hf_ticket=<expiry.signature>             a cookie of the replay origin, which archived scripts cannot read

Tokens are lines of a file. If there is a file for reading, reading needs one of its tokens, or one for writing.
Without a file for writing nobody may write. Only hashes are kept in memory, and comparisons take constant time.

After many wrong tokens an address is locked for a minute in all workers (`TokenAttempts`): any token it sends gets 429.
Only a token that was accepted from there before passes, so that nobody can lock out others behind the same proxy. A
/64 network of IPv6 counts as one address.

Archived pages are on another origin, which must never get a token. The page with controls puts a ticket, valid for a
minute, into the address of its frame (`ticket`); `/_hf/enter` checks it and sets a cookie for half a day (`cookie`).
Both are signed with a key derived from the tokens, so that any worker can check what another issued.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import hmac
import logging
import mmap
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from holdfast.config import ServeSettings
from holdfast.env.lru import LruCache
from holdfast.errors import Denied, HoldfastError, InvalidSetting, Throttled, Unauthorized

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
_ACCEPTED_AGAIN_S = 60.0  # after which an accepted token is recorded again, before its slot is reused
_USERS_KEPT = 1000  # pairs of address and token that this worker remembers
_TOKEN_BYTES_MAX = 1024
SETS, WAYS = 1024, 8  # of `TokenAttempts`
_SLOT = struct.Struct("<16sqd")
_FREE = bytes(16)


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
        self._accepted: LruCache[str, float] = LruCache(_USERS_KEPT)  # by address and token: when it was recorded

    @classmethod
    def of(
        cls, root: Path, settings: ServeSettings, write: Sequence[str] = (), attempts: TokenAttempts | None = None
    ) -> Tokens:
        """The tokens of the files in the settings, and more for writing. Raises InvalidSetting.

        `attempts` is shared with other workers; without it this worker counts alone.
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
                "this server does not permit writing: start it with --write, or name a file of tokens in "
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
            raise Unauthorized(f"this token does not permit {'writing' if write else 'reading'}")
        self._accept(f"{network} {_hashed(token).hex()}", network)

    def require_read(self, request: Request) -> None:
        """Raises Unauthorized or Throttled. Cookies do not count."""
        if self._read:
            self.require(request.headers.get("authorization", ""), _address(request))

    def require_ticket(self, request: Request) -> None:
        """The same for the replay origin, where the cookie of a ticket also counts."""
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
        """Records a correct token. Raises Throttled if a locked address never sent it before: it may be a guess."""
        now = self._monotonic()
        recorded_s = self._accepted.get(user)
        if recorded_s is not None and now - recorded_s < _ACCEPTED_AGAIN_S:
            return  # the usual case, without shared memory
        if not self._attempts.last(user)[0]:
            self._refuse_guessers(network)
        self._attempts.note(user, now, WRONG_WITHIN_S)
        self._accepted.put(user, now)


def may_write(site: WebContext, request: Request) -> None:
    """Raises Denied, Unauthorized or Throttled. Cross-origin requests are refused first."""
    origin = request.headers.get("origin")
    if origin is not None and origin != site.controls_origin:
        named = urlsplit(origin)
        if named.scheme not in ("http", "https") or named.netloc != request.headers.get("host"):
            raise Denied(f"pages of {origin[:200]!r} may not change this archive")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Denied("pages of another origin may not change this archive")
    site.tokens.require(request.headers.get("authorization", ""), _address(request), write=True)


def ticket(site: WebContext) -> str:
    """For the address of a frame; empty if everybody may read."""
    return "" if site.tokens.is_open else site.tokens.signed("ticket", TICKET_S)


def check_ticket(site: WebContext, text: str) -> None:
    """Raises Unauthorized."""
    if not site.tokens.is_open and not site.tokens.is_signed("ticket", text):
        raise Unauthorized("this address was valid for one minute: reload the page")


def cookie(site: WebContext) -> str:
    """The `Set-Cookie` value for a client with a valid ticket; empty if everybody may read."""
    if site.tokens.is_open:
        return ""
    # In a cross-site frame the browser sends only cookies with SameSite=None, and those only over TLS.
    place = "SameSite=None; Secure; Partitioned" if site.replay_origin.startswith("https:") else "SameSite=Lax"
    return f"{COOKIE}={site.tokens.signed('cookie', COOKIE_S)}; Path=/; HttpOnly; Max-Age={COOKIE_S}; {place}"


def error_headers(error: HoldfastError) -> dict[str, str]:
    """Headers of an error: how to authenticate, or when to retry."""
    if error.http_status == 401:
        return {"WWW-Authenticate": CHALLENGE}
    if error.http_status == 429:
        return {"Retry-After": str(int(WRONG_WITHIN_S))}
    return {"Retry-After": "5"} if error.retryable else {}


def read_tokens(path: Path) -> tuple[str, ...]:
    """One per line; empty lines and comments (`#`) are skipped. Raises InvalidSetting."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            log.warning("others may read the tokens in '%s': run 'chmod 600 %s'", path, path)
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"cannot read the tokens in '{path}': {error}") from None
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise InvalidSetting(f"no token in '{path}': write one per line, for example from 'openssl rand -hex 32'")
    for token in tokens:
        if not TOKEN_LENGTH_MIN <= len(token) <= _TOKEN_BYTES_MAX or not (token.isascii() and token.isprintable()):
            raise InvalidSetting(
                f"a token in '{path}' is shorter than {TOKEN_LENGTH_MIN} characters or has others than ASCII: "
                "make one with 'openssl rand -hex 32'"
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
    """Compares with all hashes, so that the time does not depend on the match."""
    found = _hashed(token)
    return sum([hmac.compare_digest(found, each) for each in hashes]) > 0


def _tickets(request: Request) -> list[str]:
    """All cookies of that name: archived pages set cookies too, some malformed."""
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


class TokenAttempts:
    """Counts wrong tokens in memory shared by all workers, so that a lock holds for each of them.

        set 0:  WAYS slots of 32 bytes:  name │ count │ time of the last
                16 bytes, zero: free       8       8   seconds of the system's monotonic clock
        set 1:  ...

    A name is a hash of an address, or of an address and a token accepted from it. It belongs to one of `SETS` sets; a
    full set evicts the name seen longest ago. So memory is bounded, and a restarted worker keeps the counts. A file
    lock serializes workers; it is taken only for new or wrong tokens, and is released if its holder dies.
    For the thread of the event loop.
    """

    def __init__(self, descriptor: int) -> None:
        """Takes the descriptor over."""
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, SETS * WAYS * _SLOT.size)

    @classmethod
    def make(cls) -> Self:
        """Empty counts; the descriptor can be passed to other processes."""
        descriptor = os.memfd_create("holdfast-attempts")
        os.ftruncate(descriptor, SETS * WAYS * _SLOT.size)
        return cls(descriptor)

    def last(self, name: str) -> tuple[int, float]:
        """Count and time of the last attempt; (0, 0.0) if there was none or it was evicted."""
        digest = _digest(name)
        with self._locked():
            return next((slot[1:] for _, slot in self._set(digest) if slot[0] == digest), (0, 0.0))

    def note(self, name: str, now_s: float, within_s: float) -> int:
        """Adds one and returns the count, which restarts if the last attempt is older than `within_s`."""
        digest = _digest(name)
        with self._locked():
            slots = list(self._set(digest))
            known = next((each for each in slots if each[1][0] == digest), None)
            at, (_, count, last_s) = known or min(slots, key=lambda each: (each[1][0] != _FREE, each[1][2]))
            count = count + 1 if known is not None and now_s - last_s < within_s else 1
            _SLOT.pack_into(self._map, at, digest, count, now_s)
            return count

    def _set(self, digest: bytes) -> Iterator[tuple[int, tuple[bytes, int, float]]]:
        first = int.from_bytes(digest[:4], "little") % SETS * WAYS
        for slot in range(first, first + WAYS):
            yield slot * _SLOT.size, _SLOT.unpack_from(self._map, slot * _SLOT.size)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=16).digest()

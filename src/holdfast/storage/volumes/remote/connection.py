"""One connection of a client to a volume server: frames out, frames in, one thread at a time.

The connections of a client to one server: opened when they are needed, used by one thread at a time, tried again.

A server that does not answer is tried for a while; then its volume counts as down, and is left alone for a while, so
that who has replicas elsewhere is not held up by it again and again.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdfast.config import RemoteSettings
from holdfast.env import Environment
from holdfast.env.files import Buffer
from holdfast.errors import Busy, Denied, HoldfastError, MalformedInput, UsageError, VolumeDown
from holdfast.storage.server import wire
from holdfast.storage.server.handshake import NONCE_BYTES, answer_hello, read_secret, verify_welcome
from holdfast.storage.server.wire import FRAME_BYTES, Type

_RECEIVE_BYTES = 256 << 10
_SEND_BYTES = 256 << 10  # that have the whole time-out for themselves
_KEPT_BYTES_MAX = 4 << 20  # a larger buffer is given up after use
_WELCOME_BYTES_MAX = 64 << 10  # of a frame before the server is authenticated
_ANSWER_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class Credentials:
    """How this client proves itself."""

    secret: bytes | None
    tls: ssl.SSLContext | None


def load_credentials(settings: RemoteSettings, directory: Path) -> Credentials:
    """Raises NotFound, Denied or UsageError. Paths are relative to the directory."""
    secret = read_secret(directory / settings.secret_file) if settings.secret_file else None
    return Credentials(secret, _client_tls(settings, directory))


def _client_tls(settings: RemoteSettings, directory: Path) -> ssl.SSLContext | None:
    if not settings.tls_ca_file:
        if settings.tls_cert_file or settings.tls_key_file:
            raise UsageError("[remote] names a certificate, but no 'tls_ca_file' to know the servers by")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(directory / settings.tls_ca_file)
        if settings.tls_cert_file:
            key = directory / (settings.tls_key_file or settings.tls_cert_file)
            context.load_cert_chain(directory / settings.tls_cert_file, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"cannot use the certificates that [remote] names: {error}") from None
    return context


def split_address(address: str) -> tuple[str, int]:
    """Host and port of 'host:port' or '[::1]:port'; port 0 is any free one. Raises UsageError."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise UsageError(f"bad address {address!r} of a volume server: expected 'host:port'")
    return host.removeprefix("[").removesuffix("]"), int(port)


class ServerLink:
    """An open connection whose both ends have proven themselves. Failures of the network raise OSError."""

    def __init__(self, address: str, credentials: Credentials, settings: RemoteSettings, env: Environment) -> None:
        host, port = split_address(address)
        self._socket = socket.create_connection((host, port), settings.connect_timeout_s)
        self._request = 0
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._start = self._end = 0
        self._frame_bytes_max = _WELCOME_BYTES_MAX
        self.is_sound = True  # False if the connection is not to be used again
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if credentials.tls is not None:
                self._socket = credentials.tls.wrap_socket(self._socket, server_hostname=host)
            self.facts = self._introduce(credentials.secret, env.random_bytes(NONCE_BYTES))
            self._socket.settimeout(settings.request_timeout_s)
        except OSError as error:
            self._socket.close()
            mistake = (
                "" if self._end else _tls_mistake(error, (host, port), credentials.tls, settings.connect_timeout_s)
            )
            if mistake:
                raise Denied(mistake) from error
            raise
        except BaseException:
            self._socket.close()
            raise

    def _introduce(self, secret: bytes | None, nonce: bytes) -> dict[str, Any]:
        kind, _, hello = self._frame()
        if kind == Type.FAILED:
            raise wire.unpack_failure(hello)
        if kind != Type.HELLO:
            raise MalformedInput("what answers is no volume server")
        greeting = bytes(hello)
        welcome = self.ask(Type.AUTH, answer_hello(greeting, secret, nonce))
        facts = verify_welcome(greeting, welcome, secret, nonce)
        self._frame_bytes_max = _ANSWER_BYTES_MAX
        return facts

    def ask(self, kind: Type, *body: Buffer, progress: Callable[[memoryview], None] | None = None) -> memoryview:
        """The answer to a request; valid until the next call. Raises what the server failed with."""
        return self.receive(self.send(kind, *body), progress)

    def send(self, kind: Type, *body: Buffer) -> int:
        """Sends a request; returns its number, to receive the answer with."""
        self._request = request = (self._request + 1) & 0xFFFFFFFF
        size = sum(map(len, body))
        message = memoryview(b"".join([wire.frame_head(kind, request, size), *body]))
        for start in range(0, len(message), _SEND_BYTES):
            self._socket.sendall(message[start : start + _SEND_BYTES])
        return request

    def receive(self, request: int, progress: Callable[[memoryview], None] | None = None) -> memoryview:
        """The answer to the oldest question that was sent and not received yet."""
        while True:
            kind, number, body = self._frame()
            if number not in (request, 0):
                raise MalformedInput(f"an answer to question {number} came, {request} was asked")
            if kind == Type.DONE:
                return body
            if kind == Type.FAILED:
                self.is_sound = number != 0
                raise _told(wire.unpack_failure(body))
            if kind != Type.PROGRESS:
                raise MalformedInput(f"an answer of unknown type {kind}")
            if progress is not None:
                progress(body)

    def _frame(self) -> tuple[int, int, memoryview]:
        self._fill(FRAME_BYTES)
        kind, request, length = wire.unpack_frame(self._buffer, self._start)
        if length > self._frame_bytes_max:
            raise MalformedInput(f"an answer of {length} bytes is over the limit of {self._frame_bytes_max}")
        self._fill(FRAME_BYTES + length)
        start = self._start + FRAME_BYTES
        self._start = start + length
        return kind, request, memoryview(self._buffer)[start : start + length]

    def _fill(self, wanted: int) -> None:
        """At least so many bytes are in the buffer behind its start."""
        have = self._end - self._start
        if have >= wanted:
            return
        if self._start + wanted > len(self._buffer) or not have:
            kept = self._buffer[self._start : self._end]
            if not wanted <= len(self._buffer) <= _KEPT_BYTES_MAX:
                self._buffer = bytearray(max(_RECEIVE_BYTES, wanted))
            self._buffer[:have] = kept
            self._start, self._end = 0, have
        view = memoryview(self._buffer)
        while self._end - self._start < wanted:
            received = self._socket.recv_into(view[self._end :])
            if not received:
                raise ConnectionResetError("the server closed the connection")
            self._end += received

    def close(self) -> None:
        self._socket.close()


def _tls_mistake(error: OSError, address: tuple[str, int], tls: ssl.SSLContext | None, timeout_s: float) -> str:
    """Which setting is wrong, if a connection failed before the server said a word; empty if the network may have."""
    if tls is None:
        if _speaks_tls(address, timeout_s):
            return "the server speaks TLS; name its authority in 'tls_ca_file' of [remote]"
    elif isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server is not valid: {error.verify_message}; check 'tls_ca_file' of [remote]"
    elif isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        if "ALERT" not in (error.reason or ""):
            return (
                f"the server does not speak TLS 1.3 ({error.reason}); give it '--tls-cert', or leave 'tls_ca_file' out"
            )
        return f"the server refuses our certificate ({error.reason}); check 'tls_cert_file' of [remote]"
    elif isinstance(error, ConnectionResetError) and _hangs_up(address, tls, timeout_s):
        return "the server hangs up on us after the TLS handshake: check 'tls_cert_file' of [remote]"
    return ""


def _speaks_tls(address: tuple[str, int], timeout_s: float) -> bool:
    """Whether a server that says nothing waits for a TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout_s) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _hangs_up(address: tuple[str, int], tls: ssl.SSLContext, timeout_s: float) -> bool:
    """Whether it does so again: a server that is being stopped would not take another connection.

    A server that asyncio runs hangs up on a client without a valid certificate, and does not say why.
    """
    try:
        with (
            socket.create_connection(address, timeout_s) as plain,
            tls.wrap_socket(plain, server_hostname=address[0]) as encrypted,
        ):
            return not encrypted.recv(1)
    except ConnectionResetError:
        return True
    except OSError:
        return False


def _told(error: HoldfastError) -> HoldfastError:
    """What the server calls malformed is ours to correct: asking again would not help."""
    return UsageError(f"a volume server refused a message: {error}") if isinstance(error, MalformedInput) else error


log = logging.getLogger("holdfast.storage")
T = TypeVar("T")
_PAUSE_S = 0.02  # before a request is tried again; doubled each time
_PAUSE_MAX_S = 0.5


class Pool:
    """Any thread may call any method."""

    def __init__(
        self, name: str, address: str, credentials: Credentials, settings: RemoteSettings, env: Environment
    ) -> None:
        self._name = name
        self.address = address
        self._credentials = credentials
        self._settings = settings
        self._env = env
        self._idle: list[ServerLink] = []
        self._lock = threading.Lock()
        self._room = threading.Semaphore(settings.connections_max)
        self._down_until_s = float("-inf")
        self._failure = ""
        self._is_refused = False  # it answers, but not to us
        self._was_awaited = False  # the failure came after all patience: nobody else needs to have it
        self._closed = False
        self.connected: Callable[[ServerLink], None] = lambda link: (
            None
        )  # told of every new connection before it is used

    @property
    def available(self) -> bool:
        """Whether it is worth asking: not, for a while, after the server could not be reached."""
        return self._env.monotonic() >= self._down_until_s

    def wake(self) -> None:
        """A server that was away is asked again at once, and with patience: there will be no other time."""
        self._failure, self._down_until_s = "", float("-inf")

    def use(self, talk: Callable[[ServerLink], T], *, patient: bool = True) -> T:
        """What `talk` returns; it is called again on another connection if the network fails it.

        Raises VolumeDown when it has been tried for long enough, and at once if the server was away just now. Without
        patience it is tried on one new connection, at most.
        """
        return self.persist(lambda: self._once(talk), patient=patient)

    def borrow(self) -> ServerLink:
        """A connection for the caller alone, to be given back or closed. Raises VolumeDown."""
        return self.persist(self.take)

    def persist(self, attempt: Callable[[], T], *, patient: bool = True) -> T:
        """What `attempt` returns; tried again while the network fails it, and then given up as in `use`."""
        if not self.available:
            raise self._down()
        patience_s = self._settings.retry_s if patient and not (self._failure and self._was_awaited) else 0.0
        started_s, pause_s = self._env.monotonic(), _PAUSE_S
        if self._failure:  # one finds out whether it is back; meanwhile the others leave it alone
            self._down_until_s = started_s + max(self._settings.down_s, self._settings.connect_timeout_s)
        while True:
            had_idle = bool(self._idle)
            try:
                result = attempt()
            except (OSError, MalformedInput) as error:
                failure = error
            else:
                if self._failure:
                    self._recover()
                return result
            if had_idle and not patient:  # what failed may have been a connection of long ago
                continue
            waited_s = self._env.monotonic() - started_s
            if self._closed or waited_s + pause_s > patience_s:
                raise self._give_up(failure, awaited=patient) from failure
            self._env.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _give_up(self, failure: Exception, *, awaited: bool = True) -> VolumeDown:
        self._was_awaited = awaited or (self._was_awaited and bool(self._failure))
        self._failure = str(failure) or repr(failure)
        self._is_refused = isinstance(failure, HoldfastError)
        self._down_until_s = self._env.monotonic() + self._settings.down_s
        return self._down()

    def _recover(self) -> None:
        log.warning("the volume server at %s answers again", self.address)
        self.wake()

    def _down(self) -> VolumeDown:
        if self._is_refused:
            return VolumeDown(f"volume {self._name!r} at {self.address} cannot be used: {self._failure}")
        return VolumeDown(f"volume {self._name!r} is down: no answer from {self.address}: {self._failure}")

    def _once(self, talk: Callable[[ServerLink], T]) -> T:
        with self._room:
            link = self.take()
            try:
                result = talk(link)
            except (OSError, MalformedInput):
                self._drop_all(link)
                raise
            except HoldfastError:  # the server's own words: the network is sound
                if self._failure:
                    self._recover()
                self.give_back(link)
                raise
            except BaseException:
                link.close()
                raise
            self.give_back(link)
            return result

    def take(self) -> ServerLink:
        """As `borrow`, tried once. Raises OSError or VolumeDown."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            link = ServerLink(self.address, self._credentials, self._settings, self._env)
        except Busy as error:
            raise ConnectionRefusedError(str(error)) from error
        except HoldfastError as error:  # a refusal: asking again would not change it
            raise self._give_up(error) from error
        try:
            self.connected(link)
        except VolumeDown as error:  # it is not the volume that it should be
            link.close()
            raise self._give_up(error) from error
        except BaseException:
            link.close()
            raise
        if self._failure:
            self._recover()
        return link

    def give_back(self, link: ServerLink) -> None:
        with self._lock:
            if link.is_sound and not self._closed:
                self._idle.append(link)
                return
        link.close()

    def _drop_all(self, link: ServerLink) -> None:
        """A connection has failed: those that lie idle have most likely, too."""
        link.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

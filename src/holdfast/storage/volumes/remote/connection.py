"""The connections of a client to one volume server: blocking sockets, each used by one thread at a time.

A call takes an idle connection, or opens one, sends its request and waits for the response: a single thread needs
neither locks nor other threads for that. If the network fails, the call is tried again on another connection for a
while. Then the volume counts as down and is not called for a while, so that a store with replicas elsewhere is not
held up by it again and again.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from holdfast.config import RemoteSettings
from holdfast.env import Environment
from holdfast.env.files import Buffer
from holdfast.errors import Busy, Denied, HoldfastError, MalformedInput, UsageError, VolumeDown
from holdfast.storage.server import wire
from holdfast.storage.server.handshake import NONCE_BYTES, answer_hello, read_secret, verify_welcome
from holdfast.storage.server.wire import FRAME, FRAME_BYTES, FRAME_REST, Type

log = logging.getLogger("holdfast.storage")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CONNECT_TIMEOUT_S = 3.0
CONNECTIONS_MAX = 32  # to one volume
_RECEIVE_BYTES = 256 << 10
_SEND_BYTES = 256 << 10  # that have the whole time-out for themselves
_KEPT_BYTES_MAX = 4 << 20  # a larger buffer is given up after use
_WELCOME_BYTES_MAX = 64 << 10  # of a frame before the server is authenticated
_RESPONSE_BYTES_MAX = 1 << 30
_PAUSE_S = 0.02  # before a request is tried again; doubled each time
_PAUSE_MAX_S = 0.5
_TIMEVAL = struct.Struct("@ll")


@dataclass(frozen=True, slots=True)
class Credentials:
    """How this client authenticates itself."""

    secret: bytes | None
    tls: ssl.SSLContext | None


def load_credentials(settings: RemoteSettings, directory: Path) -> Credentials:
    """Raises NotFound, Denied or UsageError. Paths are relative to the directory."""
    secret = read_secret(directory / settings.secret_file) if settings.secret_file else None
    return Credentials(secret, _client_tls(settings, directory))


def _client_tls(settings: RemoteSettings, directory: Path) -> ssl.SSLContext | None:
    if not settings.tls_ca_file:
        if settings.tls_cert_file or settings.tls_key_file:
            raise UsageError("[remote] names a certificate, but no 'tls_ca_file' to verify the servers with")
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


class ServerConnection:
    """An open connection whose both ends are authenticated. Failures of the network raise OSError."""

    def __init__(self, address: str, credentials: Credentials, settings: RemoteSettings, env: Environment) -> None:
        host, port = split_address(address)
        self._socket = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
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
            self._limit_waits(settings.request_timeout_s, is_plain=credentials.tls is None)
        except OSError as error:
            self._socket.close()
            mistake = "" if self._end else _tls_mistake(error, (host, port), credentials.tls, CONNECT_TIMEOUT_S)
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
            raise MalformedInput("the other side is not a volume server")
        greeting = bytes(hello)
        welcome = self.call(Type.AUTH, answer_hello(greeting, secret, nonce))
        facts = verify_welcome(greeting, welcome, secret, nonce)
        self._frame_bytes_max = _RESPONSE_BYTES_MAX
        return facts

    def _limit_waits(self, seconds: float, *, is_plain: bool) -> None:
        """The kernel's own time-outs save a system call before each that may wait. TLS cannot use them."""
        if not is_plain:
            self._socket.settimeout(seconds)
            return
        self._socket.settimeout(None)
        limit = _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def call(self, kind: Type, *body: Buffer, progress: Callable[[memoryview], None] | None = None) -> memoryview:
        """The response to a request; valid until the next call. Raises what the server failed with."""
        return self.receive(self.send(kind, *body), progress)

    def send(self, kind: Type, *body: Buffer) -> int:
        """Sends a request; returns its number, to receive the response with."""
        self._request = request = (self._request + 1) & 0xFFFFFFFF
        size = sum(map(len, body))
        message = b"".join((FRAME.pack(size + FRAME_REST, kind, request), *body))
        try:
            if size < _SEND_BYTES:
                self._socket.sendall(message)
            else:
                view = memoryview(message)
                for start in range(0, len(view), _SEND_BYTES):
                    self._socket.sendall(view[start : start + _SEND_BYTES])
        except BlockingIOError:
            raise TimeoutError("the server does not take the request") from None
        return request

    def receive(self, request: int, progress: Callable[[memoryview], None] | None = None) -> memoryview:
        """The response to the oldest request that was sent and not received yet."""
        while True:
            kind, number, body = self._frame()
            if number not in (request, 0):
                raise MalformedInput(f"a response to request {number} came, {request} was sent")
            if kind == Type.DONE:
                return body
            if kind == Type.FAILED:
                self.is_sound = number != 0
                raise _refusal(wire.unpack_failure(body))
            if kind != Type.PROGRESS:
                raise MalformedInput(f"a response of unknown type {kind}")
            if progress is not None:
                progress(body)

    def _frame(self) -> tuple[int, int, memoryview]:
        if self._end - self._start < FRAME_BYTES:
            self._fill(FRAME_BYTES)
        length, kind, request = FRAME.unpack_from(self._buffer, self._start)
        length -= FRAME_REST
        if not 0 <= length <= self._frame_bytes_max:
            raise MalformedInput(f"a response of {length} bytes is over the limit of {self._frame_bytes_max}")
        if self._end - self._start < FRAME_BYTES + length:
            self._fill(FRAME_BYTES + length)
        start = self._start + FRAME_BYTES
        self._start = start + length
        return kind, request, memoryview(self._buffer)[start : start + length]

    def _fill(self, wanted: int) -> None:
        """Receives until so many bytes are in the buffer behind its start."""
        have = self._end - self._start
        if not have and wanted <= len(self._buffer) <= _KEPT_BYTES_MAX:
            self._start = self._end = 0
        elif self._start + wanted > len(self._buffer) or not have:
            kept = self._buffer[self._start : self._end]
            if not wanted <= len(self._buffer) <= _KEPT_BYTES_MAX:
                self._buffer = bytearray(max(_RECEIVE_BYTES, wanted))
            self._buffer[:have] = kept
            self._start, self._end = 0, have
        view = memoryview(self._buffer)
        while self._end - self._start < wanted:
            try:
                received = self._socket.recv_into(view[self._end :])
            except BlockingIOError:
                raise TimeoutError("the server does not respond") from None
            if not received:
                raise ConnectionResetError("the server closed the connection")
            self._end += received

    def close(self) -> None:
        self._socket.close()


def _refusal(error: HoldfastError) -> HoldfastError:
    """What the server calls malformed is a mistake of this client: a repetition would not help."""
    return UsageError(f"a volume server refused a message: {error}") if isinstance(error, MalformedInput) else error


def _tls_mistake(error: OSError, address: tuple[str, int], tls: ssl.SSLContext | None, timeout_s: float) -> str:
    """Which setting is wrong, if a connection failed before the server sent a byte; empty if it may be the network."""
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

    An asyncio server hangs up on a client without a valid certificate, and does not say why.
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


class ConnectionPool:
    """Any thread may call any method."""

    def __init__(
        self,
        name: str,
        address: str,
        settings: RemoteSettings,
        env: Environment,
        directory: Path,
        connected: Callable[[ServerConnection], None],
    ) -> None:
        """`connected` gets every new connection before it is used. Paths are relative to the directory."""
        self._name = name
        self.address = address
        self._credentials = load_credentials(settings, directory)
        self._settings = settings
        self._env = env
        self._connected = connected
        # Appending to a deque and popping from it are atomic: only who finds one empty needs a lock.
        self._idle: deque[ServerConnection] = deque()
        self._permits = deque([None] * CONNECTIONS_MAX)  # of calls at the same time
        self._returned = threading.Condition()
        self._waiting = 0  # for a permit
        self._down_until_s = float("-inf")
        self._failure = ""
        self._is_refused = False  # the server responds, but refuses us
        self._was_awaited = False  # the failure came after all retries: another call need not wait again
        self._closed = False

    @property
    def available(self) -> bool:
        """False for a while after the server could not be reached."""
        return not self._failure or self._env.monotonic() >= self._down_until_s

    def wake(self) -> None:
        """The next call does not know of failures: it tries at once, and with all retries."""
        self._failure, self._down_until_s = "", float("-inf")

    def use(self, talk: Callable[[ServerConnection], T], *, patient: bool = True) -> T:
        """What `talk` returns; it is called again on another connection if the network fails it.

        Raises VolumeDown when it has been tried for long enough, and at once if the server was away just now. Without
        patience it is tried on one new connection, at most.
        """
        return self.persist(self._once, talk, patient=patient)

    def persist(self, attempt: Callable[[*Ts], T], *arguments: *Ts, patient: bool = True) -> T:
        """What `attempt` returns; tried again while the network fails it, and given up as in `use`."""
        if self._failure and not self.available:
            raise self._down()
        patience_s = self._settings.retry_s if patient and not (self._failure and self._was_awaited) else 0.0
        started_s, pause_s = self._env.monotonic(), _PAUSE_S
        if self._failure:  # one finds out whether it is back; meanwhile the others leave it alone
            self._down_until_s = started_s + max(self._settings.down_s, CONNECT_TIMEOUT_S)
        while True:
            had_idle = bool(self._idle)
            try:
                result = attempt(*arguments)
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
        log.warning("the volume server at %s responds again", self.address)
        self.wake()

    def _down(self) -> VolumeDown:
        if self._is_refused:
            return VolumeDown(f"volume {self._name!r} at {self.address} cannot be used: {self._failure}")
        return VolumeDown(f"volume {self._name!r} is down: no response from {self.address}: {self._failure}")

    def _once(self, talk: Callable[[ServerConnection], T]) -> T:
        try:
            self._permits.pop()
        except IndexError:
            self._await_permit()
        try:
            connection = self.take()
            try:
                result = talk(connection)
            except (OSError, MalformedInput):
                connection.close()
                self._close_idle()  # most likely they have failed, too
                raise
            except HoldfastError:  # the server's own words: the network is sound
                if self._failure:
                    self._recover()
                self.give_back(connection)
                raise
            except BaseException:
                connection.close()
                raise
            self.give_back(connection)
            return result
        finally:
            self._permits.append(None)
            if self._waiting:
                with self._returned:
                    self._returned.notify()

    def _await_permit(self) -> None:
        with self._returned:
            self._waiting += 1  # before the look: who returns a permit looks at it afterwards
            try:
                while True:
                    try:
                        self._permits.pop()
                        return
                    except IndexError:
                        self._returned.wait()
            finally:
                self._waiting -= 1

    def take(self) -> ServerConnection:
        """A connection for the caller alone, to be given back or closed. Raises OSError or VolumeDown."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _connect(self) -> ServerConnection:
        try:
            connection = ServerConnection(self.address, self._credentials, self._settings, self._env)
        except Busy as error:
            raise ConnectionRefusedError(str(error)) from error
        except HoldfastError as error:  # a refusal: a repetition would not change it
            raise self._give_up(error) from error
        try:
            self._connected(connection)
        except VolumeDown as error:  # it is not the volume that it should be
            connection.close()
            raise self._give_up(error) from error
        except BaseException:
            connection.close()
            raise
        if self._failure:
            self._recover()
        return connection

    def give_back(self, connection: ServerConnection) -> None:
        if connection.is_sound:
            self._idle.append(connection)
        else:
            connection.close()
        if self._closed:
            self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def close(self) -> None:
        self._closed = True
        self._close_idle()

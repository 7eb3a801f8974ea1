"""Connections between nodes: mutual TLS 1.3, each end pinned to the member list (H3).

The certificate must be of the cluster's CA, which TLS verifies, and its key must be that of the member, which is
verified here: a certificate of a node that was forgotten, or of another node, opens nothing. Then both ends say hello:
cluster, settings, name, and the versions of the protocol they speak; the highest that both know is spoken.

A server gives each connection a thread. Limits: so many connections in all, so many of each member, so many that are
not authenticated yet (the oldest makes room), so many bytes in a request, so many seconds for a handshake, a request
that has begun, and a response that is not taken.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from holdfast.cluster.copies.protocol.messages import (
    REQUEST_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    NodeMessage,
    hexadecimal,
    number,
    pack_body,
    text,
    unpack_body,
)
from holdfast.cluster.membership.members import MemberList
from holdfast.cluster.membership.placement import Member
from holdfast.cluster.settings import PROTOCOLS
from holdfast.env.files import Buffer
from holdfast.errors import (
    Busy,
    ClusterDown,
    Denied,
    FormatTooNew,
    HoldfastError,
    MalformedInput,
    NotAMember,
    UsageError,
)
from holdfast.storage.server import wire
from holdfast.storage.server.wire import FRAME, FRAME_BYTES, FRAME_REST, pack_frame
from holdfast.storage.volumes.remote.connection import split_address

log = logging.getLogger("holdfast.cluster")

CONNECT_S = 5.0
HANDSHAKE_S = 10.0
STALL_S = 30.0  # for the rest of a message that has begun, or without a byte taken of a response
IDLE_S = 600.0  # without a request
CONNECTIONS_MAX = 256
MEMBER_CONNECTIONS_MAX = 8  # of one member
UNAUTHENTICATED_MAX = 32
_HELLO_BYTES_MAX = 16 << 10
_CHUNK = 256 << 10
_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who a node is when it says hello."""

    name: str
    cluster: str
    settings: bytes  # a hash of the cluster-wide settings
    protocols: tuple[int, int] = PROTOCOLS

    def hello(self) -> dict[str, Any]:
        lowest, highest = self.protocols
        about = {"node": self.name, "cluster": self.cluster, "settings": self.settings.hex()}
        return about | {"lowest": lowest, "highest": highest}

    def agree(self, hello: dict[str, Any]) -> int:
        """The version to speak with the other end. Raises NotAMember, UsageError or FormatTooNew."""
        if text(hello, "cluster") != self.cluster:
            raise NotAMember(f"node '{text(hello, 'node')}' belongs to another cluster than node '{self.name}'")
        lowest = max(number(hello, "lowest"), self.protocols[0])
        highest = min(number(hello, "highest"), self.protocols[1])
        if lowest > highest:
            raise FormatTooNew(
                f"node '{text(hello, 'node')}' speaks versions {hello['lowest']} to {hello['highest']} of the node "
                f"protocol, node '{self.name}' {self.protocols[0]} to {self.protocols[1]}: install the same release"
            )
        if hexadecimal(hello, "settings") != self.settings:
            raise UsageError(
                f"node '{text(hello, 'node')}' has other cluster-wide settings than node '{self.name}': "
                "partitions, splits, copies and signature must be the same"
            )
        return highest


class PeerRequests(Protocol):
    """What a node answers. Any thread may call."""

    def handle(
        self, peer: str, kind: NodeMessage, head: dict[str, Any], raw: bytes
    ) -> tuple[dict[str, Any], list[Buffer]]:
        """Head and raw bytes of the response. Raises HoldfastError."""


def peer_key(connection: ssl.SSLSocket) -> bytes:
    """The public key of the other end's certificate. Raises NotAMember if it is not an Ed25519 key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.x509 import load_der_x509_certificate

    certificate = connection.getpeercert(binary_form=True)
    key = load_der_x509_certificate(certificate).public_key() if certificate else None
    if not isinstance(key, Ed25519PublicKey):
        raise NotAMember("the other end has no certificate of a node")
    return key.public_bytes_raw()


def _receive(connection: ssl.SSLSocket, length: int, deadline_s: float) -> bytes:
    """Exactly so many bytes. Raises OSError."""
    parts = bytearray()
    while len(parts) < length:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the other end does not send the rest of its message")
        connection.settimeout(left_s)
        received = connection.recv(min(length - len(parts), _CHUNK))
        if not received:
            raise ConnectionResetError("the other end closed the connection")
        parts += received
    return bytes(parts)


def _receive_frame(connection: ssl.SSLSocket, wait_s: float, limit: int) -> tuple[int, int, bytes]:
    """Type, request number and body. The time to wait is for its beginning."""
    connection.settimeout(wait_s)
    first = connection.recv(1)
    if not first:
        raise ConnectionResetError("the other end closed the connection")
    deadline_s = time.monotonic() + STALL_S
    length, kind, request = FRAME.unpack(first + _receive(connection, FRAME_BYTES - 1, deadline_s))
    length -= FRAME_REST
    if not 0 <= length <= limit:
        raise MalformedInput(f"a message of {length} bytes is over the limit of {limit}")
    size_s = length / (64 << 10)  # a large message may take longer
    return kind, request, _receive(connection, length, deadline_s + size_s)


def _send(connection: ssl.SSLSocket, message: bytes) -> None:
    connection.settimeout(STALL_S)
    view = memoryview(message)
    for start in range(0, len(view), _CHUNK):
        connection.sendall(view[start : start + _CHUNK])


def shut(connection: socket.socket) -> None:
    """Ends a connection that another thread may be using: that thread closes it.

    If it were closed here, the other thread could write to the next connection that gets its descriptor.
    SSLSocket.shutdown would let it send plain text.
    """
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


# -- the client -------------------------------------------------------------------------------------------------------


class Peer:
    """A connection to a member, opened when it is first needed. One request at a time; any thread may call."""

    def __init__(self, member: Member, identity: NodeIdentity, tls: ssl.SSLContext) -> None:
        """`tls` verifies by the cluster's CA and has the node's certificate; names are not checked, keys are."""
        self.member = member
        self.received_bytes = 0  # of responses
        self._identity = identity
        self._tls = tls
        self._connection: ssl.SSLSocket | None = None
        self._request = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def call(self, kind: NodeMessage, head: dict[str, Any], *raw: Buffer) -> tuple[dict[str, Any], bytes]:
        """Head and raw bytes of the response.

        Raises what the other node failed with; ClusterDown if it cannot be reached; NotAMember or FormatTooNew.
        """
        body = pack_body(head, *raw)
        with self._lock:
            try:
                return self._tried(kind, body)
            finally:
                if self._is_closed:
                    self._drop()

    def _tried(self, kind: NodeMessage, body: bytes) -> tuple[dict[str, Any], bytes]:
        was_open = self._connection is not None
        try:
            return self._call(kind, body)
        except OSError as error:
            self._drop()
            if not was_open:
                raise self._down(error) from error
        try:  # the connection may have been closed long ago
            return self._call(kind, body)
        except OSError as error:
            self._drop()
            raise self._down(error) from error

    def _call(self, kind: NodeMessage, body: bytes) -> tuple[dict[str, Any], bytes]:
        connection = self._connection or self._connect()
        return self._exchange(connection, kind, body)

    def _exchange(self, connection: ssl.SSLSocket, kind: NodeMessage, body: bytes) -> tuple[dict[str, Any], bytes]:
        self._request = (self._request + 1) & 0xFFFFFFFF
        try:
            _send(connection, pack_frame(kind, self._request, body))
            found, request, response = _receive_frame(connection, STALL_S, RESPONSE_BYTES_MAX)
            self.received_bytes += len(response)
            if request not in (self._request, 0) or found not in (NodeMessage.DONE, NodeMessage.FAILED):
                raise MalformedInput(f"node '{self.member.name}' sent a message of type {found} out of turn")
            if found == NodeMessage.DONE:
                return unpack_body(response)
        except (MalformedInput, OSError):
            self._drop()
            raise
        if request == 0:
            self._drop()
        raise wire.unpack_failure(response)

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(split_address(self.member.address), CONNECT_S)
        try:
            plain.settimeout(HANDSHAKE_S)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._tls.wrap_socket(plain)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise NotAMember(
                f"the certificate of node '{self.member.name}' is not of this cluster: {error.verify_message}"
            ) from error
        except BaseException:
            plain.close()
            raise
        try:
            if peer_key(connection) != self.member.public_key:
                raise NotAMember(f"who answers at {self.member.address} is not node '{self.member.name}'")
            hello, _ = self._exchange(connection, NodeMessage.HELLO, pack_body(self._identity.hello()))
            if text(hello, "node") != self.member.name:
                raise NotAMember(f"who answers at {self.member.address} is not node '{self.member.name}'")
            self._identity.agree(hello)
        except ssl.SSLError as error:
            connection.close()
            if "ALERT" not in (error.reason or ""):  # the connection broke
                raise
            raise NotAMember(f"node '{self.member.name}' refuses our certificate: {error.reason}") from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        if self._is_closed:
            self._drop()
            raise ConnectionAbortedError("the connection was closed")
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _down(self, error: OSError) -> HoldfastError:
        return ClusterDown(
            f"node '{self.member.name}' at {self.member.address} does not respond: {error or repr(error)}"
        )

    def close(self) -> None:
        """A request under way fails, and so do all later ones."""
        self._is_closed = True
        connection = self._connection
        if connection is not None:
            shut(connection)
        if self._lock.acquire(blocking=False):  # else the request under way closes it
            try:
                self._drop()
            finally:
                self._lock.release()


# -- the server -------------------------------------------------------------------------------------------------------


class NodeServer:
    """Answers the requests of other members until it is stopped."""

    def __init__(
        self,
        requests: PeerRequests,
        identity: NodeIdentity,
        tls: ssl.SSLContext,
        members: Callable[[], MemberList],
        address: str,
    ) -> None:
        """`tls` demands certificates of the cluster's CA. Raises UsageError if the address cannot be used."""
        self._requests = requests
        self._identity = identity
        self._tls = tls
        self._members = members
        self._lock = threading.Lock()
        self._strangers: dict[int, socket.socket] = {}  # not authenticated yet, the oldest first
        self._connections: dict[socket.socket, str] = {}  # with the member's name
        self._threads: set[threading.Thread] = set()  # of connections
        self._stopping = threading.Event()
        try:
            family = socket.AF_INET6 if address.startswith("[") else socket.AF_INET
            self._socket = socket.create_server(split_address(address), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise UsageError(f"cannot listen on '{address}': {error.strerror or error}") from None
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="node-server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Closes all connections, and waits for requests under way. Idempotent."""
        self._stopping.set()
        shut(self._socket)
        with self._lock:
            for each in (*self._strangers.values(), *self._connections):
                shut(each)
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:  # they may be reading the archive
            thread.join()

    @property
    def connections(self) -> int:
        """How many members are connected; one may be counted several times."""
        return len(self._connections)

    def identify(self, identity: NodeIdentity) -> None:
        """Says hello with this identity from now on. All connections end: their other ends have to agree to it."""
        self._identity = identity
        with self._lock:
            for connection in self._connections:
                shut(connection)

    def drop_strangers(self) -> None:
        """Ends the connections of those who are members no more."""
        names = {member.name for member in self._members()}
        with self._lock:
            for connection in [each for each, name in self._connections.items() if name not in names]:
                shut(connection)

    def _accept(self) -> None:
        for place in count():
            if self._stopping.is_set():
                return
            try:
                accepted, _ = self._socket.accept()
            except OSError:
                if self._stopping.is_set():
                    return
                time.sleep(0.1)  # no more descriptors
                continue
            with self._lock:
                if len(self._strangers) >= UNAUTHENTICATED_MAX:
                    shut(self._strangers.pop(next(iter(self._strangers))))
                self._strangers[place] = accepted
                thread = threading.Thread(
                    target=self._serve, args=(place, accepted), name="node-connection", daemon=True
                )
                self._threads.add(thread)
            thread.start()

    def _serve(self, place: int, accepted: socket.socket) -> None:
        connection: socket.socket = accepted
        try:
            accepted.settimeout(HANDSHAKE_S)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            secured = self._tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            connection = secured
            with self._lock:  # it has the descriptor now
                if place not in self._strangers:
                    raise ConnectionAbortedError("others wait for a place")
                self._strangers[place] = secured
            secured.do_handshake()
            member = self._authenticate(place, secured)
            self._answer_all(secured, member)
        except (OSError, ValueError) as error:  # ValueError: closed during the handshake
            log.debug("a connection to node '%s' ended: %s", self._identity.name, error)
        except HoldfastError as error:
            log.warning("node '%s' rejected a connection: %s", self._identity.name, error)
            with suppress(OSError, ValueError):
                _send(secured, pack_frame(NodeMessage.FAILED, 0, wire.pack_failure(error)))
        finally:
            with self._lock:
                self._strangers.pop(place, None)
                self._connections.pop(connection, None)
                self._threads.discard(threading.current_thread())
            shut(connection)
            connection.close()

    def _authenticate(self, place: int, connection: ssl.SSLSocket) -> Member:
        """The member at the other end, after it has said hello."""
        key = peer_key(connection)
        member = next((each for each in self._members() if each.public_key == key), None)
        if member is None:
            raise NotAMember("this certificate is of no member of the cluster")
        kind, request, body = _receive_frame(connection, HANDSHAKE_S, _HELLO_BYTES_MAX)
        if kind != NodeMessage.HELLO:
            raise MalformedInput(f"a message of type {kind} came before hello")
        hello, _ = unpack_body(body)
        self._identity.agree(hello)
        if text(hello, "node") != member.name:
            raise NotAMember(f"node '{member.name}' calls itself '{text(hello, 'node')}'")
        with self._lock:
            theirs = sum(name == member.name for name in self._connections.values())
            if theirs >= MEMBER_CONNECTIONS_MAX or len(self._connections) >= CONNECTIONS_MAX:
                raise Busy(f"node '{self._identity.name}' has too many connections: try again later")
            self._strangers.pop(place, None)
            self._connections[connection] = member.name
        _send(connection, pack_frame(NodeMessage.DONE, request, pack_body(self._identity.hello())))
        return member

    def _answer_all(self, connection: ssl.SSLSocket, member: Member) -> None:
        while not self._stopping.is_set():
            kind, request, body = _receive_frame(connection, IDLE_S, REQUEST_BYTES_MAX)
            if self._members().find(member.name) != member and not self._is_known(member):
                raise NotAMember(f"node '{member.name}' is not a member any more")
            try:
                head, raw = unpack_body(body)
                response, parts = self._requests.handle(member.name, _kind(kind), head, raw)
                message = pack_frame(NodeMessage.DONE, request, pack_body(response, *parts))
            except HoldfastError as error:
                message = pack_frame(NodeMessage.FAILED, request, wire.pack_failure(error))
            _send(connection, message)

    def _is_known(self, member: Member) -> bool:
        found = self._members().find(member.name)
        return found is not None and found.public_key == member.public_key


def _kind(kind: int) -> NodeMessage:
    try:
        return NodeMessage(kind)
    except ValueError:
        raise Denied(f"unknown request {kind}") from None

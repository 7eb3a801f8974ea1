"""Requests to all nodes of a cluster: each partition is answered for by one node that holds it (H8).

    partitions ──▶ groups, one for each node ──▶ responses, at the same time
                       ▲                    └──▶ a node that does not respond: its partitions go to other holders
                       └──────────────────────────┘
    no holder responds ──▶ the answer is partial, and says so (`Coverage`)

A list is merged from the lists of all groups, each fetched in pieces. If a node fails in the middle, other holders go
on at the same position; if there are none, the list ends with ClusterDown: what was sent cannot be called partial.
"""

from __future__ import annotations

import heapq
import http.client
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from holdfast.cluster.answers.shard.shard import ShardResponse
from holdfast.cluster.copies.partitions import pack_partitions
from holdfast.cluster.copies.protocol.messages import pack_body, unpack_body
from holdfast.errors import ClusterDown, HoldfastError, NotAMember
from holdfast.model import Coverage
from holdfast.storage.server.wire import unpack_failure
from holdfast.storage.volumes.remote.connection import split_address

if TYPE_CHECKING:
    from holdfast.cluster.answers.routes import ClusterRouter, RouteTable

T = TypeVar("T")

APP = "shard"  # among the applications of a peer port
PATH = "/"
FAILURE_TYPE = "application/x-holdfast-failure"
RESPONSE_BYTES_MAX = 256 << 20
_HEADERS = {"Host": "localhost", "Holdfast-App": APP, "Holdfast-Origins": "- -"}
_CONNECT_S = 3.0
_SILENCE_S = 30.0  # an operation returns sooner, with what it has so far
_IDLE_MAX = 4  # connections kept for each node
_THREADS = 16


class NodeGroup(NamedTuple):
    """A node, and the partitions that it is to answer for."""

    node: str
    partitions: frozenset[int]


class LocalShard(Protocol):
    """What this node itself answers."""

    def __call__(self, operation: str, head: dict[str, Any], partitions: frozenset[int]) -> ShardResponse: ...


class Scatter:
    """Asks the nodes of the cluster. Any thread may call; not for an event loop."""

    def __init__(self, router: ClusterRouter, local: LocalShard) -> None:
        self.router = router
        self._local = local
        self._peers = PeerConnections(router)
        self._pool = ThreadPoolExecutor(_THREADS, "holdfast-scatter")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._peers.close()

    def begin(
        self, partitions: frozenset[int] | None = None, *, is_whole: bool = False, by_index: bool = False
    ) -> Round:
        """One question to all nodes, or to those that hold some partitions.

        With `is_whole`, only nodes that are in sync are asked, and a partition without one is an error. With
        `by_index`, a node whose index lacks much is asked if no other one is there. Raises ClusterDown if this node is
        cut off.
        """
        self.router.require_current()
        table = self.router.table()
        every = frozenset(range(table.rule.partitions))
        wanted = every if partitions is None else partitions
        return Round(self, table, wanted, is_whole=is_whole, by_index=by_index)

    def ask(
        self, table: RouteTable, group: NodeGroup, operation: str, head: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        """The response of one node. Raises NodeFailure if it gives none, and what the operation raises."""
        if group.node == table.node:
            response, parts = self._local(operation, head, group.partitions)
            return response, b"".join(parts)
        return self._peers.ask(*_request(table, group, operation, head))

    @contextmanager
    def opened(
        self, table: RouteTable, group: NodeGroup, operation: str, head: dict[str, Any]
    ) -> Iterator[PeerResponse]:
        """The response of another node, to be read: for one that is sent while it is made. Raises as `ask`."""
        with self._peers.opened(*_request(table, group, operation, head)) as response:
            yield response

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._pool.submit(function, *arguments)


def _request(table: RouteTable, group: NodeGroup, operation: str, head: dict[str, Any]) -> tuple[str, str, bytes]:
    """Address and name of a node, and the body of a request to it."""
    packed = pack_partitions(group.partitions, table.rule.partitions).hex()
    body = pack_body({"operation": operation, "partitions": packed, "head": head})
    return table.members.get(group.node).web_address, group.node, body


class ListPiece(NamedTuple, Generic[T]):
    """A piece of a node's list, and where the next one begins; None if it was the last."""

    items: Sequence[T]
    position: Any


Fetch = Callable[[NodeGroup, Any], ListPiece[T]]


@dataclass(frozen=True, slots=True)
class _Order(Generic[T]):
    """How a merged list is fetched, and in which order it is."""

    fetch: Fetch[T]
    key: Callable[[T], Any]
    reverse: bool


class Round:
    """One question to the cluster: which nodes failed meanwhile, and how much of it has no answer.

    Any thread may call.
    """

    def __init__(
        self, scatter: Scatter, table: RouteTable, partitions: frozenset[int], *, is_whole: bool, by_index: bool
    ) -> None:
        self.coverage = Coverage(table.rule.partitions)
        self.table = table
        self._scatter = scatter
        self._partitions = partitions
        self._is_whole = is_whole
        self._by_index = by_index
        self._failed: set[str] = set()
        self._missing: set[int] = set()
        self._lock = threading.Lock()

    def ask(self, group: NodeGroup, operation: str, head: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The response of one node. Raises NodeFailure."""
        return self._scatter.ask(self.table, group, operation, head)

    def groups(self) -> list[NodeGroup]:
        """All partitions, each with a node that is alive; what has none is missing."""
        return self._placed(self._partitions)

    def gather(self, call: Callable[[NodeGroup], T], submit: Callable[..., Future[T]] | None = None) -> list[T]:
        """The results for all groups, asked at the same time; `submit` is that of another pool of threads."""
        submit = submit or self._scatter.submit
        waiting = [(group, submit(call, group)) for group in self.groups()]
        found: list[T] = []
        while waiting:
            again: list[NodeGroup] = []
            failure: HoldfastError | None = None
            for group, future in waiting:
                try:
                    found.append(future.result())
                except NodeFailure:
                    again += self.replaced(group)
                except HoldfastError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            waiting = [(group, submit(call, group)) for group in again]
        return found

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Runs a function beside others."""
        return self._scatter.submit(function, *arguments)

    def merge(self, fetch: Fetch[T], start: Any, key: Callable[[T], Any], *, reverse: bool = False) -> Iterator[T]:
        """The lists of all groups as one.

        The first item of each is fetched before this returns: from then on, nothing more can be missing.
        """
        order = _Order(fetch, key, reverse)
        feeds = [self._feed(order, group, start, is_begun=False) for group in self.groups()]
        firsts = [(feed, self._scatter.submit(next, feed, _END)) for feed in feeds]
        begun = [chain((first,), feed) for feed, future in firsts if (first := future.result()) is not _END]
        return heapq.merge(*begun, key=key, reverse=reverse)

    def _feed(self, order: _Order[T], group: NodeGroup, position: Any, *, is_begun: bool) -> Iterator[T]:
        """The items of one group; if its node fails, those of other holders from the same position on."""
        while position is not None:
            try:
                items, position = order.fetch(group, position)
            except NodeFailure as error:
                others = self.replaced(group)
                if is_begun and sum(len(each.partitions) for each in others) < len(group.partitions):
                    raise ClusterDown(f"{error}, and no other node holds all that it was sending") from None
                feeds = [self._feed(order, each, position, is_begun=is_begun) for each in others]
                yield from heapq.merge(*feeds, key=order.key, reverse=order.reverse)
                return
            is_begun = is_begun or bool(items)
            yield from items

    def _placed(self, partitions: frozenset[int]) -> list[NodeGroup]:
        chosen: defaultdict[str, set[int]] = defaultdict(set)
        with self._lock:
            for partition in partitions:
                names = self.table.serving(partition, by_index=self._by_index)
                serving = (name for name in names if name not in self._failed)
                node = next(serving, None)
                if self._is_whole and (node is None or partition not in self.table.live[node]):
                    raise ClusterDown(f"no node that holds partition {partition} is up to date: try again later")
                if node is None:
                    self._missing.add(partition)
                else:
                    chosen[node].add(partition)
            self.coverage.missing = len(self._missing)
        return [NodeGroup(node, frozenset(numbers)) for node, numbers in chosen.items()]

    def replaced(self, group: NodeGroup) -> list[NodeGroup]:
        """Other nodes for the partitions of one that does not respond."""
        with self._lock:
            self._failed.add(group.node)
        return self._placed(group.partitions)


# -- connections to peers ---------------------------------------------------------------------------------------------


class NodeFailure(ClusterDown):
    """A node that does not respond, or that is cut off itself."""


def raise_failure(node: str, packed: bytes) -> NoReturn:
    """Raises what a node failed with; NodeFailure, if others may do better."""
    failure = unpack_failure(packed)
    if isinstance(failure, ClusterDown):
        raise NodeFailure(f"node '{node}': {failure}")
    raise type(failure)(f"node '{node}': {failure}")


@contextmanager
def _translated(address: str, node: str) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise NodeFailure(f"node '{node}' at {address} does not respond: {error or repr(error)}") from None


@dataclass(frozen=True, slots=True)
class PeerResponse:
    """A response that is read while it is made. One thread."""

    _response: http.client.HTTPResponse
    _address: str
    _node: str

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end. Raises NodeFailure."""
        with _translated(self._address, self._node):
            return self._response.read(count)


class PeerConnections:
    """Connections of this process to the peer ports of other nodes. Any thread may call."""

    def __init__(self, router: ClusterRouter) -> None:
        self._router = router
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._idle: defaultdict[str, list[_PeerConnection]] = defaultdict(list)
        self._closed = False

    def ask(self, address: str, node: str, body: bytes) -> tuple[dict[str, Any], bytes]:
        """The response of a node. Raises NodeFailure, and what the node failed with."""
        with self._lock:
            connection = self._idle[address].pop() if self._idle[address] else None
        with _translated(address, node):
            if connection is not None:
                try:
                    return self._exchanged(connection, address, node, body)
                except (OSError, http.client.HTTPException):
                    connection.close()  # closed by the other end meanwhile
            return self._exchanged(self._connect(address), address, node, body)

    def _exchanged(
        self, connection: _PeerConnection, address: str, node: str, body: bytes
    ) -> tuple[dict[str, Any], bytes]:
        try:
            connection.request("POST", PATH, body, _HEADERS)
            response = connection.getresponse()
            data = response.read(RESPONSE_BYTES_MAX + 1)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            is_kept = not (response.will_close or self._closed) and len(self._idle[address]) < _IDLE_MAX
            if is_kept:
                self._idle[address].append(connection)
        if not is_kept:
            connection.close()
        if response.status == http.client.OK and len(data) <= RESPONSE_BYTES_MAX:
            return unpack_body(data)
        if response.getheader("content-type") != FAILURE_TYPE:
            raise NodeFailure(f"node '{node}' at {address} responds with status {response.status}")
        raise_failure(node, data)

    @contextmanager
    def opened(self, address: str, node: str, body: bytes) -> Iterator[PeerResponse]:
        """The response of a node, to be read, over a connection of its own. Raises as `ask`."""
        with ExitStack() as stack:
            with _translated(address, node):
                connection = stack.enter_context(closing(self._connect(address)))
                connection.request("POST", PATH, body, _HEADERS)
                response = connection.getresponse()
                if response.getheader("content-type") == FAILURE_TYPE:
                    raise_failure(node, response.read(RESPONSE_BYTES_MAX))
                if response.status != http.client.OK:
                    raise NodeFailure(f"node '{node}' at {address} responds with status {response.status}")
            yield PeerResponse(response, address, node)

    def _connect(self, address: str) -> _PeerConnection:
        if self._context is None:
            self._context = self._router.client_context()
        return _PeerConnection(address, self._context, self._router)

    def close(self) -> None:
        with self._lock:
            self._closed = True  # requests may be under way
            for connections in self._idle.values():
                while connections:
                    connections.pop().close()


class _PeerConnection(http.client.HTTPConnection):
    """To a member, over mutual TLS: the certificate has the name of all members, its key is that of one."""

    def __init__(self, address: str, context: ssl.SSLContext, router: ClusterRouter) -> None:
        self._place = split_address(address)
        super().__init__(*self._place, timeout=_SILENCE_S)
        self._tls = context
        self._router = router

    def connect(self) -> None:
        plain = socket.create_connection(self._place, _CONNECT_S)
        plain.settimeout(_SILENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured = self._tls.wrap_socket(plain, server_hostname=self._router.peer_name)
        try:
            self._router.require_member(secured.getpeercert(binary_form=True))
        except NotAMember as error:
            secured.close()
            raise ConnectionError(str(error)) from None
        except BaseException:
            secured.close()
            raise
        self.sock = secured


_END: Any = object()

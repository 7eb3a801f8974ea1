"""The connection to the cluster's NATS service: messages, requests, and keys that are swapped atomically.

Keys are the subjects of one stream, which keeps the last message of each: `$KV.holdfast-<incarnation>.<key>`. Their
revisions are the stream's sequence numbers. The server publishes each new value again to those who watch, as a plain
message: watches are fast but may miss one, so whoever needs certainty reads.

A connection that is lost is made again, with any server of the service, and its subscriptions with it. Requests that
were under way fail. Only a service that refuses this node ends it: `refusal`.

This is the only module that uses `nats-py`. Everything belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RePublish, StorageType, StreamConfig, StreamInfo

from holdfast.cluster.membership.service import NatsService
from holdfast.errors import ClusterDown, FormatTooOld, NotAMember

log = logging.getLogger("holdfast.cluster")
logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of every connection that a server closes

TIMEOUT_S = 5.0
_CONNECT_S = 2
_RETRY_S, _RETRY_MAX_S = 0.1, 2.0
_PING_S = 3
_LOOK_S = 0.5  # between two looks whether the connection is there
_WRONG_REVISION = 10071
_NO_STREAM = 10059
_SUCCESSOR = "holdfast-successor"  # in the metadata of a stream
_STREAM_EXISTS = 10058  # with another configuration
_TOO_MANY_REPLICAS = (10005, 10023, 10074, 10120)  # no peers, no resources, a single server, no such tier
_READ_AT_ONCE = 1000  # keys
_SERVER_MIN = (2, 11)  # of nats-server: reads many keys at once
_REFUSED = ("authorization violation", "authentication revoked", "authentication expired", "account authentication")


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How this process proves to the service who it is. The callables are asked at every connection."""

    name: str  # of its inbox
    cluster: str
    service: NatsService
    sign: Callable[[bytes], bytes]
    jwt: Callable[[], str]
    tls: Callable[[], ssl.SSLContext] | None = None  # None: what the URL says
    server_name: str = ""  # in the servers' certificates


def full_subject(cluster: str, subject: str) -> str:
    """As NATS sees it: other clusters may use the same service."""
    return f"hf.{cluster}.{subject}"


@dataclass(frozen=True, slots=True)
class Message:
    """What arrived under a subject of the cluster."""

    subject: str
    data: bytes
    _source: Msg = field(repr=False)

    @property
    def sender(self) -> str:
        """The last part of the subject: rights allow a node to publish under its own name only."""
        return self.subject.rpartition(".")[2]

    async def respond(self, data: bytes) -> None:
        if self._source.reply:
            await self._source.respond(data)


Handler = Callable[[Message], Awaitable[None]]
Watcher = Callable[[str, bytes, int], None]  # key, value, revision


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it was read."""

    value: bytes
    revision: int


class Bus:
    """One connection. For the event loop that has opened it."""

    def __init__(self, access: ServiceAccess) -> None:
        self.access = access
        self.refusal: asyncio.Future[NotAMember] = asyncio.get_running_loop().create_future()
        self.connected = asyncio.Event()
        self._client: Client | None = None
        self._streams: JetStreamContext | None = None
        self._subscriptions: list[tuple[str, Handler, str]] = []
        self._watchers: list[Watcher] = []
        self._maintenance: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._is_closed = False
        self._problem = ""

    # -- connection ------------------------------------------------------------------------------------

    async def open(self, timeout_s: float = TIMEOUT_S) -> None:
        """Connects. Raises ClusterDown if no server answers in time, NotAMember if the service refuses this node."""
        self._maintenance = asyncio.create_task(self._maintain())
        waiting = asyncio.create_task(self.connected.wait())
        try:
            await asyncio.wait([self._maintenance, waiting], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.connected.is_set():
            return
        if self._maintenance.done() and not self.refusal.done():
            self._maintenance.result()
        await self.close()
        if self.refusal.done():
            raise self.refusal.result()
        where = ", ".join(_without_secrets(each) for each in self.access.service.urls)
        advice = "start a keeper's node" if self.access.service.is_own else "start it, or correct its URL"
        raise ClusterDown(f"no NATS server at {where} responds ({self._problem or 'no response'}): {advice}")

    async def run(self) -> None:
        """Until the connection is given up. Raises why: NotAMember if the service refuses this node."""
        assert self._maintenance is not None
        await asyncio.shield(self._maintenance)
        if self.refusal.done():
            raise self.refusal.result()

    async def close(self) -> None:
        self._is_closed = True
        self.connected.clear()
        if self._maintenance is not None:
            self._maintenance.cancel()
        client, self._client, self._streams = self._client, None, None
        if client is not None:
            await _close(client)

    async def _maintain(self) -> None:
        """Connects, and connects again whenever the connection is lost, until the service refuses this node."""
        while not self._is_closed:
            await self._connect()
            client = self._client
            if client is None:
                return
            while client.is_connected and not self._lost.is_set():
                with suppress(TimeoutError):  # the client does not always say that it has closed
                    await asyncio.wait_for(self._lost.wait(), _LOOK_S)
            self.connected.clear()
            self._client, self._streams = None, None
            reason = str(client.last_error or "connection closed")
            await _close(client)
            if "revoked" in reason or "expired" in reason:
                self._refuse(reason)
                return
            log.info("the connection to the NATS service is lost (%s)", reason)

    async def _connect(self) -> None:
        """Tries all servers in turn until one accepts, or the service refuses this node."""
        delay_s, refusals = _RETRY_S, 0
        while not self._is_closed:
            for url in random.sample(self.access.service.urls, len(self.access.service.urls)):
                client = Client()
                try:
                    await asyncio.wait_for(self._connect_to(client, url), 3 * _CONNECT_S)
                    return
                except (OSError, ssl.SSLError, nats.errors.Error, TimeoutError) as error:
                    if not isinstance(error, nats.errors.NoServersError):  # else `_on_error` has the reason
                        self._problem = _reason(error)
                    log.debug("cannot connect to %s: %s", _without_secrets(url), self._problem)
                    await _close(client)
                    if any(each in str(error).lower() for each in _REFUSED):
                        refusals += 1
                        if refusals > 2:
                            self._refuse(str(error))
                            return
                except BaseException:  # it cannot be used, or is given up
                    await _close(client)
                    raise
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _RETRY_MAX_S)

    async def _connect_to(self, client: Client, url: str) -> None:
        access = self.access
        self._lost.clear()
        options: dict[str, Any] = {}
        if access.service.is_own:
            assert access.tls is not None
            options = {"tls": access.tls(), "tls_hostname": access.server_name, "tls_handshake_first": True}
            options |= {
                "user_jwt_cb": lambda: access.jwt().encode(),
                "signature_cb": lambda nonce: base64.b64encode(access.sign(nonce.encode())),
            }
        await client.connect(
            [url],
            name=access.name,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=_CONNECT_S,
            ping_interval=_PING_S,
            max_outstanding_pings=2,
            inbox_prefix=f"_INBOX.{access.name}",
            error_cb=self._on_error,
            closed_cb=self._on_closed,
            **options,
        )
        version = client.connected_server_version
        if (version.major, version.minor) < _SERVER_MIN:
            least = ".".join(map(str, _SERVER_MIN))
            raise FormatTooOld(f"the NATS server at {_without_secrets(url)} is {version}: at least {least} is needed")
        if not access.service.is_own:
            try:
                await client.jetstream(timeout=TIMEOUT_S).account_info()
            except (nats.errors.NoRespondersError, nats.js.errors.ServiceUnavailableError):
                raise ConnectionError(f"the NATS server at {_without_secrets(url)} has no JetStream") from None
        for subject, handler, queue in self._subscriptions:
            await self._subscribe(client, subject, handler, queue)
        await self._start_watch(client)
        await client.flush(_CONNECT_S)
        if client.is_closed:
            raise client.last_error or nats.errors.ConnectionClosedError()
        self._client, self._streams = client, client.jetstream(timeout=TIMEOUT_S)
        self._problem = ""
        self.connected.set()

    async def _on_error(self, error: Exception) -> None:
        self._problem = _reason(error)
        log.debug("NATS: %s", self._problem)

    async def _on_closed(self) -> None:
        self._lost.set()

    def _refuse(self, reason: str) -> None:
        if not self.refusal.done():
            name, reason = self.access.name, reason.removeprefix("nats: ").strip("'")
            if self.access.service.is_own:
                text = f"the cluster refuses '{name}' ({reason}): was it forgotten, or has its certificate expired?"
            else:
                where = ", ".join(map(_without_secrets, self.access.service.urls))
                text = f"the NATS service at {where} refuses '{name}' ({reason}): check user and password in its URL"
            self.refusal.set_result(NotAMember(text))

    def _connection(self) -> tuple[Client, JetStreamContext]:
        if self._client is None or self._streams is None:
            raise ClusterDown(f"no connection to the NATS service ({self._problem or 'connecting'})")
        return self._client, self._streams

    def _full(self, subject: str) -> str:
        return full_subject(self.access.cluster, subject)

    # -- messages --------------------------------------------------------------------------------------

    async def publish(self, subject: str, data: bytes) -> None:
        """Sends a message to those who listen now. It may get lost. Raises ClusterDown without a connection."""
        client, _ = self._connection()
        with _as_cluster_down(client, f"cannot publish '{subject}'"):
            await client.publish(self._full(subject), data)

    async def request(self, subject: str, data: bytes, timeout_s: float = TIMEOUT_S) -> bytes:
        """The first response. Raises ClusterDown if there is none in time."""
        client, _ = self._connection()
        with _as_cluster_down(client, f"no response to '{subject}'"):
            return (await client.request(self._full(subject), data, timeout=timeout_s)).data

    async def subscribe(self, subject: str, handler: Handler, queue: str = "") -> None:
        """Calls the handler for each message, in turn, now and after every reconnect.

        Of several subscribers with one queue name one gets the message.
        """
        self._subscriptions.append((subject, handler, queue))
        if self._client is not None:
            await self._subscribe(self._client, subject, handler, queue)

    async def _subscribe(self, client: Client, subject: str, handler: Handler, queue: str) -> None:
        prefix = self._full("")

        async def receive(message: Msg) -> None:
            try:
                await handler(Message(message.subject.removeprefix(prefix), message.data, message))
            except ClusterDown as error:
                log.debug("while handling '%s': %s", message.subject, error)
            except Exception:
                log.exception("a message under '%s' could not be handled", message.subject)

        await client.subscribe(self._full(subject), queue=queue, cb=receive)

    # -- keys ------------------------------------------------------------------------------------------

    @property
    def _bucket(self) -> str:
        return f"holdfast-{self.access.service.incarnation}"

    @property
    def _stream(self) -> str:
        return f"KV_{self._bucket}"

    def _subject(self, key: str) -> str:
        return f"$KV.{self._bucket}.{key}"

    async def create_keys(self) -> None:
        """Makes the streams of keys and of the log, with as many copies as `NatsService.replicas` says. Idempotent."""
        config = StreamConfig(
            name=self._stream,
            subjects=[self._subject(">")],
            max_msgs_per_subject=1,
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE,
            deny_delete=True,
            deny_purge=True,
            allow_direct=True,
            republish=RePublish(src=self._subject(">"), dest=self._full(f"keys.{self._bucket}.>")),
        )
        log_config = StreamConfig(
            name=self._log_stream,
            subjects=[self._log_subject(">")],
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE,
            deny_delete=True,
            allow_direct=True,
        )
        await self._create_stream(config)
        await self._create_stream(log_config)

    async def _create_stream(self, config: StreamConfig) -> None:
        """With as many copies as the service keeps."""
        client, streams = self._connection()
        choices = self.access.service.replicas
        for number in choices:
            config.num_replicas = number
            with _as_cluster_down(client, f"cannot make the stream '{config.name}'"):
                try:
                    await streams.add_stream(config)
                    return
                except nats.js.errors.APIError as error:
                    if error.err_code == _STREAM_EXISTS and not self.access.service.is_own:
                        return  # made by an earlier try, with the copies of that time; the name is of this incarnation
                    if error.err_code not in _TOO_MANY_REPLICAS or number == choices[-1]:
                        raise
                    log.warning(
                        "the NATS service does not keep %d copies of '%s': %s", number, config.name, _reason(error)
                    )

    async def close_keys(self, successor: str) -> None:
        """Lets nobody swap a key of this incarnation any more, and says what follows it. Idempotent."""
        client, streams = self._connection()
        with _as_cluster_down(client, f"cannot close the stream '{self._stream}'"):
            info = await streams.stream_info(self._stream)
            if not info.config.sealed:
                info.config.sealed = True
                info.config.metadata = {**(info.config.metadata or {}), _SUCCESSOR: successor}
                await streams.update_stream(info.config)

    async def successor(self) -> str:
        """What was said when the keys were closed; empty while they are open. Raises ClusterDown."""
        info = await self._keys_info()
        if info is None or not info.config.sealed:
            return ""
        return (info.config.metadata or {}).get(_SUCCESSOR, "")

    async def has_keys(self) -> bool:
        """Whether the service has this incarnation. Raises ClusterDown."""
        return await self._keys_info() is not None

    async def leader(self) -> str:
        """The name of the server that orders the writes to the keys; empty without one. Raises ClusterDown."""
        info = await self._keys_info()
        return (info.cluster.leader or "") if info is not None and info.cluster is not None else ""

    async def _keys_info(self) -> StreamInfo | None:
        """Of the stream of keys; None if the service does not have this incarnation."""
        client, streams = self._connection()
        with _as_cluster_down(client, "the NATS service has no leader"):
            try:
                return await streams.stream_info(self._stream)
            except nats.js.errors.NotFoundError:
                return None

    async def get(self, key: str, timeout_s: float = TIMEOUT_S) -> KeyValue | None:
        """The last value, from the server that orders all writes. Raises ClusterDown."""
        client, streams = self._connection()
        with _as_cluster_down(client, f"cannot read '{key}'"):
            try:
                read = streams.get_last_msg(self._stream, self._subject(key), direct=False)
                message = await asyncio.wait_for(read, timeout_s)
            except nats.js.errors.NotFoundError as error:
                if error.err_code == _NO_STREAM:
                    raise ClusterDown("the NATS service does not know this incarnation of the cluster") from error
                return None
            return KeyValue(message.data or b"", message.seq or 0)

    async def swap(self, key: str, value: bytes, revision: int, timeout_s: float = TIMEOUT_S) -> int | None:
        """Writes the value if the key's last revision is this one, 0 if there is none. Durable on a majority.

        Returns the new revision; None if the key has another. Raises ClusterDown if there was no answer: the value may
        be written or not.
        """
        head = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        return await self._write(f"cannot write '{key}'", self._subject(key), value, timeout_s, head)

    async def _write(
        self, failure: str, subject: str, data: bytes, timeout_s: float, head: dict[str, str]
    ) -> int | None:
        """The sequence number of a message that is stored; None if its subject has another last one than expected."""
        client, streams = self._connection()
        with _as_cluster_down(client, failure):
            try:
                return (await streams.publish(subject, data, timeout=timeout_s, headers=head)).seq
            except nats.js.errors.APIError as error:
                if error.err_code == _WRONG_REVISION:
                    return None
                raise

    async def change(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Applies a function to the value of a key until nobody else changes it at the same time.

        The function gets None for a key that does not exist, and returns None to leave it. Returns what it returned.
        """
        while True:
            known = await self.get(key)
            value = change(known.value if known is not None else None)
            if value is None or await self.swap(key, value, known.revision if known is not None else 0) is not None:
                return value

    async def entries(self, keys: str = ">", timeout_s: float = TIMEOUT_S) -> dict[str, KeyValue]:
        """All keys that match a pattern of subjects, with a few requests. A replica may answer, a little behind.

        `timeout_s` is for each message.
        """
        prefix, messages = self._subject(""), self._read_many(self._stream, self._subject(keys), 1, timeout_s)
        return {subject.removeprefix(prefix): each async for subject, each in messages}

    async def _read_many(
        self, stream: str, subjects: str, start: int, timeout_s: float = TIMEOUT_S
    ) -> AsyncGenerator[tuple[str, KeyValue]]:
        """The messages of a stream from a sequence number on."""
        client, _ = self._connection()
        failure = f"cannot read the stream '{stream}'"
        while True:
            inbox, responses = client.new_inbox(), asyncio.Queue[Msg]()
            with _as_cluster_down(client, failure):
                subscription = await client.subscribe(inbox, cb=responses.put)
            try:
                query = {"seq": start, "next_by_subj": subjects, "batch": _READ_AT_ONCE}
                subject = f"$JS.API.DIRECT.GET.{stream}"
                with _as_cluster_down(client, failure):
                    await client.publish(subject, json.dumps(query).encode(), reply=inbox)
                while True:
                    with _as_cluster_down(client, failure):
                        message = await asyncio.wait_for(responses.get(), timeout_s)
                    head = message.headers or {}
                    if status := head.get("Status"):
                        break
                    start = int(head["Nats-Sequence"]) + 1
                    yield head["Nats-Subject"], KeyValue(message.data, start - 1)
            finally:
                with suppress(nats.errors.Error):  # the connection may be lost
                    await subscription.unsubscribe()
            if status == "503":
                raise ClusterDown("the NATS service does not know this incarnation of the cluster")
            if status != "204" or head.get("Nats-Num-Pending", "0") == "0":
                return

    # -- the log ---------------------------------------------------------------------------------------

    @property
    def _log_stream(self) -> str:
        return f"LOG_{self._bucket}"

    def _log_subject(self, topic: str) -> str:
        return self._full(f"log.{self._bucket}.{topic}")

    async def append(self, topic: str, data: bytes, message_id: str, after: int | None = None) -> int | None:
        """Appends a message to a topic of the log. Durable on a majority.

        Returns its sequence number. A repeated `message_id` is ignored for two minutes. With `after`, the number of the
        topic's last message must be that one, 0 if there is none; otherwise nothing is appended: None. Raises
        ClusterDown if there was no answer: the message may be there or not.
        """
        head = {"Nats-Msg-Id": message_id}
        if after is not None:
            head["Nats-Expected-Last-Subject-Sequence"] = str(after)
        return await self._write(f"cannot append to '{topic}'", self._log_subject(topic), data, TIMEOUT_S, head)

    async def read_log(self, topic: str, after: int, count: int | None = None) -> list[KeyValue]:
        """The messages of a topic after a sequence number, the first `count`. A replica may answer, a little behind."""
        found: list[KeyValue] = []
        async with aclosing(self._read_many(self._log_stream, self._log_subject(topic), after + 1)) as messages:
            async for _, each in messages:
                found.append(each)
                if len(found) == count:
                    break
        return found

    async def last_of_log(self, topic: str) -> int:
        """The number of the last message of a topic, from the server that orders all writes; 0 without one."""
        client, streams = self._connection()
        with _as_cluster_down(client, f"cannot read the end of '{topic}'"):
            try:
                found = await streams.get_last_msg(self._log_stream, self._log_subject(topic), direct=False)
            except nats.js.errors.NotFoundError:
                return 0
            return found.seq or 0

    async def cut_log(self, topic: str, last: int) -> None:
        """Deletes the messages of a topic up to a sequence number. Idempotent."""
        client, streams = self._connection()
        with _as_cluster_down(client, f"cannot cut off '{topic}'"):
            await streams.purge_stream(self._log_stream, seq=last + 1, subject=self._log_subject(topic))

    async def count_log(self, topics: str) -> tuple[dict[str, int], int]:
        """How many messages there are under each topic of a pattern, and the number of the last one of all topics.

        From the server that orders all writes.
        """
        client, streams = self._connection()
        with _as_cluster_down(client, "cannot read the state of the log"):
            info = await streams.stream_info(self._log_stream, subjects_filter=self._log_subject(topics))
        prefix = self._log_subject("")
        subjects = info.state.subjects or {}
        return {name.removeprefix(prefix): number for name, number in subjects.items()}, info.state.last_seq

    # -- watches ---------------------------------------------------------------------------------------

    async def watch(self, watcher: Watcher) -> None:
        """Calls the function with each new value of a key, as far as messages arrive."""
        self._watchers.append(watcher)
        if self._client is not None and len(self._watchers) == 1:
            await self._start_watch(self._client)

    async def _start_watch(self, client: Client) -> None:
        if not self._watchers:
            return
        prefix = self._full(f"keys.{self._bucket}.")

        async def receive(message: Msg) -> None:
            revision = int((message.headers or {}).get("Nats-Sequence", "0"))
            for watcher in self._watchers:
                watcher(message.subject.removeprefix(prefix), message.data, revision)

        await client.subscribe(f"{prefix}>", cb=receive)


async def _close(client: Client) -> None:
    """Whatever state it is in. One that could not send what was pending leaves its socket and its tasks behind."""
    with suppress(nats.errors.Error, OSError, TimeoutError, AssertionError):  # it asserts that it was connected
        await asyncio.wait_for(client.close(), _CONNECT_S)
    for subscription in list(client._subs.values()):
        subscription._stop_processing()
    transport: Any = client._transport
    if transport is not None:
        transport.close()


@contextmanager
def _as_cluster_down(client: Client, failure: str) -> Iterator[None]:
    """What the connection fails with inside is raised as ClusterDown: `failure`, and the reason.

    A connection that closes may cancel a request, but no task: only a cancelled task goes on to be cancelled.
    """
    try:
        yield
    except (nats.errors.Error, TimeoutError, OSError, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if not client.is_closed or (task is not None and task.cancelling()):
                raise
        raise ClusterDown(f"{failure} ({_reason(error)})") from error


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"its certificate is not accepted: {error.verify_message}"
        is_time = "not yet valid" in text or "expired" in text
        return f"{text}; is this machine's clock right?" if is_time else text
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "the NATS service did not respond in time"
    if isinstance(error, nats.js.errors.APIError) and error.description:
        return error.description
    return str(error).removeprefix("nats: ").strip("'") or type(error).__name__


def _without_secrets(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"

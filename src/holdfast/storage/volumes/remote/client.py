"""A volume on another machine, as its clients see it: a volume like any other (W11, W12).

Every commit has an idempotency key, so it can be repeated when its response was lost: it happens once. If the server
stays away, the outcome of a commit is unknown when `VolumeDown` is raised; as soon as the server is back, the commit is
made void, and what it had counted is rolled back (`pending_commits`).
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.config import RemoteSettings
from holdfast.env import Environment
from holdfast.env.files import Buffer
from holdfast.errors import HoldfastError, MalformedInput, TooLarge, UsageError, VolumeDown, VolumeFull, VolumeReadOnly
from holdfast.model import ContentKey, Fault
from holdfast.storage.identity import VolumeNames
from holdfast.storage.server import wire
from holdfast.storage.server.wire import Type, WireReader
from holdfast.storage.volume import (
    Activity,
    Block,
    BlockFacts,
    BlockKey,
    News,
    Operation,
    OperationResult,
    ScanPosition,
    VolumeStat,
)
from holdfast.storage.volumes.damage import CheckProgress
from holdfast.storage.volumes.local import Compaction, Progress
from holdfast.storage.volumes.remote.connection import ConnectionPool, ServerConnection
from holdfast.storage.volumes.remote.pending_commits import CommitAttempt, IdempotencyKeys, PendingCommits

log = logging.getLogger("holdfast.storage")

KEYS_TOGETHER = 2048
OPERATIONS_TOGETHER = 2048
COMMIT_BYTES = 4 << 20  # beyond which a commit is sent in parts
_NO_POSITION = (1 << 64) - 1  # there can be no news since then
_U64 = struct.Struct(">Q")
_SHARE = struct.Struct(">d")


class RemoteVolume:
    """Any thread may call any method; each uses a connection of its own meanwhile."""

    def __init__(self, name: str, address: str, settings: RemoteSettings, env: Environment, directory: Path) -> None:
        """Nothing is sent to the server yet. `directory` is what paths in the settings are relative to."""
        self.name = name
        self.address = address
        self._pool = ConnectionPool(name, address, settings, env, directory, self._greet)
        self._keys = IdempotencyKeys(env.random_bytes(8))
        self._pending = PendingCommits(self._keys)
        self._is_given_up = False  # the server did not respond to `resolve`
        self._facts: dict[str, Any] = {}
        self._expected = ""
        self._names = VolumeNames()

    # -- the server ---------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        """False for a while after the server could not be reached."""
        return self._pool.available

    @property
    def organization(self) -> str:
        return str(self._server_facts()["organization"])

    @property
    def signature(self) -> str:
        """The name of the algorithm that the volume's signatures are made with."""
        return str(self._server_facts()["signature"])

    def expect(self, signature: str, names: VolumeNames) -> None:
        """A volume with another signature algorithm counts as down, and so does one that has another name already."""
        self._expected, self._names = signature, names

    def _server_facts(self) -> dict[str, Any]:
        """What the server said of its volume. Raises VolumeDown if it never did."""
        if not self._facts:
            self._pool.use(lambda connection: None)
        return self._facts

    def _greet(self, connection: ServerConnection) -> None:
        """A new connection: is it the right volume, and what became of pending commits?"""
        facts = connection.facts
        if self._expected not in ("", facts.get("signature")):
            raise VolumeDown(
                f"it was made for signature {facts.get('signature')!r}, this client uses {self._expected!r}"
            )
        self._names.claim(self.name, str(facts.get("uid")))
        before, self._facts = self._facts, facts
        if before and before.get("uid") != facts.get("uid"):
            log.warning("another volume than before responds for %r at %s", self.name, self.address)
        self._pending.resolve(connection)

    def _call(self, kind: Type, *body: Buffer) -> bytes:
        """The response to one request, which may be sent more than once."""
        return self._pool.use(lambda connection: bytes(connection.call(kind, *body)))

    def _call_json(
        self, kind: Type, body: bytes = b"", progress: Progress | None = None, *, patient: bool = True
    ) -> dict[str, Any]:
        def advance(body: memoryview) -> None:
            if progress is not None:
                progress(WireReader(body).u64())

        def talk(connection: ServerConnection) -> bytes:
            return bytes(connection.call(kind, body, progress=advance))

        values: dict[str, Any] = json.loads(self._pool.use(talk, patient=patient))
        return values

    # -- reading ------------------------------------------------------------------------------------------------

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        found: list[tuple[BlockFacts, ...]] = []
        for start in range(0, len(signatures), KEYS_TOGETHER):
            part = signatures[start : start + KEYS_TOGETHER]
            found += wire.unpack_facts(self._call(Type.PROBE, wire.pack_signatures(part)), part)
        return found

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self._fetch(keys, patient=True)

    def fetch_at_once(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """As `fetch`, without retries."""
        return self._fetch(keys, patient=False)

    def _fetch(self, keys: Sequence[BlockKey], *, patient: bool) -> list[Block | None]:
        blocks: list[Block | None] = []
        while len(blocks) < len(keys):
            wanted = keys[len(blocks) : len(blocks) + KEYS_TOGETHER]
            blocks += self._pool.use(lambda connection, wanted=wanted: _fetch(connection, wanted), patient=patient)  # type: ignore[misc]
        return blocks

    def note_damaged(self, keys: Sequence[BlockKey]) -> None:
        """The server remembers them. One of an earlier release cannot: then they must be found again."""
        for start in range(0, len(keys), KEYS_TOGETHER):
            with suppress(UsageError):
                self._call(Type.DAMAGED, wire.pack_keys(keys[start : start + KEYS_TOGETHER]))

    def may_be_damaged(self) -> bool:
        """The server knows."""
        return True

    def wake(self) -> None:
        """If it was down just now, the next call tries it at once, and with retries."""
        self._pool.wake()

    def scan(self, *, counted: bool = True, after: ScanPosition | None = None) -> Iterator[list[Block]]:
        """Reads ahead by one batch, and continues where it was if the connection breaks."""
        with _RemoteScan(self._pool, counted=counted, after=after) as scan:
            while batch := scan.next():
                yield batch

    def signatures(self) -> Iterator[bytes]:
        """If the connection breaks after the first of them, VolumeDown is raised."""
        connection, batch = self._pool.persist(self._first_signatures)
        try:
            while batch:
                yield from batch
                batch = wire.unpack_signatures(connection.call(Type.SIGNATURES, b"\0"))
        except (OSError, MalformedInput) as error:
            connection.close()
            raise VolumeDown(f"the volume server at {self.address} broke off: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._pool.give_back(connection)

    def _first_signatures(self) -> tuple[ServerConnection, list[bytes]]:
        """The beginning of a list, and the connection that it continues on."""
        connection = self._pool.take()
        try:
            return connection, wire.unpack_signatures(connection.call(Type.SIGNATURES, b"\1"))
        except BaseException:
            connection.close()
            raise

    def stat(self) -> VolumeStat:
        return VolumeStat(**self._call_json(Type.STAT)["stat"])

    def activity(self) -> Activity:
        """What the server is doing."""
        return Activity(**self._call_json(Type.STAT)["activity"])

    def status(self) -> tuple[VolumeStat, Activity]:
        """Both with one request, without retries."""
        values = self._call_json(Type.STAT, patient=False)
        return VolumeStat(**values["stat"]), Activity(**values["activity"])

    def position(self) -> int:
        return self.news(_NO_POSITION).position

    def news(self, since: int) -> News:
        reader = WireReader(self._call(Type.NEWS, _U64.pack(since)))
        return News(reader.u64(), wire.read_signatures(reader) if reader.u8() else None)

    def refresh(self) -> None:
        """Nothing is cached here."""

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        wanted = b"\0" if number is None else b"\1" + number.to_bytes(4, "big")
        response = self._call(Type.DICTIONARY, wanted)
        return (int.from_bytes(response[:4], "big"), response[4:]) if response else None

    # -- writing ------------------------------------------------------------------------------------------------

    def commit(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Large ones are sent in parts. If one of them fails, those before it are rolled back."""
        results: list[OperationResult] = []
        try:
            for part, packed in self._parts(operations):
                results += self._commit(part, packed)
        except BaseException:
            if results:
                self._pending.roll_back(operations, results)
                self._resolve_pending()
            raise
        return results

    def _parts(self, operations: Sequence[Operation]) -> Iterator[tuple[Sequence[Operation], list[Buffer]]]:
        limit = int(self._server_facts().get("message_bytes_max", COMMIT_BYTES))
        buffers: list[Buffer] = []
        size = first = 0
        for index, operation in enumerate(operations):
            packed = wire.pack_operation(operation)
            length = sum(map(len, packed))
            if length + 64 > limit:
                raise TooLarge(
                    f"a content of {length} bytes is over the limit of the server at {self.address}, {limit}"
                )
            if buffers and (size + length > COMMIT_BYTES or index - first >= OPERATIONS_TOGETHER):
                yield operations[first:index], buffers
                buffers, size, first = [], 0, index
            buffers += packed
            size += length
        if buffers:
            yield operations[first:] if first else operations, buffers

    def _commit(self, operations: Sequence[Operation], packed: list[Buffer]) -> list[OperationResult]:
        attempt = CommitAttempt(self._keys.issue(), operations, packed)

        def talk(connection: ServerConnection) -> list[OperationResult]:
            if self._pending:  # or they would pile up as long as this connection lasts
                self._pending.resolve(connection)
            return attempt.send(connection)

        try:
            results = self._pool.use(talk)
        except BaseException as error:
            if attempt.times_sent and (isinstance(error, VolumeDown) or not isinstance(error, HoldfastError)):
                self._pending.give_up(attempt.idempotency_key, operations)
            else:
                self._keys.close(attempt.idempotency_key)
            if isinstance(error, VolumeFull | VolumeReadOnly):
                raise self._named(error) from error
            raise
        self._keys.close(attempt.idempotency_key)
        return results

    def _named(self, error: VolumeFull | VolumeReadOnly) -> HoldfastError:
        """The server does not know the name that its volume has here."""
        return type(error)(f"volume {self.name!r} at {self.address}: {error}")

    def _resolve_pending(self) -> None:
        """What fails is tried again with the next connection."""
        with suppress(HoldfastError):
            self._pool.use(self._pending.resolve)

    def add_dictionary(self, number: int, data: bytes) -> None:
        try:
            self._call(Type.ADD_DICTIONARY, number.to_bytes(4, "big"), data)
        except (VolumeFull, VolumeReadOnly) as error:
            raise self._named(error) from error

    # -- maintenance, by the server -----------------------------------------------------------------------------

    def compact(self, dead_share_min: float, progress: Progress | None) -> Compaction:
        """The server reclaims the space of dead entries."""
        return Compaction(**self._call_json(Type.COMPACT, _SHARE.pack(dead_share_min), progress))

    def check(self, watch: CheckProgress) -> Iterator[Fault]:
        """The server reads all its files; what it finds wrong."""
        read = watch.bytes
        report = self._call_json(Type.CHECK, progress=watch.read)
        watch.read(report["bytes"] - (watch.bytes - read))  # what was too little to be reported before
        watch.blocks += report["blocks"]
        watch.notes += report["notes"]
        for fault in report["faults"]:
            key = ContentKey.parse(fault["key"]) if fault["key"] else None
            if key is not None and key.volume == fault["volume"]:  # the server calls it by its directory
                key = replace(key, volume=self.name)
            yield Fault(**(fault | {"volume": self.name, "key": key}))

    def resolve(self) -> None:
        """Finds out what became of abandoned commits, if the server responds."""
        if self._pending and not self._is_given_up:
            self._pool.wake()
            self._resolve_pending()
            self._is_given_up = bool(self._pending)

    def rolled_back(self) -> list[BlockKey]:
        """The blocks that rollbacks have removed since the last call: replicas of them may be left."""
        removed: list[BlockKey] = []
        with suppress(IndexError):  # another thread may take some
            while self._pending.removed:
                removed.append(self._pending.removed.popleft())
        return removed

    def close(self) -> None:
        self.resolve()
        if self._pending:
            log.warning(
                "volume %r: the outcome of %d commits is unknown; run 'holdfast check'", self.name, len(self._pending)
            )
        self._pool.close()


def _fetch(connection: ServerConnection, keys: Sequence[BlockKey]) -> list[Block | None]:
    """The first of the blocks, as many as one response has."""
    reader = WireReader(connection.call(Type.FETCH, wire.pack_keys(keys)))
    count = reader.u32()
    if not 0 < count <= len(keys):
        raise MalformedInput(f"a response with {count} blocks, {len(keys)} were requested")
    return [wire.read_block(reader, key) for key in keys[:count]]


class _RemoteScan:
    """A scan on a connection of its own: the next batch is on its way while the last one is in use."""

    def __init__(self, pool: ConnectionPool, *, counted: bool, after: ScanPosition | None) -> None:
        self._pool = pool
        self._counted = counted
        self._position = after
        self._connection: ServerConnection | None = None
        self._request: int | None = None

    def next(self) -> list[Block]:
        """The next batch; empty at the end. Raises VolumeDown."""
        return self._pool.persist(self._attempt)

    def _attempt(self) -> list[Block]:
        try:
            return self._next()
        except (OSError, MalformedInput):
            self._drop()
            raise

    def _next(self) -> list[Block]:
        if self._connection is None:
            self._connection = self._pool.take()
        if self._request is None:
            self._request = self._connection.send(Type.SCAN, self._body())
        request, self._request = self._request, None
        batch = _unpack_scan(self._connection.receive(request))
        if batch:
            self._position = batch[-1].mark
            try:
                self._request = self._connection.send(Type.SCAN, self._body())
            except OSError:  # noticed again when the next batch is needed: this one is sound
                self._drop()
        return batch

    def _body(self) -> bytes:
        if self._position is None:
            return bytes([self._counted, 0])
        return bytes([self._counted, 1]) + wire.pack_key(self._position.key) + _U64.pack(self._position.serial)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._request = None

    def __enter__(self) -> _RemoteScan:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None and self._request is None:
            self._pool.give_back(self._connection)
        else:
            self._drop()


def _unpack_scan(response: memoryview) -> list[Block]:
    reader = WireReader(response)
    blocks = []
    for _ in range(reader.u32()):
        key = wire.read_key(reader)
        block = wire.read_block(reader, key)
        if block is None:
            raise MalformedInput("a scan has a key without a block")
        blocks.append(block)
    reader.end()
    return blocks

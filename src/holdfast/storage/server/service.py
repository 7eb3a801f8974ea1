"""A volume behind a server: verifies operations, limits responses, and tracks news and activity.

Nothing that a client sends is trusted: each operation is verified before the volume sees it, because names of homes
become names of files and numbers become columns of a header.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain
from typing import Any

from holdfast.env import Environment
from holdfast.errors import Busy, MalformedInput, TooLarge, UsageError, VolumeFull, VolumeReadOnly
from holdfast.model import OVERFLOW_MAX
from holdfast.storage.server.options import ServerOptions
from holdfast.storage.signature import find_signature
from holdfast.storage.volume import (
    Activity,
    Adopt,
    Block,
    BlockFacts,
    BlockKey,
    Claim,
    Effect,
    Encoded,
    Heal,
    IdempotentVolume,
    LimitedFetch,
    News,
    Operation,
    Recount,
    Result,
    ScanPosition,
    Store,
    VolumeStat,
)
from holdfast.storage.volumes.local import SCAN_BATCH, VolumeSpec

REFERENCES_MAX = 9 * 10**9  # ten digits in a block's header, and room to count up
DICTIONARY_BYTES_MAX = 16 << 20
DICTIONARIES_MAX = 1000
ENTRY_BYTES = 700  # that a block takes beside its data, about: its header, and the idempotency key of its commit
FETCHED_TOGETHER = 512  # blocks in one response
PROBED_TOGETHER = 1024  # signatures that are looked up before their blocks are counted
FACTS_MAX = 200_000  # blocks that one response describes
NEWS_MAX = 50_000  # signatures of new contents that are remembered, for clients that follow
_POSITIONS = 1 << 63  # that there are
_LATELY_S = 2.0
_READ_ONLY = "the volume is read-only: its server was started so"
_HOME = re.compile(rb"[a-z0-9][a-z0-9_-]{0,15}")
_CODEC = re.compile(r"[a-z0-9-]{1,12}")


class VolumeService:
    """`verify` is for the event loop, `note` for the committer; any thread may call the rest."""

    def __init__(self, volume: IdempotentVolume, spec: VolumeSpec, options: ServerOptions, env: Environment) -> None:
        self.volume = volume
        self.spec = spec
        self.options = options
        self._env = env
        self._limited = volume if isinstance(volume, LimitedFetch) else None
        self._signature_bytes = find_signature(spec.identity.signature).length
        self._epoch = int(spec.identity.uid, 16) << 31
        self._news: deque[tuple[int, list[bytes]]] = deque()
        self._news_count = 0
        self._news_from = self._news_until = self._position()  # what came between the two is remembered
        self._news_lock = threading.Lock()
        self._frees_at_once = spec.identity.organization == "tree"  # others need a compaction
        self._used_bytes = 0  # estimated between two calls of `measure_disk`
        if options.capacity_bytes:
            self.measure_disk()
        self._stored_s = self._streamed_s = float("-inf")
        self.outstanding = 0  # requests that wait for their response
        self.clients = 0  # that are authenticated
        self._long_work = threading.Lock()  # one check or compaction at a time

    def facts(self) -> dict[str, Any]:
        """What an authenticated client learns first."""
        identity = self.spec.identity
        return {
            "uid": identity.uid.decode(),
            "organization": identity.organization,
            "signature": identity.signature,
            "read_only": self.options.read_only,
            "message_bytes_max": self.options.message_bytes_max,
        }

    # -- reading ------------------------------------------------------------------------------------------------

    def probe(self, signatures: Sequence[bytes]) -> list[tuple[BlockFacts, ...]]:
        """For each signature all blocks that have it. Raises TooLarge if these are too many for one response."""
        found: list[tuple[BlockFacts, ...]] = []
        count = 0
        for start in range(0, len(signatures), PROBED_TOGETHER):
            part = self.volume.probe(signatures[start : start + PROBED_TOGETHER])
            count += sum(map(len, part))
            if count > FACTS_MAX:
                raise TooLarge(f"more than {FACTS_MAX} blocks have these signatures: request fewer at once")
            found += part
        return found

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        """The first blocks, at least one, as many as a response may have."""
        if len(keys) <= 1:
            return self.volume.fetch(keys)
        if self._limited is not None:
            return self._limited.fetch_up_to(keys[:FETCHED_TOGETHER], self.options.response_bytes_max)
        fitting = size = 0
        for stored in self._sizes(keys[:FETCHED_TOGETHER]):
            size += stored
            if fitting and size > self.options.response_bytes_max:
                break
            fitting += 1
        return self.volume.fetch(keys[:fitting])

    def _sizes(self, keys: Sequence[BlockKey]) -> Iterator[int]:
        """How many bytes each of the blocks has."""
        for key, found in zip(keys, self.volume.probe([key.signature for key in keys]), strict=True):
            yield next((facts.stored for facts in found if facts.key == key), 0)

    def scan(self, after: ScanPosition | None, *, counted: bool) -> Iterator[list[Block]]:
        """As the volume's own, in batches as large as a response may be."""
        part: list[Block] = []
        size = 0
        for block in chain.from_iterable(self.volume.scan(counted=counted, after=after)):
            self._streamed_s = self._env.monotonic()
            if len(part) >= SCAN_BATCH or (part and size + len(block.encoded.data) > self.options.response_bytes_max):
                yield part
                part, size = [], 0
            part.append(block)
            size += len(block.encoded.data)
        if part:
            yield part

    def _position(self) -> int:
        """The number of the volume's last change. Those of another volume in its place are nowhere near."""
        return (self._epoch + self.volume.position()) % _POSITIONS

    def news(self, since: int) -> News:
        """Signatures that came after a position, up to the last commit that was noted: one under way comes later."""
        with self._news_lock:
            until = self._news_until
            if not self._news_from <= since <= until:
                return News(until, None)
            return News(until, [each for at, signatures in self._news if at > since for each in signatures])

    # -- writing ------------------------------------------------------------------------------------------------

    def verify(self, operations: Iterable[Operation]) -> None:
        """Raises MalformedInput, TooLarge, VolumeReadOnly or VolumeFull: then nothing of them may be done."""
        incoming = 0
        for operation in operations:
            match operation:
                case Store(signature, encoded, _, compared, overflow_min, references):
                    self._verify_signature(signature)
                    self._verify_number(overflow_min, 0, OVERFLOW_MAX, "overflow")
                    self._verify_number(references, 1, REFERENCES_MAX, "counter")
                    for key in compared or ():
                        self._verify_key(key)
                    incoming += self._verify_new(encoded)
                case Claim(signature, _):
                    self._verify_signature(signature)
                case Adopt(key, encoded, references):
                    self._verify_key(key)
                    self._verify_number(references, 1, REFERENCES_MAX, "counter")
                    incoming += self._verify_new(encoded)
                case Heal(key, encoded, references):
                    self._verify_key(key)
                    self._verify_number(references, 0, REFERENCES_MAX, "counter")
                    self._verify_encoded(encoded)  # a damaged block is healed, however full the volume is
                case Recount(key, references):
                    self._verify_key(key)
                    self._verify_number(references, 0, REFERENCES_MAX, "counter")
                case _:
                    self._verify_key(operation.key)
        if incoming and self.options.capacity_bytes:
            self._verify_capacity(incoming)

    def measure_disk(self) -> VolumeStat:
        """How full the volume is. May take long."""
        stat = self.volume.stat()
        self._used_bytes = stat.disk_bytes
        return stat

    def _verify_capacity(self, incoming: int) -> None:
        capacity = self.options.capacity_bytes
        if self._used_bytes + incoming > capacity:
            raise VolumeFull(f"the volume has reached its capacity of {capacity} bytes; add a volume")

    def verify_keys(self, keys: Iterable[BlockKey]) -> None:
        """Raises MalformedInput."""
        for key in keys:
            self._verify_key(key)

    def verify_signatures(self, signatures: Iterable[bytes]) -> None:
        """Raises MalformedInput."""
        for signature in signatures:
            self._verify_signature(signature)

    def _verify_key(self, key: BlockKey) -> None:
        signature, overflow, home = key
        self._verify_signature(signature)
        if overflow:
            self._verify_number(overflow, 0, OVERFLOW_MAX, "overflow")
        if home and _HOME.fullmatch(home) is None:
            raise MalformedInput(f"{home!r} cannot be the name of a volume")

    def _verify_signature(self, signature: bytes) -> None:
        if len(signature) != self._signature_bytes:
            raise MalformedInput(
                f"a signature of {len(signature)} bytes: those of {self.spec.identity.signature} "
                f"have {self._signature_bytes}"
            )

    def _verify_number(self, number: int, least: int, most: int, noun: str) -> None:
        if not least <= number <= most:
            raise MalformedInput(f"a message has {noun} {number}; {least} to {most} are possible")

    def _verify_new(self, encoded: Encoded) -> int:
        if self.options.read_only:
            raise VolumeReadOnly(_READ_ONLY)
        self._verify_encoded(encoded)
        return ENTRY_BYTES + len(encoded.data)

    def _verify_encoded(self, encoded: Encoded) -> None:
        if _CODEC.fullmatch(encoded.codec) is None:
            raise MalformedInput(f"{encoded.codec!r} cannot be the name of a codec")
        limit = self.spec.settings.content_bytes_max
        if encoded.size > limit:
            raise TooLarge(f"a content of {encoded.size} bytes is over the server's limit of {limit}")

    def note(self, commits: Iterable[Result]) -> None:
        """These commits are durable, but for those that failed."""
        self._stored_s = self._env.monotonic()
        new: list[bytes] = []
        for results in commits:
            for effect, key, _, stored in results if isinstance(results, list) else ():
                if effect is Effect.NEW:
                    new.append(key.signature)
                    self._used_bytes += stored + ENTRY_BYTES
                elif effect is Effect.REMOVED and self._frees_at_once:
                    self._used_bytes -= stored + ENTRY_BYTES
                elif effect is Effect.HEALED and not self._frees_at_once:  # damaged bytes stay until a compaction
                    self._used_bytes += stored + ENTRY_BYTES
        with self._news_lock:
            self._news_until = self._position()
            if new:
                self._news.append((self._news_until, new))
                self._news_count += len(new)
            while self._news_count > NEWS_MAX:
                self._news_from, forgotten = self._news.popleft()
                self._news_count -= len(forgotten)

    def add_dictionary(self, number: int, data: bytes) -> None:
        """Durable on return. A dictionary that is there stays as it is: contents were encoded with it."""
        if self.options.read_only:
            raise VolumeReadOnly(_READ_ONLY)
        if not number:
            raise UsageError("a dictionary needs a number above 0")
        if not data or len(data) > DICTIONARY_BYTES_MAX:
            raise TooLarge(f"a dictionary has 1 to {DICTIONARY_BYTES_MAX} bytes, not {len(data)}")
        known = self.volume.dictionary(number)
        if known is not None:
            if known[1] != data:
                raise UsageError(f"the volume has another dictionary {number:08x} already")
            return
        if self.volume.stat().dictionaries >= DICTIONARIES_MAX:
            raise UsageError(f"the volume has {DICTIONARIES_MAX} dictionaries already")
        self.volume.add_dictionary(number, data)

    # -- state --------------------------------------------------------------------------------------------------

    @contextmanager
    def long_work(self) -> Iterator[None]:
        """One check or compaction of the volume at a time. Raises Busy."""
        if not self._long_work.acquire(blocking=False):
            raise Busy("the volume is being checked or compacted already; try again later")
        try:
            yield
        finally:
            self._long_work.release()

    def activity(self) -> Activity:
        """What the volume is doing (B5)."""
        now = self._env.monotonic()
        if now - self._stored_s < _LATELY_S:
            state = "storing"
        elif now - self._streamed_s < _LATELY_S:
            state = "streaming"
        else:
            state = "idling"
        return Activity(state, max(0, self.outstanding - 1), self.clients)  # without the request for this

    def stat(self) -> dict[str, Any]:
        """What `volume list` shows."""
        stat = asdict(self.measure_disk())
        if self.options.capacity_bytes:
            stat["free_bytes"] = max(0, min(stat["free_bytes"], self.options.capacity_bytes - self._used_bytes))
        return {"stat": stat, "activity": asdict(self.activity()), "position": self._news_until}

"""The Bloom filter: which volumes may have a signature, at a cost independent of their number (W6).

A bit-sliced bloom filter: an array of bit masks, one bit per volume. A signature selects five masks. The volumes whose
bit is set in all five may hold it; the others certainly do not. One lookup covers up to 64 volumes (more share bits). A
false positive costs one probe, about once in 700 signatures per volume.

The filter is derived. A clean close saves it with the position of each volume. If a position differs at the next
opening, that volume's part is rebuilt from its signatures. Removed signatures stay in the filter until then.

`BloomSync` keeps the filter current. What this process stores is added at once. What others store in a shared volume
(`Newsworthy`) is requested at most every `follow_s` seconds, as the signatures since the last position. A volume that
cannot list those sends all its signatures, and only its part of the filter is replaced. A volume that was down when its
news were due is not in the filter: it may hold anything until it is back.

Saved form: a line with `HOLDFAST-FILTER/1` and the crc32 of the rest; a JSON line with the volumes, their positions and
counts, and the byte order; the masks in that byte order.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.env import Environment
from holdfast.env.files import read_file, replace_file
from holdfast.storage import block
from holdfast.storage.volume import FAILURES, News, Newsworthy, ReadableVolume, Remote, Volume

log = logging.getLogger("holdfast.storage")

MASKS_PER_KEY_MIN = 16
_LENGTH_MIN = 1 << 16  # masks, for 4,096 signatures: a filter that grows lists the volume again, at the server's cost
_MAGIC = b"HOLDFAST-FILTER/1"
_WORDS = struct.Struct("<5I")
_BITS_MAX = 64
LOADED_AFTER = 16  # puts to a store's only, shared volume: a command that stores a few does not list all signatures


class BloomFilter:
    """`names` fixes the bit of each volume. Any thread may query; one at a time may add."""

    def __init__(self, names: Sequence[str], keys: int = 0) -> None:
        self.names = list(names)
        self._bits = {name: 1 << (index % _BITS_MAX) for index, name in enumerate(names)}
        self._typecode = _typecode(len(names))
        self._counts = dict.fromkeys(names, 0)
        length = _LENGTH_MIN
        while length < keys * MASKS_PER_KEY_MIN:
            length *= 2
        self._masks = array(self._typecode, bytes(length * array(self._typecode).itemsize))

    def add(self, signatures: Iterable[bytes], name: str) -> None:
        """Adds signatures of a volume. Spelled out: a volume that is listed has many."""
        bit, masks, mask = self._bits[name], self._masks, len(self._masks) - 1
        unpack, added = _WORDS.unpack_from, 0
        for signature in signatures:
            words = signature if len(signature) >= 20 else _hashed(signature)
            a, b, c, d, e = unpack(words, len(words) - 20)
            a, b, c, d, e = a & mask, b & mask, c & mask, d & mask, e & mask
            if not masks[a] & masks[b] & masks[c] & masks[d] & masks[e] & bit:
                masks[a] |= bit
                masks[b] |= bit
                masks[c] |= bit
                masks[d] |= bit
                masks[e] |= bit
                added += 1
        self._counts[name] += added

    def extend(self, name: str) -> None:
        """Adds an empty volume. Concurrent queries see the old filter."""
        self._bits = self._bits | {name: 1 << (len(self.names) % _BITS_MAX)}
        self.names = [*self.names, name]
        self._counts = self._counts | {name: 0}
        if _typecode(len(self.names)) != self._typecode:
            self._typecode = _typecode(len(self.names))
            self._masks = array(self._typecode, self._masks)

    def refill(self, name: str, signatures: Iterable[bytes]) -> None:
        """Replaces the signatures of one volume. Concurrent queries see the old filter."""
        filled = BloomFilter([])
        filled.names, filled._bits, filled._typecode = self.names, self._bits, self._typecode
        filled._counts = self._counts | {name: 0}
        filled._masks = self._masks[:] if self._shares_its_bit(name) else self._without(self._bits[name])
        filled.add(signatures, name)
        self._masks, self._counts = filled._masks, filled._counts

    def _shares_its_bit(self, name: str) -> bool:
        return list(self._bits.values()).count(self._bits[name]) > 1

    def _without(self, bit: int) -> array[int]:
        """The masks without one bit, computed on one long number: a loop over millions of masks takes seconds."""
        width = self._masks.itemsize
        kept = (~bit & ((1 << 8 * width) - 1)).to_bytes(width, sys.byteorder) * len(self._masks)
        masks = int.from_bytes(self._masks.tobytes(), sys.byteorder) & int.from_bytes(kept, sys.byteorder)
        return array(self._typecode, masks.to_bytes(len(kept), sys.byteorder))

    def may_hold(self, signature: bytes) -> list[str]:
        """The volumes that may hold the signature, in the order of `names`."""
        masks = self._masks
        a, b, c, d, e = self._positions(signature)
        common = masks[a] & masks[b] & masks[c] & masks[d] & masks[e]
        if not common:
            return []
        return [name for name, bit in self._bits.items() if common & bit]

    def lacks(self, signatures: Iterable[bytes], name: str) -> list[bool]:
        """For each signature, whether a volume certainly does not hold it. Spelled out: batches ask for many."""
        bit, masks, mask = self._bits.get(name, 0), self._masks, len(self._masks) - 1
        unpack, absent = _WORDS.unpack_from, []
        for signature in signatures:
            words = signature if len(signature) >= 20 else _hashed(signature)
            a, b, c, d, e = unpack(words, len(words) - 20)
            absent.append(
                not masks[a & mask] & masks[b & mask] & masks[c & mask] & masks[d & mask] & masks[e & mask] & bit
            )
        return absent

    @property
    def crowded(self) -> bool:
        """True if it is time to build a larger filter."""
        return max(self._counts.values(), default=0) * MASKS_PER_KEY_MIN > len(self._masks)

    @property
    def keys(self) -> int:
        """The number of signatures of the fullest volume."""
        return max(self._counts.values(), default=0)

    def _positions(self, signature: bytes) -> tuple[int, ...]:
        words = signature if len(signature) >= 20 else _hashed(signature)
        a, b, c, d, e = _WORDS.unpack_from(words, len(words) - 20)
        mask = len(self._masks) - 1
        return a & mask, b & mask, c & mask, d & mask, e & mask

    # -- saving -----------------------------------------------------------------------------------------------------

    def save(self, env: Environment, path: Path, positions: Mapping[str, int]) -> None:
        facts = {
            "names": self.names,
            "positions": dict(positions),
            "counts": self._counts,
            "byteorder": sys.byteorder,
        }
        body = json.dumps(facts).encode() + b"\n" + self._masks.tobytes()
        replace_file(env.files, path, b"%b %08x\n%b" % (_MAGIC, block.checksum(body), body))

    @classmethod
    def read(cls, env: Environment, path: Path) -> tuple[BloomFilter, dict[str, int]] | None:
        """The saved filter and its positions, or None if it is missing or damaged."""
        try:
            raw = read_file(env.files, path)
        except FileNotFoundError:
            return None
        head, _, body = raw.partition(b"\n")
        if head != b"%b %08x" % (_MAGIC, block.checksum(body)):
            return None
        line, _, masks = body.partition(b"\n")
        facts = json.loads(line)
        if facts.get("byteorder") != sys.byteorder:
            return None
        loaded = cls(facts["names"])
        loaded._masks = array(loaded._typecode, masks)
        loaded._counts = facts["counts"]
        return loaded, facts["positions"]


def _hashed(signature: bytes) -> bytes:
    return hashlib.blake2b(signature, digest_size=20).digest()


def _typecode(volumes: int) -> str:
    return next(code for code, width in zip("BHIQ", (8, 16, 32, 64), strict=True) if volumes <= width or width == 64)


def build_filter(sources: Mapping[str, Callable[[], Iterable[bytes]]]) -> BloomFilter:
    """A filter of everything that the volumes hold now, with room for twice as much."""
    keys = 0
    while True:
        built = BloomFilter(list(sources), keys)
        for name, signatures in sources.items():
            built.add(signatures(), name)
        if not built.crowded:
            return built
        keys = 2 * built.keys


class BloomSync:
    """Thread-safe."""

    def __init__(
        self,
        env: Environment,
        path: Path,
        volumes: Callable[[], Mapping[str, ReadableVolume]],
        each: Callable[..., Any],
    ) -> None:
        """`volumes` returns the volumes that are open for writing; `each` calls several of them at once."""
        self._env = env
        self._path = path
        self._volumes = volumes
        self._each = each
        self._filter: BloomFilter | None = None
        self._positions: dict[str, int] = {}  # up to which the filter knows a volume; any number for a local one
        self._lock = threading.Lock()  # guards the filter
        self._follow_lock = threading.Lock()  # held by the thread that requests news; taken first
        self._asked_s = 0.0
        self.behind: frozenset[str] = frozenset()  # shared volumes whose news are missing
        self._loader: threading.Thread | None = None
        self._puts_before_loading = LOADED_AFTER

    def is_loaded(self, puts: int = 1) -> bool:
        """True if the filter can be used at once. If not, a thread loads it after some puts.

        For a store with one shared volume, which needs no filter: a few puts do not justify a list of all signatures.
        """
        if self._filter is not None:
            return True
        before, self._puts_before_loading = self._puts_before_loading, self._puts_before_loading - puts
        if before > 0 >= self._puts_before_loading:
            self._load_apart(self._current, 0.0)
        return False

    def _load_apart(self, load: Callable[..., object], *arguments: Any) -> None:
        self._loader = threading.Thread(target=load, args=arguments, name="bloom-filter", daemon=True)
        self._loader.start()

    def may_hold(self, signature: bytes, follow_s: float) -> list[str]:
        """The volumes that may hold a signature, including those of which nothing is known."""
        current = self._current(follow_s)
        names, volumes = current.may_hold(signature), self._volumes()
        if len(self._positions) < len(volumes):
            names += [name for name in volumes if name not in self._positions and name not in names]
        return names

    def lacks(self, signatures: Sequence[bytes], name: str, follow_s: float) -> list[bool]:
        """For each signature, whether the volume does not hold it, as far as is known."""
        current = self._current(follow_s)
        return current.lacks(signatures, name) if name in self._positions else [False] * len(signatures)

    def note(self, signatures: Sequence[bytes], name: str) -> None:
        """Adds signatures of the volume; called after the commit and before the put returns."""
        if self._loader is not None and name not in self._positions:  # its signatures are being listed
            return
        with self._lock:  # waits for a filter that is being built
            if self._filter is None or name not in self._positions:  # it will be in the volume's news
                return
            if self._filter.crowded:
                self._build()
            if name in self._positions:  # unless it has just failed
                self._filter.add(signatures, name)

    def forget(self, name: str) -> None:
        """Drops a volume that was replaced or removed."""
        with self._lock:
            self._positions.pop(name, None)

    def save(self) -> None:
        """Saves the filter for the next opening."""
        if self._loader is not None and self._loader.is_alive():
            return
        with self._lock:
            if self._filter is None:
                return
            positions = dict(self._positions)
            for name, volume in self._volumes().items():
                if name in positions and not isinstance(volume, Newsworthy):
                    positions[name] = _writer(volume).position()
            self._filter.save(self._env, self._path, positions)

    # -- synchronizing --------------------------------------------------------------------------------------------

    def _current(self, follow_s: float) -> BloomFilter:
        """The filter, synchronized if that is due and no other thread is doing it."""
        due = self._env.monotonic() - self._asked_s >= follow_s
        first = self._filter is None
        if (first or due) and self._follow_lock.acquire(blocking=first):
            try:
                if self._filter is None:
                    self._load()
                self._catch_up()
            finally:
                self._follow_lock.release()
        assert self._filter is not None
        return self._filter

    def _load(self) -> None:
        """Loads the saved filter, for the volumes that have not changed since."""
        found = BloomFilter.read(self._env, self._path)
        with self._lock:
            if found is None:
                self._build()
                return
            self._filter, saved = found
            for name, volume in self._volumes().items():
                if name not in saved or name not in self._filter.names:
                    continue
                if isinstance(volume, Newsworthy) or _writer(volume).position() == saved[name]:
                    self._positions[name] = saved[name]

    def _build(self) -> None:
        """Rebuilds the whole filter, with room for twice as much."""
        positions: dict[str, int] = {}
        sources = {}
        for name, volume in self._volumes().items():
            if _is_available(volume):
                try:
                    positions[name] = _writer(volume).position()
                except FAILURES as error:
                    log.warning("cannot list the signatures of volume %r: %s", name, error)
                    continue
                sources[name] = volume.signatures
        try:
            self._filter, self._positions = build_filter(sources), positions
        except FAILURES as error:
            log.warning("cannot list the signatures of a volume: %s", error)
            self._filter, self._positions = BloomFilter(list(sources)), {}

    def _catch_up(self) -> None:
        """Requests news from shared volumes, and all signatures from volumes that are not in the filter."""
        assert self._filter is not None
        volumes = {name: volume for name, volume in self._volumes().items() if _is_available(volume)}
        shared = {name: volume for name, volume in volumes.items() if isinstance(volume, Newsworthy)}
        since = {name: position for name, position in self._positions.items() if name in shared}
        responses = self._each(list(since), lambda name: shared[name].news(since[name]))
        shares = [name for name, volume in self._volumes().items() if isinstance(volume, Newsworthy)]
        self.behind = frozenset(name for name in shares if name not in responses.results)
        with self._lock:
            for name, news in responses.results.items():
                self._take(name, news)
        for name, volume in volumes.items():
            if name not in self._positions:
                if self._loader in (None, threading.current_thread()):
                    self._read_all_signatures(name, volume)
                elif not self._loader.is_alive():
                    self._load_apart(self._read_all_signatures, name, volume)
        with self._lock:
            if self._filter.crowded:
                self._build()
        self._asked_s = self._env.monotonic()

    def _take(self, name: str, news: News) -> None:
        assert self._filter is not None
        if news.signatures is None:
            self._positions.pop(name, None)
        elif name in self._positions:
            self._filter.add(news.signatures, name)
            self._positions[name] = news.position

    def _read_all_signatures(self, name: str, volume: ReadableVolume) -> None:
        assert self._filter is not None
        try:
            position = _writer(volume).position()  # before the signatures: what is stored in between is added twice
            with self._lock:
                if name not in self._filter.names:
                    self._filter.extend(name)
                self._filter.refill(name, volume.signatures())
                self._positions[name] = position
            self.behind -= {name}
        except FAILURES as error:
            log.warning("cannot list the signatures of volume %r: %s", name, error)


def _is_available(volume: ReadableVolume) -> bool:
    """True if it can be reached, as far as is known."""
    return not isinstance(volume, Remote) or volume.available


def _writer(volume: ReadableVolume) -> Volume:
    return volume  # type: ignore[return-value]

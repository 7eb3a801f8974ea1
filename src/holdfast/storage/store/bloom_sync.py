"""Keeps the bloom filter current while other clients store (W6).

One filter covers all volumes. What this process stores is added at once. What others store in a shared volume
(`Newsworthy`) is requested at most every `follow_s` seconds, as the signatures since the last position. A volume that
cannot list those sends all its signatures, and only its part of the filter is replaced. A volume that was down when its
news were due is not in the filter: it may hold anything, until it is back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.env import Environment
from holdfast.storage.store.bloom import BloomFilter, build_filter
from holdfast.storage.store.fan_out import FAILURES, FanOut
from holdfast.storage.volume import News, Newsworthy, ReadableVolume, Remote, Volume

log = logging.getLogger("holdfast.storage")

Volumes = Callable[[], Mapping[str, ReadableVolume]]


class BloomSync:
    """Thread-safe. `volumes` returns those that are open now, for writing."""

    def __init__(self, env: Environment, path: Path, volumes: Volumes, fan_out: FanOut) -> None:
        self._env = env
        self._path = path
        self._volumes = volumes
        self._fan_out = fan_out
        self._filter: BloomFilter | None = None
        self._positions: dict[str, int] = {}  # up to which the filter knows a volume; of local ones any number
        self._lock = threading.Lock()  # of the filter
        self._follow_lock = threading.Lock()  # of the thread that asks for news; taken first
        self._asked_s = 0.0
        self.behind: frozenset[str] = frozenset()  # shared volumes whose news are missing

    def may_hold(self, signature: bytes, follow_s: float) -> list[str]:
        """The volumes that may hold a signature, those included of which nothing is known."""
        current = self._current(follow_s)
        names, volumes = current.may_hold(signature), self._volumes()
        if len(self._positions) < len(volumes):
            names += [name for name in volumes if name not in self._positions and name not in names]
        return names

    def note(self, signature: bytes, name: str) -> None:
        """The volume holds the signature: to be called after the commit and before the put returns."""
        with self._lock:  # a filter that is being built misses nothing: this waits for it
            if self._filter is None or name not in self._positions:  # it will be among the news of the volume
                return
            if self._filter.crowded:
                self._build()
            if name in self._positions:  # unless it has failed just now
                self._filter.add(signature, name)

    def forget(self, name: str) -> None:
        """The volume is another one now, or gone."""
        with self._lock:
            self._positions.pop(name, None)

    def save(self) -> None:
        """For the next opening, if there is something to save."""
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
        """The filter, synchronized if that is due and no other thread is at it."""
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
        """Starts from the saved filter, for the volumes that have not changed since."""
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
            if is_available(volume):
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
        """Asks the volumes that others write to for news, and those that are not known yet for everything."""
        assert self._filter is not None
        volumes = {name: volume for name, volume in self._volumes().items() if is_available(volume)}
        shared = {name: volume for name, volume in volumes.items() if isinstance(volume, Newsworthy)}
        since = {name: position for name, position in self._positions.items() if name in shared}
        responses = self._fan_out.each(list(since), lambda name: shared[name].news(since[name]))
        shares = [name for name, volume in self._volumes().items() if isinstance(volume, Newsworthy)]
        self.behind = frozenset(name for name in shares if name not in responses.results)
        with self._lock:
            for name, news in responses.results.items():
                self._take(name, news)
        for name, volume in volumes.items():
            if name not in self._positions:
                self._read_all_signatures(name, volume)
        with self._lock:
            if self._filter.crowded:
                self._build()
        self._asked_s = self._env.monotonic()

    def _take(self, name: str, news: News) -> None:
        assert self._filter is not None
        if news.signatures is None:
            self._positions.pop(name, None)
        elif name in self._positions:
            for signature in news.signatures:
                self._filter.add(signature, name)
            self._positions[name] = news.position

    def _read_all_signatures(self, name: str, volume: ReadableVolume) -> None:
        assert self._filter is not None
        try:
            position = _writer(volume).position()  # before the signatures: what comes in between is added twice
            with self._lock:
                if name not in self._filter.names:
                    self._filter.extend(name)
                self._filter.refill(name, volume.signatures())
                self._positions[name] = position
            self.behind -= {name}
        except FAILURES as error:
            log.warning("cannot list the signatures of volume %r: %s", name, error)


def is_available(volume: ReadableVolume) -> bool:
    """Whether it can be reached, as far as is known."""
    return not isinstance(volume, Remote) or volume.available


def _writer(volume: ReadableVolume) -> Volume:
    return volume  # type: ignore[return-value]

"""Training of dictionaries from a volume's own contents, kept in it permanently (W10).

A dictionary makes web pages a third smaller at the same speed, because pages of a crawl share most of their markup.
Each content keeps the dictionary it was stored with; new ones use the newest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

from holdfast.errors import HoldfastError, UsageError
from holdfast.model import Stored
from holdfast.storage.codec import Dictionary, compressible, train_dictionary
from holdfast.storage.store.store import BlockStore
from holdfast.storage.volume import ReadableVolume

log = logging.getLogger("holdfast.storage")

SAMPLE_BYTES_MAX = 16 << 10  # of one content
SAMPLES_MAX = 2_000
FIRST_SAMPLES_MAX = 250  # of a volume's first dictionary: a quarter of the time of 1,000, and 1 % larger contents
SAMPLES_BYTES_MAX = 16 << 20
SAMPLES_MIN = 20
DICTIONARY_BYTES = 112 << 10  # a larger one compresses a little better and loads slower


def train(store: BlockStore, name: str, samples_max: int = SAMPLES_MAX) -> Dictionary:
    """Trains a dictionary from a sample of the volume's contents and keeps it there. Durable on return."""
    volume = store.writer(name)
    samples = list(_samples(store, volume, samples_max))
    if len(samples) < SAMPLES_MIN:
        raise UsageError(
            f"volume {name!r} has too few compressible contents to train from: {len(samples)}, {SAMPLES_MIN} needed"
        )
    try:
        dictionary = train_dictionary(samples, DICTIONARY_BYTES)
    except ValueError as error:
        raise UsageError(f"volume {name!r}: {error}") from error
    if volume.dictionary(dictionary.id) is None:
        volume.add_dictionary(dictionary.id, dictionary.data)
    store.encodings.adopt(volume, dictionary)
    return dictionary


def _samples(store: BlockStore, volume: ReadableVolume, samples_max: int) -> Iterator[bytes]:
    """About `samples_max` contents from all over the volume: every k-th."""
    every = max(1, volume.stat().blocks // samples_max)
    seen = taken = taken_bytes = 0
    for batch in volume.scan(counted=False):
        chosen = [block for index, block in enumerate(batch, seen) if index % every == 0 and not block.replica]
        seen += len(batch)
        for content in store.encodings.decode_all(chosen, volume):
            if content and compressible(content, None):
                yield content[:SAMPLE_BYTES_MAX]
                taken += 1
                taken_bytes += min(len(content), SAMPLE_BYTES_MAX)
            if taken >= samples_max or taken_bytes >= SAMPLES_BYTES_MAX:
                return


class AutomaticTraining:
    """Trains a volume's first dictionary in the background, once it has enough contents."""

    def __init__(self, store: BlockStore) -> None:
        self._store = store
        self._after = store.settings.store.train_after
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._threads: list[threading.Thread] = []

    def notice(self, stored: Sequence[Stored]) -> None:
        """Counts stored contents."""
        if not self._after or self._store.settings.store.codec not in ("auto", "zstd-dict"):
            return
        with self._lock:
            for each in stored:
                if not each.duplicate and each.stored_size < each.size:
                    count = self._counts[each.key.volume] = self._counts.get(each.key.volume, 0) + 1
                    if count == self._after:
                        self._start(each.key.volume)

    def _start(self, name: str) -> None:
        if name in self._store.volumes and self._store.encodings.newest(self._store.volume(name)) is None:
            thread = threading.Thread(target=self._train, args=(name,), name=f"train-{name}")
            self._threads.append(thread)
            thread.start()

    def _train(self, name: str) -> None:
        try:
            dictionary = train(self._store, name, FIRST_SAMPLES_MAX)
        except HoldfastError as error:
            log.warning("no dictionary for volume %r: %s", name, error)
        else:
            log.info("volume %r has dictionary %08x now", name, dictionary.id)

    def close(self) -> None:
        for thread in self._threads:
            thread.join()

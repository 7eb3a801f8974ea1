"""The pages of a run: read, signed and encoded before any clock starts, as a crawler would hand them over."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from benchmarks.harness.corpus import Corpus, load
from holdfast.storage.codec import find_codec
from holdfast.storage.volume import Encoded, Store

_CODEC = "zstd"


@dataclass(frozen=True)
class Pages:
    """Pages in the order of the corpus, which has nothing to do with their signatures."""

    payloads: tuple[bytes, ...]

    @cached_property
    def signatures(self) -> list[bytes]:
        return [hashlib.sha256(payload).digest() for payload in self.payloads]

    @cached_property
    def encoded(self) -> list[Encoded]:
        codec = find_codec(_CODEC)
        return [Encoded(_CODEC, 0, len(payload), codec.encode(payload)) for payload in self.payloads]

    @cached_property
    def stores(self) -> list[Store]:
        return [Store(signature, encoded) for signature, encoded in zip(self.signatures, self.encoded, strict=True)]

    @property
    def sizes(self) -> list[tuple[bytes, int]]:
        """Signature of each page, and its bytes as stored."""
        return [(signature, len(each.data)) for signature, each in zip(self.signatures, self.encoded, strict=True)]

    @property
    def mean_stored(self) -> float:
        return sum(size for _, size in self.sizes) / len(self.payloads)


def pages_of(corpus: Corpus) -> Pages:
    return Pages(tuple(load(corpus)))

"""The queries: rare and frequent words and pairs of words of the corpus, always the same."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.measure import SEED

QUERIES = 300
_DOCUMENTS = 1_000
_LETTERS_MIN = 3


class Asked(NamedTuple):
    """Words, and pairs of adjacent words."""

    words: tuple[str, ...]
    pairs: tuple[str, ...]


def sample(path: Path) -> Asked:
    """Samples the first captures of an archive."""
    from holdfast.archive import open
    from holdfast.index.schema import words_of
    from holdfast.streams import StreamOptions

    counts: Counter[str] = Counter()
    pairs: dict[str, None] = {}
    with open(path, read_only=True) as archive:
        stream = archive.stream(StreamOptions(fields=("text",)))
        for batch in stream.batches(_DOCUMENTS):
            for page in batch.pages:
                words = [each for each in words_of(page.text) if each.isalpha() and len(each) >= _LETTERS_MIN]
                counts.update(set(words))
                pairs |= {f"{one} {other}": None for one, other in zip(words[::50], words[1::50], strict=False)}
        stream.close()
    return Asked(_spread([word for word, _ in counts.most_common()]), _chosen(list(pairs)))


def _spread(words: Sequence[str]) -> tuple[str, ...]:
    """A third each of frequent, medium and rare words."""
    part = QUERIES // 3
    middle = max(0, len(words) // 20 - part // 2)
    groups = (words[:part], words[middle : middle + part], words[-part:])
    return _chosen(list(dict.fromkeys(each for group in groups for each in group)))


def _chosen(texts: list[str]) -> tuple[str, ...]:
    random.Random(SEED).shuffle(texts)
    return tuple(texts[:QUERIES])

"""Handlers that raise, at random moments of put and delete: the archive stays sound and the counters exact.

Each round makes changes until the exception comes. The change that it interrupted has happened or has not, and no other
is touched; so it is after the archive was opened again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType

import pytest

import holdfast
from holdfast import ContentKey
from holdfast.storage.maintenance.check import CheckOptions
from holdfast.storage.store.contents import Contents

SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
ROUNDS = 130  # for each kind of store: 1,040 moments in all
LONGEST_S = 0.004
PAGES = [b"<p>page %d of a site</p>" % number * (1 + number % 40) for number in range(60)]


class Interrupted(BaseException):
    """What the handler of SIGALRM raises."""


def interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


@contextmanager
def raising_handlers() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, interrupt), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGINT, before[1])


def arm(random: Random) -> None:
    """After a random while an exception comes: from a timer, or Ctrl-C."""
    after_s = random.uniform(1e-5, LONGEST_S)
    if random.random() < 0.5:
        signal.setitimer(signal.ITIMER_REAL, after_s)
    else:
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()


class Changes:
    """Random puts and deletes, and how many references each page has by now."""

    def __init__(self, archive: holdfast.Archive, random: Random) -> None:
        self.contents = archive.contents
        self.random = random
        self.held: Counter[bytes] = Counter()
        self.after: Counter[bytes] = Counter()  # the change that was begun last has happened

    def make_one(self) -> None:
        if self.held and self.random.random() < 0.45:
            page = self.random.choice(sorted(self.held))
            self.after = self.held - Counter([page])
            self.contents.delete(self.key(page))
        elif self.random.random() < 0.2:
            pages = self.random.choices(PAGES, k=5)
            self.after = self.held + Counter(pages)
            self.contents.store_batch(pages)
        else:
            page = self.random.choice(PAGES)
            self.after = self.held + Counter([page])
            self.contents.put(page)
        self.held = self.after

    def key(self, page: bytes) -> ContentKey:
        (signature,) = self.contents.sign([page])
        return ContentKey(self.contents.home(signature), signature)

    def resume(self) -> None:
        """The last change has happened or not, nothing else."""
        found = references(self.contents)
        assert found in (self.held, self.after), f"seed {SEED}"
        self.held = found


def references(contents: Contents) -> Counter[bytes]:
    """How many references each page has, according to the store."""
    return Counter({contents.get(each.key): each.references for batch in contents.listing() for each in batch})


@pytest.mark.parametrize("volumes", [1, 3])
@pytest.mark.parametrize("organization", ["log", "hashed-log", "hash", "tree"])
def test_interrupts_at_random_moments(tmp_path: Path, organization: str, volumes: int) -> None:
    print(f"seed {SEED}")
    random, path = Random(f"{SEED} {organization} {volumes}"), tmp_path / "archive"
    holdfast.init(path, holdfast.Plan(volumes=volumes, organization=organization))
    with raising_handlers(), holdfast.open(path) as archive:
        changes = Changes(archive, random)
        for _ in range(ROUNDS):
            try:
                arm(random)
                while True:
                    changes.make_one()
            except (Interrupted, KeyboardInterrupt):
                changes.resume()
    with holdfast.open(path) as archive:
        assert references(archive.contents) == changes.held, f"seed {SEED}"
        assert all(archive.contents.delete(changes.key(page)) >= 0 for page in changes.held)
    report = holdfast.check(path, CheckOptions(deep=True))
    assert report.clean, (SEED, report.faults)
    assert not report.notes, (SEED, report.notes)

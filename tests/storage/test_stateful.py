"""The whole store against a dictionary: several volumes of both kinds, all operations, in any order."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import holdfast
from holdfast import (
    Archive,
    ContentKey,
    Plan,
    Stored,
    StoreMode,
    StoreOptions,
    StoreSettings,
    VolumeSettings,
    VolumeState,
)
from holdfast.archive.check import check
from holdfast.env import Environment, LocalFiles
from holdfast.errors import ContentNotFound, UsageError
from holdfast.storage.signature import find_signature

VOLUMES_MAX = 4
CONTENTS_MANY = 60  # more would only take longer
PAGES = [b"<html><body>page %d of the same site, with the same words</body></html>" % number for number in range(30)]
WORDS = [b"", b"a", b"ab", b"ba", b"abc", b"cab", b"bca", b"x" * 900, b"y" * 900, *PAGES[:3]]
contents = st.sampled_from(WORDS) | st.binary(max_size=3)
modes = st.sampled_from(StoreMode)
organizations = st.sampled_from(["log", "tree", "hash", "hashed-log"])
choices = st.integers(0, 1_000_000)  # one of whatever there is, by its index modulo how many there are


class StoreMachine(RuleBasedStateMachine):
    """The model: contents and counters by key, states by volume. Nothing of it is asked of the archive."""

    scratch: ClassVar[Path]
    signature: ClassVar[str]

    # -- life -------------------------------------------------------------------------------------------------------

    @initialize(first=organizations, volumes=st.integers(1, 2), others=st.lists(organizations, max_size=2))
    def begin(self, first: str, volumes: int, others: list[str]) -> None:
        self.path = Path(mkdtemp(dir=self.scratch)) / "archive"
        small = StoreSettings(signature=self.signature, segment_bytes_max=4096, train_after=0)
        holdfast.init(self.path, Plan(volumes, first, 2, small))
        self.now_s = 0.0
        self.held: dict[ContentKey, bytes] = {}
        self.counts: Counter[ContentKey] = Counter()
        self.states = {f"v{number}": VolumeState.WRITABLE for number in range(volumes)}
        self.archive = holdfast.open(self.path)
        self.reader = self._reader()
        for organization in others:
            self.add_volume(organization)

    def _reader(self) -> Archive:
        """The archive as another process sees it."""
        return Archive(self.path, read_only=True, env=Environment(LocalFiles(), monotonic=lambda: self.now_s))

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            self.reader.close()
            self.archive.close()
            report = check(self.path)
            shutil.rmtree(self.path.parent)
            assert [str(fault) for fault in report.faults] == []

    @rule()
    def reopen(self) -> None:
        self.archive.close()
        self.archive = holdfast.open(self.path)

    # -- storing ----------------------------------------------------------------------------------------------------

    @rule(content=contents, mode=modes, choice=st.none() | choices, replicas=st.integers(1, VOLUMES_MAX))
    def put(self, content: bytes, mode: StoreMode, choice: int | None, replicas: int) -> None:
        chosen = None if choice is None else self._writable()[choice % len(self._writable())]
        options = StoreOptions(mode, volume=chosen, replicas=replicas)
        if replicas > len(self._writable()):
            with pytest.raises(UsageError):
                self.archive.contents.put(content, options)
            return
        available = self._available(content, mode, chosen)
        stored = self.archive.contents.store(content, options)
        assert stored.duplicate == bool(available)
        assert not available or stored.key in available
        self._note(content, stored, mode, chosen)
        assert stored.references == self.counts[stored.key]
        assert len(self._copies()[stored.key]) >= replicas

    @rule(batch=st.lists(contents, max_size=8), mode=modes)
    def put_batch(self, batch: list[bytes], mode: StoreMode) -> None:
        new = {self._identity(content, mode) for content in batch if not self._available(content, mode, None)}
        stored = self.archive.contents.store_batch(batch, StoreOptions(mode))
        results = sorted(zip(batch, stored, strict=True), key=lambda result: result[1].duplicate)
        for content, each in results:
            self._note(content, each, mode, None)
        made = [self._identity(content, mode) for content, each in results if not each.duplicate]
        assert set(made) == new
        assert len(made) == (len(batch) if mode is StoreMode.FORCE_NEW else len(new))

    @precondition(lambda self: len(self.held) < CONTENTS_MANY)
    @rule(mode=modes)
    def put_a_site(self, mode: StoreMode) -> None:
        self.put_batch(PAGES, mode)

    def _identity(self, content: bytes, mode: StoreMode) -> object:
        """What makes two contents one, in this mode."""
        return (self._sign(content), len(content)) if mode is StoreMode.REGULAR else content

    def _available(self, content: bytes, mode: StoreMode, chosen: str | None) -> set[ContentKey]:
        """Keys of the blocks that are this content, in this mode, also in volumes that take nothing new."""
        if mode is StoreMode.FORCE_NEW:
            return set()
        volumes = list(self.states) if chosen is None else [chosen]
        wanted = self._identity(content, mode)
        alike = [key for key, held in self.held.items() if self._identity(held, mode) == wanted]
        places = self._places() if alike else {}
        return {key for key in alike if places[key] in volumes}

    def _note(self, content: bytes, stored: Stored, mode: StoreMode, chosen: str | None) -> None:
        key = stored.key
        assert stored.size == len(content)
        if stored.duplicate:
            assert self._identity(self.held[key], mode) == self._identity(content, mode)
        else:
            assert key not in self.held
            assert key.signature == self._sign(content)
            writable = self._writable()
            assert key.volume == (chosen or writable[int.from_bytes(key.signature, "big") % len(writable)])
            self.held[key] = content
        self.counts[key] += 1

    def _sign(self, content: bytes) -> bytes:
        return find_signature(self.signature).digest(content)

    def _writable(self) -> list[str]:
        return [name for name, state in self.states.items() if state is VolumeState.WRITABLE]

    def _copies(self) -> dict[ContentKey, dict[str, tuple[bool, int]]]:
        """By key, the volumes that hold it, each asked by itself: whether it is a replica, and its counter."""
        found: dict[ContentKey, dict[str, tuple[bool, int]]] = {}
        signatures = list({key.signature for key in self.held})
        for name, volume in self.archive.instance.volumes.items():
            for facts in chain.from_iterable(volume.probe(signatures)):
                key = ContentKey(facts.key.home.decode() or name, facts.key.signature, facts.key.overflow)
                assert name not in found.setdefault(key, {})
                found[key][name] = (facts.replica, facts.references)
        return found

    def _places(self) -> dict[ContentKey, str]:
        """The volume whose block is in force, for each key."""
        return {
            key: name for key, copies in self._copies().items() for name, (replica, _) in copies.items() if not replica
        }

    # -- deleting ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.held)
    @rule(chosen=st.lists(choices, min_size=1, max_size=6))
    def delete(self, chosen: list[int]) -> None:
        known = list(self.held)
        keys = [known[choice % len(known)] for choice in chosen]
        if any(count > self.counts[key] for key, count in Counter(keys).items()):
            with pytest.raises(ContentNotFound):
                self.archive.contents.delete_batch(keys)
            return
        left = self.archive.contents.delete_batch(keys)
        for key, references in zip(keys, left, strict=True):
            self.counts[key] -= 1
            assert references == self.counts[key]
        for key in set(keys):
            if not self.counts[key]:
                del self.held[key], self.counts[key]

    @rule(content=contents, overflow=st.integers(0, 3), choice=choices)
    def ask_for_what_is_not_there(self, content: bytes, overflow: int, choice: int) -> None:
        key = ContentKey(list(self.states)[choice % len(self.states)], self._sign(content), overflow)
        if key not in self.held:
            for ask in (self.archive.contents.get, self.archive.contents.stat, self.archive.contents.delete):
                with pytest.raises(ContentNotFound):
                    ask(key)

    # -- volumes ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.states) < VOLUMES_MAX)
    @rule(organization=organizations)
    def add_volume(self, organization: str) -> None:
        name = f"v{len(self.states)}"
        self.archive.add_volume(VolumeSettings(name, organization, depth=2))
        self.states[name] = VolumeState.WRITABLE
        self.reader.close()
        self.reader = self._reader()

    @rule(choice=choices, state=st.sampled_from(VolumeState))
    def set_state(self, choice: int, state: VolumeState) -> None:
        name = list(self.states)[choice % len(self.states)]
        if state is VolumeState.WRITABLE or self._writable() != [name]:
            self.archive.set_state(name, state)
            self.states[name] = state

    @rule(choice=choices)
    def compact(self, choice: int) -> None:
        self.archive.compact(list(self.states)[choice % len(self.states)])

    @rule(choice=choices)
    def train(self, choice: int) -> None:
        with suppress(UsageError):  # too few contents, or too much alike
            self.archive.train(list(self.states)[choice % len(self.states)])

    @rule(choice=choices, narrowed=st.booleans())
    def migrate(self, choice: int, narrowed: bool) -> None:
        name = list(self.states)[choice % len(self.states)]
        others = [other for other in self._writable() if other != name]
        if not others:
            with pytest.raises(UsageError):
                self.archive.migrate(name)
            return
        self.archive.migrate(name, others[:1] if narrowed else ())
        self.states[name] = VolumeState.READ_ONLY
        stat = self.archive.instance.volume(name).stat()
        assert (stat.blocks, stat.replicas) == (0, 0)

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def every_content_is_there(self) -> None:
        assert self.archive.contents.get_batch(list(self.held)) == list(self.held.values())
        scanned = [pair for batch in self.archive.contents.scan() for pair in batch]
        assert len(scanned) == len(self.held)
        assert dict(scanned) == self.held

    @invariant()
    def every_counter_is_exact(self) -> None:
        found = self._copies()
        assert found.keys() == self.held.keys()
        for key, copies in found.items():
            assert {references for _, references in copies.values()} == {self.counts[key]}
            assert [replica for replica, _ in copies.values()].count(False) == 1
        stats = [report.stat for report in self.archive.volumes() if report.stat]
        assert sum(stat.references for stat in stats) == self.counts.total()
        assert sum(stat.blocks for stat in stats) == len(self.held)

    @invariant()
    def a_reader_sees_it_too(self) -> None:
        self.now_s += 1
        for key, content in self.held.items():
            assert self.reader.contents.get(key) == content
        for key in list(self.held)[-5:]:
            assert self.reader.contents.stat(key).references == self.counts[key]


@pytest.mark.parametrize("examples", [18, pytest.param(300, marks=pytest.mark.soak)])
@pytest.mark.parametrize("signature_name", ["weak", "sha256"])
def test_the_store_is_a_dictionary(memory_path: Path, signature_name: str, examples: int) -> None:
    class Machine(StoreMachine):
        scratch = memory_path
        signature = signature_name

    run_state_machine_as_test(Machine, settings=settings(max_examples=examples, stateful_step_count=25))

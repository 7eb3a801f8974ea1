"""One volume against a dictionary: any sequence of operations, reopenings and compactions."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import REAL
from holdfast.storage.volume import (
    Adopt,
    BlockKey,
    Effect,
    Operation,
    OperationResult,
    Recount,
    Refer,
    Release,
    Store,
    Volume,
)
from holdfast.storage.volumes.log import segment_files
from holdfast.storage.volumes.organizations import compact_volume, create_volume, open_volume
from holdfast.testing.volumes import fetched, plain, scanned, totals

SIGNATURES = [bytes([17, number]) for number in range(4)]
HOMES = [b"", b"", b"v7"]
datas = st.sampled_from([b"", b"a", b"b", b"cd", b"ef", b"g" * 700, b"h" * 3000])
signatures = st.sampled_from(SIGNATURES)
keys = st.builds(BlockKey, signatures, st.integers(0, 4), st.sampled_from(HOMES))
copies = st.builds(BlockKey, signatures, st.integers(0, 4), st.just(b"v7"))
counts = st.integers(0, 3)
operations = st.one_of(
    st.builds(Store, signatures, datas.map(plain), st.booleans(), st.none() | st.frozensets(keys), st.integers(0, 2)),
    st.builds(Refer, keys),
    st.builds(Release, keys),
    st.builds(Recount, keys, counts, st.none() | counts),
    st.builds(Adopt, keys, datas.map(plain), st.integers(1, 3), st.just(False)),
    st.builds(Adopt, copies, datas.map(plain), st.integers(1, 3), st.just(True)),
)


class Held:
    """A block of the model."""

    def __init__(self, data: bytes, references: int, replica: bool) -> None:
        self.data, self.references, self.replica = data, references, replica


class VolumeMachine(RuleBasedStateMachine):
    """The model is a dictionary of blocks and one of dictionaries."""

    scratch: ClassVar[Path]
    volume_settings: ClassVar[VolumeSettings]
    store_settings: ClassVar[StoreSettings]

    @initialize()
    def begin(self) -> None:
        self.directory = Path(mkdtemp(dir=self.scratch))
        create_volume(self.directory, self.volume_settings, self.store_settings, REAL)
        self.volume: Volume = self._opened()
        self.held: dict[BlockKey, Held] = {}
        self.dictionaries: dict[int, bytes] = {}

    def _opened(self) -> Volume:
        return open_volume("v0", self.directory, self.store_settings, REAL)

    def teardown(self) -> None:
        if hasattr(self, "volume"):
            self.volume.close()
            shutil.rmtree(self.directory)

    # -- what may happen ------------------------------------------------------------------------------------------

    @rule(batch=st.lists(operations, min_size=1, max_size=6))
    def commit(self, batch: list[Operation]) -> None:
        outcomes = self.volume.commit(batch)
        for operation, outcome in zip(batch, outcomes, strict=True):
            self._expect(operation, outcome)

    @rule(number=st.integers(1, 2**32 - 1), data=st.binary(min_size=1, max_size=50))
    def add_dictionary(self, number: int, data: bytes) -> None:
        if number not in self.dictionaries:
            self.volume.add_dictionary(number, data)
            self.dictionaries[number] = data

    @rule(dead_share_min=st.sampled_from([0.0, 0.0, 0.5]))
    def compact(self, dead_share_min: float) -> None:
        before = scanned(self.volume)
        compact_volume(self.volume, dead_share_min, None)
        assert scanned(self.volume) == before

    @rule()
    def reopen(self) -> None:
        before = scanned(self.volume)
        self.volume.close()
        self.volume = self._opened()
        assert scanned(self.volume) == before

    @rule()
    def lose_what_is_derived(self) -> None:
        before, counted = scanned(self.volume), totals(self.volume)
        self.volume.close()
        shutil.rmtree(self.directory / "keydir", ignore_errors=True)
        self.volume = self._opened()
        assert (scanned(self.volume), totals(self.volume)) == (before, counted)

    # -- what it must mean ----------------------------------------------------------------------------------------

    def _expect(self, operation: Operation, outcome: OperationResult) -> None:
        match operation:
            case Store():
                self._expect_store(operation, outcome)
            case Adopt(key, encoded, references, replica):
                assert outcome == OperationResult(Effect.NEW, key, references, len(encoded.data))
                self.held[key] = Held(bytes(encoded.data), references, replica)
            case Refer(key) | Release(key) if key in self.held and self.held[key].replica:
                assert outcome == OperationResult(Effect.MISSING, key)  # replicas are not counted on
            case Refer(key) | Release(key):
                step = 1 if isinstance(operation, Refer) else -1
                self._expect_count(key, self._references(key) + step, outcome)
            case Recount(key, _, expected) if key in self.held and expected not in (None, self._references(key)):
                assert (outcome.effect, outcome.references) == (Effect.CONFLICT, self._references(key))
            case Recount(key, references, _):
                self._expect_count(key, references, outcome)

    def _references(self, key: BlockKey) -> int:
        return self.held[key].references if key in self.held else 0

    def _expect_count(self, key: BlockKey, references: int, outcome: OperationResult) -> None:
        assert outcome.key == key
        if key not in self.held:
            assert outcome.effect is Effect.MISSING
            return
        assert outcome.effect is (Effect.COUNTED if references else Effect.REMOVED)
        assert (outcome.references, outcome.stored) == (references, len(self.held[key].data))
        self.held[key].references = references
        if not references:
            del self.held[key]

    def _expect_store(self, store: Store, outcome: OperationResult) -> None:
        alike = [
            key
            for key, held in self.held.items()
            if key.signature == store.signature and len(held.data) == store.encoded.size and not key.home
        ]
        unsure = [key for key in alike if store.compared is not None and key not in store.compared]
        if store.force_new or not (unsure or (alike and store.compared is None)):
            taken = [key.overflow + 1 for key in self.held if key.signature == store.signature and not key.home]
            key = BlockKey(store.signature, max([store.overflow_min, *taken]))
            assert outcome == OperationResult(Effect.NEW, key, 1, len(store.encoded.data))
            self.held[key] = Held(bytes(store.encoded.data), 1, False)
        elif unsure:
            assert outcome.effect is Effect.UNSURE
            assert outcome.key in unsure
        else:
            assert outcome.key in alike
            held = self.held[outcome.key]
            held.references += 1
            assert outcome == OperationResult(Effect.DUPLICATE, outcome.key, held.references, len(held.data))

    # -- what always holds ----------------------------------------------------------------------------------------

    @invariant()
    def every_block_is_there(self) -> None:
        expected = sorted((key, held.data, held.references) for key, held in self.held.items())
        assert sorted(scanned(self.volume)) == expected
        for key, data, references in expected:
            assert fetched(self.volume, key) == (data, references)
        facts = [each for found in self.volume.probe(SIGNATURES) for each in found]
        assert sorted((each.key, each.size, each.references) for each in facts) == [
            (key, len(data), references) for key, data, references in expected
        ]
        assert sorted(self.volume.signatures()) == sorted({key.signature for key in self.held})

    @invariant()
    def every_total_is_exact(self) -> None:
        own = [held for held in self.held.values() if not held.replica]
        size = sum(len(held.data) for held in own)
        references = sum(held.references for held in own)
        referenced = sum(held.references * len(held.data) for held in own)
        assert totals(self.volume) == (len(own), len(self.held) - len(own), references, size, size, referenced)

    @invariant()
    def every_dictionary_is_there(self) -> None:
        newest = list(self.dictionaries.items())[-1] if self.dictionaries else None
        assert self.volume.dictionary() == newest
        assert self.volume.stat().dictionaries == len(self.dictionaries)
        for number, data in self.dictionaries.items():
            assert self.volume.dictionary(number) == (number, data)


@pytest.mark.parametrize(
    ("volume", "segment_bytes_max"),
    [
        (VolumeSettings("v0"), 4096),
        (VolumeSettings("v0"), 256 << 20),
        (VolumeSettings("v0", "tree", depth=2), 4096),
        (VolumeSettings("v0", "hash", buckets=1, bucket_bytes=4096), 4096),
        (VolumeSettings("v0", "hashed-log", logs=3), 4096),
    ],
    ids=["log of small segments", "log", "tree", "hash", "hashed-log"],
)
def test_a_volume_is_a_dictionary(
    memory_path: Path, volume: VolumeSettings, segment_bytes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "OPEN_SEGMENTS_MAX", 4)

    class Machine(VolumeMachine):
        scratch = memory_path
        volume_settings = volume
        store_settings = StoreSettings(segment_bytes_max=segment_bytes_max)

    run_state_machine_as_test(Machine, settings=settings(max_examples=25, stateful_step_count=25))

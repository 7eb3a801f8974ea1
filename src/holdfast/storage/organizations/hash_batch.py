"""What one group of commits changes in a hash volume, gathered until it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.env.files import Buffer
from holdfast.storage.organizations.hash_chain import BucketId, Chain
from holdfast.storage.organizations.hash_draft import Draft
from holdfast.storage.organizations.hash_page import PageId
from holdfast.storage.organizations.hash_state import HashState, Space
from holdfast.storage.tickets import Kept


@dataclass(slots=True)
class Batch:
    """What one group of commits changes."""

    before: dict[BucketId, Chain] = field(default_factory=dict)
    after: dict[BucketId, Chain] = field(default_factory=dict)
    dirty: set[PageId] = field(default_factory=set)
    runs: dict[PageId, Buffer] = field(default_factory=dict)
    tickets: list[tuple[bytes, Kept]] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)
    outgrown: int | None = None
    state: HashState = field(default_factory=HashState)  # as it will be then, and the space
    space: Space = field(default_factory=lambda: Space(0, ()))
    kept: list[tuple[bytes, Kept]] | None = None  # all tickets, if there is to be a checkpoint

    def absorb(self, draft: Draft) -> None:
        for bucket, chain in draft.before.items():
            self.before.setdefault(bucket, chain)
        self.after |= draft.after
        self.dirty |= draft.dirty
        self.runs |= draft.runs
        self.freed += draft.freed
        if draft.outgrown is not None:
            self.outgrown = draft.outgrown

    def images(self, uid: bytes) -> list[tuple[PageId, Buffer]]:
        """Every page that must be written, in the order of their places."""
        images: dict[PageId, Buffer] = dict(self.runs)
        for bucket, chain in self.after.items():
            if not chain.pages:
                images[bucket.page] = chain.pack(0, uid)
            for part, page in enumerate(chain.pages):
                if page.id in self.dirty:
                    images[page.id] = chain.pack(part, uid)
        return sorted(images.items(), key=lambda each: each[0])

"""What additions and removals change together, under one lock: contents, batches and catalog, and their logs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from holdfast.archive.ingest.intent import IntentLog
from holdfast.archive.remove.refusals import Refusals
from holdfast.batches.journal import Journal
from holdfast.catalog import Catalog
from holdfast.config import RecordSettings
from holdfast.env import Environment
from holdfast.storage.store.contents import Contents


@dataclass(slots=True)
class WriteState:
    """The archive as its one writer sees it. Whoever holds `lock` may change batches and catalog."""

    contents: Contents
    journal: Journal
    catalog: Catalog  # another one after a reindex
    intents: IntentLog
    refusals: Refusals
    settings: RecordSettings
    env: Environment
    lock: threading.Lock = field(default_factory=threading.Lock)

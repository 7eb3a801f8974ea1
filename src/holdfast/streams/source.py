"""The interface of an open archive that streams use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.batches.journal import Journal
from holdfast.catalog import Catalog
from holdfast.config import Settings
from holdfast.env import Environment
from holdfast.index.index import Index
from holdfast.records.records import Records
from holdfast.storage.store.contents import Contents

if TYPE_CHECKING:
    from holdfast.query.engine import QueryEngine


class StreamSource(Protocol):
    """An open archive. The catalog may be a new object after each call, when it was rebuilt."""

    path: Path
    env: Environment
    journal: Journal
    contents: Contents

    @property
    def catalog(self) -> Catalog: ...
    @property
    def records(self) -> Records: ...
    @property
    def index(self) -> Index: ...
    @property
    def queries(self) -> QueryEngine: ...
    @property
    def settings(self) -> Settings: ...

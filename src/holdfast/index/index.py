"""The index of an archive: looked at by any number of processes, written by one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.catalog import Catalog
from holdfast.config import IndexSettings
from holdfast.env import Environment
from holdfast.errors import DamagedIndex, IndexNotFound
from holdfast.index import layout
from holdfast.index.removed import RemovedRecords
from holdfast.index.state import REPAIR, State, read_state
from holdfast.index.view import View
from holdfast.index.words import committed_opstamp, open_words, translated_damage
from holdfast.records.active import ActiveState
from holdfast.storage.layout import ACTIVE

if TYPE_CHECKING:
    import tantivy

    from holdfast.index.building import BuildReport, Progress
    from holdfast.index.ranking import RankingReport
    from holdfast.index.ranks import Ranks
    from holdfast.index.status import IndexStatus

_TRIES = 5
_Mark = tuple[int, int, int] | None


class Index:
    """The index of one archive. Any thread may call any method; those that write raise Busy while another writes."""

    def __init__(
        self,
        root: Path,
        settings: IndexSettings,
        env: Environment,
        catalog: Callable[[], Catalog] | None = None,
        active: Callable[[], ActiveState | None] | None = None,
    ) -> None:
        """`catalog` gives that of the archive, for those who write; without one, the index can only be read.

        `active` gives the state of the archive that readers see; without one, they see all that is indexed.
        """
        self.root = root
        self.directory = layout.index_directory(root)
        self.settings = settings
        self.env = env
        self.removed = RemovedRecords(self.directory, env)
        self._catalog = catalog
        self._active = active
        self._lock = threading.Lock()
        self._mark: tuple[_Mark, ...] = ()  # of STATE, `removed` and what is shown: changes whenever these do
        self._meta: tuple[Path, _Mark] = (self.directory, None)  # the same of tantivy's own state
        self._view: View | None = None
        self._words: tuple[int, tantivy.Index] | None = None  # and their generation

    @property
    def catalog(self) -> Catalog:
        assert self._catalog is not None, "an index that is written or counted is given a catalog"
        return self._catalog()

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is anything to ask."""
        return self.env.files.exists(self.directory / layout.STATE)

    def state(self) -> State:
        """How far the index reaches; that of generation 0 if there is none. Raises DamagedIndex."""
        return read_state(self.directory, self.env)

    def view(self) -> View:
        """The index as it is now. Cheap while nothing changes. Raises IndexNotFound or DamagedIndex."""
        with self._lock:
            for _ in range(_TRIES):
                mark = _stat(self.directory / layout.STATE), self.removed.mark(), _stat(self.root / ACTIVE)
                if self._view is not None and mark == self._mark and _stat(self._meta[0]) == self._meta[1]:
                    return self._view
                try:
                    self._view = self._new_view()
                except FileNotFoundError:
                    continue  # a generation went while it was being opened
                self._mark = mark
                return self._view
        raise DamagedIndex(f"the files of '{self.directory}' are not those that its state names; {REPAIR}")

    def _new_view(self) -> View:
        """In this order: what a writer clears from `removed` it took out of the words before."""
        shown = self._active() if self._active is not None else None
        removed = self.removed.read().all
        state = self.state()
        if state.generation == 0:
            raise IndexNotFound(f"the archive '{self.root}' has no index; make one with 'holdfast index update'")
        path = self.directory / layout.words_name(state.generation)
        if not self.env.files.exists(path) and self.state().generation != state.generation:
            raise FileNotFoundError(path)
        self._meta = path / layout.META, _stat(path / layout.META)
        if self._words is None or self._words[0] != state.generation:
            self._words = (state.generation, open_words(path))
        with translated_damage(path):
            self._words[1].reload()
            searcher = self._words[1].searcher()
        opstamp = committed_opstamp(path)  # only now: what the searcher sees is not later than this
        return View(self.directory, state, searcher, removed, opstamp=opstamp, shown=shown)

    @property
    def links(self) -> int:
        """Rows of the table `links`. Raises DamagedIndex."""
        return sum(each.rows for each in self.state().tables["links"])

    def ranks(self) -> Ranks | None:
        """Page ranks and in-links as they were computed last; None if they never were. Raises DamagedIndex."""
        from holdfast.index.ranking import newest_ranks

        return newest_ranks(self.env.files, self.directory)

    def ranks_of(self, generation: int) -> Ranks:
        """Those of an earlier computation, of which the last few are kept. Raises NotFound."""
        from holdfast.index.ranking import ranks_of

        return ranks_of(self.directory, generation)

    # -- writing ------------------------------------------------------------------------------------------------

    def update(self, progress: Progress | None = None) -> BuildReport:
        """Indexes what has come since the last time. Durable on return, and in parts before."""
        from holdfast.index.building import update

        return update(self, progress)

    def build(self, progress: Progress | None = None) -> BuildReport:
        """Makes the index anew, while readers go on with the old one; goes on with one that was interrupted."""
        from holdfast.index.building import build

        return build(self, progress)

    def settle(self) -> bool:
        """Takes what left the archive out of the files now, unless another process writes, which then will."""
        from holdfast.index.building import settle

        return settle(self)

    def rank(self, *, force: bool = False) -> RankingReport:
        """Computes ranks anew if captures or links have changed, or with `force` in any case. Durable on return."""
        from holdfast.index.ranking import rank

        return rank(self, force=force)

    def pending(self, *, anew: bool = False) -> int:
        """How many records have come that are not indexed; `anew`, how many there are in all."""
        from holdfast.index.planning import pending

        return pending(State() if anew else self.state(), self.catalog)

    def verify(self, progress: Progress | None = None) -> list[str]:
        """What is wrong with the files of the index; reads every byte of them."""
        from holdfast.index.verify import verify_index

        try:
            return list(verify_index(self, progress))
        except DamagedIndex as error:
            return [str(error)]

    def status(self) -> IndexStatus:
        """What is in the index, and what is not."""
        from holdfast.index.status import status_of

        return status_of(self)


def _stat(path: Path) -> _Mark:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns

"""How a stream begins: with a snapshot of now, or where a token says; and by which ranks and matches it goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.errors import IndexNotFound, NotFound
from holdfast.records.active_state import active_state
from holdfast.streams.filter import CaptureFilter, find_matches
from holdfast.streams.options import StreamOptions
from holdfast.streams.order.date import DateOrder
from holdfast.streams.order.log import LogOrder
from holdfast.streams.order.order import StreamOrder
from holdfast.streams.order.rank import RankOrder
from holdfast.streams.order.url import UrlOrder
from holdfast.streams.page_reader import PageReader
from holdfast.streams.snapshot import require_listed, take_snapshot
from holdfast.streams.source import StreamSource
from holdfast.streams.token import StreamToken, decode, require_own

if TYPE_CHECKING:
    from holdfast.index.ranks import RanksHead


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Makes what a stream goes by."""

    source: StreamSource
    options: StreamOptions
    reader: PageReader

    def token(self) -> StreamToken:
        """That of the options, if it is good here, else that of a new stream.

        Raises MalformedToken, or NotFound if the ranks that the stream goes by are gone.
        """
        source, options, archive = self.source, self.options, self.source.settings.uid
        if options.token:
            token = decode(options.token)
            require_own(token, archive, options)
            self.reader.patiently(lambda: require_listed(token.snapshot, source.catalog))
            self._require_ranks(token)
            return token
        if options.batch is not None:
            source.journal.require(options.batch)
        active = active_state(source.path, source.settings, source.env)  # first: the catalog knows all in it then
        snapshot = self.reader.patiently(lambda: take_snapshot(source.catalog, options.batch))
        if active is not None:
            snapshot = snapshot.within(active.batches)
        if options.query:  # what comes to the index later must not come to light when the stream goes on
            snapshot = snapshot.within(dict(source.index.view().state.batches))
        token = StreamToken(archive, options.digest(), snapshot)
        if self._is_ranked() and (head := self._ranks()) is not None:
            token = replace(token, ranks=head.generation, ranks_crc32=head.crc32)
        return token

    def _is_ranked(self) -> bool:
        """Whether order or query go by ranks."""
        query = self.options.query
        return self.options.order == "rank" or (bool(query) and self.source.queries.is_ranked(query))

    def _ranks(self) -> RanksHead | None:
        """What the newest ranks say of themselves; None: there are none, which the query will say if it matters."""
        ranks = self.source.index.ranks()
        if ranks is None and self.options.order == "rank":
            raise IndexNotFound("no ranks were computed yet; compute them with 'holdfast index rank'")
        return ranks.head if ranks is not None else None

    def _require_ranks(self, token: StreamToken) -> None:
        """A generation of the same number may be another one, if the index was made anew."""
        if not token.ranks_crc32 or not self._is_ranked():
            return
        found = self.source.index.ranks_of(token.ranks).head.crc32
        if found != token.ranks_crc32:
            raise NotFound(
                f"ranks of generation {token.ranks} are not those that the token's stream went by: the index was made "
                "anew since; begin the stream anew"
            )

    def order(self, token: StreamToken) -> StreamOrder:
        """Raises what the index may."""
        query, snapshot, reverse = self.options.query, token.snapshot, self.options.reverse
        matches = find_matches(self.source, query, snapshot, token.ranks) if query else None
        choice = CaptureFilter(self.options, snapshot, matches)
        match self.options.order:
            case "log":
                return LogOrder(self.source, choice, self.reader)
            case "url":
                return UrlOrder(self.source, choice, self.reader)
            case "date" | "modified" as order:
                is_modified = order == "modified"
                return DateOrder(self.source, choice, self.reader, is_modified=is_modified, reverse=reverse)
            case _:
                ranks = self.source.index.ranks_of(token.ranks)
                return RankOrder(self.source, choice, self.reader, ranks, reverse=reverse)

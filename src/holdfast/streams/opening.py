"""How a stream begins: with a snapshot of now, or where a token says; and by which ranks and matches it goes."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import IndexNotFound
from holdfast.records.active import active_state
from holdfast.streams.choice import Choice
from holdfast.streams.date_order import DateOrder
from holdfast.streams.log_order import LogOrder
from holdfast.streams.matches import find_matches
from holdfast.streams.options import StreamOptions
from holdfast.streams.order import Order
from holdfast.streams.rank_order import RankOrder
from holdfast.streams.reading import PageReader
from holdfast.streams.snapshot import require_listed, take_snapshot
from holdfast.streams.source import Source
from holdfast.streams.token import Token, decode, require_own
from holdfast.streams.url_order import UrlOrder


@dataclass(frozen=True, slots=True)
class Opening:
    """Makes what a stream goes by."""

    source: Source
    options: StreamOptions
    reader: PageReader

    def token(self) -> Token:
        """That of the options, if it is good here, else that of a new stream. Raises MalformedToken."""
        source, options, archive = self.source, self.options, self.source.settings.uid
        if options.token:
            token = decode(options.token)
            require_own(token, archive, options)
            self.reader.patiently(lambda: require_listed(token.snapshot, source.catalog))
            return token
        if options.batch is not None:
            source.journal.require(options.batch)
        active = active_state(source.path, source.settings, source.env)  # first: the catalog knows all in it then
        snapshot = self.reader.patiently(lambda: take_snapshot(source.catalog, options.batch))
        if active is not None:
            snapshot = snapshot.within(active.batches)
        if options.query:  # what comes to the index later must not come to light when the stream goes on
            snapshot = snapshot.within(dict(source.index.view().state.batches))
        return Token(archive, options.digest(), snapshot, ranks=self._ranks())

    def _ranks(self) -> int:
        """The generation of ranks to go by; 0: none."""
        if self.options.order != "rank" and not self.options.query:
            return 0
        ranks = self.source.index.ranks()
        if ranks is None and self.options.order == "rank":
            raise IndexNotFound("no ranks were computed yet; compute them with 'holdfast index rank'")
        return ranks.head.generation if ranks is not None else 0

    def order(self, token: Token) -> Order:
        """Raises NotFound if the ranks that the stream goes by are gone, and what the index may."""
        query, snapshot = self.options.query, token.snapshot
        matches = find_matches(self.source, query, snapshot, token.ranks) if query else None
        choice = Choice(self.options, snapshot, matches)
        match self.options.order:
            case "log":
                return LogOrder(self.source, choice, self.reader)
            case "url":
                return UrlOrder(self.source, choice, self.reader)
            case "date":
                return DateOrder(self.source, choice, self.reader)
            case _:
                return RankOrder(self.source, choice, self.reader, self.source.index.ranks_of(token.ranks))

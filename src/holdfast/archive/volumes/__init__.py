"""The volumes of an archive: the list of them, their maintenance, reports on their state, and takeover."""

"""Records: as they go in, as they come out, and how they are found.

A `Draft` is a record on its way in: the entry of its batch, and its payload beside it (`draft`; `references` for those
that stay in files elsewhere). A `StoredRecord` is one that comes out: its parts in memory, its payload when it is asked
for (`stored`). `Records` finds them by URL and time, by id, and in the order of the batches (`records`); a `Selection`
names many (`selection`).
"""

"""Records: as they go in, as they come out, and how they are found.

A `RecordDraft` is a record on its way in: the entry of its batch, and its payload beside it (`draft`; `references` for
those that stay in files elsewhere). A `StoredRecord` is one that comes out: its parts in memory, its payload on demand
(`stored_record`). `Records` finds them by URL and time, by id, and in the order of the batches (`records`); a
`Selection` names many (`selection`). Which of them readers see is the active state (`active_state`, `leases`).
"""

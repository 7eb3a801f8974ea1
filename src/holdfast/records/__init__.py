"""Records: on their way in, on their way out, and how to find them.

A `RecordDraft` is a record on its way in: its batch entry and its payload (`draft`; `references` for records that stay
in external files). A `StoredRecord` is a record on its way out: its parts in memory, its payload on demand
(`stored_record`). `Records` finds records by URL and time, by id, and in batch order (`records`); a `Selection` selects
many (`selection`). The active state decides which of them readers see (`active_state`, `leases`).
"""

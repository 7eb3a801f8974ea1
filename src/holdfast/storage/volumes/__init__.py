"""One place that holds blocks, in one of several organizations.

Operations arrive as commits. `operations` decides what each of them changes; the organization (`log`, `hashed_log`,
`hash`, `tree`, `object`) makes the change in its files, durably, before the commit returns. `remote` passes commits on
to a volume server. In every organization, `idempotency` applies a repeated commit once, and `damage` remembers
unreadable blocks until they are healed.
"""

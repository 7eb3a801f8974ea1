"""One place that holds blocks, in one of several organizations.

Operations flow in as commits. `operations` decides what each means for the blocks as they are known; the organization
(`log`, `hashed_log`, `hash`, `tree`, `object`) carries the decision out in its files, durably, before the commit
returns. `remote` passes commits on to a volume server. Whatever the organization, `idempotency` makes a repeated commit
happen once, and `damage` remembers blocks that could not be read until they are healed.
"""

"""Many volumes as one store: placement of contents, detection of duplicates, and lookup.

`contents` is the interface: put, get, delete, by contentkey. `store` holds the open volumes (`connector_watch` follows
changes of their list) and finds the blocks under a key; `bloom` names the volumes that may hold a signature. `put`,
`delete` and `replicas` build on these; `encoder` turns contents into blocks and back.

States of a block: *counted* (it has references), *moving* (the copy that a migration makes), *replica* (a copy that
never counts). `locks` separates the threads that count from the one that moves blocks. Other processes may count, move
and delete at any time: each change is a compare-and-set at the volume, which decides.
"""

"""Many volumes as one store: where a content goes, whether it is there already, and how it is found again.

`contents` is what users of the store see: put, get, delete, by contentkey. Below it, `store` holds the open volumes
(`open`, `connector_watch`), requests to them (`fan_out`), and what is known of who holds what: `bloom` and `bloom_sync`
say which volumes may hold a signature, `locate` which blocks stand under a key. `put`, `get`, `delete` and `replicas`
are the steps made of these; `encoder` turns contents into blocks and back.

States of a block: *counted* (it has references), *moving* (the copy that a migration makes), *replica* (a copy that
never counts). `locks` keeps threads of this process that count apart from the one that moves blocks. Other processes
may count, move and delete at any time: each change is a compare-and-set at the volume, which has the last word.
"""

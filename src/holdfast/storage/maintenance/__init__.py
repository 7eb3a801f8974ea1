"""Maintenance of volumes while clients store, read and delete.

    move        moves blocks between volumes, with one valid reference count at any moment
    migrate     decides which blocks move: out of a volume, by placement, from update to read volumes
    merge       replaces one of two equal blocks in different volumes by an alias
    check       reads everything, changes nothing
    repair      check, then repair each volume, then restore from replicas
    train       compression dictionaries

Each can be interrupted and run again.
"""

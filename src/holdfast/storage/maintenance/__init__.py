"""What keeps volumes sound and balanced, beside clients that store, read and delete.

    move        blocks from one volume to others, one reference count in force at any moment
    migrate     everything out of one volume
    rebalance   every block to where placement wants it now
    transfer    contents of update volumes to read volumes, sorted by signature
    merge       contents that two volumes hold become one block and an alias
    check       reads everything, changes nothing
    repair      check, then mend each volume, then restore from replicas
    restore     lost blocks, replicas and dictionaries from other volumes
    mend        one volume by itself, where its files are
    train       compression dictionaries

Each can be interrupted and run again.
"""

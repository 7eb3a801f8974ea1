"""Page ranks: the link graph of the newest captures, ranks computed from it, and the files that keep them.

    tables captures, links ──► link_graph ──► page_rank ──► ranks-000001, one file for each generation (`generations`)

Each computation makes a new file and leaves the last few: a stream in the order of ranks goes on with the generation it
began with.
"""

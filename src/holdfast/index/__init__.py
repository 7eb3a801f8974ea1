"""The index: words, metadata and links of captures (B12), derived from batches and contents.

    batches, contents ──► workers: extraction ──► documents ──► words-…/    tantivy
                                              └─► rows ───────► tables-…/   Parquet: captures, links, backlinks
                                                                STATE       the last commit
    archive.remove ────────────────────────────────────────────► removed    records hidden until they are purged

Every capture has a row in the table `captures`. Every response, resource, revisit and conversion is a *document* of the
words, even without text, so that its metadata can be searched (`schema`). A revisit has the text of its original.

Guarantees. A committed update survives kill -9 and power loss. After a kill at any moment, the next update resumes from
the last commit, with the same result. The archive is only read. One process writes the index, under a lock; any number
read it, each a consistent view of the last commit (`view`). A removed record is in no result once the removal is
acknowledged. A document that crashes, hangs or exhausts memory affects no other. The whole directory can be deleted:
`holdfast index build` rebuilds it.
"""

"""Extraction in processes of their own, so that a document that crashes or hangs a library costs itself only.

    builder ──tasks──► crew ──► worker, one for each core: reads records, extracts, makes rows and documents
            ◄─in their order──┘

A worker opens the archive for reading and does everything up to what tantivy and Arrow take, so that the builder only
hands on. A limit of memory and one of processor time hold in the kernel, whatever the libraries do; a document at which
a worker dies is noted with the reason, and the next worker goes on without it.
"""

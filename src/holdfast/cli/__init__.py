"""The command line: one file per noun, thin over the library.

    main                 the group `holdfast`, logging, and how errors become exit codes
    options, terminal    what the commands share: options and filters; output, progress and Ctrl-C
    archive              init, status, check, reindex, update: the archive as a whole
    captures/            import, export, stream, get, cdx, diff, rm: captures in, out, found and removed
    batch                batches of records: list, seal, verify, back up, restore
    search, index        search and sql, and the index that they use
    crawl/               crawl: fetch web sites, inspect and stop crawls
    content, volume      the store below the archive: contents and volumes
    study/               study, sample, plan: studies of the archived web, samples, and plans for archiving more
    serve, demo          the archive in a browser; a tour on a made-up site

A command reads its options, calls the library, and prints. Data goes to standard output, as text for people or with
`--json` as one object per line; progress and messages go to standard error. A command imports what it uses when it
runs, so that the program starts fast.
"""

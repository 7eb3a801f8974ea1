"""The command line: one file per noun, thin over the library.

    main                                     the group `holdfast`, logging, and how failures become exit codes
    import_, export, get, cdx, rm            records: in, out, found and gone
    batch, reindex                           the batches that hold them, and the catalog that finds them
    init, content, volume, check, status     the archive, and the store below
    demo                                     everything once, on a site of its own
    options, selecting, interrupt, output    what the commands share
    inputs, import_inputs, import_report     files to store, files to import, and what came of these

A command reads its options, calls the library, and prints. Data goes to standard output, as text for people or with
`--json` as one object per line; progress and messages go to standard error. Heavy modules are imported by the command
that needs them, so that `holdfast --help` answers at once. Ctrl-C never interrupts a write half-way (`interrupt`).
"""

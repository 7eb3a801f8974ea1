"""The command line: one file per noun, thin over the library.

    main                                     the group `holdfast`, logging, and how failures become exit codes
    init, content, volume, check, status     the commands
    bench                                    measuring, kept apart like `holdfast.bench`
    options, inputs, output, interrupt       what the commands share

A command reads its options, calls the library, and prints. Data goes to standard output, as text for people or with
`--json` as one object per line; progress and messages go to standard error. Heavy modules are imported by the command
that needs them, so that `holdfast --help` answers at once. Ctrl-C never interrupts a write half-way (`interrupt`).
"""

"""Formats: files of other people become records, and records become files that other people can read.

    any stream of bytes
       │  io/       sniff recognizes the format; a source (plain, gzip, zstd) decodes the file and remembers where each
       │            byte came from; salvage reads record after record, and reports bytes that belong to none
       │  warc/ arc tianwang     framings: how a record begins and ends; wacz/ opens the package around WARCs
       ▼
    Record ──►  http         the HTTP message: head, chunks, content encodings, media type
                html/        pages: encoding, tree, text, main text, links
       │
       ▼  writers            warc/, tianwang, wacz/, wet; cdx/ and parquet for catalogs

Guarantees: the bytes of a record are its head, its block and its tail, exactly (N3). Every byte of a file lies either
in a record that was handed out or in a range reported as lost (N7); a record of which a part is missing is handed out
with what is there, and reported. No file, however damaged or hostile, makes reading raise anything but MalformedInput,
and that only in strict mode; none makes it run forever or take more memory than a few pieces. A stream need not seek.
Whatever the writers write, the readers here and elsewhere can read.

    with open("crawl.warc.gz", "rb") as stream:
        for record in open_records(stream, report=print):
            print(record.type, record.url, len(record.block.read()))
"""

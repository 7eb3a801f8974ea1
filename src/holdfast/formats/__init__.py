"""Formats: archive files become records, and records become archive files.

    any stream of bytes
       │  io/       sniff recognizes the format; a source (plain, gzip, zstd) decodes the file and remembers where each
       │            byte came from; salvage reads record after record, and reports bytes that belong to none
       │  warc/ arc tianwang     framings: how a record begins and ends; wacz/ opens the package around WARCs
       ▼
    Record ──►  http         the HTTP message: head, chunks, content encodings, media type
                html/        pages: encoding, tree, text, main text, links
       │
       ▼  writers            warc/, tianwang, wacz/, wet; cdx/ and parquet for catalogs

Guarantees: head, block and tail are the exact bytes of a record (N3). Every byte of a file is either in a record or in
a range reported as lost (N7); an incomplete record is returned as far as it goes, and reported. Reading raises only
MalformedInput, and only in strict mode, however damaged or hostile the file; it always ends, and takes the memory of a
few pieces. Streams need not seek. Written files can be read by the readers here and by other programs.

    with open("crawl.warc.gz", "rb") as stream:
        for record in open_records(stream, report=print):
            print(record.type, record.url, len(record.block.read()))
"""

"""Archives with an index, and what can be read from it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyarrow import concat_tables
from tantivy import Occur, Query

import holdfast
from holdfast import Exchange
from holdfast.archive import Archive
from holdfast.index.index import Index, IndexView
from holdfast.index.schema import TEXT_FIELDS, schema, words_of
from holdfast.index.tables import read_rows

DATE = "20260102030405"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ODT = "application/vnd.oasis.opendocument.text"


def exchange(url: str, content: bytes, content_type: str = "text/html", *fields: str) -> Exchange:
    """A response with status 200; `fields` are more lines of its head."""
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {content_type}", *fields, "", ""])
    return Exchange(url, head.encode(), content, DATE)


def pages(count: int, first: int = 0) -> list[Exchange]:
    """Pages with a word of their own each, and one that all have; each links to the next."""
    return [
        exchange(
            f"http://www.example.org/{number}",
            f"<title>Page {number}</title><p>common zebra{number} <a href=/{number + 1}>to {number + 1}</a>".encode(),
        )
        for number in range(first, first + count)
    ]


def new_archive(path: Path, settings: str = "") -> Path:
    """An empty archive; `settings` are lines of its section [index]."""
    holdfast.init(path)
    if settings:
        file = path / "holdfast.toml"
        file.write_text(f"{file.read_text()}\n[index]\n{settings}\n")
    return path


def add(path: Path, exchanges: Iterable[Exchange]) -> None:
    with holdfast.open(path) as archive:
        archive.add(list(exchanges))


def reading(path: Path) -> Archive:
    return holdfast.open(path, read_only=True)


def update(path: Path) -> None:
    with reading(path) as archive:
        archive.index.update()


def finds(index: Index | IndexView, word: Any, field: str = "text") -> list[str]:
    """The records that have a word, in their order; several words are a phrase. `text` is main text and rest."""
    view = index.view() if isinstance(index, Index) else index
    words = words_of(word) if field in ("text", *TEXT_FIELDS) else [word]
    parts = []
    for name in ("main", "rest") if field == "text" else (field,):
        if len(words) > 1:
            parts.append(Query.phrase_query(schema(), name, list(words)))
        else:
            parts.append(Query.term_query(schema(), name, words[0]))
    query = Query.boolean_query([(Occur.Should, part) for part in parts])
    hits = view.searcher.search(view.restricted(query), limit=10_000, order_by_field="record").hits
    return sorted(str(view.record_of(number)) for number, _ in hits)


def rows(index: Index, table: str) -> list[dict[str, Any]]:
    """All rows of a table, in the order of their records."""
    files = index.view().table_files(table)
    found: list[dict[str, Any]] = concat_tables([read_rows(path) for path in files]).to_pylist() if files else []
    return sorted(found, key=lambda row: (row["number"], row.get("target", "")))


def everything(index: Index) -> dict[str, Any]:
    """All that the index says, whatever generations, files and segments it consists of."""
    view = index.view()
    hits = view.searcher.search(view.restricted(Query.all_query()), limit=100_000, order_by_field="record").hits
    rows_of_words = {}
    for name in ("page", "status", "date", "month", "size"):
        values = view.searcher.fast_field_values(name, [address for _, address in hits])
        rows_of_words[name] = dict(zip((str(view.record_of(number)) for number, _ in hits), values, strict=True))
    words = {word: finds(view, word) for word in ("common", "zebra1", "zebra7", "zebra19")}
    return {
        "documents": sorted(str(view.record_of(number)) for number, _ in hits),
        "fields": rows_of_words,
        "words": words,
        "captures": [{k: v for k, v in row.items() if k != "number"} for row in rows(index, "captures")],
        "links": [{k: v for k, v in row.items() if k != "number"} for row in rows(index, "links")],
    }


# -- files of other kinds ----------------------------------------------------------------------------------------------


def zipped(parts: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return target.getvalue()


CORE = (
    '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t"><dc:title>On Whales</dc:title>'
    "<dcterms:modified>2021-05-06T07:08:09Z</dcterms:modified></cp:coreProperties>"
)


def docx(*paragraphs: str) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    document = f'<?xml version="1.0"?><w:document xmlns:w="w"><w:body>{body}</w:body></w:document>'
    return zipped({"word/document.xml": document, "docProps/core.xml": CORE})


def xlsx(*strings: str) -> bytes:
    shared = "".join(f"<si><t>{text}</t></si>" for text in strings)
    sheet = '<worksheet><c t="s"><v>0</v></c><c t="inlineStr"><is><t>inline</t></is></c></worksheet>'
    return zipped(
        {"xl/workbook.xml": "<w/>", "xl/sharedStrings.xml": f"<sst>{shared}</sst>", "xl/worksheets/sheet1.xml": sheet}
    )


def pptx(*slides: str) -> bytes:
    parts: dict[str, str | bytes] = {"ppt/presentation.xml": "<p/>"}
    for number, text in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = f'<s xmlns:a="a"><a:p><a:r><a:t>{text}</a:t></a:r></a:p></s>'
    return zipped(parts)


def odt(*paragraphs: str) -> bytes:
    body = "".join(f"<text:p>{text}</text:p>" for text in paragraphs)
    content = f'<o xmlns:text="t">{body}</o>'
    meta = '<o xmlns:dc="d"><dc:title>Open</dc:title><dc:date>2020-02-03T04:05:06</dc:date></o>'
    return zipped({"mimetype": ODT, "content.xml": content, "meta.xml": meta})


def pdf(*lines: str, title: str = "A Report") -> bytes:
    """A PDF of one page for each line, as small as they come."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(lines)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(lines)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, line in enumerate(lines):
        stream = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode("latin-1")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    objects.append(f"<< /Title ({title}) /CreationDate (D:20190817120000+02'00') >>".encode())
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n" % (len(objects) + 1, len(objects))
    start = b"startxref\n%d\n%%%%EOF\n" % len(out)
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer + start

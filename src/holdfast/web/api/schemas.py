"""What answers look like, as JSON Schema: the components of the description."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
TIMESTAMP: Schema = {"type": "string", "pattern": "^[0-9]{14}$", "example": "20260102030405"}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _maybe(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _object(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_CAPTURE: dict[str, Schema] = {
    "record": {"type": "string", "description": "The record's id.", "example": "202611-0000000001"},
    "url": _TEXT,
    "urlkey": _TEXT,
    "timestamp": TIMESTAMP,
    "mime": _maybe(_TEXT),
    "status": _maybe(_NUMBER),
    "digest": _maybe(_TEXT),
    "page_id": {"type": "string", "description": "WebBase's id of the page, 16 hexadecimal digits."},
    "modified": {"type": ["string", "null"], "description": "Last-Modified of the response, 14 digits."},
    "size": {"type": "integer", "description": "Bytes of the payload."},
    "type": {"type": "string", "description": "Of the record: response, revisit, resource, ..."},
    "collection": _TEXT,
    "contents": {**_list(_TEXT), "description": "Contentkeys of the payload, in order."},
    "filename": _maybe(_TEXT),
    "offset": _NUMBER,
    "length": _NUMBER,
    "method": _maybe(_TEXT),
    "redirect": _maybe(_TEXT),
    "page": {"type": "string", "description": "Where people look at it."},
    "raw": {"type": "string", "description": "Where its payload is, as it was."},
}
_HIT: dict[str, Schema] = {
    "record": _CAPTURE["record"],
    "url": _TEXT,
    "timestamp": TIMESTAMP,
    "title": _maybe(_TEXT),
    "mime": _maybe(_TEXT),
    "status": _maybe(_NUMBER),
    "lang": {"type": ["string", "null"], "description": "ISO 639-1."},
    "size": _CAPTURE["size"],
    "collection": _TEXT,
    "rank": {"type": "number", "description": "Of its page; the mean is 1. 0: none was computed yet."},
    "inlinks": {"type": "integer", "description": "Pages that link to it."},
    "score": {"type": "number", "description": "Relevance, where the answer is sorted by it."},
    "snippet": {
        "type": ["object", "null"],
        "properties": {
            "text": _TEXT,
            "marks": _list({"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}),
        },
        "required": ["text", "marks"],
    },
    "page": _CAPTURE["page"],
    "raw": _CAPTURE["raw"],
}
_HEADER: Schema = {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}
_OPEN: Schema = {"type": "object"}

COMPONENTS: dict[str, Schema] = {
    "Capture": _object(_CAPTURE),
    "CaptureDetail": _object(
        {
            **_CAPTURE,
            "status_line": _maybe(_TEXT),
            "headers": {**_list(_HEADER), "description": "Of the HTTP response."},
            "record_headers": {**_list(_HEADER), "description": "Of the WARC record."},
            "original": {"anyOf": [ref("Capture"), {"type": "null"}], "description": "What a revisit repeats."},
        }
    ),
    "Captures": _object({"captures": _list(ref("Capture")), "resume_key": _maybe(_TEXT)}),
    "Collections": _object(
        {
            "collections": _list(
                _object(
                    {
                        "name": _TEXT,
                        "is_default": _FLAG,
                        "captures": _maybe(_NUMBER),
                        "payload_bytes": _maybe(_NUMBER),
                    }
                )
            )
        }
    ),
    "Comparison": _object({"a": _OPEN, "b": _OPEN, "is_same_content": _FLAG}),
    "Coherence": _object(
        {
            "url": _TEXT,
            "timestamp": TIMESTAMP,
            "spread_s": _NUMBER,
            "is_warning": _FLAG,
            "parts": _list(_OPEN),
            "missing": _list(_OPEN),
        }
    ),
    "Crawl": _object({"name": _TEXT, "running": _FLAG}),
    "Crawls": _object({"crawls": _list(ref("Crawl"))}),
    "CrawlWish": {
        "type": "object",
        "properties": {
            "seeds": {**_list(_TEXT), "minItems": 1, "maxItems": 1000},
            "name": _TEXT,
            "collection": _TEXT,
            "scope": {"type": "string", "enum": ["page", "prefix", "host", "domain", "any"]},
            "depth": {"type": ["integer", "null"], "minimum": 0},
            "limit": {"type": ["integer", "null"], "minimum": 1},
        },
        "required": ["seeds"],
        "additionalProperties": False,
    },
    "Facet": _object(
        {
            "value": _TEXT,
            "count": _NUMBER,
            "term": {"type": "string", "description": "What, added to the query, leaves these captures only."},
        }
    ),
    "Found": _object(
        {
            "query": {"type": "string", "description": "In its canonical form."},
            "sort": _TEXT,
            "total": {"type": "integer", "description": "Matches, given or not."},
            "offset": _NUMBER,
            "hits": _list(ref("Hit")),
            "facets": {"type": "object", "additionalProperties": _list(ref("Facet"))},
            "timeline": _list(_object({"month": _TEXT, "count": _NUMBER})),
            "pending": {"type": "integer", "description": "Records that came since and are not indexed yet."},
        }
    ),
    "Hit": _object(_HIT),
    "Imported": _object(
        {
            "records": _NUMBER,
            "added": _NUMBER,
            "known": _NUMBER,
            "refused": _NUMBER,
            "invalid": {"type": "integer", "description": "Rules of the format that the file breaks."},
            "findings": _list(_TEXT),
        }
    ),
    "Problem": _object({"type": _TEXT, "title": _TEXT, "status": _NUMBER, "detail": _TEXT}),
    "Status": {
        "type": "object",
        "properties": {"version": _TEXT, "captures": _maybe(_NUMBER)},
        "required": ["version"],
    },
    "Stopping": _object({"name": _TEXT, "was_running": _FLAG}),
    "Volume": _object(
        {
            "name": _TEXT,
            "organization": _TEXT,
            "state": {"type": "string", "enum": ["writable", "read-only"]},
            "activity": {"type": "string", "enum": ["down", "idling", "storing", "streaming"]},
            "up": _FLAG,
            "reason": {"type": ["string", "null"], "description": "Why it is down."},
            "address": {"type": ["string", "null"], "description": "Of its server or object store."},
            "weight": {"type": "number"},
            "outstanding": {"type": ["integer", "null"], "description": "Requests that wait for their answer."},
            "clients": _maybe(_NUMBER),
            "capacity_bytes": _maybe(_NUMBER),
            "fragmentation": {"type": ["number", "null"], "description": "Share of its bytes that are dead."},
            "blocks": _maybe(_NUMBER),
            "replicas": _maybe(_NUMBER),
            "references": _maybe(_NUMBER),
            "content_bytes": _maybe(_NUMBER),
            "stored_bytes": _maybe(_NUMBER),
            "referenced_bytes": _maybe(_NUMBER),
            "disk_bytes": _maybe(_NUMBER),
            "dead_bytes": _maybe(_NUMBER),
            "free_bytes": _maybe(_NUMBER),
            "dictionaries": _maybe(_NUMBER),
        }
    ),
    "Volumes": _object({"volumes": _list(ref("Volume"))}),
    "Written": _object(
        {
            "record": _TEXT,
            "outcome": {"type": "string", "enum": ["added", "known"]},
            "new_content": {"type": "boolean", "description": "Whether the store did not hold the payload."},
            "url": _TEXT,
            "timestamp": TIMESTAMP,
            "collection": _TEXT,
            "page": _TEXT,
        }
    ),
}

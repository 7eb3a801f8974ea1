"""Every endpoint of the API."""

from __future__ import annotations

from holdfast.catalog.query.query import MATCHES, SORTS
from holdfast.model import Pick
from holdfast.query.results import FACETS, OFFSET_MAX
from holdfast.query.results import SORTS as QUERY_SORTS
from holdfast.web.api import archive, captures, crawls, ingest, search
from holdfast.web.api.endpoint import Endpoint, Parameter, RequestBody, Schema
from holdfast.web.api.schemas import ref

_BINARY: Schema = {"type": "string", "format": "binary"}
_NAME: Schema = {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}
_URL: Schema = {"type": "string", "minLength": 1, "maxLength": 8192, "example": "http://example.com/"}
_TIME: Schema = {"type": "string", "pattern": "^[0-9]{1,14}$", "example": "2026"}
_TEXT: Schema = {"type": "string", "maxLength": 8192}

_COLLECTION = Parameter("collection", "the collection; 'web' is the default one, 'all' are all of them", _NAME)
_RECORD = Parameter(
    "record",
    "the id of a record, such as 202611-0000000001",
    {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*-[0-9]+$", "maxLength": 80},
    required=True,
)
_PICK = Parameter(
    "pick",
    "which capture stands for a time; as the setting records.pick says if it is not said",
    {"type": "string", "enum": list(Pick)},
)
_PAGE_ID = Parameter(
    "page_id",
    "WebBase's id of a page: 16 hexadecimal digits",
    {"type": "string", "pattern": "^[0-9a-fA-F]{16}$"},
    required=True,
)
_CRAWL = Parameter("name", "the name of a crawl", _NAME, required=True)


def _url(about: str = "the URL") -> Parameter:
    return Parameter("url", about, _URL, required=True)


def _time(name: str, about: str, *, required: bool = False) -> Parameter:
    return Parameter(name, f"{about}: 1 to 14 digits from the year on", _TIME, required=required)


def _number(name: str, about: str, low: int, high: int) -> Parameter:
    return Parameter(name, about, {"type": "integer", "minimum": low, "maximum": high})


def _flag(name: str, about: str) -> Parameter:
    return Parameter(name, about, {"type": "boolean"})


_SEARCH = (
    _url("the URL, or with a star a prefix (example.com/a*) or a domain (*.example.com)"),
    Parameter("matchType", "what else matches", {"type": "string", "enum": list(MATCHES)}),
    Parameter("toUrl", "the end of a range", _TEXT),
    _time("from", "the first time"),
    _time("to", "the last time"),
    _number("limit", "how many; 100 if it is not said", 1, captures.LIMIT_MAX),
    _number("offset", "how many to pass over", 0, 10**12),
    Parameter("sort", "in which order", {"type": "string", "enum": list(SORTS)}),
    _time("closest", "the nearest to this time first"),
    Parameter("filter", "[!][=|~]field:expression", _TEXT, repeats=True),
    Parameter("collapse", "field[:n], of which only the first of each run is given", _TEXT, repeats=True),
    Parameter("resumeKey", "as the last answer gave it: what comes after", _TEXT),
    _flag("resolveRevisits", "give the type of what a revisit repeats, and its status unless it has its own"),
    _COLLECTION,
)
_QUERY = (
    Parameter("q", "the query, in the query language; everything if it is empty", _TEXT),
    Parameter(
        "sort", "in which order; as fits the query if it is not said", {"type": "string", "enum": list(QUERY_SORTS)}
    ),
    _number("limit", "how many hits; 10 if it is not said", 0, search.LIMIT_MAX),
    _number("offset", "how many to pass over", 0, OFFSET_MAX),
    _flag("latest", "of the matching captures of a URL only the newest"),
    _flag("snippets", "give a piece of each hit's text around the words; true if it is not said"),
    Parameter(
        "facet", "a field by which all matches are counted", {"type": "string", "enum": list(FACETS)}, repeats=True
    ),
    _flag("timeline", "count all matches by month"),
    _COLLECTION,
)
_PAYLOAD = RequestBody(
    "the payload of a response, of whatever type; or as application/http a whole HTTP response, head and body",
    {"*/*": _BINARY, "application/http; msgtype=response": _BINARY},
)
_FILE = RequestBody("a WARC, ARC or Tianwang file, also compressed", {"application/warc": _BINARY, "*/*": _BINARY})
_WISH = RequestBody("what to crawl", {"application/json": ref("CrawlWish")})
_UPLOAD = Parameter("name", "the file's name, under which it can be exported again", {**_TEXT, "maxLength": 200})

ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/captures",
        "searchCaptures",
        "Captures by URL and time, in the grammar of the CDX server.",
        captures.search,
        ref("Captures"),
        _SEARCH,
    ),
    Endpoint(
        "GET",
        "/api/search",
        "searchText",
        "Captures by their words, metadata and links, in the query language; in all collections if none is said.",
        search.search,
        ref("Found"),
        _QUERY,
    ),
    Endpoint(
        "PUT",
        "/api/captures",
        "putCapture",
        "Take in one capture. Durable when answered; the same capture with the same time is known the second time.",
        ingest.put_capture,
        ref("Written"),
        (_url(), Parameter("timestamp", "when it was captured, 14 digits; now if it is not said", _TIME), _COLLECTION),
        body=_PAYLOAD,
        statuses=(200, 201),
        writes=True,
    ),
    Endpoint(
        "GET",
        "/api/captures/{record}",
        "getCapture",
        "One capture with all its headers.",
        captures.one,
        ref("CaptureDetail"),
        (_RECORD,),
    ),
    Endpoint(
        "GET",
        "/api/captures/{record}/payload",
        "getPayload",
        "The payload of a capture as it was transferred; that of a revisit from its original.",
        captures.payload,
        "application/octet-stream",
        (_RECORD,),
    ),
    Endpoint(
        "GET",
        "/api/nearest",
        "getNearest",
        "The capture that replay shows for a URL and a time; without one, the newest.",
        captures.near,
        ref("Capture"),
        (_url(), _time("timestamp", "the time"), _PICK, _COLLECTION),
    ),
    Endpoint(
        "GET",
        "/api/pages/{page_id}",
        "getPage",
        "The capture of a page by WebBase's page id, for a time; without one, the newest.",
        captures.of_page,
        ref("Capture"),
        (_PAGE_ID, _time("timestamp", "the time"), _PICK, _COLLECTION),
    ),
    Endpoint(
        "GET",
        "/api/contents/{key}",
        "getContent",
        "A content by its contentkey. Not where there are access rules.",
        captures.content,
        "application/octet-stream",
        (Parameter("key", "a contentkey, volume:signature", {**_TEXT, "minLength": 1}, required=True),),
    ),
    Endpoint(
        "GET",
        "/api/collections",
        "listCollections",
        "The collections, with counts where there are no access rules.",
        archive.collections,
        ref("Collections"),
    ),
    Endpoint(
        "GET",
        "/api/volumes",
        "listVolumes",
        "The volumes: what they are doing, how full and how fragmented they are.",
        archive.volumes,
        ref("Volumes"),
    ),
    Endpoint("GET", "/api/status", "getStatus", "The same as /status.", archive.status, ref("Status")),
    Endpoint(
        "GET",
        "/api/compare",
        "compareCaptures",
        "How two captures of a URL differ: text, links, headers.",
        archive.comparison,
        ref("Comparison"),
        (_url(), _time("a", "the one", required=True), _time("b", "the other", required=True), _PICK, _COLLECTION),
    ),
    Endpoint(
        "GET",
        "/api/coherence",
        "getCoherence",
        "How far the parts of a page lie from it in time.",
        archive.coherence_report,
        ref("Coherence"),
        (_url("the URL of a page"), _time("timestamp", "the time"), _PICK, _COLLECTION),
    ),
    Endpoint("GET", "/api/crawls", "listCrawls", "All crawls, those that run first.", crawls.listing, ref("Crawls")),
    Endpoint(
        "POST",
        "/api/crawls",
        "startCrawl",
        "Start a crawl, or go on with the one of that name. Answered when it runs.",
        crawls.start,
        ref("Crawl"),
        body=_WISH,
        statuses=(201,),
        writes=True,
    ),
    Endpoint("GET", "/api/crawls/{name}", "getCrawl", "One crawl with its log.", crawls.one, ref("Crawl"), (_CRAWL,)),
    Endpoint(
        "POST",
        "/api/crawls/{name}/stop",
        "stopCrawl",
        "Ask a crawl to end in order. Answered at once.",
        crawls.stop,
        ref("Stopping"),
        (_CRAWL,),
        writes=True,
    ),
    Endpoint(
        "POST",
        "/api/warc",
        "importFile",
        "Import a file. A damaged one is refused as a whole.",
        ingest.post_warc,
        ref("Imported"),
        (_UPLOAD, _COLLECTION),
        body=_FILE,
        writes=True,
    ),
)

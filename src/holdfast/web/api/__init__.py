"""Interfaces for programs: JSON under `/api`, described by `/openapi.json` and `/api/docs`; CDX, streams, writing.

    request ──► route ──► token and parameters checked ──► function of the endpoint ──► JSON, bytes or a problem

    endpoint                        declares a function as an endpoint
    captures, archive, crawls       the functions, by subject
    write/                          captures and WARC files received
    openapi                         all endpoints as routes, as OpenAPI 3.1 and as a page
    cdx/, stream/                   the CDX server and streams, each with a protocol of its own
    operations                      `/health`, `/status`, `/metrics`: for operators

Reading needs a token if the server has read tokens; writing always does. Excluded captures are 404, blocked ones 451.
"""

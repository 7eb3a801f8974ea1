"""The API: JSON for programs under `/api`, described by `/openapi.json` and, for people, on `/api/docs`.

    request ──► route ──► token and parameters checked ──► function of the endpoint ──► JSON, bytes or a problem

    endpoint                        what an endpoint is; functions are declared as one
    captures, archive, crawls       the functions, by subject; writing is in `web/write`
    openapi                         all endpoints as routes, as OpenAPI 3.1 and as a page
    operations                      `/health`, `/status`, `/metrics`: for operators

Reading needs a token if the server has read tokens; writing always does. Excluded captures are 404, blocked ones 451.
"""

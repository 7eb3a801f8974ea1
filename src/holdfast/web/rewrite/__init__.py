"""Rewriting: archived responses changed so that a browser finds everything they refer to in the archive.

    addresses    a reference ──► the archive's address of it; the rule that all others share
       │
       ├─ html        pages, as they stream through: markup, elements, inline, charset
       ├─ css         style sheets, and styles within pages
       ├─ javascript  scripts and modules
       ├─ manifests   HLS and DASH
       └─ headers     the fields of the response, with cookies

    content      a capture's payload ──► the rewritten payload and its Content-Type, by kind

Where URLs stand in CSS, `srcset`, refreshes and elements is known to `formats.html.links`, which crawls use too. Bytes
that need no change are passed on as they are. Nothing here raises, whatever the bytes: an archive holds what the web
had. Rewriting makes pages look right; origins, the content security policy and the service worker keep requests within
the archive.
"""

"""Rewriting: what an archived response says, changed so that a browser finds everything it names in the archive.

    addresses    a reference ──► the archive's address of it; the rule that all others share
       │
       ├─ html        pages, as they stream through: page, patterns, tags, elements, inline, raw_text, srcset, refresh
       ├─ css         style sheets, and styles within pages
       ├─ javascript  scripts and modules
       ├─ manifests   HLS and DASH
       └─ headers     the fields of the response, with cookies

Bytes that need no change are passed on as they are. Nothing here raises, whatever the bytes: an archive holds what the
web had. Rewriting is for looks; that nothing leaves the archive is what the origins, the policy and the service worker
are for.
"""

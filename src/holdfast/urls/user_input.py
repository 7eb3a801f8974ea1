"""What users type for a URL: `example.com:8080` without a scheme, which the standard takes for a scheme."""

from __future__ import annotations

import re

# A name that could be a scheme, then a port. Other names without a scheme are completed when their key is made.
_NAME_AND_PORT = re.compile(r"([a-z][a-z0-9+.-]*):\d{1,5}(?=[/?#*]|$)", re.ASCII | re.IGNORECASE)
_SCHEMES = ("about", "callto", "data", "fax", "sms", "tel", "urn")  # behind which digits may stand that are no port


def completed(text: str) -> str:
    """`text` with `http://` before a host with a port; everything else as it is. Idempotent.

    For what people ask for, never for what was captured, whose keys are those of other tools.
    """
    match = _NAME_AND_PORT.match(text)
    return text if match is None or match[1].lower() in _SCHEMES else f"http://{text}"

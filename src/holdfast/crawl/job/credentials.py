"""Credentials: secret request header fields, each for one origin.

    https://example.com Authorization: Bearer 3f9c...      a line of a file of credentials, or of `fetch.credentials`
    https://api.example.com:8443 X-Api-Key: 81ad...

A credential is sent to its origin (scheme, host and port) and to no other, whatever redirects, links and pages in a
browser lead to. It is left out of the records of requests. A crawl keeps its credentials in a file of their own, which
nobody but its owner may read, so that it can go on without being given them again.

`Authorization` and `Cookie` given as plain headers are credentials for the origins of the seeds. What a proxy wants,
as `Proxy-Authorization` or in the URL of the proxy, is a credential for the proxy.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import unquote

from holdfast.crawl.job.job import CrawlJob, Credential, FetchSettings, header_of
from holdfast.errors import UsageError
from holdfast.urls import canonical, parse

PROXY_FIELD = "Proxy-Authorization"
_SECRET = frozenset(("authorization", "cookie", PROXY_FIELD.lower()))
_FORM = "write 'https://example.com Name: value'"
_FILE_HEAD = "# Credentials of a crawl: origin, name and value of a field. Keep this file to yourself.\n"


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL, the port only if it is not the usual one."""
    scheme, _, rest = canonical(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


# -- one job -----------------------------------------------------------------------------------------------------------


def bound(job: CrawlJob) -> CrawlJob:
    """The job with all its secrets as credentials, and none in its headers or in the URL of its proxy.

    A credential that is there for the same origin and field wins. Raises UsageError if a proxy's makes no sense.
    """
    fetch = job.fetch
    proxy_user(fetch)
    proxy, from_url = _split(fetch.proxy)
    secret = [(name, value) for name, value in fetch.headers if is_secret(name, value)]
    if not secret and not from_url:
        return job
    origins = dict.fromkeys(map(origin_of, job.seeds))
    found = [Credential(each, *field) for field in secret for each in _goals(field[0], origins, proxy)] + from_url
    known = {_place(each) for each in fetch.credentials}
    credentials = (*fetch.credentials, *(each for each in found if _place(each) not in known))
    headers = tuple(field for field in fetch.headers if not is_secret(*field))
    fetch = replace(fetch, headers=headers, proxy=proxy, credentials=credentials)
    proxy_user(fetch)
    return replace(job, fetch=fetch)


def without_credentials(job: CrawlJob) -> CrawlJob:
    """The job as others may see it."""
    return replace(job, fetch=replace(bound(job).fetch, credentials=()))


def for_proxy(settings: FetchSettings) -> str:
    """The value of Proxy-Authorization for the proxy; empty if it wants none."""
    wanted = (origin_of(settings.proxy), PROXY_FIELD.lower())
    return next((each.value for each in settings.credentials if _place(each) == wanted), "")


def proxy_user(settings: FetchSettings) -> tuple[str, str] | None:
    """User and password for a SOCKS proxy, which knows nothing else; None if it wants none. Raises UsageError."""
    value = for_proxy(settings)
    if not value or settings.proxy.startswith("http"):
        return None
    scheme, _, encoded = value.partition(" ")
    try:
        user, colon, password = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if scheme.lower() != "basic" or not colon:
        raise UsageError(f"a SOCKS proxy takes user and password: write '{PROXY_FIELD}: Basic ...'")
    return user, password


def is_for_proxy(credential: Credential) -> bool:
    return credential.name.lower() == PROXY_FIELD.lower()


def is_secret(name: str, value: str) -> bool:
    """Whether a header is a credential by its name. An empty one, which keeps a field from being sent, is none."""
    return bool(value) and name.lower() in _SECRET


def _place(credential: Credential) -> tuple[str, str]:
    return credential.origin, credential.name.lower()


def _goals(name: str, origins: Iterable[str], proxy: str) -> Iterable[str]:
    if name.lower() != PROXY_FIELD.lower():
        return origins
    if not proxy:
        raise UsageError(f"'{PROXY_FIELD}' is for a proxy: name it with --proxy")
    return (origin_of(proxy),)


def _split(proxy: str) -> tuple[str, list[Credential]]:
    """The proxy without user and password, and those as a credential, if it has them."""
    scheme, mark, rest = proxy.partition("://")
    user, at, host = rest.rpartition("@")
    if not at:
        return proxy, []
    name, _, password = user.partition(":")
    basic = b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode("ascii")
    proxy = scheme + mark + host
    return proxy, [Credential(origin_of(proxy), PROXY_FIELD, f"Basic {basic}")]


# -- as text -----------------------------------------------------------------------------------------------------------


def credential_of(text: str) -> Credential:
    """From 'ORIGIN NAME: VALUE'. Raises UsageError, which does not say the value."""
    origin, _, field = text.strip().partition(" ")
    if "://" not in origin:
        raise UsageError(f"this is not a credential: {_FORM}")
    name, colon, value = field.strip().partition(":")
    if not _is_origin(origin, proxies=name.lower() == PROXY_FIELD.lower()):
        raise UsageError(f"'{origin}' is not an origin: write scheme, host and port, as 'https://example.com:8443'")
    if not colon or not value.strip():
        raise UsageError(f"this is not a credential for '{origin}': {_FORM}")
    return Credential(origin_of(origin), *header_of(field.strip()))


def _is_origin(text: str, *, proxies: bool) -> bool:
    url = parse(text)
    if url is None or not url.host or url.username or url.password:
        return False
    return url.path in ("", "/") and not url.search and (proxies or url.scheme in ("http", "https"))


def read_credentials(lines: Iterable[str], where: str) -> tuple[Credential, ...]:
    """One to a line; blank lines, and those that begin with '#', do not count. Raises UsageError."""
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("\ufeff")
        if text and not text.startswith("#"):
            try:
                found.append(credential_of(text))
            except UsageError as error:
                raise UsageError(f"'{where}', line {number}: {error}") from None
    return tuple(found)


def write_credential(credential: Credential) -> str:
    return f"{credential.origin} {credential.name}: {credential.value}"


def write_credentials(credentials: Iterable[Credential]) -> str:
    """The text of a file of credentials; it reads back as the same."""
    return _FILE_HEAD + "".join(f"{write_credential(each)}\n" for each in credentials)

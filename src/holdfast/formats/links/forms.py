"""Forms: the URL that a GET form leads to if it is sent as it comes, with the default values of its fields.

    <form action="find?old=1"><input name=q><input type=hidden name=lang value=en></form>   ──►   find?q=&lang=en

Left alone are forms that send something (POST), that ask for a password, that have more fields than a search needs, and
those that lead to their own page with nothing filled in: documentation has such a search on every page, and a crawl
would fetch each twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.formats.links.encoding import form_query

if TYPE_CHECKING:
    from turbohtml import Element

FORMS_MAX = 64  # of a document: each looks for its fields in all of it
FIELDS_MAX = 64
QUERY_CHARACTERS_MAX = 2048


def form_reference(form: Element, document_url: str, encoding: str) -> str:
    """The reference that the form stands for; '' if it is none to be followed."""
    if (form.attr("method") or "get").strip().lower() != "get":
        return ""
    action = (form.attr("action") or "").strip()
    fields = form.form_data()
    if not action and not any(value for _, value in fields):
        return ""
    if len(fields) > FIELDS_MAX or form.select_one("input[type=password i]") is not None:
        return ""
    query = form_query(fields, encoding)
    if len(query) > QUERY_CHARACTERS_MAX:
        return ""
    return f"{(action or document_url).partition('#')[0].partition('?')[0]}?{query}"

"""HTML made of nested calls. Whatever is put into it is escaped, unless it is HTML that these functions made."""

from collections.abc import Iterable
from html import escape


class Html(str):
    """Text that is HTML already."""


def tag(name: str, *children: object, **attributes: str | None) -> Html:
    """tag("a", "x < y", href=url) → <a href="…">x &lt; y</a>; class_ is written class, aria_label aria-label."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{escape(value, quote=True)}"' for key, value in named.items())
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(str(part)) for part in parts))


def table(rows: Iterable[Iterable[object]], *, head: Iterable[object] = (), caption: str | None = None) -> Html:
    """The first cell of a row is its heading."""
    heading = [tag("th", cell, scope="col") for cell in head]
    lines = []
    for first, *rest in rows:
        lines.append(tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)))
    return tag(
        "table",
        *([tag("caption", caption)] if caption else []),
        *([tag("thead", tag("tr", *heading))] if heading else []),
        tag("tbody", *lines),
    )

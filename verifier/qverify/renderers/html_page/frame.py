"""What every page has: the head, the verdict on top, the contents, the sections with their headings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from qverify.renderers.html_page.elements import element, text

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
LONGEST = 200  # characters of a page's title
MOST_PAIRS = 9  # comparisons of two sides, in the contents


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page. id: its anchor. title: as text, in the contents. inside: HTML below the heading; a section
    without any is left out. heading: the same as HTML, where it is more than the title."""

    id: str
    title: str
    inside: str
    heading: str = ""
    kind: str = ""


def page(title: str, top: str, sections: Iterable[Section]) -> str:
    """Returns the page as HTML. top: what stands above the contents."""
    shown = [s for s in sections if s.inside]
    title = title if len(title) <= LONGEST else f"{title[:LONGEST]}..."
    head = _void("meta", charset="utf-8") + _void(
        "meta", name="viewport", content="width=device-width, initial-scale=1"
    )
    head += _void("meta", http_equiv="Content-Security-Policy", content=POLICY)
    head += element("title", text(title)) + element("style", _asset("style.css") + _asset("drawn.css"))
    main = element("main", *map(_section, shown), id="main")
    body = f"{top}{_contents(shown)}{main}{element('script', _asset('script.js'))}"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _void(tag: str, **attributes: object) -> str:
    return element(tag, **attributes).removesuffix(f"</{tag}>")


def _asset(name: str) -> str:
    return (files("qverify.renderers.html_page") / name).read_text(encoding="utf-8")


def _contents(sections: list[Section]) -> str:
    pairs = [s for s in sections if s.kind == "pair"][MOST_PAIRS:]
    listed = [s for s in sections if s not in pairs]
    links = [element("li", element("a", text(s.title), href=f"#{s.id}")) for s in listed]
    if pairs:
        at = listed.index([s for s in listed if s.kind == "pair"][-1]) + 1
        links.insert(at, element("li", element("a", f"{len(pairs)} more comparisons", href=f"#{pairs[0].id}")))
    return element("nav", element("ul", *links), aria_label="Contents")


def _section(section: Section) -> str:
    heading = element("h2", section.heading or text(section.title), id=f"{section.id}-h")
    kind = section.kind or None
    return element("section", heading, section.inside, id=section.id, aria_labelledby=f"{section.id}-h", class_=kind)

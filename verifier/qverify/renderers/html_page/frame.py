"""Renders the parts that all pages have: the head, the contents, and sections with headings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from qverify.renderers.html_page.elements import element, text

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
MAX_TITLE_LENGTH = 200  # characters of a page's title
STYLES = ("style.css", "drawn.css", "graph.css")
MAX_LISTED_PAIRS = 9  # comparisons of two sides in the contents


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page. id: its anchor. title: text for the contents. inside: HTML below the heading; a section
    without any is left out. heading: the heading as HTML, if it differs from the title. kind: CSS class, or "". script:
    what only this section needs; without scripts, the section is not shown."""

    id: str
    title: str
    inside: str
    heading: str = ""
    kind: str = ""
    script: str = ""


def page(title: str, top: str, sections: Iterable[Section]) -> str:
    """Returns the page as HTML, with one script: after the section that has one of its own, which is then drawn before
    the rest of the page is read, or at the end. top: HTML above the contents."""
    shown = [s for s in sections if s.inside]
    title = title if len(title) <= MAX_TITLE_LENGTH else f"{title[:MAX_TITLE_LENGTH]}..."
    head = _void("meta", charset="utf-8") + _void(
        "meta", name="viewport", content="width=device-width, initial-scale=1"
    )
    head += _void("meta", http_equiv="Content-Security-Policy", content=POLICY)
    head += element("title", text(title)) + element("style", "".join(map(_asset, STYLES)))
    own = next((s for s in shown if s.script), None)
    script = element("script", (own.script if own else "") + _asset("script.js"))
    main = element("main", *(_section(s) + (script if s is own else "") for s in shown), id="main")
    body = f"{top}{_contents(shown)}{main}{'' if own else script}"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _void(tag: str, **attributes: object) -> str:
    return element(tag, **attributes).removesuffix(f"</{tag}>")


def _asset(name: str) -> str:
    return (files("qverify.renderers.html_page") / name).read_text(encoding="utf-8")


def _contents(sections: list[Section]) -> str:
    unlisted_pairs = [s for s in sections if s.kind == "pair"][MAX_LISTED_PAIRS:]
    listed = [s for s in sections if s not in unlisted_pairs]
    links = [element("li", element("a", text(s.title), href=f"#{s.id}"), **_scripted(s)) for s in listed]
    if unlisted_pairs:
        position = listed.index([s for s in listed if s.kind == "pair"][-1]) + 1
        links.insert(
            position,
            element("li", element("a", f"{len(unlisted_pairs)} more comparisons", href=f"#{unlisted_pairs[0].id}")),
        )
    return element("nav", element("ul", *links), aria_label="Contents")


def _section(section: Section) -> str:
    heading = element("h2", section.heading or text(section.title), id=f"{section.id}-h")
    kind = _scripted(section) or {"class_": section.kind or None}
    return element("section", heading, section.inside, id=section.id, aria_labelledby=f"{section.id}-h", **kind)


def _scripted(section: Section) -> dict[str, object]:
    """Returns the attributes of what a script shows and a page without scripts does not have."""
    return {"class_": "scripted", "hidden": True} if section.script else {}

"""The pages of chips, one per maker: NAME.md says what of qverify applies, which command tests the accelerator, and what
was tried. Each begins with a table of the rows in ROWS, which `qverify chips` and the README show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify.vendor_names import OTHER_NAMES, plain_name

ROWS = ("chips", "toolkit", "files", "quantizes", "reference", "simulator", "criteria", "tried")

LAYOUT_WORDS = ("nchw", "nhwc", "nc1hwc2", "nchwc8", "nchw4", "nhcw", "layout", "layouts", "dumptoml")  # no chips


@dataclass(frozen=True, slots=True)
class ChipPage:
    """The page of one maker.

    Attributes:
        name: of the page, as `rockchip`.
        title: the maker's name.
        rows: the table, by the names in ROWS.
        text: the whole page, Markdown.
    """

    name: str
    title: str
    rows: dict[str, str]
    text: str


@cache
def read_pages() -> tuple[ChipPage, ...]:
    """Returns all pages in the order of their names. Raises ValueError for a page without its title or a row."""
    found = [entry for entry in files(__name__).iterdir() if entry.name.endswith(".md")]
    return tuple(_parse(entry.name[:-3], entry.read_text("utf-8")) for entry in sorted(found, key=lambda e: e.name))


def _parse(name: str, text: str) -> ChipPage:
    rows = dict(re.findall(r"^\| (\w+) \| (.+) \|$", text, re.MULTILINE))
    if not text.startswith("# ") or tuple(rows) != ROWS:
        raise ValueError(f"chips/{name}.md: wanted a title and a table of {', '.join(ROWS)}, got {', '.join(rows)}")
    return ChipPage(name, text.splitlines()[0][2:], rows, text)


def find_page(word: str) -> ChipPage:
    """Returns the page of a maker, chip, tool or kind of file, whatever its spelling (`rk3588`, `RKNN`, `tda4`, `.hef`).
    Raises UsageError, with similar names, if none is meant."""
    wanted = plain_name(word)
    pages = {name: page for page in reversed(read_pages()) for name in _names(page)}
    begun = [name for name in pages if len(name.rstrip("x")) > 3 and wanted.startswith(name.rstrip("x"))]
    started = {pages[name].name: name for name in pages if len(wanted) > 2 and name.startswith(wanted)}
    if wanted in pages:
        return pages[wanted]
    if len(started) == 1:
        return pages[next(iter(started.values()))]
    if begun:
        return pages[max(begun, key=len)]
    if wanted in LAYOUT_WORDS:
        raise UsageError(
            f"qverify chips {word}: an order of axes, not a chip; `qverify compare --help` (--layout) and dump.toml "
            "(verifier/PROFILES.md of a clone) say how it is stated; in the page of a maker: qverify chips rockchip"
        )
    near = closest_names(wanted, pages, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"qverify chips {word}: no page; {meant}makers: {', '.join(p.name for p in read_pages())}")


def _names(page: ChipPage) -> list[str]:
    """Returns every word by which a page is found, without blanks, dots and dashes, in small letters."""
    listed = re.split(r", | or | with | and | beside it|\(.*?\)", f"{page.rows['chips']}, {page.rows['files']}")
    words = [page.name, *re.split(r", | and ", page.title), *OTHER_NAMES.get(page.name, ()), *listed]
    return [plain for word in words if (plain := plain_name(word))]

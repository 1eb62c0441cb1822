"""The pages in a browser: clicked and typed in as by a person; they ask for nothing and log nothing."""

from __future__ import annotations

import pytest
from qverify.renderers import formats

from tests.plain.chromium import USABLE, WHY_NOT, Chromium
from tests.plain.test_report_formats import NASTY
from tests.plain.test_report_pages import failed, hostile, written

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)
CURVE = "svg.curve a:nth-of-type(2)"


def test_a_browser_clicks_through_the_page(tmp_path):
    """The curve leads to the tensor's row; keys go along it; the table sorts and filters; a row opens its graph."""
    path = tmp_path / "r.html"
    formats.page("html").write(failed(), str(path))
    with Chromium(tmp_path / "profile") as page:
        page.open(path.as_uri())
        row = page.run(f"document.querySelector('{CURVE}').getAttribute('href').slice(1)")
        page.click(CURVE)
        assert page.run("location.hash") == f"#{row}"
        assert page.run(f"document.querySelector('#{row} details').open") is True
        page.run(f"document.querySelector('{CURVE}').focus()")
        page.press("ArrowRight")
        assert page.run("document.activeElement.getAttribute('href')") == row_after(row)
        page.press("Enter")
        assert page.run("location.hash") == row_after(row)
        section = f"document.getElementById('{row}').closest('section')"
        names = f"[...{section}.querySelectorAll('tbody tr:not([hidden]) th summary')].map((s) => s.textContent)"
        for kind, drawn in (("free", ".line.free, .dot"), ("again", ".line.again, path.again, .ring")):
            parts = f"[...{section}.querySelectorAll('details[open] svg.curve')[0].querySelectorAll('{drawn}')]"
            shown = f"{parts}.filter((part) => getComputedStyle(part).display !== 'none').length"
            assert page.run(shown) >= 4
            page.run(f"{section}.querySelector('.show-{kind}').click()")
            assert page.run(shown) == 0
            page.run(f"{section}.querySelector('.show-{kind}').click()")
        page.run(f"{section}.querySelectorAll('thead button')[6].click()")
        assert page.run(names) == ["n1", "n2", "y"]
        page.run(f"{section}.querySelectorAll('thead button')[6].click()")
        assert page.run(names)[-1] == "n1" and page.run(f"{section}.querySelectorAll('[aria-sort]').length") == 1
        page.run(f"{section}.querySelector('.filter').focus()")
        page.write("n2")
        assert page.run(names) == ["n2"] and "1 of 3" in page.run(f"{section}.querySelector('.found').textContent")
        page.run(f"{section}.querySelector('.filter').value = ''; {section}.querySelector('.differing').click()")
        assert sorted(page.run(names)) == ["n2", "y"]
        page.run(f"document.querySelector('#{row} dd a').click()")
        page.settle()
        assert page.run("document.querySelector(location.hash).open") is True
        assert page.run("document.querySelector(location.hash + ' svg.graph').getBoundingClientRect().width") > 200
        assert (page.requests, page.logged) == ([], [])


def row_after(row: str) -> str:
    start, _, number = row.rpartition("-")
    return f"#{start}-{int(number) + 1}"


@pytest.mark.parametrize("width", [1280, 400])
def test_no_page_is_wider_than_the_window(width, tmp_path):
    """Nor does it run what a hostile name holds, ask for anything, or log an error."""
    run = failed()
    for pair in run.pairs:
        for row in pair.tensors:
            row.name = NASTY[0] + row.name + NASTY[-1]
    with Chromium(tmp_path / "profile", width) as page:
        for found, name in ((run, "run"), (hostile(), "triage")):
            folder = tmp_path / name
            folder.mkdir()
            written(found, "html", folder)
            page.open((folder / "r.html").as_uri())
            page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            page.settle()
            assert page.run("document.documentElement.scrollWidth") <= width, name
            assert page.run("document.querySelectorAll('script').length") == 1
            assert (page.requests, page.logged) == ([], [])


def test_on_paper_the_tables_are_not_cut(tmp_path):
    written(failed(), "html", tmp_path)
    with Chromium(tmp_path / "profile", 800) as page:
        page.open((tmp_path / "r.html").as_uri())
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.run("document.documentElement.scrollWidth") <= 800
        assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"

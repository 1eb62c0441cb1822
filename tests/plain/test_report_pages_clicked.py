"""The pages in a browser: clicked and typed in as by a person; they ask for nothing and log nothing."""

from __future__ import annotations

import pytest
from qverify.cli.main import main
from qverify.renderers import formats
from qverify.report.compare_reports import compare_reports
from qverify.report.difference import ReportDifference

from tests.plain.chromium import USABLE, WHY_NOT, Chromium
from tests.plain.test_report_formats import NASTY
from tests.plain.test_report_pages import failed, hostile, large, written

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


JENKINS = "default-src 'none'; img-src 'self'; style-src 'self'"  # what it allows an archived page


def test_without_scripts_and_styles_the_page_stands(tmp_path, digits):
    """Jenkins shows the page like this: the verdict, the tables and the drawings, in a size that fits."""
    board = "faulty:local?fault=plus_one@relu2_QuantizeLinear_Output"
    made = tmp_path / "made.html"
    assert main(["-m", f"{digits}/digits_quant.onnx", "-b", board, "-r", "True", "-q", "--html", str(made)]) == 1
    path, meta = tmp_path / "r.html", f'<head><meta http-equiv="Content-Security-Policy" content="{JENKINS}">'
    path.write_text(made.read_text().replace("<head>", meta, 1))
    with Chromium(tmp_path / "profile") as page:
        page.open(path.as_uri())
        assert page.run("document.querySelector('h1').innerText").endswith("FAILED")
        assert page.run("getComputedStyle(document.body).maxWidth") == "none"
        assert page.run("document.querySelector('.tools').offsetHeight") == 0
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        sizes = page.run("[...document.querySelectorAll('svg')].map((s) => s.getBoundingClientRect().width)")
        assert len(sizes) > 20 and min(sizes) > 50 and max(sizes) <= 960
        rows = "[...document.querySelectorAll('table.tensors tbody tr')].map((row) => row.cells[1].innerText)"
        assert page.run(rows).count("✗ FAILED") == 6 and page.requests == []


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


def a_difference() -> ReportDifference:
    from tests.plain.three_sides import three

    report = failed()
    for one in (before := three(), report):
        for pair in one.pairs:
            for row in pair.tensors:
                row.name = f"backbone/stage4/block{row.name}/" + "conv_" * 20
    return compare_reports(before, report, "a.json", "b.json")


def test_at_400_pixels_every_verdict_is_seen_without_scrolling(tmp_path):
    """In the tables of a run, of many frames, of triage and of a difference; the names are long."""
    run = large(frames=2)
    for row in run.frames:
        row["source"] = "frames/" + "a_very_long_name_of_a_picture" * 4
    pages = {"run": run, "difference": a_difference(), "triage": hostile()}
    with Chromium(tmp_path / "profile", 400) as page:
        for name, found in pages.items():
            writer = {"triage": "write_triage", "difference": "write_difference"}.get(name, "write")
            getattr(formats.page("html"), writer)(found, str(tmp_path / f"{name}.html"))
            page.open((tmp_path / f"{name}.html").as_uri())
            page.run("document.querySelectorAll('details.pair').forEach((d) => { d.open = true; })")
            page.settle()
            first = "[...document.querySelectorAll('table tbody tr')].map((row) => row.querySelector('.verdict'))"
            ends = page.run(f"{first}.filter((one) => one).map((one) => one.getBoundingClientRect().right)")
            assert max(ends, default=0) <= 400 and (len(ends) > 5 or name == "triage"), name
            holds = page.run(
                "[...document.querySelectorAll('td')].filter((d) => d.textContent === 'no' && d.cellIndex === 0).length"
            )
            assert name != "triage" or holds == len(NASTY)
            assert page.run("document.documentElement.scrollWidth") <= 400, name
            assert (page.requests, page.logged) == ([], []), name
            assert name != "run" or page.run("document.querySelectorAll('.pair:not(:has(table))').length") == 2

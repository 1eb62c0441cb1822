"""The HTML page in a browser: it is used as a person uses it, and nothing is logged, fetched or hard to reach."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from qverify.cli.main import main

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
CULPRIT = "relu2_QuantizeLinear_Output"
SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 400, "height": 800}}
BAD = {"serious", "critical"}  # impacts of axe-core


@dataclass
class Seen:
    """A page that is open. logged: messages and errors of its scripts. fetched: addresses beside the page's own."""

    page: Any
    address: str
    logged: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def rows(self) -> list[str]:
        """Returns the names in the table of the first pair that differs, in their present order, without hidden ones."""
        rows = self.page.locator("section.pair").first.locator("table.tensors tbody tr:visible")
        return [str(row.locator("th").get_attribute("data-value")) for row in rows.all()]


KINDS = ("run", "triage", "difference")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns a page of each kind: of a run, of triage, of two runs; the board is wrong at one node."""
    import numpy as np
    import qverify.example

    folder = tmp_path_factory.mktemp("pages")
    example = Path(next(iter(qverify.example.__path__)))
    made = {kind: folder / f"{kind}.html" for kind in KINDS}
    with np.load(example / "digits.npz") as digits:
        np.save(folder / "digit_3.npy", digits["digit_3"])
    board, model = f"faulty:local?fault=bitflip@{CULPRIT}", ["-m", str(example / "digits_quant.onnx")]
    both = ["-m", f"{example}/digits_float.onnx,{example}/digits_quant.onnx"]
    run = [*model, "-r", "True", "-q", "-i", str(folder / "digit_3.npy")]
    assert main([*run, "-b", "local", "--json", str(folder / "a.json")]) == 0
    assert main([*run, "-b", board, "--json", str(folder / "b.json"), "--html", str(made["run"])]) == 1
    assert main(["triage", *both, "-b", board, "--loss", "always", "-q", "--html", str(made["triage"])]) == 1
    difference = ["report", "diff", str(folder / "a.json"), str(folder / "b.json"), "-q"]
    assert main([*difference, "--html", str(made["difference"])]) == 1
    return made


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Returns the page of the packaged example on a board that is wrong at one node."""
    import qverify.example

    folder = tmp_path_factory.mktemp("page")
    quantized = Path(next(iter(qverify.example.__path__))) / "digits_quant.onnx"
    board = f"faulty:local?fault=bitflip@{CULPRIT}"
    assert main(["-m", str(quantized), "-b", board, "-r", "True", "-q", "--html", str(folder / "r.html")]) == 1
    return folder / "r.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def see(browser: Any, report: Path, **how: Any) -> Seen:
    page = browser.new_context(**how).new_page()
    seen = Seen(page, report.as_uri())
    page.on("console", lambda message: seen.logged.append(message.text))
    page.on("pageerror", lambda error: seen.logged.append(str(error)))
    page.on("request", lambda r: seen.fetched.append(r.url) if r.url.partition("#")[0] != seen.address else None)
    page.goto(seen.address)
    return seen


@pytest.fixture
def seen(browser: Any, report: Path) -> Iterator[Seen]:
    opened = see(browser, report, viewport=SIZES["desk"])
    yield opened
    assert opened.logged == [] and opened.fetched == []
    opened.page.context.close()


@pytest.mark.parametrize(
    ("kind", "size", "scheme"),
    [*(("run", size, scheme) for size in SIZES for scheme in ("light", "dark"))]
    + [(kind, *how) for kind in KINDS[1:] for how in (("desk", "light"), ("phone", "dark"))],
)
def test_nothing_is_hard_to_reach(browser: Any, pages: dict[str, Path], kind: str, size: str, scheme: str) -> None:
    """axe-core finds nothing serious, with every part of the page opened; the page is not wider than the screen."""
    opened = see(browser, pages[kind], viewport=SIZES[size], color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = axe.Axe().run(opened.page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in BAD] == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
    assert opened.logged == [] and opened.fetched == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_of_a_drawing_is_cut(browser: Any, pages: dict[str, Path], kind: str) -> None:
    opened = see(browser, pages[kind], viewport=SIZES["desk"])
    texts, cut = opened.page.evaluate(
        """() => {
          document.querySelectorAll('details').forEach(one => { one.open = true; });
          const texts = [...document.querySelectorAll('svg[viewBox] text')];
          const cut = texts.filter(text => {
            const one = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
            return one.left < all.left - 1 || one.right > all.right + 1 || one.top < all.top - 1 || one.bottom > all.bottom + 1;
          });
          return [texts.length, cut.map(text => text.textContent)];
        }"""
    )
    assert cut == [] and (texts or kind == "difference")


def test_a_point_of_the_curve_opens_its_tensor(seen: Seen) -> None:
    seen.page.locator(f'section.pair svg.curve a:has(title:text("{CULPRIT}"))').first.click()
    opened = seen.page.locator("table.tensors tbody tr:has(th details[open])")
    playwright.expect(opened).to_have_count(1)  # the page hears of the new fragment a moment later
    assert opened.locator("th").get_attribute("data-value") == CULPRIT


def test_the_curve_is_walked_by_keys(seen: Seen) -> None:
    points = seen.page.locator("section.pair svg.curve").first.locator("a")
    points.first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        seen.page.keyboard.press(key)
    opened = seen.page.locator("table.tensors tbody tr:has(th details[open]) th")
    assert opened.first.get_attribute("data-value") == CULPRIT


def test_the_table_sorts(seen: Seen) -> None:
    before = seen.rows()
    head = seen.page.locator("section.pair").first.locator("table.tensors thead th")
    names = head.all_inner_texts()
    column = next(i for i, name in enumerate(names) if "LSB" in name)
    for ends in ("ascending", "descending"):
        head.nth(column).locator("button").click()
        assert head.nth(column).get_attribute("aria-sort") == ends
    assert seen.rows()[0] == CULPRIT and sorted(seen.rows()) == sorted(before) and seen.rows() != before


def test_the_table_is_filtered(seen: Seen) -> None:
    section = seen.page.locator("section.pair").first
    section.locator(".filter").fill("relu2")
    assert seen.rows() == [CULPRIT]
    section.locator(".filter").fill("")
    section.locator(".differing").check()
    assert CULPRIT in seen.rows() and 0 < len(seen.rows()) < 8


def test_without_scripts_the_summary_and_the_tables_stand(browser: Any, report: Path) -> None:
    opened = see(browser, report, java_script_enabled=False, viewport=SIZES["desk"])
    assert opened.page.locator("h1").inner_text().endswith("FAILED")
    assert CULPRIT in opened.rows() and len(opened.rows()) == 8
    assert opened.page.locator("section.pair svg.curve").first.is_visible()
    assert opened.page.locator("#graph details.around").count() == 8
    assert not opened.page.locator("#network, nav a[href='#network']").filter(visible=True).count()


def test_the_drawings_of_the_first_wrong_node_are_beside_the_graph(seen: Seen) -> None:
    beside = seen.page.locator(".network-side")
    assert CULPRIT in beside.locator("h3").inner_text() and beside.locator("figure svg").count() >= 3
    assert "elements differ" in beside.locator(".drawings").first.locator("xpath=preceding-sibling::p[1]").inner_text()
    beside.get_by_role("link").first.click()
    playwright.expect(seen.page.locator("table.tensors tbody tr:target")).to_have_count(1)


def test_a_row_opens_the_drawing_of_its_tensor(seen: Seen) -> None:
    seen.page.locator(f'section.pair tr.differs:has(th[data-value="{CULPRIT}"]) summary').first.click()
    link = seen.page.locator('tr.differs th details[open] a[href^="#d"]').first
    wanted = str(link.get_attribute("href"))
    seen.page.evaluate("document.querySelectorAll('details.drawn').forEach(one => { one.open = false; })")
    link.click()
    drawn = seen.page.locator(f"details{wanted}")
    drawn.locator("svg").first.wait_for(state="visible")
    assert CULPRIT in drawn.locator("summary").inner_text() and drawn.locator("svg").count() == 4
    assert drawn.locator("table.first tbody tr").count() == 1
    assert seen.logged == [] and seen.fetched == []

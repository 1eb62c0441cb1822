"""qverify report matrix: what a run gave, the cells, the first change of each row, what differs between stacks, and every format."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.printable import visible
from qverify.renderers import matrix_page, matrix_text
from qverify.renderers.text_view import TextView
from qverify.report.document import ReportDocument
from qverify.report.matrix.document import MatrixDocument, StoredRun
from qverify.report.matrix.grouping import build_matrix, default_axes, natural
from qverify.report.matrix.skim import Skimmer
from qverify.report.matrix.stored_runs import stored_runs
from qverify.report.report_json import to_json
from qverify.report.schema import matrix_schema

from tests.plain.chromium import USABLE, WHY_NOT, Chromium
from tests.plain.matrix_runs import matrix_of, report, saved
from tests.plain.test_report_formats import NASTY, Page

KNOWN_TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "header",
        "h1",
        "h2",
        "p",
        "span",
        "nav",
        "ul",
        "li",
        "a",
    ),
    *(
        "main",
        "section",
        "div",
        "label",
        "input",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
    ),
    *("dl", "dt", "dd", "code", "pre"),
}
WORDS = ["report", "matrix"]


def test_the_first_column_in_which_a_row_changed_and_what_differs_there():
    found = matrix_of(
        report(firmware="1.9", toolchain="2.3.0"),
        report(firmware="1.10", toolchain="2.3.0"),
        report(False, firmware="1.11", toolchain="2.4.0"),
        report(False, firmware="1.12", toolchain="2.4.0"),
    )
    assert [column.name for column in found.columns] == ["1.9", "1.10", "1.11", "1.12"]
    assert (found.rows[0].changed, found.rows[0].differs, found.verdicts, found.exit_status) == (2, 2, "changed", 1)
    change = found.cells[2].change
    assert change is not None and change.kind == "verdict" and change.before_column == 1
    assert [(fact.what, fact.before, fact.now) for fact in change.facts] == [("fact toolchain", "2.3.0", "2.4.0")]
    assert [cell.change for cell in found.cells if cell.column != 2] == [None] * 3
    assert found.columns[2].changed == 1 and [fact.what for fact in found.columns[2].stack] == ["fact toolchain"]
    assert (
        "worst" in repr(found.cells[2])
        and found.cells[2].worst is not None
        and found.cells[2].blame.startswith("board at ")
    )


def test_a_matrix_without_a_change_is_0_and_one_column_is_not_known():
    same = matrix_of(report(firmware="1"), report(firmware="2"))
    assert (same.verdicts, same.exit_status) == ("same", 0)
    failed = matrix_of(report(False, firmware="1"), report(False, firmware="2"))
    assert failed.exit_status == 0 and failed.cells[0].verdict == "FAILED"  # it says whether verdicts change
    alone = matrix_of(report(firmware="1"))
    assert (alone.verdicts, alone.exit_status) == ("not known", 3) and "one column" in alone.why


def test_a_mended_row_changed_too_and_a_row_without_its_last_run_is_not_known():
    assert matrix_of(report(False, firmware="1"), report(firmware="2")).exit_status == 1
    other = report(firmware="1")
    other.models[0]["path"] = "gone.onnx"
    found = matrix_of(report(firmware="1"), report(firmware="2"), other)
    assert found.exit_status == 3 and [row.verdicts for row in found.rows] == ["not known", "same"]


def test_the_newest_run_counts_and_disagreement_is_said():
    old, new = (
        report(False, firmware="2", date="2026-01-01T00:00:00Z"),
        report(firmware="2", date="2026-02-01T00:00:00Z"),
    )
    for order in ((old, new), (new, old)):
        found = matrix_of(report(firmware="1"), *order)
        cell = found.cells[1]
        assert (cell.verdict, cell.runs) == ("PASSED", 2) and "1 run of 2 FAILED" in cell.disagree[0]
        assert found.rows[0].changed is None and found.exit_status == 3  # no column is blamed, and it is not "same"
    tie = matrix_of(report(firmware="2", date="2026-01-01T00:00:00Z"), old)
    assert tie.cells[0].verdict == "FAILED"


def test_several_boards_in_one_cell_show_the_worst_and_their_changes_are_seen():
    def on(board: str, ok: bool, firmware: str, date: str) -> ReportDocument:
        made = report(ok, firmware=firmware, date=date)
        made.boards = [board]
        return made

    found = matrix_of(
        on("a", True, "1", "2026-01-01T00:00:00Z"),
        on("b", False, "1", "2026-01-01T00:00:00Z"),
        on("a", False, "2", "2026-01-02T00:00:00Z"),
        on("b", False, "2", "2026-01-02T00:00:00Z"),
        on("c", True, "2", "2026-01-09T00:00:00Z"),
    )
    assert [cell.verdict for cell in found.cells] == ["FAILED", "FAILED"]
    assert (
        found.cells[1].subjects == 3 and found.rows[0].changed == 1
    )  # board a failed, though the cell was FAILED before


def test_a_fact_that_went_back_while_the_outcome_stayed_is_not_the_cause():
    found = matrix_of(
        report(firmware="1", driver="4", toolchain="a"),
        report(False, firmware="2", driver="5", toolchain="b"),
        report(False, firmware="3", driver="4", toolchain="b"),
    )
    change = found.cells[1].change
    assert change is not None
    assert [fact.what for fact in change.facts] == ["fact toolchain"] and [f.what for f in change.excluded] == [
        "fact driver"
    ]


def test_a_fact_is_not_the_cause_either_if_nothing_else_differs():
    found = matrix_of(
        report(firmware="1.9", toolchain="b"),
        report(firmware="1.10", toolchain="a"),
        report(False, firmware="1.11", toolchain="b"),
    )
    change = found.cells[2].change
    assert change is not None and change.facts == [] and [f.what for f in change.excluded] == ["fact toolchain"]
    assert "differs: nothing else in their stacks; not the cause: fact toolchain a -> b" in matrix_text.render(found)


@pytest.mark.parametrize("seen", [False, True])
def test_facts_that_are_excluded_alone_may_be_the_cause_together(seen: bool):
    runs = [
        report(firmware="1", toolchain="b", driver="4"),
        report(firmware="2", toolchain="a", driver="5"),
        report(firmware="3", toolchain="a", driver="4"),
        report(False, firmware="4", toolchain="b", driver="5"),
        *([report(firmware="5", toolchain="b", driver="5")] if seen else []),
    ]
    change = matrix_of(*runs).cells[3].change
    assert change is not None and len(change.facts) == (0 if seen else 2) and len(change.excluded) == (2 if seen else 0)


def test_stacks_of_one_date_are_in_the_order_of_their_versions():
    found = matrix_of(*(report(toolchain=version) for version in ("1.10", "1.8", "1.9")), columns=("stack",))
    assert [column.name.split()[-1] for column in found.columns] == ["1.8", "1.9", "1.10"]


def test_a_fact_that_one_run_does_not_state_is_no_difference():
    found = matrix_of(report(firmware="1", driver="4"), report(False, firmware="2"))
    assert found.cells[1].change is not None and found.cells[1].change.facts == []
    assert "nothing else" in matrix_text.render(found)


def test_temperatures_and_seeds_are_no_difference():
    a, b = report(firmware="1"), report(False, firmware="2")
    for at, made in enumerate((a, b)):
        settings = {"temperature_c": 20.0 + at, "spot_seed": at, "frequency_mhz": at, "uri": str(at), "level": "all"}
        made.sides = [
            {
                "name": "board",
                "engine": "qvrt",
                "version": "1",
                "settings": settings,
                "seconds": 1.0,
                "host": "x",
                "state": "complete",
                "why": "",
            }
        ]
    found = matrix_of(a, b)
    assert found.cells[1].change is not None and found.cells[1].change.facts == []


def test_stacks_are_columns_and_a_run_that_states_less_joins_the_one_that_fits():
    runs = [
        report(firmware="1", toolchain="a", date="2026-01-01T00:00:00Z"),
        report(firmware="1", toolchain="b", date="2026-01-02T00:00:00Z"),
        report(False, firmware="2", toolchain="b", date="2026-01-03T00:00:00Z"),
        report(False, firmware="2", date="2026-01-04T00:00:00Z"),
        report(firmware="1", toolchain="a", date="2026-03-01T00:00:00Z"),  # an old stack again
    ]
    found = matrix_of(*runs, columns=("stack",))
    assert [cell.runs for cell in found.cells] == [2, 1, 2] and found.rows[0].changed == 2
    assert [column.name for column in found.columns][1] == "2: toolchain b"
    by_firmware = matrix_of(
        report(firmware="1", toolchain="a"), report(firmware="2", toolchain="b"), report(toolchain="b")
    )
    assert [cell.runs for cell in by_firmware.cells] == [1, 2] and "placed" in by_firmware.notes[0]


@pytest.mark.parametrize("seed", range(50))
def test_a_planted_change_of_stack_is_the_first_differing_column(seed):
    rng = random.Random(seed)
    columns, at = rng.randint(3, 8), rng.randint(1, 2)
    names, planted = (
        ["firmware", "toolchain", "driver", "arithmetic_file", "npu"],
        rng.choice(["toolchain", "driver", "npu"]),
    )
    made = []
    for number in range(columns):
        facts = {name: "0" for name in names} | {
            "firmware": f"1.{number + 8}",
            planted: "new" if number >= at else "old",
        }
        made.append(report(number < at, **facts))
    rng.shuffle(made)
    found = matrix_of(*made)
    assert found.rows[0].differs == at
    change = next(cell.change for cell in found.cells if cell.column == at)
    assert change is not None and [fact.what for fact in change.facts] == [f"fact {planted}"]


def test_versions_are_sorted_as_people_count():
    texts = ["2.0", "1.10", "1.9", "2.0-rc1", "2.0.1", "2.0-beta2", ""]
    assert sorted(texts, key=lambda text: natural((text,))) == [
        "",
        "1.9",
        "1.10",
        "2.0-beta2",
        "2.0-rc1",
        "2.0",
        "2.0.1",
    ]


def test_columns_by_date_where_names_do_not_count():
    old, new = (
        report(firmware="f00d", date="2026-01-01T00:00:00Z"),
        report(False, firmware="0bad", date="2026-02-01T00:00:00Z"),
    )
    with Skimmer() as skimmer:
        runs = [r for one in (new, old) for r in stored_runs(skimmer.read(json.dumps(to_json(one)).encode(), "x"), "x")]
    assert [c.name for c in build_matrix(runs, ["model"], ["firmware"], by_date=True).columns] == ["f00d", "0bad"]
    assert [c.name for c in build_matrix(runs, ["model"], ["firmware"]).columns] == ["0bad", "f00d"]


def test_too_many_cells_are_refused_with_their_bound():
    runs = [StoredRun(str(at), "", {"model": f"m{at}", "firmware": f"f{at}"}, {}, "PASSED") for at in range(1000)]
    start = time.monotonic()
    with pytest.raises(UsageError, match="1000 rows by 1000 columns, 1000000 cells; wanted at most 100000"):
        build_matrix(runs, ["model"], ["firmware"])
    assert time.monotonic() - start < 5


def test_a_run_without_a_verdict_is_shown_as_such():
    runs = [
        StoredRun("a", "", {"model": "m", "firmware": "1"}, {}, None, "it was cancelled"),
        StoredRun("b", "", {"model": "m", "firmware": "2"}, {}, "PASSED"),
    ]
    found = build_matrix(runs, ["model"], ["firmware"])
    text = matrix_text.render(found)
    assert "NO VERDICT" in text and found.exit_status != 0
    assert "NO VERDICT" in matrix_page.render(visible(found))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no report"),
        (["--rows", "model", "--columns", "model"], "give it once"),
        (["--rows", "modle"], "did you mean model"),
        (["--rows", ","], "wanted names of facts"),
        (["--where", "board"], "wanted FACT=VALUE"),
        (["--where", "board=none"], "left by --where"),
        (["--token", "x"], "give --server"),
        (["--label", "model=x"], "the run itself shows"),
    ],
)
def test_mistakes_are_one_line(words, said, tmp_path, capsys):
    path = saved(report(firmware="1"), tmp_path / "a.json")
    assert main([*WORDS, *([path] if words else []), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def hostile() -> MatrixDocument:
    made = []
    for at, name in enumerate(NASTY):
        one = report(at % 2 == 0, firmware=str(at))
        one.models[0]["path"] = name
        one.boards = [name]
        one.facts = {"firmware": name or "x", "toolchain": name or "x"}
        made.append(one)
    return matrix_of(*made, rows=("model", "board"), columns=("firmware", "toolchain"))


def test_hostile_names_add_no_line_no_markup_and_no_formula(tmp_path):
    found = hostile()
    text = matrix_text.render(found, TextView(columns=100))
    assert "\x1b" not in text and all(line.isprintable() for line in text.split("\n"))
    seen = Page(matrix_page.render(visible(found)))
    assert sum(tag == "script" for tag, _ in seen.tags) == 1 and {tag for tag, _ in seen.tags} <= KNOWN_TAGS
    assert not any(name.startswith("on") for _, attributes in seen.tags for name in attributes)
    from qverify.renderers.formats import csv as csv_page

    out = tmp_path / "m.csv"
    csv_page.write_matrix(found, str(out))
    cells = [cell for row in csv.reader(io.StringIO(out.read_text())) for cell in row]
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


def test_every_format_shows_the_same_and_json_is_valid(tmp_path, capsys):
    paths = [
        saved(report(at < 2, firmware=f"1.{at + 8}", toolchain="a" if at < 2 else "b"), tmp_path / f"{at}.json")
        for at in range(4)
    ]
    outs = {name: str(tmp_path / f"m.{name}") for name in ("json", "html", "csv", "markdown")}
    words = [word for name, path in outs.items() for word in (f"--{name}", path)]
    assert main([*WORDS, *paths, "--columns", "firmware", *words]) == 1
    text = capsys.readouterr().out
    document = json.loads(Path(outs["json"]).read_text())
    jsonschema.validate(document, matrix_schema())
    assert document["schema"] == "qverify.report_matrix/1" and document["rows"][0]["changed"] == 2
    for shown in (text, *(Path(outs[name]).read_text() for name in ("html", "csv", "markdown"))):
        assert "fact toolchain a" in shown and "FAILED" in shown and "1.10" in shown
    rows = list(csv.DictReader(line for line in Path(outs["csv"]).read_text().splitlines() if not line.startswith("#")))
    assert [row["verdict"] for row in rows] == ["PASSED", "PASSED", "FAILED", "FAILED"] and rows[2][
        "change"
    ] == "verdict"
    assert rows[2]["firmware"] == "1.10" and float(rows[2]["max_abs"]) > 0
    assert main([*WORDS, *paths, "--junit", str(tmp_path / "x")]) == 2


def test_a_table_is_never_wider_than_the_terminal():
    made = [report(at % 3 > 0, firmware=f"2026.{at}.0-build", toolchain="x" * 30) for at in range(30)]
    found = matrix_of(*made)
    for width in (40, 80, 132):
        for line in matrix_text.render(found, TextView(columns=width, wrapped=True)).split("\n")[:-1]:
            assert len(line) <= width, line
    assert len(re.findall("2026", matrix_text.render(found, TextView(columns=80)))) >= 30


def test_default_axes_are_what_differs():
    with Skimmer() as skimmer:
        runs: list[Any] = []
        for one in (report(firmware="1"), report(firmware="2")):
            runs += stored_runs(skimmer.read(json.dumps(to_json(one)).encode(), "x"), "x")
    assert default_axes(runs, (), ()) == (["model"], ["firmware"])
    assert default_axes(runs, ("board",), ()) == (["board"], ["firmware"])
    assert default_axes(runs[:1], (), ()) == (["model"], ["board"])


def test_task_numbers_and_times_are_in_a_cell():
    from qverify.report.document import TaskNumbers, TaskSide

    a, b = report(firmware="1"), report(firmware="2")
    a.tasks = [TaskNumbers("classification", "l.csv", "prob", 10, [TaskSide("board", 10, {"top-1": 0.9})])]
    b.tasks = [TaskNumbers("classification", "l.csv", "prob", 10, [TaskSide("board", 10, {"top-1": 0.7})])]
    found = matrix_of(a, b)
    assert (
        found.cells[1].change is not None and found.cells[1].change.kind == "numbers" and found.rows[0].changed is None
    )
    shown = matrix_text.render(found, replace(TextView(), detail="verbose"))
    assert "top-1 0.7" in shown and "PASSED+" in shown


@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_in_a_browser_asks_for_nothing_and_axe_finds_nothing(width, dark, tmp_path):
    """With every cell open, and with names of any length; a box hides the rows in which nothing changed."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    made = []
    for at, name in enumerate(["short.onnx", "backbone/" * 20 + "x" * 90 + ".onnx", *NASTY[:4]]):
        for number in range(6):
            one = report(number < 3 or at % 2 == 0, firmware=f"2026.{number}.0", toolchain="a" if number < 3 else "b")
            one.models[0]["path"] = name
            made.append(one)
    page_path = tmp_path / "m.html"
    page_path.write_text(matrix_page.render(visible(matrix_of(*made))))
    with Chromium(tmp_path / "profile", width) as page:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.open(page_path.as_uri())
        page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.settle()
        assert page.run("document.documentElement.scrollWidth") <= width
        page.run(axe.AXE_SCRIPT + "; 0")
        found = page.run(
            "axe.run().then((found) => found.violations.map((one) => one.id + one.nodes[0].html.slice(0, 200)))"
        )
        assert found == []
        shown = "[...document.querySelectorAll('.matrix tbody tr')].filter((row) => row.offsetHeight > 0).length"
        every = page.run(shown)
        page.click(".only-changed")
        assert 0 < page.run(shown) < every
        assert (page.requests, page.logged) == ([], [])

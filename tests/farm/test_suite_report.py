"""The report of a suite run: verdict, trends, flaky nodes and boards, baselines; the same in every format."""

from __future__ import annotations

import html
import json
import time
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import xmlschema
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.jobs import jobs_of
from qverify_farm.store.runs import NewJob, NewRun, end_run, ensure_project, submit_run
from qverify_farm.store.tables import AttemptRecord, BaselineRecord, JobRecord, SuiteRunRecord
from qverify_farm.store.verdicts import take_baseline
from qverify_farm.suites.formats import FORMATS, renderer
from qverify_farm.suites.formats.text import render as as_text
from qverify_farm.suites.schema import schema_text, suite_schema
from qverify_farm.suites.suite_report import SuiteReport
from qverify_farm.suites.summary import summarize

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas" / "suite.json"
ONE_BIT = {"causes": ["node"], "tensors": 1, "elements": 1, "nodes": [[1, 0.5, 0, 1]]}
F = {"verdict": "FAILED", "blame_side": "board", "blame_node": "conv1", "nodes": ["conv1"], "extent": ONE_BIT}
P, U = {"verdict": "PASSED"}, {"verdict": "INCONCLUSIVE", "why": "no answer"}


@pytest.fixture
def farm(tmp_path: Path) -> Any:
    opened = open_database(str(tmp_path / "farm.db"))
    yield opened
    opened.close()


def ran(
    farm: Database, results: Sequence[dict[str, Any]], *, baseline: bool = False, content: str = "c", **labels: str
) -> str:
    """Writes a run with jobs that have these results, by default on the board "desk", and returns its id."""
    with farm.write() as session:
        project = ensure_project(session).id
        new = NewRun(project, "nightly", "ann", {"name": "nightly", "files": {}, "baseline": baseline}, labels)
        jobs = [
            NewJob(result.get("name", f"m{n} desk"), f"m{n}", ("desk",), {"content": content})
            for n, result in enumerate(results)
        ]
        run = submit_run(session, new, jobs)
        run.started = time.time()
        for job, result in zip(jobs_of(session, run.id), results, strict=True):
            for key, value in {"state": "done", "board": "desk", "attempt": 1, "board_seconds": 1.0, **result}.items():
                if key != "spoiled":
                    setattr(job, key, value)
            tries = [*result.get("spoiled", ()), None]
            for number, spoiled in enumerate(tries, 1):
                ended = (
                    {"ending": "finished", "verdict": "INCONCLUSIVE", "why": spoiled}
                    if spoiled
                    else {"ending": "finished", "verdict": result.get("verdict")}
                )
                session.add(
                    AttemptRecord(
                        job=job.id, number=number, board=job.board or "desk", started=0.0, seconds=2.0, **ended
                    )
                )
        session.flush()
        end_run(session, run, time.time())
        return run.id


def report(farm: Database, run: str) -> SuiteReport:
    with farm.read() as session:
        return summarize(session, session.get_one(SuiteRunRecord, run))


@pytest.mark.parametrize(("results", "verdict"), [([P, P], "PASSED"), ([P, U], "INCONCLUSIVE"), ([U, F, P], "FAILED")])
def test_the_verdict_is_the_worst_of_the_jobs(farm: Database, results: list[dict[str, Any]], verdict: str) -> None:
    found = report(farm, ran(farm, results))
    assert found.verdict == verdict and found.counts["done"] == len(results)


def test_what_changed_against_the_last_runs(farm: Database) -> None:
    ran(farm, [P, F, F, U, P, F], firmware="1.1")
    time.sleep(0.01)
    other = {**F, "nodes": ["fc"], "blame_node": "fc"}
    found = report(farm, ran(farm, [F, P, other, P, P, F, F, P], content="d", firmware="1.2"))
    assert [job.change for job in found.jobs] == [
        "new failure",
        "mended",
        "changed cause",
        "mended",
        "",
        "",
        "new failure",
        "",
    ]
    assert [job.before for job in found.jobs] == [
        "PASSED",
        "FAILED",
        "FAILED",
        "INCONCLUSIVE",
        "PASSED",
        "FAILED",
        None,
        None,
    ]
    (past,) = found.past
    assert (past.passed, past.failed, past.inconclusive, past.labels, past.verdict) == (
        2,
        3,
        1,
        {"firmware": "1.1"},
        "FAILED",
    )
    text = as_text(found)
    assert "new failure: m0 desk; m6 desk\nchanged cause: m2 desk\nmended: m1 desk; m3 desk\n" in text
    assert (
        text.endswith("FAILED: nightly: 8 jobs, 4 PASSED, 4 FAILED\n")
        and "m0 desk  desk   FAILED   new failure    board at conv1" in text
    )


def test_an_unchanged_run_is_reported_as_such(farm: Database) -> None:
    ran(farm, [P])
    assert "nothing changed since 20" in as_text(report(farm, ran(farm, [P])))


def test_flaky_nodes_have_different_results_for_the_same_bytes(farm: Database) -> None:
    more = {**F, "nodes": ["conv1", "fc"]}
    ran(farm, [{**P, "name": "a desk"}, {**F, "name": "b desk"}, {**F, "name": "c desk"}])
    found = report(farm, ran(farm, [{**F, "name": "a desk"}, {**more, "name": "b desk"}, {**F, "name": "c desk"}]))
    assert [(one.job, one.board, one.nodes) for one in found.flaky_nodes] == [
        ("a desk", "desk", ["conv1"]),
        ("b desk", "desk", ["fc"]),
    ]
    assert found.flaky_nodes[0].results == {"FAILED at conv1": 1, "PASSED": 1}
    changed = report(farm, ran(farm, [{**P, "name": "c desk"}], content="other bytes"))
    assert "c desk" not in [one.job for one in changed.flaky_nodes]
    flashed = report(farm, ran(farm, [{**P, "name": "c desk"}], firmware="2"))
    assert flashed.flaky_nodes == []


def test_repeats_of_one_run_show_a_flaky_node(farm: Database) -> None:
    found = report(farm, ran(farm, [{**P, "name": "a desk #1"}, {**F, "name": "a desk #2"}]))
    assert [one.job for one in found.flaky_nodes] == ["a desk"] and "flaky: a desk on desk: 1 x" in as_text(found)


def test_flaky_boards_spoil_attempts_of_jobs_that_then_have_a_verdict(farm: Database) -> None:
    found = report(farm, ran(farm, [{**P, "spoiled": ["link lost"]}, {**P, "board": "rv"}, {**U, "board": "gone"}]))
    assert [(row.board, row.attempts, row.inconclusive, row.flaky) for row in found.boards] == [
        ("desk", 2, 1, True), ("gone", 1, 1, False), ("rv", 1, 0, False)
    ]  # fmt: skip
    assert found.boards[0].why == "link lost" and found.jobs[0].attempts == 2 and found.jobs[0].seconds == 4.0


def test_a_baseline_excuses_the_same_failure_only(farm: Database) -> None:
    first = ran(farm, [F, P])
    with farm.write() as session:
        assert take_baseline(session, session.get_one(SuiteRunRecord, first), 1.0) == 2
        assert take_baseline(session, session.get_one(SuiteRunRecord, first), 2.0) == 2
    same = report(farm, ran(farm, [F, P], baseline=True))
    assert same.verdict == "PASSED" and same.jobs[0].change == "known" and same.counts["FAILED"] == 1
    assert report(farm, ran(farm, [F, P])).verdict == "FAILED"
    two = {**ONE_BIT, "nodes": [[1, 0.5, 0, 1]] * 2}
    for other in ({**F, "nodes": ["conv1", "fc"], "extent": two}, {**F, "blame_side": "simulator"}, U):
        assert report(farm, ran(farm, [other, P], baseline=True)).verdict == other["verdict"]
    with farm.write() as session:
        for row in session.query(BaselineRecord):
            row.nodes = []
    assert report(farm, ran(farm, [{**F, "nodes": []}, P], baseline=True)).verdict == "FAILED"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"elements": 64, "nodes": [[64, 0.5, 0, 64]]}, "conv1: 64 elements differ, 1 in the baseline"),
        ({"nodes": [[1, 63.5, 0, 1]]}, "conv1: largest difference 63.5, 0.5 in the baseline"),
        ({"nodes": [[1, None, 0, 1]]}, "conv1: largest difference infinite, 0.5 in the baseline"),
        ({"nodes": [[1, 0.5, 1, 0]]}, "conv1: the elements that differ are below, above in the baseline"),
        ({"causes": ["coverage", "node"]}, "cause coverage, node, node in the baseline"),
        ({"tensors": 7, "elements": 1}, "7 tensors differ in all, 1 in the baseline"),
        ({"elements": 4}, "4 elements differ in all, 1 in the baseline"),
    ],
    ids=str,
)
def test_a_worse_or_different_failure_in_the_same_place_is_not_known(
    farm: Database, other: dict[str, Any], said: str
) -> None:
    first = ran(farm, [F, P])
    with farm.write() as session:
        take_baseline(session, session.get_one(SuiteRunRecord, first), 1.0)
    found = report(farm, ran(farm, [{**F, "why": "differs", "extent": {**ONE_BIT, **other}}, P], baseline=True))
    assert (found.verdict, found.jobs[0].change) == ("FAILED", "unlike baseline")
    assert found.jobs[0].why == f"differs; {said}" and said in as_text(found)
    smaller = {**ONE_BIT, "nodes": [[1, 0.25, 0, 1]]}
    assert report(farm, ran(farm, [{**F, "extent": smaller}, P], baseline=True)).jobs[0].change == "known"


def test_a_baseline_of_an_older_qverify_excuses_nothing_and_says_so(farm: Database) -> None:
    first = ran(farm, [{**F, "extent": {}}, P])
    with farm.write() as session:
        take_baseline(session, session.get_one(SuiteRunRecord, first), 1.0)
    found = report(farm, ran(farm, [F, P], baseline=True))
    assert (found.verdict, found.jobs[0].change) == ("FAILED", "unlike baseline")
    assert "without the extent of the failure; take it again (qverify suite baseline)" in found.jobs[0].why


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_what_weakens_a_verdict(farm: Database, name: str) -> None:
    weak = {**P, "caveats": "judged by sqnr_db >= -100 instead of 5 decimals"}
    found = report(farm, ran(farm, [weak, P, weak, {**P, "caveats": "final outputs only"}]))
    text = renderer(name)(found)
    assert found.verdict == "PASSED" and found.counts["caveats"] == 3
    if name == "json":
        assert [job["caveats"] for job in json.loads(text)["jobs"]] == [
            weak["caveats"],
            "",
            weak["caveats"],
            "final outputs only",
        ]
        return
    plain = html.unescape(text).replace("\\", "")
    headline = "PASSED: nightly: 4 jobs, 4 PASSED (3 with caveats); caveats: judged by sqnr_db >= -100 instead of 5 decimals; and 1 other caveat"
    assert headline.removeprefix("PASSED") in plain
    assert "caveats of 2 jobs: judged by sqnr_db >= -100 instead of 5 decimals (m0 desk, m2 desk)" in plain
    if name == "junit":
        assert [case.findtext("system-out") for case in xml.fromstring(text).iter("testcase")] == [
            f"caveats: {weak['caveats']}", None, f"caveats: {weak['caveats']}", "caveats: final outputs only",
        ]  # fmt: skip


def test_a_verdict_that_something_else_weakens_is_a_change(farm: Database) -> None:
    weak = {**P, "caveats": "final outputs only"}
    ran(farm, [P, weak, weak, {**F}])
    time.sleep(0.01)
    found = report(farm, ran(farm, [weak, P, weak, weak]))
    assert [job.change for job in found.jobs] == ["other caveats", "", "", "other caveats"]
    assert "other caveats: m0 desk; m3 desk\n" in as_text(found)


SCOPE = "final outputs only: the board offers no per-node dump"
SEED = "random inputs, PCG64 seed"


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ("", "", "mended"),
        ("", SCOPE, "other caveats"),
        (SCOPE, SCOPE, "mended"),
        (SCOPE, "", "mended"),
        (f"{SEED} 0", f"not bit-equal; {SEED} 1, 2", "mended"),
        ("the board's runner gave 8 of 8 tensors", "the board's runner gave 3 of 8 tensors", "other caveats"),
        ("the board's runner gave 3 of 8 tensors", "the board's runner gave 8 of 8 tensors", "mended"),
        ("", "the board's runner gave 3 of 8 tensors", "other caveats"),
        ("judged to 3 decimals, rule half", "judged to 2 decimals, rule half", "other caveats"),
        ("", "2 tensors judged node by node (relu1: 0.1); 1 other tensor differs, it agrees when recomputed", "mended"),
    ],
)
@pytest.mark.parametrize("earlier", [F, U])
def test_a_board_that_shows_less_is_not_mended(
    farm: Database, earlier: dict[str, Any], before: str, now: str, change: str
) -> None:
    ran(farm, [{**earlier, "caveats": before}])
    time.sleep(0.01)
    (job,) = report(farm, ran(farm, [{**P, "caveats": now}])).jobs
    assert job.change == change


def test_a_run_that_has_not_ended_is_inconclusive(farm: Database) -> None:
    run = ran(farm, [P, {"state": "queued"}])
    found = report(farm, run)
    assert (found.state, found.verdict, found.counts["queued"]) == ("running", "INCONCLUSIVE", 1)
    assert "<error" in renderer("junit")(found)
    assert as_text(found).splitlines()[-1].startswith("not finished: nightly: 2 jobs, 1 PASSED, 1 queued")
    assert ">not finished</span>: nightly" in renderer("html")(found)
    assert (
        as_text(report(farm, ran(farm, [F, {"state": "queued"}]))).splitlines()[-1].startswith("not finished, FAILED: ")
    )


def hostile(farm: Database) -> SuiteReport:
    text = "<script>alert(1)</script>|\x00\x1b[31m\n]]>&\u202e@team"
    with farm.write() as session:
        session.get_one(
            SuiteRunRecord, run := ran(farm, [{**F, "why": text, "blame_node": text, "nodes": [text]}])
        ).labels = {text: text}
        session.get_one(JobRecord, jobs_of(session, run)[0].id).model = text
    return report(farm, run)


@pytest.mark.parametrize("name", FORMATS)
def test_untrusted_names_are_only_text(farm: Database, name: str) -> None:
    text = renderer(name)(hostile(farm))
    if name == "json":
        assert json.loads(text)["verdict"] == "FAILED"
        return
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text
    if name == "markdown":
        assert "@team" not in text
    if name == "junit":
        assert xml.fromstring(text).get("failures") == "1"


def test_the_json_fits_its_schema_which_is_published(farm: Database) -> None:
    ran(farm, [P, F])
    for run in (ran(farm, [F, F, U], firmware="1"), ran(farm, [{"state": "queued"}])):
        document = json.loads(renderer("json")(report(farm, run)))
        jsonschema.validate(document, suite_schema())
        assert document["schema"] == "qverify.suite/1"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "verdict": "FINE"}, suite_schema())
    assert PUBLISHED.read_text() == schema_text() + "\n", "qverify suite schema > docs/reference/schemas/suite.json"


def test_junit_has_a_case_for_each_job(farm: Database) -> None:
    root = xml.fromstring(
        renderer("junit")(report(farm, ran(farm, [P, F, U, {"state": "cancelled", "why": "by ann"}])))
    )
    xmlschema.XMLSchema(str(PUBLISHED.with_name("junit.xsd"))).validate(root)
    assert [root.get(k) for k in ("tests", "failures", "errors")] == ["4", "1", "2"]
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {"m0 desk": [], "m1 desk": ["failure"], "m2 desk": ["error"], "m3 desk": ["error"]}


def test_the_page_needs_no_script_and_nothing_from_elsewhere(farm: Database) -> None:
    page = renderer("html")(report(farm, ran(farm, [P, F], firmware="1.2")))
    assert "<script" not in page and "http" not in page.replace("http-equiv", "") and "default-src 'none'" in page
    assert all(word in page for word in ("m1 desk", "FAILED", "board at conv1", "1.2", "<h2>Boards</h2>"))


def test_an_attempt_whose_worker_died_does_not_make_a_board_flaky(farm: Database) -> None:
    run = ran(farm, [P] * 3)
    with farm.write() as session:
        job = jobs_of(session, run)[0]
        session.add(
            AttemptRecord(
                job=job.id, number=9, board="desk", started=0.0, seconds=1.0, ending="lost", why="its worker died"
            )
        )
    (board,) = report(farm, run).boards
    assert (board.attempts, board.inconclusive, board.flaky, board.why) == (3, 0, False, "")


def test_an_attempt_that_failed_for_the_store_does_not_make_a_board_flaky(farm: Database) -> None:
    run = ran(farm, [P] * 3)
    with farm.write() as session:
        job = jobs_of(session, run)[0]
        why = {"verdict": "INCONCLUSIVE", "why": "the artifact store cannot be reached", "of_board": False}
        session.add(
            AttemptRecord(job=job.id, number=9, board="desk", started=0.0, seconds=1.0, ending="finished", **why)
        )
    (board,) = report(farm, run).boards
    assert (board.attempts, board.inconclusive, board.flaky, board.why) == (4, 0, False, "")

"""The farm's pages in a browser, used as a person uses them, over a complete service with boards of this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="qverify[service] is not installed")
import httpx
from qverify_farm.service.farm import Farm
from qverify_farm.service.tokens import create_token
from qverify_farm.store.runs import ensure_project
from qverify_farm.ui import views

from tests.farm.browsing import CHROMIUM, SIZES, WAIT_MS, looking, opened_browser
from tests.farm.served import BOARDS, CULPRIT, MODEL, serving

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")]
BAD = {"serious", "critical"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Farm]]:
    with serving(tmp_path_factory.mktemp("farm")) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


def submit(page: Any, url: str, *boards: str) -> str:
    """Submits the packaged model with the form, waits for the end of the run, and returns the run's address."""
    page.goto(f"{url}/submit")
    page.get_by_label("Models").set_input_files(MODEL)
    for board in boards:
        page.get_by_label(board).check()
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("Judge every node").select_option("yes")
    page.get_by_label("Labels").fill("firmware=1.0")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/runs/*")
    page.locator("h1 .verdict:is(.passed, .failed, .inconclusive)").wait_for()
    return str(page.url)


def test_a_person_submits_watches_and_opens_the_report(service: tuple[str, Farm], browser: Any) -> None:
    with looking(browser, service[0]) as page:
        submit(page, service[0], "desk", "wrong")
        assert page.locator("h1 .verdict").inner_text() == "FAILED"
        rows = page.locator("tbody tr")
        assert rows.count() == 2 and CULPRIT in rows.first.inner_text() and "PASSED" in rows.last.inner_text()
        rows.first.get_by_role("link").click()
        report = page.frame_locator("iframe[title=Report]")
        report.locator("h1").first.wait_for()
        assert CULPRIT in report.locator("body").inner_text()
        page.get_by_role("link", name="History").last.click()
        assert page.locator("svg circle.dot.failed").count() >= 1 and "1.0" in page.locator("svg").text_content()


def test_the_pages_work_by_keyboard_and_without_scripts(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url, java_script_enabled=False) as page:
        page.goto(f"{url}/submit")
        page.get_by_label("Models").set_input_files(MODEL)
        page.get_by_label("desk").focus()
        page.keyboard.press("Space")
        page.get_by_role("button", name="Submit").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/*")
        end = time.monotonic() + WAIT_MS / 1000
        while page.locator("h1 .verdict.passed").count() == 0 and time.monotonic() < end:
            page.wait_for_timeout(200)
            page.reload()
        assert page.locator("h1 .verdict").inner_text() == "PASSED"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"


def test_a_wrong_form_says_what_is_wrong_and_keeps_what_was_typed(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    page = browser.new_context(viewport=SIZES["desk"]).new_page()
    page.goto(f"{url}/submit")
    page.get_by_label("Models").set_input_files(MODEL)
    page.get_by_label("Or any board").fill("soc=none")
    page.get_by_role("button", name="Submit").click()
    assert "soc=none" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Or any board").input_value() == "soc=none"
    page.context.close()


def test_a_dropped_file_is_accepted(service: tuple[str, Farm], browser: Any) -> None:
    with looking(browser, service[0]) as page:
        page.goto(f"{service[0]}/submit")
        page.evaluate(
            """() => { const data = new DataTransfer(); data.items.add(new File(["x"], "q.onnx"));
            const field = document.getElementById("models").closest(".drop");
            field.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })); }"""
        )
        assert page.evaluate("document.getElementById('models').files[0].name") == "q.onnx"


def test_two_runs_are_compared(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        before, after = submit(page, url, "desk"), submit(page, url, "wrong")
        page.goto(f"{url}/compare?before={before.rpartition('/')[2]}&after={after.rpartition('/')[2]}")
        assert page.locator("tbody tr").count() == 2 and "not there" in page.locator("tbody").inner_text()


def test_a_bad_case_comes_back_with_its_cause(service: tuple[str, Farm], browser: Any, tmp_path: Path) -> None:
    from qverify.cli.main import main

    capture = tmp_path / "case"
    assert main(["-m", MODEL, "-b", BOARDS["wrong"], "-r", "True", "-q", "--capture", str(capture)]) == 1
    with looking(browser, service[0]) as page:
        page.goto(f"{service[0]}/inbox/new")
        page.get_by_label("Or a capture").set_input_files(str(capture))
        page.get_by_label("Name").fill("from the field")
        page.get_by_role("button", name="Hand in").click()
        page.wait_for_url("**/runs/*")
        page.locator("h1 .verdict:is(.passed, .failed, .inconclusive)").wait_for()
        page.goto(f"{service[0]}/inbox")
        row = page.locator("tbody tr", has_text="from the field")
        assert "FAILED" in row.inner_text() and CULPRIT in row.inner_text()


@pytest.mark.parametrize("size", SIZES)
def test_the_graph_of_the_network_is_in_the_page_of_a_job(service: tuple[str, Farm], browser: Any, size: str) -> None:
    """In the frame of the report, which has no origin of its own: it opens at the wrong node, and keys walk it."""
    url = service[0]
    with looking(browser, url, viewport=SIZES[size]) as page:
        submit(page, url, "wrong")
        page.goto(url + page.locator("tbody a").first.get_attribute("href"))
        report = page.frame_locator("iframe[title=Report]")
        chosen = report.locator(".net.chosen title")
        chosen.wait_for(state="attached")
        assert chosen.text_content().startswith(f"{CULPRIT}:")
        report.locator(".network-view").focus()
        page.keyboard.press("ArrowUp")
        assert not chosen.text_content().startswith(f"{CULPRIT}:")
        page.keyboard.press("Escape")
        assert chosen.text_content().startswith(f"{CULPRIT}:")
        assert report.locator(".network-side figure svg.bars").count() == 1  # stored reports have no other drawings


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_hard_to_reach(service: tuple[str, Farm], browser: Any, size: str, scheme: str) -> None:
    """axe-core finds no serious problem on any page, and no page is wider than the screen."""
    url = service[0]
    with looking(browser, url, viewport=SIZES[size], color_scheme=scheme) as page:
        run = submit(page, url, "wrong")
        job = page.locator("tbody a").first.get_attribute("href")
        name = page.locator("tbody a").first.inner_text()
        history = f"/history?name={name.replace(' ', '+')}&node={CULPRIT}"
        places = [
            "/",
            "/runs",
            "/submit",
            "/inbox",
            "/inbox/new",
            "/history",
            history,
            "/matrix",
            "/matrix?rows=model&columns=firmware&columns=board&rows=inputs",
            f"/compare?before={run[-32:]}&after={run[-32:]}",
        ]
        for place in [*places, run.removeprefix(url), job, "/login"]:
            page.goto(url + place)
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            options = {"iframes": False}  # the report has a test of its own
            found = axe.Axe().run(page, options=options).response["violations"]
            bad = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in BAD]
            assert (place, bad) == (place, [])
            assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], place


def test_a_token_logs_in_and_forms_of_other_sites_are_refused(tmp_path: Path, browser: Any) -> None:
    with serving(tmp_path) as (url, farm):
        with farm.database.write() as session:
            project = ensure_project(session).name
            _, secret = create_token(session, "ann", "submitter", project, None, time.time())
        assert httpx.get(f"{url}/").status_code == 401
        page = browser.new_context().new_page()
        page.goto(f"{url}/")
        page.get_by_label("Token").fill("qv_" + "x" * 43)
        page.get_by_role("button", name="Log in").click()
        assert "unknown" in page.get_by_role("alert").inner_text()
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{url}/")
        assert "ann (submitter)" in page.locator("header").inner_text()
        for session, status in (("qs_" + "x" * 43, 401), (secret, 401), ("", 401)):
            reply = httpx.post(f"{url}/submit", files={"models": b"x"}, cookies={"qverify_session": session})
            assert reply.status_code == status
        cookies = {one["name"]: one for one in page.context.cookies()}
        assert all(one["httpOnly"] and one["sameSite"] == "Strict" for one in cookies.values()) and len(cookies) == 2
        assert secret not in [one["value"] for one in cookies.values()]
        sent = {name: one["value"] for name, one in cookies.items()}
        for form, headers in (({}, {}), ({"form_token": "0" * 64}, {}), ({"form_token": sent["qverify_form"]}, CROSS)):
            reply = httpx.post(f"{url}/runs/{'0' * 32}/cancel", data=form, cookies=sent, headers=headers)
            assert reply.status_code in (401, 403), (form, headers)
        page.get_by_role("button", name="Log out").click()
        page.goto(f"{url}/")
        assert page.get_by_label("Token").count() == 1
        page.context.close()


CROSS = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}


def test_user_input_is_shown_as_text(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        name = '<img src=x onerror="document.title=1"> {{ 7*7 }}'
        page.goto(f"{url}/history?name={name.replace(' ', '+')}")
        assert page.get_by_label("Job").input_value() == name and page.locator("main img").count() == 0
        policy = httpx.get(f"{url}/history").headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy


def test_an_administrator_drains_a_board_and_puts_it_back(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        page.goto(url)
        page.get_by_role("button", name="Drain desk").click()
        card = page.locator(".board", has_text="desk")
        card.get_by_text("offline").wait_for()
        page.goto(f"{url}/submit?board=desk")
        page.get_by_label("Models").set_input_files(MODEL)
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/runs/*")
        page.get_by_text("waits: desk is drained").wait_for()
        waiting = page.url
        page.goto(url)
        assert "1 job waits, 0 run; 1 of those that wait has no usable board" in page.locator("main").inner_text()
        page.get_by_role("button", name="Put back desk").click()
        page.goto(waiting)
        page.locator("h1 .verdict.passed").wait_for()
        assert page.title().startswith("PASSED: digits_quant")


def test_a_viewer_is_told_so_and_has_no_buttons(tmp_path: Path, browser: Any) -> None:
    with serving(tmp_path) as (url, farm):
        with farm.database.write() as session:
            project = ensure_project(session).name
            _, secret = create_token(session, "eve", "viewer", project, None, time.time())
        page = browser.new_context().new_page()
        page.goto(url)
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Log in").click()
        page.locator(".board").first.wait_for()
        assert page.get_by_role("button").all_inner_texts() == ["Log out"]
        page.goto(f"{url}/submit")
        assert "may look, not submit" in page.locator("main").inner_text()
        sent = {one["name"]: one["value"] for one in page.context.cookies()}
        form = {"form_token": sent["qverify_form"], "board": "desk"}
        assert httpx.post(f"{url}/boards/drain", data=form, cookies=sent).status_code == 403
        page.context.close()


def test_the_history_suggests_jobs_and_says_which_runs_have_no_label(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        submit(page, url, "wrong")
        page.goto(f"{url}/submit?board=wrong")
        page.get_by_label("Models").set_input_files(MODEL)
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/runs/*")
        page.locator("h1 .verdict.failed").wait_for()
        page.goto(f"{url}/history")
        page.get_by_role("link", name="digits_quant wrong").click()
        assert page.locator("tbody tr").first.get_by_text("no firmware").count() == 1
        assert page.locator(".dot.apart").count() >= 1 and "without this label" in page.locator("figure").inner_text()
        page.goto(f"{url}/history?name=digits_quant+wrong&label=time")
        assert page.locator(".dot.apart").count() == 0 and "Verdicts by time" in page.locator("figure").inner_text()
        page.goto(f"{url}/history?name=digits_quant+wrong&node=nowhere")
        assert "No report of this job has numbers" in page.locator("main").inner_text()


def test_of_a_long_run_the_worst_jobs_are_shown(
    service: tuple[str, Farm], browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_JOBS", 1)
    with looking(browser, service[0]) as page:
        submit(page, service[0], "desk", "wrong")
        assert page.locator("tbody tr").count() == 1 and "digits_quant wrong" in page.locator("tbody").inner_text()
        assert page.locator("caption").inner_text() == "Jobs, the worst first; the first 1 of 2"


def test_compare_offers_the_last_two_runs(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        before, after = (submit(page, url, "desk").rpartition("/")[2] for _ in range(2))
        page.goto(f"{url}/compare")
        page.get_by_role("button", name="Compare").click()
        assert f"before={before}&after={after}" in page.url
        assert "firmware=1.0" in page.locator("option").first.inner_text()
        assert page.get_by_role("link", name=f"After: digits_quant {after[:12]}").count() == 1


def test_one_model_on_two_boards_is_compared_down_to_the_tensor(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        run = submit(page, url, "desk", "wrong").rpartition("/")[2]
        page.goto(f"{url}/compare?before={run}&after={run}&before_board=desk&after_board=wrong")
        assert page.locator("tbody tr").count() == 1 and "digits_quant" in page.locator("tbody th").inner_text()
        assert page.get_by_label("Board after").input_value() == "wrong"
        page.get_by_role("link", name=CULPRIT).click()
        row = page.locator("table.tensors tbody tr", has_text=CULPRIT).first
        row.wait_for()
        assert row.evaluate(
            "row => { const at = row.getBoundingClientRect(); return at.top >= 0 && at.top < innerHeight; }"
        )


def test_runs_show_model_board_and_duration(service: tuple[str, Farm], browser: Any) -> None:
    with looking(browser, service[0]) as page:
        submit(page, service[0], "desk", "wrong")
        page.goto(f"{service[0]}/runs")
        heads = page.locator("thead th").all_inner_texts()
        cells = dict(zip(heads, page.locator("tbody tr").first.locator("th, td").all_inner_texts(), strict=True))
        assert cells["Model"] == "digits_quant" and cells["Board"] == "desk, wrong" and cells["Took"].endswith("s")


def test_a_report_stands_in_the_page_and_tables_say_that_they_scroll(service: tuple[str, Farm], browser: Any) -> None:
    with looking(browser, service[0], viewport={"width": 400, "height": 800}) as page:
        submit(page, service[0], "wrong")
        hint = "getComputedStyle(document.querySelector('.wide'), '::before').content"
        assert "scroll sideways" in page.evaluate(hint)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link", name="digits_quant wrong").first.click()
        frame = page.locator("iframe.report")
        end = time.monotonic() + 60
        while frame.evaluate("one => one.clientHeight") < 1500 and time.monotonic() < end:
            page.wait_for_timeout(200)
        inner = next(frame for frame in page.frames if frame.url.endswith("/page"))
        heights = inner.evaluate("[document.documentElement.scrollHeight, innerHeight]")
        assert heights[0] <= heights[1]  # nothing left to scroll in the frame
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(f"{service[0]}/runs")
        assert page.evaluate(hint) == "none"


def test_the_history_is_chosen_from_menus_and_its_axis_is_whole(service: tuple[str, Farm], browser: Any) -> None:
    url = service[0]
    with looking(browser, url) as page:
        submit(page, url, "wrong")
        page.goto(f"{url}/history")
        page.get_by_label("Job").select_option("digits_quant wrong")
        page.get_by_label("Board").select_option("wrong")
        page.get_by_role("button", name="Show").click()
        page.get_by_label("Node").select_option(CULPRIT)
        page.get_by_role("button", name="Show").click()
        assert page.locator("figure .dot").count() >= 1
        page.goto(f"{url}/history?name=digits_quant+wrong")
        outside = """() => [...document.querySelectorAll("figure svg text")].filter((one) => {
            const box = one.getBBox(); return box.x < 0 || box.x + box.width > 900; }).map((one) => one.textContent)"""
        assert page.evaluate(outside) == []
        assert "Inconclusive" in (page.locator("figure svg").text_content() or "")


def test_a_picture_takes_a_description_that_is_drafted_first(
    service: tuple[str, Farm], browser: Any, tmp_path: Path
) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = tmp_path / "three.png"
    image.new("L", (8, 8), 128).save(picture)
    url = service[0]
    with looking(browser, url, logged=("422",)) as page:
        page.goto(f"{url}/submit?board=desk")
        page.get_by_label("Models").set_input_files(MODEL)
        page.locator("#inputs").set_input_files(str(picture))
        page.get_by_role("button", name="Submit").click()
        field = page.get_by_label("Description of pictures")
        field.wait_for()
        assert "three.png: a picture needs a description" in page.get_by_role("alert").inner_text()
        assert field.input_value().startswith("[inputs.image]")
        assert 'size = "8x8"' in field.input_value() and "GUESSED" in field.input_value()
        assert page.get_by_label("desk").is_checked()
        field.fill('[inputs.image]\nformat = "featuremap"\nsize = "8x8"\ntrain = "gray"\nmean = 0\nstd = 255\n')
        page.get_by_label("Models").set_input_files(MODEL)
        page.locator("#inputs").set_input_files(str(picture))
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/runs/*", timeout=60_000)
        page.locator("h1 .verdict.passed").wait_for(timeout=120_000)

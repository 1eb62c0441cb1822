"""The farm's pages by keyboard alone: no mouse, every stop visible, no trap, and the news announced."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main

pytest.importorskip("fastapi", reason="qverify[service] is not installed")
from qverify_farm.service.farm import Farm
from qverify_farm.service.tokens import create_token
from qverify_farm.store.runs import ensure_project
from qverify_farm.store.tables import BoardRecord

from tests.farm.browsing import CHROMIUM, SIZES, Keyboard, Stop, looking, opened_browser
from tests.farm.served import BOARDS, CULPRIT, MODEL, serving

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")]
UNAUTHORIZED = ("401 (Unauthorized)",)  # the browser logs that the first page asks to log in
SKIP = "Skip to the content"
SEEN_STATUS = "text => document.getElementById('status').textContent.includes(text)"
PICTURE = np.random.default_rng(19).random((1, 1, 8, 8), np.float32)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Farm, str]]:
    with serving(tmp_path_factory.mktemp("farm")) as (url, farm):
        with farm.database.write() as session:
            project = ensure_project(session).name
            _, secret = create_token(session, "ann", "submitter", project, None, time.time())
        yield url, farm, secret


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened_browser() as opened:
        yield opened


def log_in(page: Any, service: tuple[str, Farm, str]) -> Keyboard:
    """Logs in. The field of the token has the focus."""
    page.goto(service[0])
    keys = Keyboard(page)
    assert keys.here() == Stop("input", "Token")
    keys.write(service[2])
    keys.go()
    return keys


def skip_to_content(keys: Keyboard) -> None:
    assert keys.next() == Stop("a", SKIP)
    keys.press("Enter")


@pytest.mark.parametrize("size", SIZES)
def test_a_verification(service: tuple[str, Farm, str], browser: Any, size: str) -> None:
    with looking(browser, service[0], UNAUTHORIZED, viewport=SIZES[size]) as page:
        keys = log_in(page, service)
        keys.to("Submit")
        keys.go()
        skip_to_content(keys)
        assert keys.next() == Stop("input", "Models")
        keys.choose_files("Enter", MODEL)
        assert keys.next() == Stop("input", "Inputs")
        for board in BOARDS:
            keys.to(f"{board} \\w+")
            keys.press("Space")
        keys.to("Options")
        keys.press("Enter")
        keys.to("Name")
        keys.write("by keyboard")
        keys.to("Labels")
        keys.write("firmware=1.0")
        keys.to("Judge every node.*")
        keys.press("ArrowDown")
        keys.to("Submit", "button")
        keys.go()
        page.wait_for_function(SEEN_STATUS, arg="by keyboard: FAILED, 2 of 2 ended, 1 FAILED")
        keys.to("digits_quant wrong")
        keys.go()
        look_through_report(keys, page)


def look_through_report(keys: Keyboard, page: Any) -> None:
    """Opens a part of the report by its link, goes on from there, and leaves the report again."""
    page.frame_locator("iframe[title=Report]").locator("h1").first.wait_for()
    assert keys.to("Coverage ledger").in_frame
    keys.press("Enter")
    top = (
        "() => { const box = document.querySelector(':target').getBoundingClientRect(); return box.top / innerHeight; }"
    )
    assert 0 <= page.frames[-1].evaluate(top) < 0.9
    behind = keys.stops()
    assert behind and all(stop.in_frame for stop in behind)
    assert CULPRIT not in behind[0].name  # the stops of the parts before it are passed over
    keys.enter_page()
    assert keys.to("Report on its own page").kind == "a"
    keys.go()
    assert keys.to("Coverage ledger").kind == "a" and keys.stops()


def test_a_bad_case(service: tuple[str, Farm, str], browser: Any, tmp_path: Path) -> None:
    photo, dump = tmp_path / "photo.npy", tmp_path / "dump.npz"
    np.save(photo, PICTURE)
    assert main(["infer", "-m", MODEL, "-i", str(photo), "--side", "reference", "-o", str(tmp_path / "out")]) == 0
    names = json.loads((tmp_path / "out" / "manifest.json").read_text())["tensors"]
    np.savez(dump, **{name: np.load(tmp_path / "out" / file) for file, name in names.items()})
    with looking(browser, service[0], UNAUTHORIZED, viewport=SIZES["phone"]) as page:
        keys = log_in(page, service)
        keys.to("Inbox")
        keys.go()
        skip_to_content(keys)
        assert keys.next() == Stop("a", "Hand in a bad case")
        keys.go()
        for field, file in (("Models", MODEL), ("Photo.*", photo), ("The board's dump", dump)):
            keys.to(field, "input")
            keys.choose_files("Space", file)
        keys.to("Name")
        keys.write("from the field")
        keys.to("What was wrong")
        keys.write("it saw a 7")
        keys.to("Hand in", "button")
        keys.go()
        page.wait_for_function(SEEN_STATUS, arg="from the field: PASSED, 1 of 1 ended")
        keys.to("Inbox")
        keys.go()
        assert "it saw a 7" in page.locator("tbody").inner_text()
        keys.to("from the field")
        keys.go()
        assert page.title().startswith("PASSED: from the field")


def test_a_capture(service: tuple[str, Farm, str], browser: Any, tmp_path: Path) -> None:
    capture = tmp_path / "case"
    assert main(["-m", MODEL, "-b", BOARDS["wrong"], "-r", "True", "-q", "--capture", str(capture)]) == 1
    with looking(browser, service[0], UNAUTHORIZED) as page:
        keys = log_in(page, service)
        page.goto(f"{service[0]}/inbox/new")
        keys.to("Or a capture")
        keys.choose_files("Enter", capture)
        keys.to("Name")
        keys.write("a capture")
        keys.press("Enter")  # as in any form
        page.wait_for_function(SEEN_STATUS, arg="a capture: FAILED, 1 of 1 ended, 1 FAILED")


def test_no_page_traps_the_focus(service: tuple[str, Farm, str], browser: Any) -> None:
    """Tab passes every stop and leaves the page; Shift+Tab goes the same way back."""
    with looking(browser, service[0], UNAUTHORIZED, viewport=SIZES["phone"]) as page:
        keys = log_in(page, service)
        for place in ("/", "/runs", "/submit", "/inbox", "/inbox/new", "/history?name=digits_quant+wrong", "/compare"):
            page.goto(f"{service[0]}{place}")
            forth = keys.stops()
            assert forth[0].name == SKIP and len(forth) >= 9, place
            back = [keys.next(back=True) for _ in forth]
            assert back == forth[::-1], place


def test_a_refused_form_has_the_focus_at_its_reason(service: tuple[str, Farm, str], browser: Any) -> None:
    logged = (*UNAUTHORIZED, "422 (Unprocessable")
    with looking(browser, service[0], logged) as page:
        keys = log_in(page, service)
        page.goto(f"{service[0]}/submit")
        for board in BOARDS:
            keys.to(f"{board} \\w+")
            keys.press("Space")
        keys.to("Submit", "button")
        keys.go()
        reason = keys.here()
        assert reason is not None and reason.name.startswith("models: choose the quantized ONNX")
        assert keys.next() == Stop("input", "Models")
        chosen = page.evaluate("[...document.querySelectorAll('[name=boards]:checked')].map(box => box.value)")
        assert chosen == list(BOARDS)


@pytest.fixture
def drained(service: tuple[str, Farm, str]) -> Iterator[str]:
    """The name of a board that takes no jobs."""

    def drain(how: bool) -> None:
        with service[1].database.write() as session:
            session.get_one(BoardRecord, "desk").drained = how
        service[1].wake()

    drain(True)
    yield "desk"
    drain(False)


def test_an_update_keeps_the_focus(service: tuple[str, Farm, str], browser: Any, drained: str) -> None:
    url = service[0]
    with looking(browser, url, UNAUTHORIZED) as page:
        keys = log_in(page, service)
        page.goto(f"{url}/submit?board={drained}")
        keys.to("Models")
        keys.choose_files("Enter", MODEL)
        keys.to("Submit", "button")
        keys.go()
        page.evaluate("document.getElementById('main').firstElementChild.id = 'old'")
        assert keys.to("Cancel").kind == "button"
        page.wait_for_function("() => !document.getElementById('old')")  # updated
        assert keys.here() == Stop("button", "Cancel")
        assert "waits: desk is drained" in page.locator("tbody").inner_text()
        keys.go()
        assert "cancelled by ann" in page.locator("main").inner_text()


def test_a_page_that_cannot_be_updated_says_so(service: tuple[str, Farm, str], browser: Any) -> None:
    with looking(browser, service[0], ("401", "ERR_FAILED")) as page:
        log_in(page, service)
        page.route("**/*", lambda route: route.abort())
        page.evaluate("showWhetherStale(null)")
        assert "the server is not reached" in page.get_by_role("alert").inner_text()
        page.unroute("**/*")
        page.context.clear_cookies()
        page.evaluate(
            "fetch(location.href).then(reply => { showWhetherStale({ ok: true }); showWhetherStale(reply); })"
        )
        page.get_by_text("the session has ended").wait_for()

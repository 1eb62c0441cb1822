"""A headless browser for the tests of the pages, and a person who uses a page with the keyboard alone."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
SIZES = {"desk": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 800}}
WAIT_MS = 120_000
SETTLE_S = 3.0  # for a ring and a scroll to be drawn
MOST_STOPS = 400  # more presses of Tab than any page has stops
# What has the focus: how it is called, whether a ring shows it, and whether it is in view.
FOCUSED = """() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  const label = element.labels?.length ? element.labels[0].innerText : element.getAttribute("aria-label");
  const aim = element.querySelector(".aim");
  return {
    kind: element.tagName.toLowerCase(),
    name: (label ?? (element.innerText || element.textContent || element.title)).trim().replace(/\\s+/g, " "),
    isRinged: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2) || Boolean(aim),
    isInView: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Yields a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def looking(browser: Any, url: str, logged: tuple[str, ...] = (), **how: Any) -> Iterator[Any]:
    """A page in a new browser context. It fails if the page contacts anything but the service, or logs an error other than those
    that contain one of `logged`."""
    page = browser.new_context(**{"viewport": SIZES["desk"], **how}).new_page()
    page.set_default_timeout(WAIT_MS)
    errors, foreign = list[str](), list[str]()
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((url, "blob:", "data:")) else foreign.append(r.url))
    yield page
    assert [text for text in errors if not any(known in text for known in logged)] == [] and foreign == []
    page.context.close()


@dataclass(frozen=True, slots=True)
class Stop:
    """An element that has the focus. kind: its tag. in_frame: whether it is in a page inside the page."""

    kind: str
    name: str
    in_frame: bool = False


class Keyboard:
    """A person without a mouse. Every stop must have a visible ring and be in view."""

    def __init__(self, page: Any):
        self._page = page
        page.on("filechooser", lambda _: None)  # from now on, no chooser of the browser itself is opened

    def here(self) -> Stop | None:
        """Returns what has the focus, or None if nothing has."""
        end = time.monotonic() + SETTLE_S
        while True:
            found = self._page.evaluate(FOCUSED)
            in_frame = found is not None and found["kind"] == "iframe"
            if in_frame:
                found = self._page.frames[-1].evaluate(FOCUSED)
            if found is None:
                return Stop("iframe", "", in_frame) if in_frame else None
            if (found["isRinged"] and found["isInView"]) or time.monotonic() > end:
                break  # a busy machine draws and scrolls later
        assert found["isRinged"] and found["isInView"], found
        return Stop(found["kind"], found["name"], in_frame)

    def next(self, back: bool = False) -> Stop | None:
        """Goes to the next stop, or with `back` to the one before, and returns it."""
        self._page.keyboard.press("Shift+Tab" if back else "Tab")
        end = time.monotonic() + SETTLE_S
        while (stop := self.here()) is None and back and time.monotonic() < end:
            time.sleep(0.05)  # the focus comes back into the page from outside
        return stop

    def to(self, name: str, kind: str = "") -> Stop:
        """Presses Tab until a stop's name matches a pattern, and returns that stop."""
        seen = list[Stop | None]()
        while len(seen) < MOST_STOPS:
            stop = self.next()
            if stop is not None and re.fullmatch(name, stop.name) and kind in ("", stop.kind):
                return stop
            if stop is None:
                self.enter_page()
            seen.append(stop)
        raise AssertionError(f"{name}: not reached by Tab; the stops: {seen[:60]}")

    def stops(self) -> list[Stop]:
        """Presses Tab until the focus leaves the page, and returns the stops on the way."""
        passed = list[Stop]()
        while (stop := self.next()) is not None:
            passed.append(stop)
            assert len(passed) < MOST_STOPS, f"the focus never leaves the page: {passed[-5:]}"
        return passed

    def enter_page(self) -> None:
        """Puts the focus before the first stop, as if it came from the browser's own controls, which a headless browser lacks:
        whether Tab wraps from the end of a frame to the beginning of the page depends on Chromium's timing."""
        self._page.bring_to_front()
        self._page.evaluate("() => { document.activeElement.blur(); getSelection().collapse(document.body, 0); }")

    def press(self, key: str) -> None:
        self._page.keyboard.press(key)

    def write(self, text: str) -> None:
        self._page.keyboard.type(text)

    def go(self, key: str = "Enter") -> None:
        """Presses a key that opens another page, and waits for that page."""
        with self._page.expect_navigation():
            self.press(key)

    def choose_files(self, key: str, *files: str | Path) -> None:
        """Presses a key that opens the file chooser, and chooses files there."""
        with self._page.expect_file_chooser() as opened:
            self.press(key)
        opened.value.set_files([str(file) for file in files])

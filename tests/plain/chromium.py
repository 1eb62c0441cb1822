"""A page in headless Chromium, driven over its pipe: what it asks for and logs is kept, and it is clicked as by a person."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

BINARY = shutil.which("chromium")
WHY_NOT = "no chromium or no bash on this machine"
USABLE = BINARY is not None and shutil.which("bash") is not None
START = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe")


class Chromium:
    """One browser with one page. requests: addresses that the page asked for, itself and what it has within (data:) left out. logged: what the console
    got, exceptions included."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900):
        there, self._out = os.pipe()
        self._in, back = os.pipe()
        words = [str(BINARY), *START, *QUIET, f"--user-data-dir={folder}", f"--window-size={width},{height}"]
        command = ["bash", "-c", f'exec "$@" 3<&{there} 4>&{back}', "bash", *words, "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(there, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(there)
        os.close(back)
        self._number, self._rest, self._session = 0, b"", ""
        self.requests, self.logged, self._events = list[str](), list[str](), list[str]()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._out)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Returns the result of a method of the DevTools protocol. RuntimeError with its error."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._keep(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 16)
            if not more:
                raise RuntimeError("chromium ended")
            self._rest += more
        one, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(one))

    def _keep(self, event: dict[str, Any]) -> None:
        name, told = event.get("method", ""), event.get("params", {})
        self._events.append(name)
        if name == "Network.requestWillBeSent" and told["type"] != "Document":
            address = told["request"]["url"]
            self.requests += [] if address.startswith("data:") else [address]
        if name == "Runtime.exceptionThrown":
            self.logged.append(str(told["exceptionDetails"]))
        if name == "Runtime.consoleAPICalled":
            self.logged.append(str(told["args"]))
        if name == "Log.entryAdded":
            self.logged.append(str(told["entry"]))

    def open(self, address: str) -> None:
        """Opens a page and waits until it is loaded."""
        self._events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            self._keep(self._read())

    def run(self, script: str) -> Any:
        """Returns the value of an expression in the page. RuntimeError where it throws."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks in the middle of the first element that the selector finds."""
        where = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)
        self.settle()

    def press(self, key: str) -> None:
        """Presses a key, such as ArrowRight or Enter."""
        text = {"Enter": {"text": "\r", "windowsVirtualKeyCode": 13}}.get(key, {})
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **text)
        self.settle()

    def write(self, text: str) -> None:
        """Types text into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def settle(self) -> None:
        """Waits until the page has done what an input began."""
        self.run("new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(1)), 20))")

    def shoot(self, path: Path, dark: bool = False) -> None:
        """Writes a PNG of the whole page."""
        import base64

        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        time.sleep(0.1)
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

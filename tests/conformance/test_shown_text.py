"""What a board says reaches a terminal as printable lines only: no escapes, no forged lines, no change of direction."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.binaries import host_architecture
from qverify_agents.errors import LinkError
from qverify_agents.printable import last_line

EVIL = "\x1b[2J\x1b]0;owned\x07\r\u202e\x9b1m\nok      forged: PASSED"
AGENT = """#!{python}
import json, os, struct, sys
sys.path[:0] = {path!r}
from qverify_agents.protocol import frames
EVIL, HELLO = {evil!r}, json.dumps({hello!r}).encode()
reader = frames.FrameReader()
while data := os.read(0, 65536):
    reader.feed(data)
    while (f := reader.next()) is not None:
        if f.type == frames.HELLO:
            kind, payload = f.type, struct.pack("<H", len(HELLO)) + HELLO
        else:
            kind, payload = frames.ERROR, struct.pack("<iH", -1, len(EVIL.encode())) + EVIL.encode()
        os.write(1, frames.encode_frame(kind, f.sequence, payload))
sys.stderr.write(EVIL)
"""
HELLO = {"protocol": 1, "version": EVIL, "arch": EVIL, "lock": EVIL, "features": [EVIL, "finals"], EVIL: EVIL}
BUSY = {**HELLO, "lock": "busy", "uptime_s": 5, "holder": {"owner": EVIL, "since_uptime_s": 1}}


def run(hello: dict[str, object], words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    fake = folder / f"qvrt-{host_architecture()}"
    path = [p for p in sys.path if p]
    fake.write_text(AGENT.format(python=sys.executable, path=path, evil=EVIL, hello=hello))
    fake.chmod(0o755)
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(folder))
    return main(words)


@pytest.mark.parametrize("hello", [HELLO, BUSY, {**HELLO, "memory_bytes": EVIL}, {**HELLO, "arch": [EVIL]}])
@pytest.mark.parametrize("words", [["boards", "check", "local"], ["boards", "info", "local"], ["-b", "local", "-m"]])
def test_of_its_hello_and_its_errors(hello, words, digits, tmp_path, monkeypatch, capsys) -> None:
    words = [*words, str(digits / "digits_quant.onnx")] if words[-1] == "-m" else words
    status = run(hello, words, tmp_path, monkeypatch)
    assert status == (0 if words[0] == "boards" and hello is not BUSY else 3)
    printed = capsys.readouterr()
    for line in [*printed.out.split("\n"), *printed.err.split("\n")]:
        assert line.isprintable() and not line.startswith("ok      forged"), line


def test_the_json_of_a_hello_is_still_json(tmp_path, monkeypatch, capsys) -> None:
    assert run(HELLO, ["boards", "info", "local"], tmp_path, monkeypatch) == 0
    held = json.loads(capsys.readouterr().out)
    assert "\x1b" not in held["version"] and held["version"].isprintable() and held["protocol"] == 1


def test_an_error_is_one_line_whatever_it_quotes() -> None:
    said = str(LinkError(f"the console said: {EVIL}"))
    assert said.isprintable() and said.startswith("the console said: ?[2J?]0;owned?")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"first\nsecond \n\n", "second"),
        ("a\n\x1b[31mb\r\n", "?[31mb"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (" \n", "status 7"),
        ("docker: no such image\n\nRun 'docker run --help' for more information\n", "docker: no such image"),
        ("See 'docker run --help'.", "status 7"),
        ("dropbear: Try `x --help` or a key", "dropbear: Try `x --help` or a key"),
    ],
)
def test_the_last_line_of_a_program(said, shown) -> None:
    assert last_line(said, "status 7") == shown

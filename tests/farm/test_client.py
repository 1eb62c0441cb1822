"""The client of a farm: tokens, files and refusals."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import qverify.example
from qverify.cli.main import main
from qverify.errors import BadFileError, UsageError
from qverify.session.requests.parse_command import parse_command

pytest.importorskip("httpx", reason="qverify[service] is not installed")
from qverify_farm.client.http import AwayError, FarmServer, TooBusyError, server_url
from qverify_farm.client.job_files import collect_job_files, upload_files
from qverify_farm.client.tokens import read_tokens, save_token, token_for
from qverify_farm.client.verify_on_farm import FarmRequest, check_farm_request
from qverify_farm.errors import ServerError
from qverify_farm.work.job_options import check_options

EXAMPLE = Path(next(iter(qverify.example.__path__)))


class Answers:
    """A loopback server that sends prepared answers and records the requests."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"{}", dict[str, str]()
        self.asked: list[tuple[str, str, str, bytes]] = []  # method, path, Authorization, body
        self.keys: list[str] = []
        self.lose: list[str | int] = []  # of the next replies: closed, cut, or the status of a proxy
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("content-length", 0))
                sent = self.rfile.read(size)
                answers.asked.append((self.command, self.path, self.headers.get("authorization", ""), sent))
                answers.keys.append(self.headers.get("idempotency-key", ""))
                loss = answers.lose.pop(0) if answers.lose else ""
                if loss == "closed":
                    self.close_connection = True
                    return
                self.send_response(loss if isinstance(loss, int) else answers.status)
                for name, value in answers.headers.items():
                    self.send_header(name, value)
                body = b"" if self.command == "HEAD" else answers.body
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", str(len(body) + (loss == "cut")))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = loss == "cut"

            do_GET = do_PUT = do_POST = do_HEAD = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:80/", "http://127.0.0.1:80"),
        (" https://farm.example/q/ ", "https://farm.example/q"),
        ("http://[::1]:8", "http://[::1]:8"),
    ],
)
def test_server_addresses_are_normalized(text: str, url: str) -> None:
    assert server_url(text) == url


@pytest.mark.parametrize("text", ["", "127.0.0.1:80", "ftp://x", "http://", "http://x:99999", "http://x/?a=1"])
def test_wrong_server_addresses_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--server"):
        server_url(text)


def test_an_address_with_a_password_is_not_repeated() -> None:
    with pytest.raises(UsageError) as refused:
        server_url("http://ann:hush@x")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (401, UsageError, "qverify login"),
        (403, UsageError, "HTTP 403"),
        (404, UsageError, "HTTP 404"),
        (413, UsageError, "HTTP 413"),
        (422, UsageError, "HTTP 422"),
        (429, TooBusyError, "HTTP 429"),
        (503, TooBusyError, "HTTP 503"),
        (500, ServerError, "HTTP 500"),
        (302, ServerError, "redirects"),
    ],
)
def test_a_refusal_is_one_line(answers: Answers, status: int, kind: type[Exception], said: str) -> None:
    answers.status, answers.headers = status, {"Location": "http://elsewhere.example/", "Retry-After": "9"}
    answers.body = json.dumps({"error": {"what": "so\nit \x1b[31mis"}}).encode()
    with FarmServer(answers.url, "secret", max_wait_s=0) as server, pytest.raises(kind) as refused:
        server.get("/x")
    text = str(refused.value)
    assert said in text and answers.url in text and "secret" not in text
    assert not any(ord(c) < 32 for c in text) and len(answers.asked) == 1


def test_an_answer_that_is_endless_or_not_json_is_refused(answers: Answers) -> None:
    answers.body = b"<html>"
    with FarmServer(answers.url) as server:
        with pytest.raises(ServerError, match="not JSON"):
            server.get("/x")
        answers.body = b" " * 2048
        with pytest.raises(ServerError, match="more than"):
            server.get("/x", max_bytes=1024)


def test_a_request_without_an_answer_is_sent_again_unless_that_does_it_twice(answers: Answers) -> None:
    with FarmServer(answers.url) as server:
        for method, ask in (
            ("HEAD", lambda: server.has("/x")),
            ("GET", lambda: server.get("/x")),
            ("PUT", lambda: server.put("/x", lambda: iter([b"one", b"two"]), 6)),
            ("POST", lambda: server.submit("/x", {})),
        ):
            for loss in ("closed", "cut", 502, 503, 504):
                if (method, loss) == ("HEAD", "cut"):
                    continue
                answers.asked.clear()
                answers.keys.clear()
                answers.lose = [loss]
                ask()
                assert [one[0] for one in answers.asked] == [method] * 2, (method, loss)
                assert answers.asked[0] == answers.asked[1] and len(set(answers.keys)) == 1
                assert (answers.keys[0] != "") == (method == "POST")
        server.submit("/x", {})
        assert answers.keys[-1] != answers.keys[-2]  # another submission
        answers.asked.clear()
        answers.lose = ["closed"]
        with pytest.raises(AwayError, match=r"without sending a response\. Is"):
            server.post("/x", {})
        assert len(answers.asked) == 1


def test_an_unreachable_server_is_one_line_and_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(EXAMPLE / "digits_quant.onnx")
    assert main(["-m", model, "-b", "any", "--server", "http://127.0.0.1:1", "--token", "t"]) == 3
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "not reached" in printed


def test_options_that_a_farm_refuses_are_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-m", "q.onnx", "-b", "any", "--server", "http://127.0.0.1:1", "--capture", "d", "--user", "root"]
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert "--capture" in printed and "--user" in printed and printed.count("\n") == 1
    assert main(["-m", "q.onnx", "-b", "any", "--token", "t"]) == 2
    assert "--server" in capsys.readouterr().err


def test_a_job_without_a_board_is_refused() -> None:
    with pytest.raises(UsageError, match="-b"):
        check_farm_request(FarmRequest("http://x", "", ("q.onnx",), ()))


def test_facts_reach_the_farm_as_they_were_typed() -> None:
    given = {"models": "q.onnx", "board": "any", "server": "http://x", "token": "t", "fact": ["firmware=1.2"]}
    options = parse_command("verify", [], given).job.on_farm.options
    assert options == {"fact": ("firmware=1.2",)} and check_options({"fact": list(options["fact"])}, ()) == []


def test_the_report_of_a_run_does_not_keep_the_token() -> None:
    from qverify.options.parse import repeating_command

    for words in (["--token", "hush"], ["--token=hush"]):
        assert repeating_command(["verify", "-m", "q", *words, "-b", "x"]) == "qverify verify -m q -b x"


def test_tokens_are_of_mode_600_and_refused_where_others_may_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "there" / "tokens.json"
    monkeypatch.setenv("QVERIFY_TOKENS", str(path))
    monkeypatch.delenv("QVERIFY_TOKEN", raising=False)
    assert token_for("http://a", None) == ""
    save_token(path, "http://a", "one")
    save_token(path, "http://b", "two")
    assert token_for("http://a", None) == "one" and token_for("http://a", "given") == "given"
    monkeypatch.setenv("QVERIFY_TOKEN", "of the environment")
    assert token_for("http://a", None) == "of the environment"
    save_token(path, "http://a", None)
    assert read_tokens(path) == {"http://b": "two"} and os.listdir(path.parent) == ["tokens.json"]
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        with pytest.raises(BadFileError, match="chmod 600"):
            read_tokens(path)


def test_files_are_uploaded_once_under_their_digest(
    answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "a.raw").write_bytes(b"same")
    (tmp_path / "frames" / "b.raw").write_bytes(b"same")
    found = collect_job_files([str(EXAMPLE / "digits_quant.onnx")], "frames", {"seed": 3})
    assert found.models == ("outside/1/digits_quant.onnx",) and found.inputs == "frames"
    assert found.options == {"seed": 3} and found.given[found.models[0]] == str(EXAMPLE / "digits_quant.onnx")
    answers.status = 404  # to HEAD; then the PUT is refused, too
    with FarmServer(answers.url, "secret") as server, pytest.raises(UsageError):
        upload_files(server, found.sources)
    assert [one[0] for one in answers.asked] == ["HEAD", "PUT"]
    assert answers.asked[1][3] == (EXAMPLE / "digits_quant.onnx").read_bytes()
    assert all(authorization == "Bearer secret" for _, _, authorization, _ in answers.asked)
    answers.asked.clear()
    answers.status = 200  # the server has all
    with FarmServer(answers.url) as server:
        stored = upload_files(server, found.sources)
    assert [one[0] for one in answers.asked] == ["HEAD", "HEAD"] and len(stored) == 3


def test_login_stores_a_token_that_the_server_accepts(
    answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.json"
    monkeypatch.setenv("QVERIFY_TOKENS", str(path))
    answers.status = 401
    assert main(["login", answers.url, "--token", "wrong"]) == 2 and not path.exists()
    answers.status, answers.body = 200, json.dumps({"name": "ann", "role": "viewer"}).encode()
    assert main(["login", f"{answers.url}/", "--token", "right"]) == 0
    assert read_tokens(path) == {answers.url: "right"}
    assert "right" not in "".join(capsys.readouterr())
    assert main(["login", answers.url, "--forget"]) == 0 and read_tokens(path) == {}


def test_a_token_is_piped_and_never_empty(
    answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.json"
    monkeypatch.setenv("QVERIFY_TOKENS", str(path))
    monkeypatch.delenv("QVERIFY_TOKEN", raising=False)
    answers.body = json.dumps({"name": "ann", "role": "viewer"}).encode()
    monkeypatch.setattr("sys.stdin", io.StringIO("  secret \nmore\n"))
    assert main(["login", answers.url]) == 0 and read_tokens(path) == {answers.url: "secret"}
    assert answers.asked[-1][2] == "Bearer secret"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert main(["login", answers.url]) == 2
    assert "no token: type it, pipe it, or set QVERIFY_TOKEN" in capsys.readouterr().err
    with pytest.raises(UsageError, match="an empty --token"):
        token_for(answers.url, "")


def test_tokens_that_cannot_be_written_leave_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.json"
    save_token(path, "http://a", "one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        save_token(path, "http://a", "two")
    assert read_tokens(path) == {"http://a": "one"} and os.listdir(tmp_path) == ["tokens.json"]
    path.write_text("[1]")
    with pytest.raises(BadFileError, match="wanted an object of tokens by server"):
        read_tokens(path)

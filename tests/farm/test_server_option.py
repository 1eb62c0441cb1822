"""--server and server=: the main job on a farm has the same report, output and exit status as on this host."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import qverify
from qverify.cli.main import main
from qverify.errors import UsageError

pytest.importorskip("fastapi", reason="qverify[service] is not installed")
from qverify_farm.client import verify_on_farm
from qverify_farm.dispatcher import dispatcher
from qverify_farm.service.farm import Farm
from qverify_farm.service.tokens import create_token, revoke_token
from qverify_farm.store import artifacts
from qverify_farm.store.runs import ensure_project
from qverify_farm.store.tables import SuiteRunRecord
from sqlalchemy import func, select

from tests.farm.served import BOARDS, CULPRIT, MODEL, serving
from tests.onnx_engine import engine_command

pytestmark = pytest.mark.slow
VARIES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|spot check: .*|\(\d+ of them by digest\)")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Farm, str]]:
    with serving(tmp_path_factory.mktemp("farm")) as (url, farm):
        with farm.database.write() as session:
            _, secret = create_token(session, "ann", "submitter", ensure_project(session).name, None, time.time())
        yield url, farm, secret


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return VARIES.sub("", capsys.readouterr().out).splitlines()


@contextlib.contextmanager
def losing_one_reply(url: str, start: str, part: str) -> Iterator[tuple[str, list[bool]]]:
    """Runs a proxy before a service, and yields its address. It closes the connection instead of the first reply to a request
    whose first line begins with `start` and contains `part`, which `lost` tells."""
    lost = list[bool]()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as there:
                back = threading.Thread(target=self.reply, args=(there,))
                back.start()
                while data := self.request.recv(1 << 16):
                    line = data.split(b"\r\n", 1)[0].decode("latin-1")
                    self.loses |= not lost and line.startswith(start) and part in line
                    there.sendall(data)
                with contextlib.suppress(OSError):
                    there.shutdown(socket.SHUT_RDWR)
                back.join()

        loses = False

        def reply(self, there: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while data := there.recv(1 << 16):
                    if self.loses:
                        lost.append(True)
                        break
                    self.request.sendall(data)
                self.request.shutdown(socket.SHUT_RDWR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", lost
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("board", "status"), [("desk", 0), ("wrong", 1)])
def test_output_and_exit_status_are_as_without_a_server(
    service: tuple[str, Farm, str], board: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, _, token = service
    words = ["-m", MODEL, "-r", "True", "-c", "3"]
    assert main([*words, "-b", BOARDS[board]]) == status
    here = said(capsys)
    files = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html"), "--junit", str(tmp_path / "r.xml")]
    assert main([*words, "-b", board, "--server", url, "--token", token, *files]) == status
    assert said(capsys) == here
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["verdict"] == ("FAILED" if status else "PASSED") and "--server" in report["command"]
    assert not any(token in one.read_text() for one in tmp_path.iterdir()) and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("models", ["junk.onnx", "q.onnx,cut.bin", "q.onnx -i nan.npy", "digits.npz"])
def test_a_mistake_in_the_files_is_as_without_a_server(
    service: tuple[str, Farm, str],
    models: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also for files outside of the current folder, which have other paths on the farm. The job is not tried again."""
    import numpy as np

    url, _, token = service
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    example = Path(MODEL).parent
    for given, copy in (("digits_quant.onnx", "q.onnx"), ("digits.npz", "digits.npz")):
        (tmp_path / copy).write_bytes((example / given).read_bytes())
    (tmp_path / "junk.onnx").write_bytes(b"junk" * 99)
    assert main(["compile", "../q.onnx", "-o", "../cut.bin"]) == 0
    data = bytearray((tmp_path / "cut.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "cut.bin").write_bytes(data)
    np.save(tmp_path / "nan.npy", np.full((1, 1, 8, 8), np.nan, np.float32))
    capsys.readouterr()
    words = ["-m", *re.sub(r"(^|[ ,])(?=\w)", r"\1../", models).split(), "-q", "--json", "r.json"]
    assert main([*words, "-b", BOARDS["desk"]]) == 2
    here = capsys.readouterr()
    assert main([*words, "-b", "desk", "--server", url, "--token", token]) == 2
    assert capsys.readouterr() == here and here.out == "" and here.err.count("\n") == 1
    assert not Path("r.json").exists()


def test_a_mistake_on_one_board_keeps_the_reports_of_the_others(
    service: tuple[str, Farm, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from qverify_farm.work import run_job
    from qverify_farm.work.job_task import JobResult

    url, _, token = service
    run = run_job.RunningAttempt.run

    def run_or_refuse(attempt: run_job.RunningAttempt) -> JobResult:
        if attempt.task.board_name == "desk":
            attempt.reads_job = True
            raise UsageError("--link ssh: not for this board")
        return run(attempt)

    monkeypatch.setattr(run_job.RunningAttempt, "run", run_or_refuse)
    words = ["-m", MODEL, "-b", "desk", "-b", "wrong", "--server", url, "--token", token]
    assert main(words) == 2
    ended = capsys.readouterr()
    assert "board 2 of 2: wrong" in ended.out and f"blame: board at {CULPRIT}" in ended.out, ended.out
    assert ended.err == "qverify: board desk: --link ssh: not for this board\n"


def test_the_reason_of_a_job_that_did_not_run_is_told_with_q(
    service: tuple[str, Farm, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from qverify_farm.work import run_job

    url, _, token = service

    def no_memory(*_: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(run_job.RunningAttempt, "run", no_memory)
    assert main(["-m", MODEL, "-b", "desk", "--server", url, "--token", token, "-q"]) == 3
    ended = capsys.readouterr()
    assert ended.out == "nothing compared: INCONCLUSIVE\n" and ended.err.count("\n") == 1
    assert ended.err.startswith("qverify: board: not run on desk: ") and "none left" in ended.err


@pytest.mark.parametrize(("method", "part"), [("HEAD", "/artifacts"), ("POST", "/verifications"), ("GET", "/report")])
def test_a_lost_reply_loses_no_result_and_makes_no_second_run(
    service: tuple[str, Farm, str], method: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url, farm, token = service

    def runs() -> int:
        with farm.database.read() as session:
            return session.scalar(select(func.count()).select_from(SuiteRunRecord)) or 0

    before = runs()
    with losing_one_reply(url, f"{method} /api/v1", part) as (proxy, lost):
        assert main(["-m", MODEL, "-b", "desk", "--server", proxy, "--token", token, "-q"]) == 0
    assert lost == [True] and runs() == before + 1 and capsys.readouterr().err == ""


def test_why_a_job_waits_is_told_once_in_a_pipe(
    service: tuple[str, Farm, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, token = service
    words = ["-m", MODEL, "-b", "desk", "--server", url, "--token", token]
    assert main(words) == 0 and capsys.readouterr().err == ""
    monkeypatch.setattr(verify_on_farm, "WAITS_SAID_S", 0.5)
    monkeypatch.setattr(artifacts, "KEEP_FREE_BYTES", 1 << 60)
    time.sleep(1.5 * dispatcher.POLL_S)  # now it knows that the store is full
    looks, look = threading.Semaphore(0), verify_on_farm.WaitReasons.look

    def counted(reasons: verify_on_farm.WaitReasons, *arguments: Any) -> None:
        look(reasons, *arguments)
        if reasons._told:
            looks.release()

    def make_room() -> None:
        for _ in range(3):  # also when it has been told, the job waits for some time
            looks.acquire(timeout=60)
        monkeypatch.undo()

    monkeypatch.setattr(verify_on_farm.WaitReasons, "look", counted)
    room = threading.Thread(target=make_room)
    room.start()
    assert main(words) == 0
    room.join()
    err = capsys.readouterr().err
    assert re.fullmatch(r"qverify: digits_quant desk waits: the artifact store is full: \d+ MB are free\n", err), err


def test_frames_and_several_boards(
    service: tuple[str, Farm, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np

    url, _, token = service
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QVERIFY_TOKEN", token)
    (tmp_path / "frames").mkdir()
    with np.load(Path(MODEL).parent / "digits.npz") as digits:
        for name in ("digit_3", "digit_7"):
            np.save(tmp_path / "frames" / f"{name}.npy", digits[name])
    words = ["-m", MODEL, "-b", "desk", "-b", "wrong", "-i", "frames", "--server", url, "--json", "r.json"]
    assert main(words) == 1
    text = capsys.readouterr().out
    assert "board 1 of 2: desk" in text and "board 2 of 2: wrong" in text and "== all boards ==" in text
    report = json.loads(Path("r.json").read_text())
    assert {Path(one["source"]).name for one in report["frames"]} == {"digit_3.npy", "digit_7.npy"}
    assert main([*words[:-2], "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAILED"


def test_the_python_function_accepts_a_server(service: tuple[str, Farm, str]) -> None:
    url, _, token = service
    steps = list[str]()
    report = qverify.verify(
        MODEL,
        board="wrong",
        dump_all_nodes_results=True,
        server=url,
        token=token,
        progress=lambda step, done, total: steps.append(step),
    )
    assert report.verdict == "FAILED" and report.blame is not None and CULPRIT in str(report.blame)
    assert steps[-1] == "done"
    with pytest.raises(qverify.errors.UsageError, match="keep_tensors"):
        qverify.verify(MODEL, board="desk", server=url, token=token, keep_tensors=True)


def test_a_refusal_of_the_farm_is_one_line(
    service: tuple[str, Farm, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, farm, token = service
    monkeypatch.delenv("QVERIFY_TOKEN", raising=False)
    words = ["-m", MODEL, "--server", url]
    with farm.database.write() as session:
        _, viewer = create_token(session, "eve", "viewer", ensure_project(session).name, None, time.time())
        gone, revoked = create_token(session, "old", "submitter", ensure_project(session).name, None, time.time())
        revoke_token(session, gone.id, time.time())
    for more, told in (
        (["-b", "desk", "--token", revoked], "qverify login"),
        (["-b", "desk", "--token", viewer], "submitter"),
        (["-b", "nobody", "--token", token], "nobody"),
    ):
        assert main([*words, *more]) == 2, more
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1 and url in error


def test_a_job_names_an_engine_of_the_host(
    service: tuple[str, Farm, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same lines here and on the farm, by its name; one that is written out is refused by the service."""
    url, _, token = service
    log = tmp_path / "log"
    inventory = Path(os.environ["XDG_CONFIG_HOME"]) / "qverify" / "boards.toml"  # the service's processes read it, too
    inventory.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with inventory.open("x") as file:
        file.write(f"[engines.mine]\nruntime = 'command'\ncommand = '''{engine_command(log)}'''\n")
    request.addfinalizer(inventory.unlink)
    words = ["-m", MODEL, "-r", "True"]
    assert main([*words, "-b", "local", "-s", "mine", "--simulator", "mine"]) == 0
    here = said(capsys)
    farm = ["-b", "desk", "--server", url, "--token", token]
    assert main([*words, *farm, "-s", "mine", "--simulator", "mine"]) == 0
    assert said(capsys) == here and log.read_text() == "x" * (2 + 2)
    assert main([*words, *farm, "--reference", "mine"]) == 0
    assert "reference: not run: command ran in its place" in capsys.readouterr().out
    assert main([*words, *farm, "--simulator", "command,command=touch /tmp/x"]) == 2
    assert "simulator: got 'command,command=touch /tmp/x', wanted the name of an engine" in capsys.readouterr().err
    assert main([*words, *farm, "--simulator", "other"]) == 2
    assert "simulator: other: no such engine on the host of the board" in capsys.readouterr().err

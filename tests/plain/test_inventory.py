"""boards.toml: by name, by tags, the nearer file first, every mistake in one line."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from qverify.cli.main import main
from qverify.cli.normalize_options import normalize_options
from qverify.session.chosen_sides import engine_words
from qverify_agents import power
from qverify_agents.address import Address
from qverify_agents.connect import connect
from qverify_agents.errors import BadAddress, BoardBusy
from qverify_agents.host_lock import HostLock
from qverify_agents.inventory import find_engine, read_boards, read_broken_entries, resolve

TEXT = """
[boards.one]
uri = "local"
tags = { soc = "j5", firmware = "1.2" }
[boards.two]
uri = "ssh://root@10.0.0.5?cache=/data"
tags = { soc = "j5" }
host_key = "ssh-ed25519 AAAA"
user = "me"
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "boards.toml"
    path.write_text(TEXT)
    monkeypatch.setenv("QVERIFY_BOARDS", str(path))
    return path


@pytest.mark.parametrize("text", ["a=" + "[" * 100_000, "a=" + "{b=" * 100_000])
def test_a_file_that_lies_too_deep_is_one_line(text: str, inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.write_text(text)
    gc.collect()  # else a finalizer left by an earlier test may run at the recursion limit and write a line
    assert main(["boards", "list"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"qverify: {inventory}: ") and error.count("\n") == 1


def test_names_and_tags(inventory):
    assert resolve("one") == ["local"]
    assert resolve("two") == ["ssh://root@10.0.0.5?cache=/data&host_key=ssh-ed25519 AAAA&user=me"]
    assert resolve("soc=j5,firmware=1.2") == ["local"]
    assert len(resolve("soc=j5")) == 2
    assert resolve("local?memory=1") == ["local?memory=1"] and resolve("10.0.0.5") == ["10.0.0.5"]
    with pytest.raises(BadAddress, match=r"known tags: firmware=1\.2, soc=j5"):
        resolve("soc=rv1126")


def test_a_board_by_its_name_runs(inventory, digits, capsys):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "one"]) == 0
    assert main(["boards", "list"]) == 0 and "soc=j5" in capsys.readouterr().out
    assert main(["boards", "check", "one"]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[boards.x]\npower = 'on'\n", "no uri"),
        ("[boards]\nx = 'local'\n", r'boards\.x = "local": wanted a table'),
        ("[boards.x]\nuri = 'two words'\n", "not a board"),
        ("[boards.x]\nuri = 'local?ahead=-1'\n", "ahead=-1: wanted a whole number"),
        ("[boards.x]\nuri = 'a'\ncache = \"/a\\u0007b\"\n", r"cache=/a\?b: wanted a text"),
        ("[boards.x]\nuri = 'a'\nspeed = 3\n", "unknown key 'speed'"),
        ("[board.x]\nuri = 'a'\n", "wanted tables"),
        ("[boards.x\n", "line 1"),
        ("[boards.x]\nuri = 'a'\ntags = 3\n", r"x\] tags = 3: wanted a table"),
        ("[boards.x]\nuri = 'a'\ntags = 'soc=j5'\n", r'x\] tags = "soc=j5": wanted a table'),
        ("[boards.x]\nuri = 'a'\ntags = { firmware = 1.2 }\n", r'x\] tags\.firmware = 1\.2: .*, as "1\.2"'),
    ],
)
def test_mistakes_name_the_file(inventory, text, said):
    inventory.write_text(text)
    with pytest.raises(BadAddress, match=said) as caught:
        resolve("x")
    assert str(inventory) in str(caught.value) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("key", ["uri", "power", "reset", "host_key", "user", "cache"])
@pytest.mark.parametrize("value", ["5", "true", "''", "' '", "['a']", "{ a = 'b' }", "2020-01-01"])
def test_what_is_no_text_is_never_made_one(inventory, key, value, capsys):
    uri = "" if key == "uri" else "uri = 'local'\n"
    inventory.write_text(f"[boards.desk]\n{uri}{key} = {value}\n")
    assert main(["boards", "list"]) == 2
    printed = capsys.readouterr().err
    assert (
        f"{inventory}: [boards.desk] {key} = " in printed
        and "wanted a text in quotes" in printed
        and printed.count("\n") == 1
    )


def test_a_board_of_another_runtime_is_listed_and_refused_by_name(inventory, digits, capsys):
    inventory.write_text("[boards.chip]\nuri = 'local'\ntags = { soc = 'j5' }\nprofile = 'horizon'\n")
    assert main(["boards", "list"]) == 0 and 'profile = "horizon" (not driven)' in capsys.readouterr().out
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "soc=j5"]) == 2
    printed = capsys.readouterr().err
    assert f'{inventory}: [boards.chip] profile = "horizon": ' in printed and "leave the key out" in printed
    assert printed.count("\n") == 1
    with inventory.open("a") as file:
        file.write("[boards.ours]\nuri = 'local'\ntags = { soc = 'j5' }\nruntime = 'qvrt'\n")
    assert resolve("soc=j5") == ["local"] and resolve("ours") == ["local"]


@pytest.mark.parametrize("line", ["runner = 'tool {model} {input} {out}'", "runtime = 'command'"])
def test_commands_that_run_qvrt_refuse_the_board_of_a_runner(inventory, line, digits, capsys):
    inventory.write_text(f"[boards.chip]\nuri = 'local'\n{line}\n")
    key = line.replace("'", '"')
    assert main(["boards", "list"]) == 0 and f"{key} " in capsys.readouterr().out
    assert main(["boards", "check", "chip"]) == 0  # its links and its lock are as ever
    capsys.readouterr()
    assert main(["perf", "-m", str(digits / "digits_quant.onnx"), "-b", "chip"]) == 2
    printed = capsys.readouterr().err
    assert "runner command tells no times of them" in printed and printed.count("\n") == 1
    with pytest.raises(BadAddress) as caught:
        connect("chip", 5)
    assert f"{inventory}: [boards.chip] {key}: this command drives qvrt, onnxruntime, litert alone" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("runtime = 'no_such'", "[boards.chip] runtime = no_such: no such engine; there are: "),
        ("runner = 5", 'runner = 5: wanted a text in quotes, as "5"'),
        ("[boards.chip.runner]\ncommand = 'tool'\nsucess = 'x'", "sucess: runner command has no such option; known: "),
        ("[boards.chip.runner]\nsuccess = 'x'", "success: no runner is given; wanted --runner"),
        ("[boards.chip.runner]\ncommand = 'tool'\nenvironment = { A = 5 }", "runner.environment.A = 5: wanted"),
    ],
)
def test_a_wrong_runner_is_one_line_that_names_the_entry(inventory, table, said, digits, capsys):
    inventory.write_text(f"[boards.chip]\nuri = 'local'\n{table}\n")
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "chip"]) == 2
    error = capsys.readouterr().err
    assert said in error and f"{inventory}: [boards.chip]" in error and error.count("\n") == 1


def test_a_folder_of_somebody_elses_cannot_choose_a_runner(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("QVERIFY_BOARDS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boards.toml").write_text("[boards.chip]\nuri = 'local'\nrunner = 'touch /tmp/owned'\n")
    assert main(["boards", "list"]) == 2
    assert "runner would run commands that this folder chooses" in capsys.readouterr().err


def test_the_nearer_file_wins(tmp_path, monkeypatch):
    monkeypatch.delenv("QVERIFY_BOARDS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config" / "qverify").mkdir(parents=True)
    (tmp_path / "config" / "qverify" / "boards.toml").write_text('[boards.a]\nuri = "far"\n[boards.b]\nuri = "only"\n')
    (tmp_path / "boards.toml").write_text('[boards.a]\nuri = "near"\n')
    assert {n: b.uri for n, b in read_boards().items()} == {"a": "near", "b": "only"}


def test_options_behind_a_name_are_the_boards(inventory, digits, capsys):
    assert resolve("one?memory=1") == ["local?memory=1"]
    assert resolve("two?user=you")[0].endswith("&user=you") and "user=me" not in resolve("two?user=you")[0]
    assert resolve("firmware=1.2?memory=1") == ["local?memory=1"]
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "one?nosuch=1"]) == 2
    assert "unknown option 'nosuch'" in capsys.readouterr().err


def test_an_ampersand_in_a_folder(inventory, tmp_path, monkeypatch, digits):
    inventory.write_text('[boards.a]\nuri = "10.0.0.5"\ncache = "/data/c&d"\n')
    from qverify_agents.address import parse

    assert parse(resolve("a")[0]).options == {"cache": "/data/c&d"}
    (tmp_path / "t&p").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t&p"))
    assert main(["plan", "-m", str(digits / "digits_quant.onnx"), "-b", "10.0.0.5"]) == 0


def test_of_several_boards_the_first_that_can_be_had(inventory, digits, capsys):
    inventory.write_text(
        '[boards.off]\nuri = "ssh://127.0.0.1:1"\ntags = { soc = "j5" }\n[boards.on]\nuri = "local"\ntags = { soc = "j5" }\n'
    )
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "soc=j5"]) == 0
    inventory.write_text(inventory.read_text().replace('"local"', '"ssh://127.0.0.1:2"'))
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "soc=j5"]) == 3
    assert "none of 2 boards" in capsys.readouterr().err


TWO = '[boards.held]\nuri = "ssh://127.0.0.1:1"\ntags = {{ soc = "j5" }}\n[boards.other]\nuri = "{}"\ntags = {{ soc = "j5" }}\n'


@pytest.mark.parametrize(("words", "options"), [("soc=j5?wait=60", {}), ("soc=j5", {"wait": "60"})])
def test_a_busy_board_is_not_waited_for_while_another_is_free(inventory, words, options):
    inventory.write_text(TWO.format("local"))
    start = time.monotonic()
    with (
        contextlib.closing(HostLock(Address("ssh", "127.0.0.1:1"), "somebody", 0)),
        connect(words, 20, options) as agent,
    ):
        agent.ping()
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("inside", ["soc=j5?wait=3", "soc=j5"])
def test_several_busy_boards_are_waited_for_together(inside, inventory):
    """Not one after the other; for as long as -b, or the inventory for one of them, says."""
    inventory.write_text(TWO.format("ssh://127.0.0.1:2" + ("" if "?" in inside else "?wait=3")))
    held = [HostLock(Address("ssh", f"127.0.0.1:{port}"), "somebody", 0) for port in (1, 2)]
    start = time.monotonic()
    try:
        with pytest.raises(BoardBusy, match=r"none of 2 boards could be connected: .*in use by somebody"):
            connect(inside, 20)
    finally:
        for lock in held:
            lock.close()
    assert 3 <= time.monotonic() - start < 5.5


def test_the_holder_of_a_lock_is_named_also_after_one_with_a_longer_name():
    board = Address("ssh", "127.0.0.1:1")
    for owner in ("somebody with a long name", "me"):
        with (
            contextlib.closing(HostLock(board, owner, 0)),
            pytest.raises(BoardBusy, match=f"in use by {owner} since 0 s"),
        ):
            HostLock(board, "another", 0)


def test_reset_runs_the_command_and_looks_whether_it_helped(inventory, tmp_path, capsys):
    """A board of this machine was never restarted, whatever the command says."""
    inventory.write_text(
        f'[boards.a]\nuri = "local"\nreset = "touch {tmp_path}/done"\n[boards.b]\nuri = "local"\npower = "echo no such port >&2; false"\n'
        '[boards.c]\nuri = "local"\n'
    )
    assert main(["boards", "reset", "a", "--timeout", "3"]) == 3
    assert (tmp_path / "done").exists() and "was not restarted" in capsys.readouterr().err
    assert main(["boards", "reset", "b"]) == 3 and "no such port" in capsys.readouterr().err
    assert main(["boards", "reset", "c"]) == 2 and "no reset or power command" in capsys.readouterr().err


def test_several_boards_make_one_report_also_where_one_is_not_there(digits, tmp_path, capsys):
    import json

    report = tmp_path / "r.json"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "ssh://127.0.0.1:1", "-b", "local", "--json", str(report)]
    assert main(words) == 3
    held = json.loads(report.read_text())
    assert held["verdict"] == "INCONCLUSIVE" and len(held["pairs"]) == 6
    shown = capsys.readouterr()
    assert shown.err == "qverify: 127.0.0.1:1: Connection refused\n" and shown.out.count("Connection refused") == 1
    assert "Quanti.onnx and Arm result Strict check INCONCLUSIVE (the board did not run: 127.0.0.1:1: Conn" in shown.out
    assert "Sim and Arm result Strict check INCONCLUSIVE (the board did not run; cause: board not run; " in shown.out


@pytest.mark.parametrize("more", [[], ["--json", "-"]], ids=["text", "JSON alone"])
def test_the_reason_is_read_once_where_both_streams_are_one(digits, more):
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "ssh://127.0.0.1:1", *more]
    command = [sys.executable, "-m", "qverify", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    lines = [line for line in done.stdout.splitlines() if "127.0.0.1:1: Connection refused" in line]
    assert done.returncode == 3 and ("qverify: 127.0.0.1:1: Connection refused" in lines) == bool(more)
    assert more or len(lines) == 1


def test_a_wrapped_board_may_be_one_of_the_inventory(inventory, digits, capsys):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "finals:one"]) == 0
    node = "relu2_QuantizeLinear_Output"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:one?fault=plus_one@{node}"]) == 1
    assert f"blame: board at {node}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["plan"], ["triage"]])
def test_a_board_that_wraps_itself_is_one_line(command, inventory, digits, capsys):
    inventory.write_text('[boards.x]\nuri = "finals:y"\n[boards.y]\nuri = "faulty:x?fault=bitflip@a"\n')
    assert main([*command, "-m", str(digits / "digits_quant.onnx"), "-b", "x"]) == 2
    errors = capsys.readouterr().err
    assert "boards.toml: y wraps x wraps y, so it names no board" in errors and errors.count("\n") == 1


@pytest.mark.parametrize("name", ["local", "ssh", "qemu", "a:b", "10.0.0.5/24"])
def test_a_name_cannot_stand_for_a_kind_of_board(name, tmp_path, monkeypatch):
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "b.toml"))
    (tmp_path / "b.toml").write_text(f'[boards."{name}"]\nuri = "ssh://x"\n')
    assert "that is not a kind of board" in str(read_broken_entries()[name])


def test_one_wrong_entry_does_not_block_the_others(inventory, capsys):
    wrong = "[boards.b]\nuri = 'local'\nspeed = 3\ntags = { soc = 'j6' }\n"
    inventory.write_text("[boards.a]\nuri = 'local'\ntags = { soc = 'j5' }\n" + wrong)
    assert resolve("a") == resolve("soc=j5") == ["local"] and resolve("ssh://x") == ["ssh://x"]
    for use in ("b", "soc=j6", "finals:b"):
        with pytest.raises(BadAddress, match="unknown key 'speed'"):
            connect(use)
    assert main(["boards", "list"]) == 2
    shown = capsys.readouterr()
    assert "a " in shown.out and shown.err.count("\n") == 1 and "[boards.b]: unknown key 'speed'" in shown.err


def test_a_folders_own_inventory_runs_no_commands(tmp_path, monkeypatch):
    """A ProxyCommand of a cloned repository, say."""
    monkeypatch.delenv("QVERIFY_BOARDS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boards.toml").write_text('[boards.desk]\nuri = "ssh://x?ssh_config=cfg"\n')
    with pytest.raises(BadAddress, match=r"QVERIFY_BOARDS=boards\.toml"):
        resolve("desk")
    monkeypatch.setenv("QVERIFY_BOARDS", "boards.toml")
    assert resolve("desk") == ["ssh://x?ssh_config=cfg"]


def test_the_command_line_wins_over_the_inventory(inventory):
    from qverify_agents.deadline import Deadline
    from qverify_agents.resolve_address import resolve_address

    address, _, _ = resolve_address(resolve("two?cache=/mine")[0], {"user": "you", "wait": "3"}, Deadline(5))
    assert (address.rest, address.options["cache"], address.options["user"]) == ("you@10.0.0.5", "/mine", "you")


@pytest.mark.parametrize("how", ["its time is over", "SIGTERM"])
def test_a_reset_that_does_not_end_leaves_nothing_running(how, inventory, tmp_path):
    inventory.write_text(
        f'[boards.a]\nuri = "local"\nreset = "sleep 60 & echo $! >{tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid; wait"\n'
    )
    command = [
        sys.executable,
        "-m",
        "qverify.cli.main",
        "boards",
        "reset",
        "a",
        "--timeout",
        "2" if how != "SIGTERM" else "30",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as host:
        end = time.monotonic() + 20
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        if how == "SIGTERM":
            host.terminate()
        errors = host.communicate(timeout=20)[1]
        assert host.returncode == (143 if how == "SIGTERM" else 3), errors
    started = Path("/proc") / (tmp_path / "pid").read_text().strip() / "cmdline"
    end = time.monotonic() + 20  # killed, but a busy machine may not have ended it yet
    while started.exists() and started.read_bytes():  # neither gone, nor waited for by nobody yet
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_uptime_of_any_size_is_taken():
    def said(uptime: object) -> float | None:
        return power._reported_uptime_s(SimpleNamespace(hello={"uptime_s": uptime}))

    assert (said(7), said(10**400), said(-(10**400)), said("7")) == (7.0, None, None, None)


ENGINES = """
[engines.rockchip]
runtime = "rknn"
python = "/opt/rknn/bin/python"
environment = { OMP_NUM_THREADS = "1" }
[engines.openvino]
config = ["A=1", "B=2"]
[engines.hexagon]
runtime = "onnxruntime"
ep = "qnn"
"""


def test_engines_have_names(inventory, digits, capsys):
    inventory.write_text(ENGINES + TEXT)
    assert engine_words("rockchip,cache=/c") == (
        *(("runtime", "rknn"), ("python", "/opt/rknn/bin/python"), ("environment", "OMP_NUM_THREADS=1")),
        ("cache", "/c"),
    )
    assert engine_words("openvino") == (("runtime", "openvino"), ("config", "A=1"), ("config", "B=2"))
    assert engine_words("hexagon") == (("runtime", "onnxruntime_ep"), ("ep", "qnn"))
    assert engine_words("sophgo") == (("runtime", "sophgo"),)
    assert main(["boards", "runner", "list"]) == 0
    assert "rockchip: rknn, named in boards.toml" in capsys.readouterr().out
    assert [*read_boards()] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[engines.e]\nruntime = 3\n", r"\[engines\.e\] runtime = 3: wanted a text in quotes, as \"3\""),
        ("[engines]\ne = 'rknn'\n", r'\[engines\.e\] = "rknn": wanted a table'),
        ("[engines.1e]\nruntime = 'rknn'\n", "begins with a letter"),
        ("engines = 3\n", r"wanted tables \[boards\.NAME\] and \[engines\.NAME\]"),
    ],
)
def test_mistakes_in_engines(inventory, text, said):
    inventory.write_text(text)
    with pytest.raises(BadAddress, match=said) as caught:
        find_engine("1e" if "1e" in text else "e")
    assert str(inventory) in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_an_engine_of_the_folder_runs_nothing(tmp_path, monkeypatch, digits, capsys):
    monkeypatch.delenv("QVERIFY_BOARDS", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("boards.toml").write_text("[engines.openvino]\npython = 'touch /tmp/run; python3'\n")
    assert main(["-m", str(digits / "digits_quant.onnx"), "-s", "openvino"]) == 2
    assert "[engines.openvino]: the engine would run commands that this folder chooses" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "normalized"),
    [
        (["-s", "rockchip", "-m", "x"], ["-s", "rockchip", "-m", "x"]),
        (["-s", "rockchip,cache=/c"], ["-s", "rockchip,cache=/c"]),
        (["-s", "-m", "x"], ["-s", "True", "-m", "x"]),
        (["-s", "capture"], ["-s", "True", "capture"]),
        (["-s", "capture", "--server=http://x"], ["-s", "capture", "--server=http://x"]),
        (["-s", "0"], ["-s", "False"]),
    ],
)
def test_a_named_engine_follows_the_switch(inventory, words, normalized):
    inventory.write_text(ENGINES)
    assert normalize_options(words) == normalized
    inventory.write_text("[engines.rockchip\n")
    assert normalize_options(["-s", "rockchip"]) == ["-s", "True", "rockchip"]

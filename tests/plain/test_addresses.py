"""Options of a board's address: a value that cannot be meant is one line, before anything is opened."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.address import parse
from qverify_agents.connect import connect
from qverify_agents.errors import BadAddress
from qverify_agents.option_values import VALUES
from qverify_agents.resolve_address import DEPLOY_OPTIONS, LINK_FAULT_OPTIONS
from qverify_agents.schemes import BOARDS, LINKS

WRONG = {
    "a whole number": ("", "-1", "zz", "1.5", "0x10", "9" * 5000, "\u0663", "99999999999999999999"),
    "a number of bytes": ("", "0", "-1", "4k", "1e6"),
    "a number from": ("", "zz", "-0.1", "1.5", "nan", "inf"),
    "seconds": ("", "-1", "soon", "nan", "1e9"),
    "1 or 0": ("", "zz", "2"),
    "one of": ("", "nosuch"),
    "a text": ("", "%00", "a%0Ab", "%1b[2J"),
    "a regular": ("(", "[a"),
    "a size such": ("", "lots", "-1"),
    "a size in": ("", "0", "M", "-1", "1.5G", "1T", "1e9"),
    "a platform": ("", "arm64", "linux/arm64;rm"),
    "HOST or": ("", "-h", "host:port", "a b", "h:1;rm"),
    "execution providers": ("", "+", "CPU,", "CPU,threads", "CPU+", "a b", "CPU;rm"),
}


def test_every_option_says_what_it_must_be() -> None:
    pages = [import_module(name) for name in {*BOARDS.values(), *LINKS.values()}]
    assert {*LINK_FAULT_OPTIONS, *DEPLOY_OPTIONS, *(name for page in pages for name in page.OPTIONS)} == set(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_that_cannot_be_meant_is_refused(name: str) -> None:
    words = VALUES[name].words
    for text in next(texts for start, texts in WRONG.items() if words.startswith(start)):
        with pytest.raises(BadAddress) as caught:
            parse(f"local?{name}={text}")
        said = str(caught.value)
        assert f"{name}=" in said and said.endswith(f"wanted {words}") and said.isprintable()


@pytest.mark.parametrize("board", ["local?ahead=-1", "local?packs=zz", "serial:///dev/null?baud=fast", "h?wait=soon"])
def test_run_plan_and_boards_refuse_it_alike(board: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(digits / "digits_quant.onnx")
    for words in (["-m", model, "-b", board], ["plan", "-m", model, "-b", board], ["boards", "info", board]):
        assert main(words) == 2
        printed = capsys.readouterr().err
        assert printed.startswith(f"qverify: -b {board}: ") and "wanted" in printed and printed.count("\n") == 1


@pytest.mark.parametrize(
    "host", ["ssh://root:s3cret@h", "root:s3c@ret@h:22", "faulty:ssh://r:s3cret@h", "finals:r:s3cret@h"]
)
def test_a_password_in_an_address_is_refused_and_not_repeated(
    host: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, report = str(digits / "digits_quant.onnx"), tmp_path / "report.json"
    for words in (
        ["-m", model, "-b", host, "--json", str(report)],
        ["plan", "-m", model, "-b", host],
        ["boards", "info", host],
    ):
        assert main(words) == 2
        printed = capsys.readouterr()
        assert "QVERIFY_SSH_PASSWORD" in printed.err and printed.err.count("\n") == 1
        assert "s3c" not in printed.out + printed.err + (report.read_text() if report.exists() else "")


@pytest.mark.parametrize(
    "board", ["podman:img:1@sha256:ab", "root@h:22", "ssh://[::1]:22", "serial://a:b@c", "u@[::1]"]
)
def test_a_colon_elsewhere_is_no_password(board: str) -> None:
    parse(board)


def test_options_given_beside_the_address_are_held_to_the_same() -> None:
    with pytest.raises(BadAddress, match="memory=lots: wanted a number of bytes"):
        connect("local", 5, {"memory": "lots"})


@pytest.mark.parametrize("more", ["packs=1", "packs=false", "piece=3000", "ahead=0", "memory=1", "link_probability=.5"])
def test_what_is_meant_is_taken(more: str) -> None:
    with connect(f"local?{more}", 20) as agent:
        agent.ping()


def test_an_option_given_twice_is_not_half_believed() -> None:
    with pytest.raises(BadAddress, match="fault is given twice"):
        parse("faulty:local?fault=plus_one@a&fault=bias_missing@b")


@pytest.mark.parametrize("uri", ["finals:", "faulty:?fault=bitflip@x", "finals:?quota=1M"])
def test_a_wrapper_of_an_empty_name_is_a_mistake(uri):
    with pytest.raises(BadAddress, match="no board after"):
        parse(uri)


@pytest.mark.parametrize("device", ["COM3", "com3", "COM12", "/dev/ttyUSB0", "/dev/cu.usbserial-110"])
def test_a_serial_device_alone_is_a_serial_line(device: str) -> None:
    assert parse(f"{device}?baud=9600") == parse(f"serial://{device}?baud=9600")


@pytest.mark.parametrize("host", ["COMET", "com3.lab", "COM"])
def test_a_host_is_no_serial_line(host: str) -> None:
    assert parse(host).scheme == "ssh"

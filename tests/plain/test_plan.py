"""Plans: whose agent is counted, and that it is said where it is assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.session.other_jobs.plan import ASSUMED_ARCHITECTURE
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.errors import BadAddress
from qverify_agents.link_estimates import estimate_rate

HERE = host_architecture()
KNOWN = [
    ("local", HERE),
    ("qemu-user:s390x", "s390x"),
    ("qemu:arm64", "aarch64"),
    ("qemu:armhf?link=serial", "armv7"),
    ("podman:image", HERE),
    ("podman:image?platform=linux/arm/v7", "armv7"),
    ("10.0.0.5?arch=armv7l", "armv7"),
    ("faulty:serial:///dev/null?arch=riscv64&fault=die@u", "riscv64"),
    ("10.0.0.5", ""),
    ("serial:///dev/ttyUSB0", ""),
]


@pytest.mark.parametrize(("board", "architecture"), KNOWN)
def test_the_architecture_is_what_the_address_says(board: str, architecture: str) -> None:
    assert estimate_rate(board).architecture == architecture


def test_options_of_a_wrapped_board_count() -> None:
    assert estimate_rate("finals:serial:///dev/null?baud=9600").assumed == "9600 baud"


@pytest.mark.parametrize("board", ["qemu:vax", "qemu-user:vax", "10.0.0.5?arch=vax"])
def test_an_architecture_nobody_knows_is_refused(board: str) -> None:
    with pytest.raises(BadAddress, match=r"known \w+ are|wanted one of"):
        estimate_rate(board)


def test_the_agent_counted_is_the_boards(digits: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    inventory = tmp_path / "boards.toml"
    inventory.write_text('[boards.desk]\nuri = "10.0.0.5"\narch = "riscv64"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    words = [
        "plan",
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        "desk",
        "-b",
        "10.0.0.6",
        "-b",
        "local",
        "--json",
        "-",
    ]
    assert main(words) == 0
    rows = [(r["assumed"], r["architecture"], r["agent_bytes"]) for r in json.loads(capsys.readouterr().out)]
    sizes = {a: runtime_path(a).stat().st_size for a in ("riscv64", "armv7", ASSUMED_ARCHITECTURE)}
    assert rows == [
        ("100 Mbit/s", "riscv64", sizes["riscv64"]),
        (f"100 Mbit/s, {ASSUMED_ARCHITECTURE}", ASSUMED_ARCHITECTURE, sizes[ASSUMED_ARCHITECTURE]),
        ("a process of this machine", "", 0),
    ]
    assert main([*words, "--arch", "armhf", "--rate", "1000"]) == 0
    rows = [(r["assumed"], r["agent_bytes"]) for r in json.loads(capsys.readouterr().out)]
    assert rows == [("1000 bytes/s", sizes["armv7"])] * 2 + [("1000 bytes/s", 0)]

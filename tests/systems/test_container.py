"""A container as a board: image built by the project's script, agent by exec, removed with the run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qverify.cli.main import main

from tests.board_kinds import Place, containers

ROOT = Path(__file__).parents[2]


PLACES = ("container", "docker")


@pytest.fixture
def image(where: Place) -> str:
    return where.address


def test_verified_in_a_container_that_goes_with_the_run(image, digits, capsys):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", image, "-r"]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out
    assert containers(image.partition(":")[0]) == []


def test_a_faulty_one_is_blamed(image, digits, capsys):
    board = f"faulty:{image}?fault=bitflip@relu2_QuantizeLinear_Output"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r"]) == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out
    assert containers(image.partition(":")[0]) == []


@pytest.mark.parametrize(
    ("board", "status", "said"),
    [
        ("ENGINE:no-such-image", 3, "ENGINE says"),
        ("ENGINE:", 2, "wanted ENGINE:IMAGE"),
        ("ENGINE:x?engine=zork", 2, "wanted one of docker, podman"),
    ],
)
def test_what_cannot_be_started_is_one_line(image, digits, capsys, board, status, said):
    engine = image.partition(":")[0]
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", board.replace("ENGINE", engine)]) == status
    error = capsys.readouterr().err
    assert said.replace("ENGINE", engine) in error and len(error.strip().splitlines()) == 1


HANGING = "import sys, time; from qverify_agents.connect import connect; a = connect(sys.argv[1]); print('up', flush=True); time.sleep(60)"


def test_a_killed_host_leaves_no_container(image):
    engine, environment = image.partition(":")[0], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", HANGING, image]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as host:
        assert host.stdout is not None and host.stdout.readline() == b"up\n"
        assert len(containers(engine)) == 1
        host.kill()
    end = time.monotonic() + 10
    while containers(engine):
        assert time.monotonic() < end
        time.sleep(0.1)


FOREIGN = """
import sys
from pathlib import Path
from qverify.cli.main import main
from tests.board_kinds import container_store
import subprocess
with container_store(Path(sys.argv[1])):
    subprocess.run([sys.executable, "scripts/build_board", "podman:qvarm", "--architecture", "aarch64"], check=True)
    status = main(["-m", sys.argv[2], "-b", "podman:qvarm", "-r", "--json", sys.argv[3]])
sys.exit(status)
"""


def test_a_container_of_another_architecture(digits, tmp_path):
    """Under QEMU's user mode, by a binfmt_misc that only this test sees."""
    import json

    words = [sys.executable, "-c", FOREIGN, str(tmp_path), str(digits / "digits_quant.onnx"), str(tmp_path / "r.json")]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "systems" / "foreign.py"), *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    if done.returncode == 77:
        pytest.skip("no user namespace with a binfmt_misc of its own here, or no qemu-aarch64-static")
    assert done.returncode == 0, done.stderr[-500:]
    board = next(s for s in json.loads((tmp_path / "r.json").read_text())["sides"] if s["name"] == "board")
    assert board["settings"]["arch"] == "aarch64"

"""Tests that the main job imports only what it uses: modules of a blame, an engine, a .tflite or an arithmetic come later."""

import subprocess
import sys
from pathlib import Path

from qverify import example

MODEL = Path(example.__file__).parent / "digits_quant.onnx"
UNUSED = (
    "qverify.triage",
    "qverify.sides.runner_board",
    "qverify.sides.dumps",
    "qverify.tflite_model.convert",
    "qverify.compare.identify",
    "qverify.session.offline",
    "qverify.renderers.html_page",
    "qverify_agents.command_board",
    "asyncio",
    "paramiko",
)


def test_a_run_of_the_hosts_sides_imports_only_what_it_uses():
    code = (
        "import sys\n"
        "from qverify.cli.main import main\n"
        f"status = main(['-m', {str(MODEL)!r}, '-q'])\n"
        f"print(status, [n for n in sys.modules if any(n == u or n.startswith(u + '.') for u in {UNUSED!r})])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 []"

"""The arrows of the tree: who may import whom, and which library lives in which file."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TREES = (
    "verifier/qverify",
    "farm/qverify_farm",
    *(f"agents/qverify_{n}" for n in ("agents", "worker", "drivers", "labgrid")),
)
SOURCES = [path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))]
FLOORS = {  # by package, the lowest first: a room imports from lower floors only; never up, never sideways
    "qverify": (
        ("errors", "printable", "plural", "closest_names", "pages", "vendor_names"),
        ("chips", "files", "extras", "user_functions", "mistakes", "arithmetic", "tensors"),
        ("onnx_model", "model_bin", "tflite_model", "vendor_files", "report", "decoders"),
        ("ops", "vendor_quantization"),
        ("compare", "capture", "profiles", "engines"),
        ("inputs", "outputs", "options"),
        ("compiler", "sequences"),
        ("sides", "triage"),
        ("session", "renderers"),
        ("cli", "api"),
        ("pytest_plugin",),
    ),
    "qverify_agents": (
        ("printable", "pieces", "this_user", "file_lock", "host_system", "process_group", "signals_held", "schemes"),
        ("errors",),
        ("binaries", "deadline", "process_pipes"),
        ("interfaces", "process_stream", "emulation"),
        ("one_command", "faulty_link", "protocol"),
        ("command_shell", "option_values", "console", "supervised_command"),
        ("address", "inventory_tables"),
        ("worker",),
        ("inventory", "host_lock", "deploy", "ssh"),
        ("links", "boards"),
        ("resolve_address",),
        ("connect",),
        ("link_estimates", "power", "command_board"),
    ),
    "qverify_farm": (
        ("errors",),
        ("scheduling", "store"),
        ("work",),
        ("suites", "engines"),
        ("dispatcher",),
        ("service",),
        ("ui",),
        ("client",),
        ("cli",),
    ),
    "qverify_worker": (
        ("errors", "checksums", "board_lock"),
        ("wire", "contents", "model"),
        ("runtimes",),
        ("serve",),
    ),
    "qverify_drivers": (
        ("drive",),
        ("onnx_to_torch",),
        ("drive_executorch", "drive_onnxruntime_ep", "drive_openvino", "drive_rknn", "drive_sophgo", "drive_tflm"),
    ),
    "qverify_labgrid": (
        ("records", "places"),
        ("holding",),
    ),
}
NO_ROOM = ("__init__", "__main__", "example")  # the version, the start, packaged files
SIDEWAYS = {"qverify.compiler.check_units": "qverify.sides.simulator"}  # it runs the units that were just compiled
JUDGES = ("qverify.compiler.check_units",)  # the one file of the compiler that compares
NEVER = {  # beyond the floors
    "qverify_agents": ("qverify", "qverify_worker", "qverify_labgrid", "qverify_farm"),
    "qverify": ("qverify_worker", "qverify_labgrid", "qverify_farm"),
    # the worker is pushed to boards by itself
    "qverify_worker": ("qverify", "qverify_agents", "qverify_labgrid", "qverify_farm"),
    "qverify_drivers": ("qverify", "qverify_agents", "qverify_worker", "qverify_labgrid", "qverify_farm"),
    "qverify_labgrid": ("qverify", "qverify_agents", "qverify_worker", "qverify_farm"),  # its Python need not have them
    "qverify_agents.links": ("qverify_agents.schemes",),  # a page does not know the table that names it
    "qverify_agents.boards": ("qverify_agents.schemes",),
    "qverify.renderers": ("qverify.compare",),  # they hold no logic
    "qverify.decoders": ("qverify.tensors",),  # arrays in, plain values out
    "qverify.profiles": ("qverify.arithmetic",),  # a reader of dumps knows tensors and errors
    "qverify.report": ("qverify.tensors", "qverify.arithmetic"),  # plain values only
    "qverify.sides": ("qverify.compare", "qverify.compiler"),
    "qverify.compiler": ("qverify.compare", "qverify.capture", "qverify.report", "qverify.profiles"),
    "qverify.inputs": ("qverify.ops", "qverify.compare", "qverify.report"),
    "qverify.compare": ("qverify.onnx_model",),  # it is handed functions, never a model that runs
    **{  # options come from their table; only the farm's own command line prints as qverify's does
        f"qverify_farm.{room}": ("qverify.cli",)
        for room in ("store", "scheduling", "work", "suites", "engines", "dispatcher", "service", "ui", "client")
    },
}
SPEAK_TO_BOARDS = ("api", "cli", "options", "session", "sides")  # api: only to turn their errors into its own;
# options: the names of their runtimes, and text made safe to show
HOMES = {
    "onnxruntime": (
        "onnx_model/engine.py",
        "onnx_model/run_in_interpreter.py",
        "onnx_model/run_reference_engine.py",
        "onnx_model/run_sessions.py",
        "qverify_worker/runtimes/onnxruntime.py",
        "qverify_drivers/drive_onnxruntime_ep.py",
    ),
    "click": ("cli/", "qverify/options/as_click.py", "qverify/options/parse.py"),
    "onnx": (
        "onnx_model/",
        "tflite_model/writer.py",
        "compiler/",
        "vendor_quantization/",
        "qverify_drivers/",
        "sides/reference.py",
        "sides/runtime_board.py",
    ),
    "xxhash": ("tensors/digest.py", "qverify_worker/checksums.py"),
    "zstandard": ("capture/parts.py",),
    "ai_edge_litert": ("qverify/extras.py", "tflite_model/run_litert.py"),
    "flatbuffers": ("qverify/extras.py",),
    "lz4": ("protocol/messages.py",),
    "google_crc32c": ("model_bin/container.py", "protocol/frames.py"),
    "threadpoolctl": ("arithmetic/workers.py",),
    "paramiko": ("links/ssh.py", "ssh/authentication.py", "ssh/host_settings.py"),
    "serial": ("links/serial_line.py",),
    "pandas": ("qverify/extras.py",),
    "pytest": ("qverify/pytest_plugin.py",),
    "PIL": ("qverify/extras.py",),
    "cv2": ("qverify/extras.py",),
    **{name: ("qverify_labgrid/places.py",) for name in ("labgrid", "grpc")},
    "fcntl": (
        "qverify_agents/file_lock.py",
        "qverify_drivers/drive_sophgo.py",
        "qverify_labgrid/records.py",
        "qverify_worker/board_lock.py",
    ),  # what Windows lacks is nowhere on the way of a command
    "msvcrt": ("qverify_agents/file_lock.py",),
    **{name: ("nowhere",) for name in ("pty", "tty", "termios", "pwd", "grp")},
    "sqlalchemy": (
        "qverify_farm/store/",
        "qverify_farm/dispatcher/",
        "qverify_farm/suites/summary.py",
        "qverify_farm/service/",
        "qverify_farm/cli/serve",
    ),
    "alembic": ("qverify_farm/store/",),
    "fsspec": ("qverify_farm/store/artifact_backends.py",),
    "obstore": ("qverify_farm/store/artifact_backends.py",),
    "resource": ("onnx_model/run_reference_engine.py",),
}


@functools.cache
def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
    return names


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def modules() -> list[tuple[str, list[str]]]:
    return [(".".join(p.relative_to(ROOT).with_suffix("").parts[1:]), imports(p)) for p in SOURCES]


def test_arrows():
    broken = []
    for module, names in modules():
        for package, banned in NEVER.items():
            if inside(module, package):
                allowed = ("qverify.compare",) if module in JUDGES else ()
                broken += [f"{module} imports {n}" for n in names for b in banned if inside(n, b) and b not in allowed]
    assert len(SOURCES) > 80 and broken == []


def test_floors():
    """Every room stands on a floor, and imports from lower ones only; of the agents, the rooms of SPEAK_TO_BOARDS alone."""
    floor_of = {(p, room): n for p, floors in FLOORS.items() for n, rooms in enumerate(floors) for room in rooms}
    broken = []
    for module, names in modules():
        package, room = module.split(".")[:2]
        if room in NO_ROOM:
            continue
        assert (package, room) in floor_of, f"{module}: no floor of FLOORS holds it"
        for name in names:
            other = name.split(".")[1] if inside(name, package) and "." in name else room
            lower = floor_of.get((package, other), -1) < floor_of[package, room]
            allowed = other == room or lower or inside(name, SIDEWAYS.get(module, "-"))
            foreign = package == "qverify" and inside(name, "qverify_agents") and room not in SPEAK_TO_BOARDS
            if not allowed or foreign:
                broken.append(f"{module} imports {name}")
    assert broken == []


def test_no_circles():
    """Modules that import each other, also inside a room or inside a function."""
    known = {module.removesuffix(".__init__"): names for module, names in modules()}
    arrows = {module: {n for n in names if n in known and n != module} for module, names in known.items()}
    left = dict(arrows)
    while leaves := [module for module, names in left.items() if not names & left.keys()]:
        for module in leaves:
            del left[module]
    assert left == {}, f"in a circle, or above one: {sorted(left)}"


def test_one_library_one_home():
    broken = []
    for path in SOURCES:
        for name in imports(path):
            homes = HOMES.get(name.split(".")[0])
            if homes and not any(h in path.as_posix() for h in homes):
                broken.append(f"{path.name} imports {name}")
    assert broken == []


def test_every_tracked_name_is_one_that_somebody_typed():
    """A shell that was sent something else than commands leaves files of other names."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    names = done.stdout.decode(errors="replace").split("\0")
    assert [n for n in names if not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9._/-]*|", n)] == []

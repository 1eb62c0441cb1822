"""How many modules stand between the command line and a verdict, and between a board's tensor and a metric (ARCHITECTURE.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from qverify import example
from qverify.cli.main import main

EXAMPLE = Path(example.__file__).parent
QUANTIZED = str(EXAMPLE / "digits_quant.onnx")
FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"


def modules_on_the_stack(frame: FrameType | None) -> list[str]:
    """Modules of qverify with a function that is running, the innermost first, each once."""
    names: dict[str, None] = {}
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(("qverify.", "qverify_agents.")):
            names[name] = None
        frame = frame.f_back
    return list(names)


def stacks_at(monkeypatch, function, tmp_path) -> list[list[str]]:
    """The modules on the stack at each call of a function of the judgement while the main job runs over a wrong board."""
    found: list[list[str]] = []
    module = sys.modules[function.__module__]

    def noted(*args, **kwargs):
        found.append(modules_on_the_stack(sys._getframe()))
        return function(*args, **kwargs)

    for holder in [m for name, m in list(sys.modules.items()) if name.startswith("qverify.")]:
        for name, value in list(vars(holder).items()):
            if value is function:
                monkeypatch.setattr(holder, name, noted)
    model = tmp_path / "model.bin"
    assert main(["compile", QUANTIZED, "-o", str(model)]) == 0
    found.clear()
    assert main(["-m", f"{QUANTIZED},{model}", "-b", FAULTY, "-r", "True"]) == 1
    assert found and module.__name__.startswith("qverify.compare")
    return found


def test_from_the_models_to_a_verdict(monkeypatch, tmp_path):
    from qverify.compare import judge

    deepest = max(stacks_at(monkeypatch, judge.conclude, tmp_path), key=len)
    walk = deepest[: deepest.index("qverify.cli.commands.verify") + 1]
    assert len(walk) <= 10, walk


def test_from_a_tensor_of_the_board_to_a_metric(monkeypatch, tmp_path):
    """From its arrival in compare/values.py: what stands between that and a metric's add()."""
    from qverify.compare import paired_values
    from qverify.compare.metrics import max_abs

    stacks: list[list[str]] = []
    add = max_abs.Measure.add

    def noted(self, block):
        stacks.append(modules_on_the_stack(sys._getframe(1)))
        return add(self, block)

    monkeypatch.setattr(max_abs.Measure, "add", noted)
    stacks_at(monkeypatch, paired_values.bits_equal, tmp_path)
    walks = [["qverify.compare.values", *reversed(s[: s.index("qverify.compare.verdict")])] for s in stacks]
    assert walks and all(len(walk) + 2 <= 5 for walk in walks), walks  # and sides/board.py, and the metric's own page


def test_a_photo_on_its_way_to_bytes_returns_to_no_module_it_has_left(tmp_path):
    """In the order of calls: each module of inputs/ is entered once, and its callers only wait for it."""
    from PIL import Image
    from qverify.inputs import reading
    from qverify.inputs.description import Description

    path, wanted = tmp_path / "photo.png", Description("nv12", (16, 12), train="rgb")
    Image.effect_noise((32, 24), 60).convert("RGB").save(path)
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        described = name.endswith((".description", ".formats"))  # what is wanted, asked at every step
        if event == "call" and name.startswith("qverify.inputs.") and not described:
            if not entered or entered[-1] != name:
                entered.append(name)

    sys.setprofile(note)
    try:
        data = reading.read_bytes(str(path), wanted)
    finally:
        sys.setprofile(None)
    assert len(data) == wanted.size_bytes
    assert len(entered) == len(set(entered)), entered
    assert [name.rpartition(".")[2] for name in entered][:2] == ["reading", "picture"]

"""A firmware with a model of its own: qv_hook on emulated microcontrollers, with verdicts, faults and a damaged line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.records import encode
from qverify.sides.own_model_board import OwnModelBoard
from qverify_agents.connect import connect
from qverify_agents.emulation.mcu_sources import sources_root
from qverify_agents.errors import AgentError
from qverify_agents.protocol.messages import own_content
from xxhash import xxh64_hexdigest

from tests.emulated.microcontrollers import build_firmware, each, need

MOST_FLASH, MOST_RAM = 4096, 1024
STRUCK = "relu2_QuantizeLinear_Output"


@pytest.fixture(scope="module")
def onnx(digits: Path) -> Path:
    return digits / "digits_quant.onnx"


@pytest.fixture(scope="module")
def firmware(onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_firmware(tmp_path_factory.mktemp("firmware"), "an386", onnx)


def report_of(onnx: Path, board: str, folder: Path) -> tuple[int, dict[str, object]]:
    """Returns the exit status and the report of the main job on a board."""
    out = folder / "report.json"
    status = main(["-m", str(onnx), "-b", board, "-r", "True", "--json", str(out)])
    return status, json.loads(out.read_text())


@pytest.mark.parametrize("name", each("an385", "an386", "an505", "virt-rv32"))
def test_a_firmware_is_judged_node_by_node(name: str, onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    board = f"qemu-mcu:{name}?firmware={build_firmware(tmp_path, name, onnx)}"
    status, _ = report_of(onnx, board, tmp_path)
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "ref ~ board, sim ~ board: 8 of 8 tensors" in shown
    assert "the firmware ran its own model (example); it was sent inputs only" in shown
    assert "matches its digest" in shown


@need("an386")
def test_a_fault_in_a_layer_is_blamed_there(onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    board = f"qemu-mcu:an386?firmware={build_firmware(tmp_path, 'an386', onnx, STRUCK)}"
    status, _ = report_of(onnx, board, tmp_path)
    shown = capsys.readouterr().out
    assert status == 1 and f"blame: board at {STRUCK}\n" in shown, shown


@need("an386")
def test_an_input_that_inference_overwrites_is_told(onnx: Path, tmp_path: Path):
    spoiled = build_firmware(tmp_path, "an386", onnx, extra=["-DEXAMPLE_OVERWRITES_INPUT"])
    board, prepared = open_board(f"qemu-mcu:an386?firmware={spoiled}", onnx)
    try:
        ran = board.run(prepared)
    finally:
        board.close()
    assert ran.state != "complete" and "inference overwrote an input" in ran.why


def open_board(uri: str, onnx: Path):
    compiled = compile_model(onnx.read_bytes(), onnx.name, CompilerOptions(check=False))
    agent = connect(uri, 60, {})
    return OwnModelBoard(uri, encode(compiled.graph), compiled.graph, 60, {}, 1, "", agent), random_inputs(
        compiled.graph, 3
    )


@need("an386")
@pytest.mark.parametrize("kind", ["drop", "flip", "insert"])
def test_a_damaged_line_changes_no_result(kind: str, onnx: Path, firmware: Path):
    board, prepared = open_board(f"qemu-mcu:an386?firmware={firmware}", onnx)
    try:
        wanted = board.run(prepared).digests
    finally:
        board.close()
    damaged = f"qemu-mcu:an386?firmware={firmware}&link_fault={kind}&link_seed=5&link_probability=0.03"
    board, _ = open_board(damaged, onnx)
    try:
        ran = board.run(prepared)
        faults = board._agent._link.faults
    finally:
        board.close()
    assert ran.state == "complete", ran.why
    assert ran.digests == wanted and faults > 0


@need("an386")
def test_events_and_values_come_from_inference_that_runs_again(onnx: Path, firmware: Path):
    board, prepared = open_board(f"qemu-mcu:an386?firmware={firmware}", onnx)
    try:
        board.send(prepared)
        agent = board._agent
        events = agent.run("0" * 64, board._inputs, repeat=2)
        assert [e.iteration for e in events] == [0] * 8 + [1] * 8
        assert [(e.tensor, e.digest) for e in events[:8]] == [(e.tensor, e.digest) for e in events[8:]]
        whole = agent.get("relu1_QuantizeLinear_Output", 512)
        assert agent.get_range("relu1_QuantizeLinear_Output", 512, 100, 50) == whole[100:150]
        with pytest.raises(AgentError, match="no such tensor"):
            agent.get("nothing", 1)
        with pytest.raises(AgentError, match="not for a firmware's own model"):
            agent.run_unit("0" * 64, ["relu1"], {})
        assert len(board.time_nodes(2)) == 2
    finally:
        board.close()


@need("an386")
def test_contents_are_inputs_only(onnx: Path, firmware: Path):
    agent = connect(f"qemu-mcu:an386?firmware={firmware}", 60, {})
    try:
        assert agent.hello["inputs"] == ["image"] and agent.hello["max_payload"] == 512
        data = b"\1" * 256
        identity = own_content(0, xxh64_hexdigest(data))
        assert agent.have([identity]) == {identity: 0}
        agent.put(identity, data)
        assert agent.have([identity]) == {identity: 256}
        with pytest.raises(AgentError, match="no input of this size"):
            agent.put(own_content(0, xxh64_hexdigest(data[1:])), data[1:])
        with pytest.raises(AgentError, match="no input of this size"):
            agent.put(own_content(1, xxh64_hexdigest(data)), data)
        other = own_content(0, "0" * 16)
        with pytest.raises(AgentError, match="an input was not sent"):
            agent.run("0" * 64, [other])
    finally:
        agent.close()


@need("an386")
def test_other_inputs_than_the_models_are_a_mistake_in_one_line(
    onnx: Path, firmware: Path, capsys: pytest.CaptureFixture[str]
):
    compiled = compile_model(onnx.read_bytes(), onnx.name, CompilerOptions(check=False))
    renamed = replace(compiled.graph.tensors["image"], name="photo")
    graph = replace(compiled.graph, inputs=("photo",), tensors={**compiled.graph.tensors, "photo": renamed})
    agent = connect(f"qemu-mcu:an386?firmware={firmware}", 60, {})
    try:
        with pytest.raises(Exception, match="the firmware's inputs are image; wanted photo"):
            OwnModelBoard("qemu-mcu:an386", b"", graph, 60, {}, 1, "", agent)
    finally:
        agent.close()


@need("an386")
def test_the_hook_is_small(tmp_path: Path):
    out = tmp_path / "hook.o"
    flags = [
        "-mcpu=cortex-m4",
        "-mthumb",
        "-std=c99",
        "-Os",
        "-ffunction-sections",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
    ]
    source = str(sources_root() / "hook" / "qv_hook.c")
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", source, "-o", str(out)], check=True, timeout=60)
    sizes = subprocess.run(["arm-none-eabi-size", str(out)], capture_output=True, text=True, check=True, timeout=60)
    text, data, bss = map(int, re.findall(r"\d+", sizes.stdout.splitlines()[1])[:3])
    assert 0 < text + data <= MOST_FLASH and 0 < data + bss <= MOST_RAM


DECLARATIONS = """
#pragma once
#include <cstdint>
#include <cstddef>
enum TfLiteType { kTfLiteInt8, kTfLiteInt16, kTfLiteInt32, kTfLiteInt64, kTfLiteFloat32 };
struct TfLiteEvalTensor { union { void *data; char *raw; } data; void *dims; TfLiteType type; };
namespace tflite {
template <class T> struct Vector { T *values; uint32_t n; uint32_t size() const { return n; } T Get(uint32_t i) const { return values[i]; } };
struct Operator { Vector<int32_t> *out; const Vector<int32_t> *outputs() const { return out; } };
struct Tensor { Vector<int32_t> *dims; const Vector<int32_t> *shape() const { return dims; } };
struct SubGraph {
  Vector<const Operator *> *ops; Vector<const Tensor *> *all;
  const Vector<const Operator *> *operators() const { return ops; }
  const Vector<const Tensor *> *tensors() const { return all; }
};
struct Model { Vector<const SubGraph *> *graphs; const Vector<const SubGraph *> *subgraphs() const { return graphs; } };
struct MicroProfilerInterface { virtual ~MicroProfilerInterface() {} virtual uint32_t BeginEvent(const char *) = 0; virtual void EndEvent(uint32_t) = 0; };
struct MicroInterpreter { TfLiteEvalTensor *tensors; TfLiteEvalTensor *GetTensor(int i, int = 0) { return &tensors[i]; } };
}
"""
PROGRAM = """
#include <cstdio>
#include "qv_tflm.h"
extern "C" void qv_hook_tensor(const char *name, const void *data, uint32_t bytes) { std::printf("%s %u %d\\n", name, bytes, *(const char *)data); }
extern "C" void qv_hook_channels_last(const char *name, const void *data, uint32_t pixels, uint32_t channels, uint32_t each) {
  std::printf("%s %u x %u x %u %d\\n", name, pixels, channels, each, *(const char *)data);
}
int main() {
  int32_t first[] = {1, 4, 5, 3}, second[] = {1, 6}, at[] = {0, 1};
  char a[60] = {7}, b[12] = {9};
  tflite::Vector<int32_t> shape_a{first, 4}, shape_b{second, 2}, out_a{&at[0], 1}, out_b{&at[1], 1};
  tflite::Tensor ta{&shape_a}, tb{&shape_b};
  tflite::Operator oa{&out_a}, ob{&out_b};
  const tflite::Tensor *all[] = {&ta, &tb};
  const tflite::Operator *ops[] = {&oa, &ob, &oa};
  tflite::Vector<const tflite::Tensor *> tensors{all, 2};
  tflite::Vector<const tflite::Operator *> operators{ops, 3};
  tflite::SubGraph graph{&operators, &tensors};
  const tflite::SubGraph *graphs[] = {&graph};
  tflite::Vector<const tflite::SubGraph *> list{graphs, 1};
  tflite::Model model{&list};
  TfLiteEvalTensor values[] = {{{a}, nullptr, kTfLiteInt8}, {{b}, nullptr, kTfLiteInt16}};
  tflite::MicroInterpreter interpreter{values};
  static const char *const names[] = {"conv", "dense", nullptr};
  qv::Profiler profiler(names, 3);
  profiler.Watch(&interpreter, &model);
  for (int again = 0; again < 2; again++) {
    profiler.Begin();
    for (int i = 0; i < 3; i++) profiler.EndEvent(profiler.BeginEvent("op"));
  }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ not on this machine")
def test_the_profiler_of_tflm_names_each_operators_output(tmp_path: Path):
    """Against declarations like those of tflite-micro, which has no package with its headers."""
    folder = tmp_path / "tensorflow" / "lite" / "micro"
    folder.mkdir(parents=True)
    for name in ("micro_interpreter.h", "micro_profiler_interface.h"):
        (folder / name).write_text(
            DECLARATIONS if name == "micro_interpreter.h" else '#include "micro_interpreter.h"\n'
        )
    (tmp_path / "main.cpp").write_text(PROGRAM)
    flags = ["-std=c++14", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", f"-I{sources_root() / 'hook'}"]
    subprocess.run(["g++", *flags, str(tmp_path / "main.cpp"), "-o", str(tmp_path / "a.out")], check=True, timeout=120)
    shown = subprocess.run([str(tmp_path / "a.out")], capture_output=True, text=True, check=True, timeout=20).stdout
    assert shown.splitlines() == ["conv 20 x 3 x 1 7", "dense 12 9"] * 2


CMSIS_NN = """
#include <stdio.h>
#include "qv_cmsis_nn.h"
typedef struct { int32_t n, h, w, c; } cmsis_nn_dims;
void qv_hook_tensor(const char *name, const void *data, uint32_t bytes) { printf("%s %u %d\\n", name, bytes, *(const char *)data); }
void qv_hook_channels_last(const char *name, const void *data, uint32_t pixels, uint32_t channels, uint32_t each) {
  printf("%s %u x %u x %u %d\\n", name, pixels, channels, each, *(const char *)data);
}
int main(void) {
  const cmsis_nn_dims image = {1, 4, 5, 3}, flat = {1, 1, 1, 12};
  const char out[60] = {7};
  QV_CMSIS_NN("conv", out, &image);
  QV_CMSIS_NN_16("wide", out, &image);
  QV_CMSIS_NN_FLAT("dense", out, &flat);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc not on this machine")
def test_the_macros_of_cmsis_nn_give_what_its_dims_say(tmp_path: Path):
    (tmp_path / "main.c").write_text(CMSIS_NN)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{sources_root() / 'hook'}"]
    subprocess.run(["gcc", *flags, str(tmp_path / "main.c"), "-o", str(tmp_path / "a.out")], check=True, timeout=120)
    shown = subprocess.run([str(tmp_path / "a.out")], capture_output=True, text=True, check=True, timeout=20).stdout
    assert shown.splitlines() == ["conv 20 x 3 x 1 7", "wide 20 x 3 x 2 7", "dense 12 7"]

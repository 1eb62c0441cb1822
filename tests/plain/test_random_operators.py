"""A model that draws random numbers on the way to an output is refused in one line that names the node, wherever it draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import UnsupportedError

from tests.ops.qdq import Qdq

SHAPE = (1, 3, 6, 6)
Build = Callable[[Qdq, str], str]


def dropout(m: Qdq, x: str, training: bool = True) -> str:
    return m.op("Dropout", [x, m.constant("ratio", np.float32(0.5)), m.constant("training", np.bool_(training))])


def of_constants(m: Qdq, x: str) -> str:
    return m.op("Mul", [x, dropout(m, m.constant("ones", np.ones(SHAPE, np.float32)))])


def of_a_computed_flag(m: Qdq, x: str) -> str:
    flag = m.op("Not", [m.constant("off", np.bool_(False))])
    return m.op("Dropout", [m.constant("ones", np.ones(SHAPE, np.float32)), m.constant("ratio", np.float32(0.5)), flag])


def in_a_branch(kind: str) -> Build:
    def build(m: Qdq, x: str) -> str:
        made = helper.make_tensor_value_info("one", TensorProto.FLOAT, SHAPE)
        flags = [m.constant("ratio", np.float32(0.5)), m.constant("training", np.bool_(True))]
        inputs = [x, *(flags if kind == "Dropout" else [])]
        graphs = [
            helper.make_graph([helper.make_node(k, i, ["one"])], k, [], [made])
            for k, i in (("Neg", [x]), (kind, inputs))
        ]
        high = m.op("Greater", [m.op("ReduceSum", [x], keepdims=0), m.constant("zero", np.float32(0))])
        return m.op("If", [high], then_branch=graphs[0], else_branch=graphs[1])

    return build


DRAWN: dict[str, tuple[Build, str]] = {
    "lookup": (dropout, "(Dropout): training_mode is not false"),
    "constants": (of_constants, "(Dropout): training_mode is not false"),
    "computed flag": (lambda m, x: m.op("Mul", [x, of_a_computed_flag(m, x)]), "(Dropout): training_mode is not false"),
    "branch": (in_a_branch("RandomNormalLike"), "(If): RandomNormalLike draws random numbers"),
    "dropout in a branch": (in_a_branch("Dropout"), "(If): training_mode is not false"),
    "Bernoulli": (
        lambda m, x: m.op("Bernoulli", [m.op("Sigmoid", [x])]),
        "(Bernoulli): Bernoulli draws random numbers",
    ),
    "like": (lambda m, x: m.op("Add", [x, m.op("RandomUniformLike", [x])]), "RandomUniformLike draws random numbers"),
    "no input": (
        lambda m, x: m.op("Add", [x, m.op("RandomNormal", [], shape=SHAPE, seed=1.0)]),
        "(RandomNormal): RandomNormal draws random numbers",
    ),
    "Multinomial": (
        lambda m, x: m.op("Cast", [m.op("Multinomial", [m.op("Flatten", [x])], sample_size=3)], to=TensorProto.FLOAT),
        "(Multinomial): Multinomial draws random numbers",
    ),
}


def model(build: Build) -> bytes:
    m = Qdq(seed=5, opset=20)
    m.output(m.quantize(build(m, m.input(SHAPE))))
    return m.model().SerializeToString()


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("case", DRAWN)
def test_what_is_drawn_is_refused_by_name(case: str, host: bool):
    build, why = DRAWN[case]
    with pytest.raises(UnsupportedError) as caught:
        compile_model(model(build), "q.onnx", CompilerOptions(host=host))
    said = str(caught.value)
    assert why in said and "No two runs of the model agree" in said and "\n" not in said


def test_the_command_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "q.onnx"
    path.write_bytes(model(dropout))
    for words in (["triage", "-m"], ["verify", "-b", "local", "-m"], ["compile", "-o", str(tmp_path / "m.bin")]):
        assert main([*words, str(path)]) == 2
        printed = capsys.readouterr().err.strip()
        assert printed.count("\n") == 0 and "(Dropout): training_mode is not false" in printed, printed


def test_what_draws_nothing_or_reaches_no_output_is_compiled():
    def unread(m: Qdq, x: str) -> str:
        m.op("RandomNormalLike", [x])
        return dropout(m, x, training=False)

    assert compile_model(model(unread), "q.onnx").graph.meta["check"]["over"] == []

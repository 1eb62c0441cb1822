"""How Qualcomm's HTP multiplies two tensors and changes the quantization of an operand of Concat, against what its emulator
gave (onnxruntime-qnn 2.7.0, onnxruntime 1.32.0): only codes at which the nearest integer is another."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import REFERENCE, Form, FormsOfOps
from qverify.arithmetic.methods import hold_in_16_bits, multiply_in_htp
from qverify.arithmetic.requantize import requantize
from qverify.compare.catalogue import HTP_CHANGE, HTP_MUL
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import make_table
from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import agree
from tests.plain.test_forms_with_methods import simulate

# Type, scales of both operands, zero points of both and the output, scale of the output; codes of both and of the output
PRODUCTS: list[Any] = [
    ('int8', (0.02046448551118374, 0.02193964645266533), (-7, -56, -23), 0.018135175108909607, [(-45, 20, -95), (-37, -89, 1), (2, 45, -1), (21, -87, -45), (73, -82, -75)]),
    ('uint8', (0.0391424223780632, 0.017516043037176132), (141, 135, 97), 0.2955630421638489, [(88, 196, 89), (194, 74, 89), (202, 82, 89), (223, 227, 115), (233, 53, 79)]),
    ('int8', (0.03629732131958008, 0.032490625977516174), (33, -10, 24), 0.3781142234802246, [(-39, -128, 51), (20, 101, 20), (45, 30, 26), (70, -23, 23), (99, 7, 28)]),
    ('uint8', (0.026911387220025063, 0.035327374935150146), (151, 178, 152), 0.02381194196641445, [(25, 162, 233), (85, 141, 250), (178, 69, 35), (183, 205, 187), (197, 126, 57)]),
    ('int8', (0.02566499263048172, 0.017490101978182793), (10, 1, 26), 0.07811834663152695, [(-121, 92, -42), (-69, -75, 60), (-45, -105, 59), (-45, 107, -7), (120, 54, 59)]),
    ('uint8', (0.04102255776524544, 0.022725863382220268), (181, 90, 124), 0.02672000601887703, [(132, 140, 38), (173, 38, 138), (186, 219, 146), (191, 80, 120), (194, 208, 177)]),
    ('int8', (0.037750352174043655, 0.01428829226642847), (62, -41, -7), 0.1993209421634674, [(-29, -108, 10), (40, 85, -14), (73, -125, -9), (115, 81, 11), (120, 45, 7)]),
    ('uint8', (0.037192460149526596, 0.04396945238113403), (180, 121, 115), 0.11217601597309113, [(64, 155, 57), (132, 126, 111), (169, 174, 106), (200, 61, 97), (228, 106, 104)]),
    ('int8', (0.030663127079606056, 0.03373774141073227), (-40, -9, -2), 0.03598713129758835, [(-108, -64, 105), (-44, 4, -4), (-32, 28, 6), (5, -72, -84), (53, -32, -64)]),
    ('uint8', (0.03454867750406265, 0.043174244463443756), (181, 73, 154), 0.16152583062648773, [(75, 144, 84), (93, 65, 160), (159, 41, 160), (171, 230, 139), (195, 15, 146)]),
    ('int8', (0.023561015725135803, 0.03091314062476158), (-33, -55, 0), 0.1899780035018921, [(-78, 116, -29), (-73, 20, -11), (-57, 70, -11), (53, 83, 46), (95, -1, 27)]),
    ('uint8', (0.038077980279922485, 0.028257224708795547), (65, 103, 173), 0.03349433094263077, [(44, 166, 131), (53, 151, 155), (66, 243, 178), (150, 116, 209), (161, 97, 155)]),
]  # fmt: skip
# Type, scale and zero point of the input and of the output; codes of both
CHANGES: list[Any] = [
    ('uint8', 0.023684710264205933, 102, 0.026933057233691216, 134, [(15, 58), (73, 109), (214, 233)]),
    ('int8', 0.009186753071844578, 43, 0.011102364398539066, -7, [(-70, -100), (-41, -76)]),
    ('int8', 0.01827196031808853, -24, 0.011102364398539066, -7, [(0, 33), (48, 112)]),
    ('uint8', 0.013662774115800858, 167, 0.022127794101834297, 114, [(35, 33), (184, 125)]),
    ('uint8', 0.025687050074338913, 112, 0.022127794101834297, 114, [(84, 82), (227, 248)]),
    ('int8', 0.008771988563239574, -60, 0.018138209357857704, -1, [(-121, -30), (32, 44)]),
    ('int8', 0.034470535814762115, -30, 0.018138209357857704, -1, [(-45, -29), (-35, -10)]),
    ('uint8', 0.04790816828608513, 125, 0.04922948777675629, 133, [(32, 43), (181, 188)]),
    ('int8', 0.00869278609752655, -11, 0.021075647324323654, -29, [(29, -12), (109, 21)]),
    ('int8', 0.04560581594705582, 2, 0.021075647324323654, -29, [(5, -22), (66, 110)]),
    ('uint8', 0.029477769508957863, 75, 0.034939590841531754, 184, [(91, 198), (123, 225), (155, 252)]),
    ('uint8', 0.06064129248261452, 165, 0.034939590841531754, 184, [(61, 4), (148, 155)]),
    ('uint8', 0.03153789043426514, 147, 0.04410531371831894, 174, [(47, 103), (54, 108), (233, 236)]),
    ('int8', 0.057832155376672745, -48, 0.03037983551621437, 6, [(-105, -102), (-22, 56)]),
]  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
def test_a_product_as_htp_was_seen_to_compute_it(case: Any) -> None:
    dtype, scales, zeros, y_scale, seen = case
    limits, codes = np.iinfo(dtype), np.array(seen)
    real = scales[0] * scales[1] / y_scale
    rq = multiply_in_htp(Form.parse(HTP_MUL), real, (zeros[0] - limits.min, zeros[1] - limits.min))
    acc = (codes[:, 0] - zeros[0]) * (codes[:, 1] - zeros[1])
    found = requantize(acc, rq, zeros[2], limits.min, limits.max, dtype, REFERENCE, False, 0)
    assert found.tolist() == codes[:, 2].tolist()
    assert (np.floor(acc * real + 0.5) + zeros[2] != codes[:, 2]).all()  # the nearest integers are others


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_as_htp_was_seen_to_compute_it(case: Any) -> None:
    dtype, scale, zero, y_scale, y_zero, seen = case
    x, y = (TensorSpec("t", dtype, (1,), scale=(s,), zero_point=(z,)) for s, z in ((scale, zero), (y_scale, y_zero)))
    table, codes = make_table(Form.parse(HTP_CHANGE), x, y), np.array(seen)
    assert table[codes[:, 0] - np.iinfo(dtype).min].tolist() == codes[:, 1].tolist()
    assert (np.floor((codes[:, 0] - zero) * (scale / y_scale) + 0.5) + y_zero != codes[:, 1]).all()


def test_products_by_hand() -> None:
    """Every pair of zero points at a few scales, with Python's integers: the rq holds what is scaled apart."""
    rng = np.random.default_rng(5)
    for real in (0.75, 2.0**-6, 0.0061, 2.0**-20, 0.9999999):
        shift = min(15 - int(np.frexp(real)[1]), 22)
        multiplier = int(real * 2**shift + 0.5)
        for z_a, z_b in rng.integers(0, 256, (40, 2)).tolist():
            rq = multiply_in_htp(Form.parse(HTP_MUL), real, (z_a, z_b))
            acc = rng.integers(-255 * 255, 255 * 255, 50)
            a, b = z_a - 128, z_b - 128
            j = (2 * a * b + a + b + 128) >> 8
            apart = ((j * multiplier + 64) >> 7) << 15
            wanted = [((int(v) - 256 * j) * multiplier + apart + (1 << shift >> 1)) >> shift for v in acc]
            found = requantize(acc, rq, 0, -(2**31), 2**31 - 1, "int32", REFERENCE, False, 0)
            assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("make", "form", "scale"), [(multiply_in_htp, HTP_MUL, 1.5), (hold_in_16_bits, HTP_CHANGE, 64.0)]
)
def test_what_was_not_measured_is_refused(make: Any, form: str, scale: float) -> None:
    more = ((3, 4),) if make is multiply_in_htp else ()
    for stated, real in ((form, scale), (form.replace("mul15", "mul16"), 0.25)):
        with pytest.raises(ValueError, match=f"a scale of {real:g} is not computed, wanted mul15"):
            make(Form.parse(stated), real, *more)


def network(dtype: str, **forms: str) -> Graph:
    m = Qdq(dtype, opset=18, seed=3)
    x, y = m.input((1, 4, 9, 9)), m.input((1, 4, 9, 9))
    product = m.quantize(m.op("Mul", [x, y]))
    m.output(m.quantize(m.op("Concat", [product, x, y], axis=1)))
    stated = FormsOfOps("chip", {op: Form.parse(form) for op, form in forms.items()})
    return compile_model(m.model().SerializeToString(), "m.onnx", CompilerOptions(check=False, arithmetic=stated)).graph


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
def test_qvrt_gives_the_same(dtype: str, tmp_path: Path) -> None:
    graph = network(dtype, mul=HTP_MUL, concat=HTP_CHANGE)
    assert "without_form" not in graph.meta
    assert {"mul", "lookup", "concat"} < {n.op for n in graph.nodes}  # a table for an operand of another quantization
    product = next(n for n in graph.nodes if n.op == "mul")
    assert graph.constants[product.inputs[2] or ""].shape == (7, 1)
    every = simulate(graph)
    for node in (n for n in graph.nodes if n.op in ("mul", "lookup", "concat")):
        tensors = {n: graph.tensors[n] for n in (*node.inputs, *node.outputs) if n is not None}
        constants = {n: v for n, v in graph.constants.items() if n in tensors}
        given = tuple(dict.fromkeys(n for n in node.inputs if n is not None and n not in constants))
        part = Graph([node], tensors, constants, given, node.outputs, meta={"source_sha256": "0" * 64})
        case: Any = SimpleNamespace(graph=lambda part=part: part, values={n: every[n] for n in given})
        agree(case, (binary(),), tmp_path, f"htp {dtype} {node.op}")

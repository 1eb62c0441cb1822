"""Shared parts of the lowerings of LSTM, GRU and RNN: attributes and words."""

from __future__ import annotations

from typing import Any

from qverify.arithmetic.recurrences import BIDIRECTIONAL, RECURRENT, REVERSE
from qverify.compiler.attributes import ANY, only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.supported_types import check_float32
from qverify.errors import UnsupportedError
from qverify.onnx_model.graph_view import attributes
from qverify.tensors.spec import TensorSpec

READ: dict[str, frozenset[Any] | None] = {
    "direction": only(b"forward", b"reverse", b"bidirectional"),
    "hidden_size": ANY,  # given by the size of R
    "activations": ANY,
    "activation_alpha": ANY,
    "activation_beta": ANY,
    "clip": ANY,
    "layout": only(0),  # onnxruntime's kernels refuse 1
}
DIRECTIONS = {b"forward": 0, b"reverse": REVERSE, b"bidirectional": BIDIRECTIONAL}
PARAMETERS = {  # activation to onnxruntime's default alpha and beta; None if the activation does not use it
    "hard_sigmoid": (0.2, 0.5),
    "leaky_relu": (0.01, None),
    "elu": (1.0, None),
    "affine": (0.0, 0.0),  # ONNX states no default for these three
    "thresholded_relu": (0.0, None),
    "scaled_tanh": (0.0, 0.0),
}
BY_ONNX_NAME = {name.replace("_", ""): name for name in RECURRENT}


def lower_recurrence(stream: FloatStream, node: Any, op: str, defaults: tuple[str, ...], flag: str) -> None:
    """Writes the node.

    op: its stem. defaults: the default activations of one direction. flag: the attribute that becomes its third word,
    or "" for none. Raises UnsupportedError."""
    attrs, view = attributes(node), stream.view
    check_float32(view, node, *filter(None, (node.input[0], *node.output)))
    direction = DIRECTIONS[attrs.get("direction", b"forward")]
    words = [direction, float_word(attrs.get("clip", 0.0))] + ([int(attrs.get(flag, 0))] if flag else [])
    functions = _functions(node, defaults * (2 if direction == BIDIRECTIONAL else 1))
    inputs: list[str | None] = [stream.source(n) if n else None for n in node.input]
    inputs += [None] * ({"lstm": 8, "lstm_integer": 12}.get(op, 6) - len(inputs))
    outputs = [stream.builder.tensor(TensorSpec(n, "float32", view.shape(n))) for n in node.output]
    for column in zip(*functions, strict=True):
        words += column
    stream.builder.node(op, inputs, outputs, words, (), False)


def _functions(node: Any, defaults: tuple[str, ...]) -> list[tuple[int, int, int]]:
    """Returns the words of each activation: its number, alpha and beta. Raises UnsupportedError for an activation
    without a kernel."""
    attrs = attributes(node)
    alphas, betas = (list(attrs.get(f"activation_{suffix}", [])) for suffix in ("alpha", "beta"))
    stated = [n.decode(errors="replace") for n in attrs.get("activations", [])]
    if stated and len(stated) < len(defaults):
        raise UnsupportedError(
            f"{node.name} ({node.op_type}): {len(stated)} activations, wanted {len(defaults)}; give one for each gate and direction"
        )
    functions = []
    for name in (stated or defaults)[: len(defaults)]:
        function = BY_ONNX_NAME.get(name.lower().replace("_", ""))
        if function is None:
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): activation {name} is not supported; known: {', '.join(sorted(BY_ONNX_NAME))}"
            )
        alpha, beta = PARAMETERS.get(function, (None, None))
        a = 0.0 if alpha is None else float(alphas.pop(0)) if alphas else alpha
        b = 0.0 if beta is None else float(betas.pop(0)) if betas else beta
        functions.append((RECURRENT.index(function), float_word(a), float_word(b)))
    return functions

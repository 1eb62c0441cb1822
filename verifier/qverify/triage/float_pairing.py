"""Pairs each quantized tensor with the float tensor that it represents: by name, by onnxruntime's suffixes, or by
structure. Pairs are never guessed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.norms import norm
from qverify.model_bin.graph import Graph
from qverify.onnx_model.graph_view import GraphView, attributes
from qverify.plural import count

Array = npt.NDArray[Any]
SUFFIXES = ("_QuantizeLinear_Input", "_quantized", "_QuantizeLinear_Output")  # of onnxruntime's quantizer
ACTIVATIONS = ("Relu", "Clip")
_PLAIN = {"QLinearConv": "Conv", "QGemm": "Gemm", "QLinearMatMul": "MatMul"}
# By QOperator: the numbers of its inputs that are value, scale and zero point of the float operator's input; a bias has
# no scale.
_WEIGHTS: dict[str, dict[int, tuple[int, ...]]] = {
    "QLinearConv": {1: (3, 4, 5), 2: (8,)},
    "QLinearMatMul": {1: (3, 4, 5)},
    "QGemm": {1: (3, 4, 5), 2: (6,)},
}


@dataclass(frozen=True, slots=True)
class FloatPair:
    """A float tensor and the quantized tensor that represents it.

    Attributes:
        tensor: name in the float model.
        quantized: name in model.bin's graph.
        how: "name", "suffix" or "structure".
        node, op: the node that computes the float tensor, before its activation.
        weights: the dequantized constants of that node by input number.
        one_scale: whether its weights share one scale, or None if it has none.
    """

    tensor: str
    quantized: str
    how: str
    node: str = ""
    op: str = ""
    weights: dict[int, Array] = field(default_factory=dict)
    one_scale: bool | None = None


@dataclass(frozen=True, slots=True)
class FloatPairs:
    """All pairs of two models.

    Attributes:
        pairs: in running order.
        unpaired: reason why a quantized tensor has no float tensor, by its name.
        inputs, outputs: map the names of the quantized model to those of the float one.
        notes: sentences on tensors that were not paired by name.
    """

    pairs: list[FloatPair]
    unpaired: dict[str, str]
    inputs: dict[str, str]
    outputs: dict[str, str]
    notes: list[str]


def pair_ends(mine: list[str], theirs: list[str], shapes: tuple[Any, Any], what: str) -> tuple[dict[str, str], str]:
    """Maps the names of one model's inputs or outputs to the other's: by name, or by position if number and shapes
    agree. Returns the mapping and a note, which is "" if all names agree. shapes: functions that return the shape of a
    name in each model. what: "inputs" or "outputs"."""
    if set(mine) <= set(theirs):
        return {n: n for n in mine}, ""
    if len(mine) == len(theirs) and all(shapes[0](a) == shapes[1](b) for a, b in zip(mine, theirs, strict=True)):
        mapping = dict(zip(mine, theirs, strict=True))
        renamed = ", ".join(f"{a} is {b}" for a, b in mapping.items() if a != b)
        return mapping, f"{what} paired by position, their names differ: {renamed}"
    return {n: n for n in mine if n in theirs}, ""


def pair_float(floats: GraphView, quantized: GraphView, graph: Graph) -> FloatPairs:
    """Pairs the tensors of the original float model with those of the quantized model, from which the graph was
    compiled."""
    return _Pairing(floats, quantized, graph).run()


class _Pairing:
    def __init__(self, floats: GraphView, quantized: GraphView, graph: Graph):
        self.floats, self.quantized, self.graph = floats, quantized, graph
        self.inputs, _ = pair_ends(quantized.inputs, floats.inputs, (quantized.shape, floats.shape), "inputs")
        self.outputs, _ = pair_ends(quantized.outputs, floats.outputs, (quantized.shape, floats.shape), "outputs")
        self.pairs: dict[str, FloatPair] = {}
        self.taken: set[str] = set()

    def run(self) -> FloatPairs:
        names = [n for n in (*self.graph.inputs, *self.graph.observable()) if self.graph.spec(n).quantized]
        for name in names:
            self._pair_by_name(name)
        unpaired = [n for n in names if n not in self.pairs]
        while unpaired and any([self._pair_by_structure(n) for n in unpaired]):
            unpaired = [n for n in unpaired if n not in self.pairs]
        structural = sum(p.how == "structure" for p in self.pairs.values())
        notes = (
            [f"{count(structural, 'tensor')} paired by position in the graph, their names differ"] if structural else []
        )
        order = {o: i for i, node in enumerate(self.floats.nodes) for o in node.output}
        pairs = sorted(self.pairs.values(), key=lambda p: order.get(p.tensor, -1))
        return FloatPairs(pairs, {n: self._why_unpaired(n) for n in unpaired}, self.inputs, self.outputs, notes)

    def _why_unpaired(self, name: str) -> str:
        candidates = [a for a in self._aliases(name) if a in self.floats.producer or a in self.floats.inputs]
        if candidates and candidates[0] in self.taken:
            return f"{candidates[0]} is already paired"
        if candidates:
            return f"{candidates[0]} has another shape in the float model"
        return "no float tensor has its name, and several or none fit its position"

    def _aliases(self, name: str) -> list[str]:
        """Returns the names that the float model may have for this tensor."""
        view, names = self.quantized, []
        maker = view.producer.get(name)
        if maker is not None and maker.op_type == "QuantizeLinear":
            names.append(maker.input[0])
        names += [o for user in view.consumers[name] if user.op_type == "DequantizeLinear" for o in user.output]
        names += [n.removesuffix(s) for n in [*names, name] for s in SUFFIXES if n.endswith(s)]
        return [self.inputs.get(n, self.outputs.get(n, n)) for n in dict.fromkeys(names)]

    def _pair_by_name(self, name: str) -> None:
        for at, base in enumerate(self._aliases(name)):
            alias = self._after_activation(base, name)
            if alias in self.floats.tensors and alias not in self.floats.constants and alias not in self.taken:
                if self._fits(alias, name):
                    self._add(alias, name, "name" if at == 0 else "suffix")
                    return

    def _fits(self, tensor: str, name: str) -> bool:
        float_type = self.floats.types.get(tensor)
        return float_type is None or float_type == ("float32", tuple(self.graph.spec(name).shape))

    def _add(self, tensor: str, name: str, how: str) -> None:
        core = _core(self.floats, tensor)
        mine = self._core_of(name)
        weights = {} if core is None or mine is None else _dequantized(self.quantized, mine, self.floats, core)
        node, op = ("", "") if core is None else (core.name, core.op_type)
        one_scale = _one_scale(self.quantized, mine, [at for at, v in weights.items() if v.ndim > 1])
        self.pairs[name] = FloatPair(tensor, name, how, node, op, weights, one_scale)
        self.taken.add(tensor)

    def _core_of(self, name: str) -> Any:
        """Returns the node of the quantized model that computes the tensor: a QLinear operator, or the float operator
        between DequantizeLinear and QuantizeLinear."""
        maker = self.quantized.producer.get(name)
        if maker is None or maker.op_type != "QuantizeLinear":
            return maker
        return _core(self.quantized, maker.input[0])

    def _pair_by_structure(self, name: str) -> bool:
        """Pairs the tensor with the output of the only float node of the same operator that reads the float tensors of
        the same inputs. Returns whether there is one."""
        mine = self._core_of(name)
        inputs = None if mine is None else self._float_inputs(mine)
        if mine is None or not inputs or any(r is None for r in inputs):
            return False
        op = _PLAIN.get(mine.op_type, mine.op_type.removeprefix("QLinear"))
        near = [n for n in self.floats.consumers[str(inputs[0])] if n.op_type == op]
        fitting = [n for n in near if [i for i in n.input if i and i not in self.floats.constants] == inputs]
        fitting = [n for n in fitting if self._target(n, name) not in self.taken]
        if len(fitting) > 1:
            fitting = [n for n in fitting if self._has_same_weights(mine, n)]
        if len(fitting) != 1 or not self._fits(self._target(fitting[0], name), name):
            return False
        self._add(self._target(fitting[0], name), name, "structure")
        return True

    def _float_inputs(self, node: Any) -> list[str | None]:
        """Returns the float tensors of the activations that the node reads, with None for one that is not paired."""
        tensors: list[str | None] = []
        for tensor in node.input:
            maker = self.quantized.producer.get(tensor)
            source = maker.input[0] if maker is not None and maker.op_type == "DequantizeLinear" else tensor
            if source and source not in self.quantized.constants:
                pair = self.pairs.get(source)
                tensors.append(pair.tensor if pair else self.inputs.get(source))
        return tensors

    def _target(self, node: Any, name: str) -> str:
        return self._after_activation(str(node.output[0]), name)

    def _after_activation(self, tensor: str, name: str) -> str:
        """Returns the output of the float tensor's activation if the quantized node includes that, otherwise the tensor
        itself."""
        user = self.floats.sole_consumer(tensor)
        is_separate = any(u.op_type in ACTIVATIONS for u in self._users(name))
        return str(user.output[0]) if user is not None and user.op_type in ACTIVATIONS and not is_separate else tensor

    def _users(self, name: str) -> list[Any]:
        view = self.quantized
        dequantized = [o for u in view.consumers[name] if u.op_type == "DequantizeLinear" for o in u.output]
        return [u for n in [name, *dequantized] for u in view.consumers[n]]

    def _has_same_weights(self, mine: Any, node: Any) -> bool:
        for at, value in _dequantized(self.quantized, mine, self.floats, node).items():
            real = self.floats.constants[node.input[at]].astype(np.float64)
            if not norm(real - value) <= 0.25 * norm(real):
                return False
        return True


def _core(view: GraphView, tensor: str) -> Any:
    """Returns the node that computes the tensor; for an activation, the node before it, unless that one is quantized
    separately."""
    node = view.producer.get(tensor)
    if node is not None and node.op_type in ACTIVATIONS:
        before = view.producer.get(node.input[0])
        if before is not None and before.op_type not in ("DequantizeLinear", *ACTIVATIONS):
            return before
    return node


def _dequantized(view: GraphView, mine: Any, floats: GraphView, core: Any) -> dict[int, Array]:
    """Returns the dequantized constants of the quantized node `mine` that have the shape of the float constants of the
    node `core`, by input number."""
    plain = _PLAIN.get(mine.op_type, mine.op_type.removeprefix("QLinear"))
    if core.op_type != plain:
        return {}
    values = {}
    for at, name in enumerate(core.input):
        real = floats.constants.get(name)
        if real is None or real.dtype != np.float32:
            continue
        value = _constant(view, mine, at)
        if value is not None and value.shape == real.shape:
            values[at] = value
    return values


def _constant(view: GraphView, node: Any, at: int) -> Array | None:
    """Returns the dequantized constant for input number `at` of the float operator, or None."""
    table = _WEIGHTS.get(node.op_type)
    if table is None:
        plain = at < len(node.input) and node.op_type not in _PLAIN and not node.op_type.startswith("QLinear")
        return view.float_constant(node.input[at]) if plain else None
    places = table.get(at)
    value = view.constants.get(node.input[places[0]]) if places and places[0] < len(node.input) else None
    if places is None or value is None:
        return None
    if len(places) > 1:
        scale, zero = (view.constants[node.input[i]].reshape(-1) for i in places[1:])
    else:  # a bias is int32, in units of the product of the scales of input and weights
        scale = view.constants[node.input[1]].reshape(-1) * view.constants[node.input[4]].reshape(-1)
        zero = np.zeros(1, np.int64)
    axis = 0 if value.ndim == 1 or node.op_type == "QLinearConv" or _transposed(node) else value.ndim - 1
    real = (value.astype(np.int64) - _along(zero.astype(np.int64), value, axis)) * _along(scale, value, axis)
    return real.astype(np.float32)


def _one_scale(view: GraphView, node: Any, places: list[int]) -> bool | None:
    """Returns whether the weights at these input numbers have one scale for all channels, or None if there are no
    weights."""
    sizes = []
    for at in places:
        if node.op_type in _WEIGHTS:
            sizes.append(view.constants[node.input[_WEIGHTS[node.op_type][at][1]]].size)
        else:
            quantized = view.dequantized(node.input[at])
            sizes += [len(quantized.scale)] if quantized is not None else []
    return all(size == 1 for size in sizes) if sizes else None


def _transposed(node: Any) -> bool:
    return bool(attributes(node).get("transB"))


def _along(values: Array, like: Array, axis: int) -> Array:
    shape = [1] * like.ndim
    shape[axis] = values.size
    return values.reshape(shape)

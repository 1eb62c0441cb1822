"""Functions of float tensors: element by element, along axes, normalizations."""

from __future__ import annotations

from tests.graphs.random_graph import MICROSOFT, RandomGraph

PLAIN = [
    "Abs",
    "Atan",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "HardSwish",
    "Mish",
    "Neg",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Tanh",
    "Asinh",
]
WITH_ALPHA = ("Celu", "Elu", "LeakyRelu", "ThresholdedRelu")
REDUCTIONS = ["L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


def function(g: RandomGraph) -> None:
    g.op(g.pick(*PLAIN), [g.tensor()])


def function_of_one_parameter(g: RandomGraph) -> None:
    g.op(g.pick(*WITH_ALPHA), [g.tensor()], alpha=float(g.rng.uniform(0.1, 1.7)))


def function_of_more(g: RandomGraph) -> None:
    x, a, b = g.tensor(), float(g.rng.uniform(0.1, 1.2)), float(g.rng.uniform(0.1, 1.2))
    kind = g.pick("HardSigmoid", "Selu", "Shrink", "Gelu", "QuickGelu", "Clip", "PRelu", "Pow", "Sqrt", "Log")
    if kind == "HardSigmoid":
        g.op(kind, [x], alpha=a, beta=b)
    elif kind == "Selu":
        g.op(kind, [x], alpha=a, gamma=b)
    elif kind == "Shrink":
        g.op(kind, [x], lambd=a, bias=b)
    elif kind == "Gelu":
        g.op(kind, [x], approximate=g.pick("none", "tanh"))
    elif kind == "QuickGelu":
        g.op(kind, [x], MICROSOFT, alpha=a)
    elif kind == "Clip":
        ends = [g.constant(v, g.style.real) for v in (-a, b)]
        g.op(kind, [x, *g.pick(ends, ["", ends[1]], ends[:1])])
    elif kind == "PRelu":
        g.op(kind, [x, g.reals(g.shape(x)[-1] if g.shape(x) else 1)])
    elif kind == "Pow":
        g.op(kind, [x, g.constant(g.pick(2.0, 3.0, -1.0, 1.0), g.style.real)])
    else:
        g.op(kind, [g.add("Add", [g.add("Abs", [x])[0], g.constant(0.1, g.style.real)])[0]])


def pair(g: RandomGraph) -> None:
    """Two tensors that broadcast, or one with a constant."""
    x = g.tensor()
    shape = tuple(1 if g.chance(0.3) else d for d in g.shape(x))[g.below(len(g.shape(x)) + 1) :]
    other = g.pick(g.reals(*shape, mean=1.5), g.tensor(), x)
    g.op(g.pick("Add", "Sub", "Mul", "Max", "Min", "Mul"), g.pick([x, other], [other, x]))


def quotient(g: RandomGraph) -> None:
    """Adds a division by values that are not near 0, since NaN and huge values are no result to compare."""
    x = g.tensor()
    away = g.add("Add", [g.add("Abs", [g.tensor() if g.chance(0.4) else x])[0], g.constant(0.5, g.style.real)])[0]
    g.op("Div", [x, away])


def several(g: RandomGraph) -> None:
    x = g.tensor()
    g.op(g.pick("Sum", "Mean", "Max", "Min"), [x, g.reals(*g.shape(x)[-1:]), x][: g.pick(1, 2, 3)])


def reduction(g: RandomGraph) -> None:
    x, more = g.tensor(), {"keepdims": g.pick(0, 1)}
    names = [x, g.whole(*g.axes(x))] if g.shape(x) and g.chance(0.8) else [x]
    g.op(f"Reduce{g.pick(*REDUCTIONS)}", names, **more)


def shares(g: RandomGraph) -> None:
    x = g.tensor(rank=(1, 2, 3, 4))
    kind = g.pick("Softmax", "LogSoftmax", "LpNormalization", "Softmax")
    more = {"p": g.pick(1, 2)} if kind == "LpNormalization" else {}
    g.op(kind, [x], axis=g.axis(x), **more)


def norm_of_the_last_axes(g: RandomGraph) -> None:
    x = g.tensor(rank=(2, 3, 4))
    axis = g.pick(-1, -1, -2)
    dims = g.shape(x)[axis:]
    names = [x, g.reals(*dims, mean=1.0), g.reals(*dims)]
    kind = g.pick("LayerNormalization", "LayerNormalization", "SimplifiedLayerNormalization")
    names = names[:2] if kind.startswith("Simpl") or g.chance(0.3) else names
    g.op(kind, names, axis=axis, epsilon=g.pick(1e-5, 1e-2))


def norm_of_channels(g: RandomGraph) -> None:
    x = g.tensor(rank=(3, 4))
    channels = g.shape(x)[1]
    kind = g.pick("InstanceNormalization", "GroupNormalization", "BatchNormalization", "LRN")
    names = [x, g.reals(channels, mean=1.0), g.reals(channels)]
    if kind == "LRN":
        g.op(kind, [x], size=g.pick(1, 3, 2), alpha=0.01, beta=g.pick(0.75, 0.5), bias=1.5)
    elif kind == "GroupNormalization":
        g.op(kind, names, num_groups=g.pick(*[n for n in (1, 2, 3) if channels % n == 0]))
    elif kind == "BatchNormalization":
        spread = g.constant(g.rng.uniform(0.3, 2, channels), g.style.real)
        g.op(kind, [*names, g.reals(channels), spread], epsilon=1e-3)
    else:
        g.op(kind, names, epsilon=1e-3)


KINDS = (
    function, function, function_of_one_parameter, function_of_more, function_of_more, pair, pair, pair, quotient, several, reduction,
    reduction, shares, norm_of_the_last_axes, norm_of_channels,
)  # fmt: skip

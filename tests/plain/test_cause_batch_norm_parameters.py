"""A board that folds a BatchNormalization with another epsilon, or without its mean."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.triage.plain_faults import batch_norm_parameters

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Board, Change
from tests.plain.mechanisms import check_named, check_silent, noise


def norm(epsilon: float = 1e-3) -> Qdq:
    m = Qdq("uint8", seed=3)
    x = m.input((1, 6, 8, 9), -3, 3.5)
    values = {
        "gamma": m.rng.uniform(0.5, 1.5, 6),
        "beta": m.rng.uniform(-1, 1, 6),
        "mean": m.rng.uniform(0.1, 1, 6),
        "variance": m.rng.uniform(0.2, 2, 6),
    }
    names = [m.constant(name, value.astype(np.float32)) for name, value in values.items()]
    m.op("BatchNormalization", [x, *names], "y", epsilon=epsilon)
    m.output(m.quantize("y"))
    return m


def epsilon(value: float) -> Change:
    return lambda board: board.set(board.first("BatchNormalization"), epsilon=value)


def exchange(board: Board) -> None:
    board.constants["mean"], board.constants["variance"] = board.constants["variance"], board.constants["mean"]


def no_mean(board: Board) -> None:
    board.constants["mean"] = np.zeros_like(board.constants["mean"])


def no_root(board: Board) -> None:
    board.constants["variance"] = board.constants["variance"] ** 2


FAULTS: dict[str, tuple[Qdq, Change, str]] = {
    "larger": (norm(), epsilon(0.1), "batch norm: epsilon is 0.1 instead of 0.001"),
    "smaller": (norm(0.1), epsilon(1e-5), "batch norm: epsilon is 1e-05 instead of 0.1|epsilon is .* instead of 0.1"),
    "exchanged": (norm(), exchange, "batch norm: mean and variance are exchanged"),
    "no mean": (norm(), no_mean, "batch norm: the mean is left out"),
    "no root": (norm(1e-5), no_root, "the variance is taken for the standard deviation"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_other_parameters_of_a_fold_are_named(name: str) -> None:
    check_named(*FAULTS[name])


def other_gamma(board: Board) -> None:
    board.constants["gamma"] = np.roll(board.constants["gamma"], 1)


def test_other_faults_have_no_other_fold() -> None:
    check_silent(batch_norm_parameters, norm(), {"noise": noise(9), "gamma of the channel before": other_gamma})


def test_the_parameters_are_kept_where_the_onnx_was_compiled() -> None:
    compiled = compile_model(norm().model().SerializeToString(), "q.onnx", CompilerOptions(check=False))
    kept = compiled.graph.folded_norms["y"]
    assert kept.epsilon == np.float32(1e-3)
    for name, values in {"gamma": kept.scale, "beta": kept.shift, "mean": kept.mean, "variance": kept.variance}.items():
        np.testing.assert_array_equal(values, norm().constants[name])

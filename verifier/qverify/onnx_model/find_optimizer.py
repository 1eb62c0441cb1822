"""Finds the optimizer of onnxruntime that changes a model's outputs, by onnxruntime's own switches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from qverify.onnx_model.engine import LEVELS, Array

Outputs = Mapping[str, Array]
KEEPS_INT8 = "session.qdqisint8allowed"
FUSES_INTEGERS = "QDQSelectorActionTransformer"  # quantized float nodes become integer kernels
SUSPECTS = (  # tried one by one first; each changes integers at many users'
    "WeightBiasQuantization",
    "QDQS8ToU8Transformer",
    "QDQPropagationTransformer",
    "ConstantFolding",
    "DoubleQDQPairsRemover",
    FUSES_INTEGERS,
)
OPTIMIZERS = (
    *SUSPECTS,
    *("Avx2WeightS8ToU8Transformer", "ClipQuantRewrite", "ReluQuantRewrite", "QDQFinalCleanupTransformer"),
    *("WhereDummyDq", "TransposeOptimizer", "CommonSubexpressionElimination", "ConstantSharing", "ReshapeFusion"),
    *("MatMulAddFusion", "MatmulTransposeFusion", "MatMulScaleFusion", "MatMulActivationFusion", "DivMulFusion"),
    *("MatMul_BatchNormalization_Fusion", "MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion"),
    *("DQMatMulNBitsFusion", "ConvAddFusion", "ConvMulFusion", "ConvBNFusion", "ConvAddActivationFusion"),
    *("ConvActivationFusion", "GemmActivationFusion", "GemmSumFusion", "GemmTransposeFusion", "FuseReluClip"),
    *("GeluFusionL1", "GeluFusionL2", "FastGeluFusion", "QuickGeluFusion", "BiasGeluFusion", "BiasSoftmaxFusion"),
    *("LayerNormFusion", "LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"),
    *("SkipLayerNormFusion", "EmbedLayerNormFusion", "BiasSkipLayerNormFusion", "BiasDropoutFusion"),
    *("AttentionFusion", "GroupQueryAttentionFusion", "Pad_Fusion", "NotWhereFusion", "LabelEncoderFusion"),
    *("GatherToSliceFusion", "GatherSliceToSplitFusion", "SliceConcatToSpaceToDepthFusion", "NoopElimination"),
    *("EliminateIdentity", "EliminateSlice", "EliminateDropout", "UnsqueezeElimination", "ExpandElimination"),
    *("CastElimination", "CastChainElimination", "PreShapeNodeElimination", "IdenticalChildrenConsolidation"),
    *("NchwcTransformer", "NhwcTransformer"),
)
CLOSE = 1e-5  # of the largest element: a smaller difference is not searched for
MOST_RUNS = 80


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Options of a session; by default there are none. level: "" or one of LEVELS. disabled: names of optimizers. config:
    keys and values."""

    level: str = ""
    disabled: tuple[str, ...] = ()
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundOptimizer:
    """The beginning of a difference. level: the lowest optimization level at which it appears, "" if it is not known.
    names: optimizers without which it does not; () if they are not known."""

    level: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns the words for a line of the report."""
        if not self.level:
            return "the optimizer that changes it was not found"
        if self.level == "disable_all":
            return "without any optimization, too"
        if not self.names:
            return f"an optimization of level {self.level} changes it"
        only = len(self.names) == 1
        text = f"the optimizer{'' if only else 's'} {', '.join(self.names)} (level {self.level}) change{'s' if only else ''} it"
        if self.names == ("QDQS8ToU8Transformer",):
            text += f": int8 activations become uint8 ({KEEPS_INT8}=1 keeps them)"
        return text


Run = Callable[[SessionSettings], Outputs | None]  # None if the model cannot be run with these settings


def are_close(a: Outputs, b: Outputs) -> bool:
    """Returns whether no output differs by more than CLOSE of its largest element; integers must be equal."""
    return a.keys() == b.keys() and all(_is_close(a[n], b[n]) for n in a)


def _is_close(a: Array, b: Array) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    wide, other = a.astype(np.float64), b.astype(np.float64)
    largest = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
    return bool(np.isclose(wide, other, rtol=0, atol=CLOSE * largest, equal_nan=True).all())


def is_nearer(value: Outputs, wanted: Outputs, changed: Outputs) -> bool:
    """Returns whether more elements are nearer to those of `wanted` than to those of `changed` than the other way
    round. All must have the same names and shapes."""
    votes = 0
    for name, array in value.items():
        v, w, c = (np.asarray(a).astype(np.float64) for a in (array, wanted[name], changed[name]))
        if not v.shape == w.shape == c.shape:
            return False
        with np.errstate(invalid="ignore"):
            to_wanted, to_changed = np.abs(v - w), np.abs(v - c)
        votes += int((to_wanted < to_changed).sum()) - int((to_changed < to_wanted).sum())
    return votes > 0


def find_optimizer(
    run: Run, changed: Outputs, within_s: float = 20.0, wanted: Outputs | None = None, first: str = ""
) -> FoundOptimizer:
    """Returns what makes onnxruntime give `changed`, its outputs on default settings, in place of those without any
    optimization, or of `wanted`. Begins no run after `within_s` seconds. first: one of SUSPECTS, which is tried first."""
    search = _Search(run, time.monotonic() + within_s, first)
    base = search.run(SessionSettings("disable_all"))
    if base is None:
        return FoundOptimizer("")
    without, aim = base, wanted

    def is_right(value: Outputs) -> bool:
        return are_close(value, without) if aim is None else is_nearer(value, aim, changed)

    if are_close(changed, base) or not is_right(base):
        return FoundOptimizer("disable_all")
    for level in LEVELS[1:]:
        value = search.run(SessionSettings(level))
        if value is not None and not is_right(value):
            return FoundOptimizer(level, search.names(level, is_right))
    return FoundOptimizer("")


class _Search:
    def __init__(self, run: Run, until: float, first: str = ""):
        self._run, self._until, self._left = run, until, MOST_RUNS
        self._suspects = sorted(SUSPECTS, key=lambda name: name != first)

    def run(self, settings: SessionSettings) -> Outputs | None:
        """Returns the outputs, or None if they cannot be computed or no run is left."""
        self._left -= 1
        return None if self._left < 0 or time.monotonic() > self._until else self._run(settings)

    def names(self, level: str, is_right: Callable[[Outputs], bool]) -> tuple[str, ...]:
        """Returns few optimizers without which the outputs of this level are right, or () if they are not found."""

        def restores(names: tuple[str, ...]) -> bool:
            value = self.run(SessionSettings(level, names))
            return value is not None and is_right(value)

        for name in self._suspects:
            if restores((name,)):
                return (name,)
        if not restores(OPTIMIZERS):
            return ()
        kept: tuple[str, ...] = OPTIMIZERS
        size = len(kept) // 2
        while size:  # drop parts as long as the rest suffices
            for start in range(0, len(kept), size):
                rest = kept[:start] + kept[start + size :]
                if restores(rest):
                    kept = rest
                    break
            else:
                size //= 2
            size = min(size, len(kept) - 1)
        return kept if self._left >= 0 and len(kept) <= 4 else ()

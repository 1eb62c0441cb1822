"""Every attribute that ONNX's and onnxruntime's schemas give an operator with a lowering, with other values than a model has:
what is compiled equals onnxruntime (the compiler's own check), everything else is refused by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
from qverify.compiler.compile_model import compile_model
from qverify.compiler.lowerings import lowerings
from qverify.errors import BadFileError, InternalError, QVerifyError
from qverify.onnx_model.decompose import _writers
from qverify.onnx_model.engine import Engine

from tests.graphs.made import random_graph
from tests.ops.case_files import CASES
from tests.ops.qdq import Qdq
from tests.plain.test_channels_last import GOOD as LAYOUTS
from tests.plain.test_col2im import GOOD as FOLDS
from tests.plain.test_decompositions import GOOD
from tests.plain.test_decompositions_of_decoders import CASES as DECODERS
from tests.plain.test_decompositions_of_forms import GOOD as FORMS
from tests.plain.test_decompositions_of_functions import CASES as FUNCTIONS
from tests.plain.test_decompositions_of_regions import CASES as REGIONS
from tests.plain.test_matmul_bnb4 import GOOD as BNB4
from tests.plain.test_max_pools import GOOD as POOLS

OUTSIDE = re.compile("not a valid ONNX model|so no elements")
Feed = dict[str, np.ndarray[Any, Any]]
Trial = tuple[onnx.ModelProto, Feed, int, Any, Any]  # model, its inputs, position of the node, attribute, value
OPSETS = (17, 21)
GRAPHS = 60
OLDER: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (10, "Clip", {"min": -0.5, "max": 0.7}),
    (10, "Dropout", {"ratio": 0.3}),
    (12, "Dropout", {"seed": 3}),
    (13, "Dropout", {"seed": 3}),
    (10, "Pad", {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "value": 0.5}),
    *((opset, "ReduceSum", {"axes": [1, 3]}) for opset in (10, 12)),
    *((opset, "Split", {"axis": 2, "split": [2, 4]}) for opset in (10, 12)),
    *((opset, "Squeeze", {"axes": [1]}) for opset in (10, 12)),
    *((opset, "Unsqueeze", {"axes": [1, 3]}) for opset in (10, 12)),
    (17, "Celu", {"alpha": 0.7}),
    *((opset, kind, {"alpha": 0.7}) for opset in (17, 22) for kind in ("Elu", "Selu", "ThresholdedRelu")),
    (22, "Dropout", {"seed": 3}),
)
FEW_WORDS = 20  # different ones, of a description whose values need no quotes
FIRST, LAST = 10, 27  # opsets that are read
Schema = Any
NOT_TRIED = {  # by type: attributes of which no model has a node here
    "Attention": {"left_window_size", "right_window_size"},  # from opset 25 on
    "Cast": {"round_mode"},  # from opset 24 on, and read by casts to float8 only
    "DynamicQuantizeLSTM": {"activations"},  # names, which tests/ops/test_lowering_edges.py refuses
    "EmbedLayerNormalization": {"epsilon", "mask_index_type"},  # tests/plain/test_decompositions.py
    "GroupQueryAttention": {"sliding_window_cache"},  # UNDEFINED
    "QMoE": {"quant_type"},  # names, of which one is supported
    "QEmbedLayerNormalization": {"epsilon"},  # tests/plain/test_decompositions.py
    "Scatter": {"axis"},  # deprecated: ScatterElements
    "Swish": {"alpha"},  # from opset 24 on
}
UNDEFINED = {("GroupQueryAttention", "sliding_window_cache")}  # without a window onnxruntime's result is not defined
# onnxruntime's own QLinearConv, Pad, Trilu, QuantizeLinear and DequantizeLinear have the attributes of ONNX's
TWINS = ("QLinearConv", "Pad", "Trilu", "QuantizeLinear", "DequantizeLinear")
_EXPERTS = ("bias", "weights")
NOT_GIVEN = {  # refused by name (lengths, a third layer), not read (roi), or in tests of their own
    *(f"{kind} fc3_experts_{n}" for kind in ("MoE", "QMoE") for n in _EXPERTS),
    *(f"QMoE fc{at}_{n}" for at in (1, 2) for n in ("act_block_scale", "act_scale", "global_scale")),
    *("QMoE fc3_scales", "QMoE fc3_zero_points", "QMoE router_weights", "GatedAdd gate_weight"),
    *("Dropout ratio", "Dropout training_mode", "DynamicQuantizeLSTM sequence_lens", "MatMulNBits g_idx"),
    *(f"EmbedLayerNormalization {n}" for n in ("mask", "position_ids", "segment_embedding", "segment_ids")),
    *(f"MultiHeadAttention {n}" for n in ("cache_indirection", "past_sequence_length")),
    *(f"QEmbedLayerNormalization segment_{n}" for n in ("embedding", "embedding_scale", "embedding_zero_point", "ids")),
    *("QAttention mask_index", "QAttention past", "QEmbedLayerNormalization mask"),
    *("Resize roi", "Squeeze axes", "GroupQueryAttention head_sink", "GroupQueryAttention query_seqlens"),
    *(f"GroupQueryAttention {a}_{n}" for n, parts in (("scale", "kv"), ("norm_weight", "qk")) for a in parts),
}
OURS = re.compile("check against the original failed|bug of qverify")


@functools.cache
def schemas() -> dict[tuple[str, str], list[Schema]]:
    """Returns, by domain and type, the versions that a model of opset 10 to 27 may have."""
    found: dict[tuple[str, str], list[Schema]] = {}
    every = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    every += [s for s in get_all_operator_schema() if s.domain == "com.microsoft"]
    for schema in every:
        if schema.name in lowerings().read or (schema.domain, schema.name) in _writers():
            found.setdefault((schema.domain, schema.name), []).append(schema)
    for key, versions in found.items():
        oldest = max((s.since_version for s in versions if s.since_version <= FIRST), default=0)
        found[key] = [s for s in versions if oldest <= s.since_version <= LAST or key[0]]
    return found


@functools.cache
def models() -> list[tuple[onnx.ModelProto, Feed]]:
    """Every reference case, with 8 bits, in each opset in which it can be built; the decompositions; random graphs, for what
    no case has as a node of its own; nodes as older opsets have them."""
    made = list(older())
    for opset in OPSETS:
        for name, (build, _, _) in CASES.items():
            m = Qdq("uint8", seed=sum(name.encode()), opset=opset)
            try:
                build(m)
                made.append((m.model(), m.feed))
            except (onnx.shape_inference.InferenceError, BadFileError, KeyError):
                continue  # written for another opset
    for name, build in {**GOOD, **FORMS, **LAYOUTS, **POOLS, **FOLDS, **BNB4}.items():
        m = Qdq(seed=sum(name.encode()))
        build(m)
        made.append((m.model(), m.feed))
    for name, (build, opset) in {**FUNCTIONS, **REGIONS, **DECODERS}.items():
        m = Qdq(seed=sum(name.encode()), opset=opset)
        build(m)
        made.append((m.model(), m.feed))
    for seed in range(GRAPHS):
        graph = random_graph(seed, ("operators", "float", "int8")[seed % 3])
        made.append((graph.model(), graph.feed()))
    return made


def older() -> Iterator[tuple[onnx.ModelProto, Feed]]:
    """Operators whose attributes became inputs later, between quantized tensors or behind them."""
    for opset, kind, attributes in OLDER:
        m = Qdq(opset=opset)
        x = m.input((2, 1, 6, 5))
        y = m.op(kind, [x], 2 if kind == "Split" else 1, **attributes)
        for name in [y, f"{y}_1"] if kind == "Split" else [y]:
            m.output(m.op("Tanh", [name]))
        yield m.model(), m.feed


@functools.cache
def words(name: str) -> tuple[str, ...]:
    """What ONNX's descriptions of the attributes of this name are made of: the values that they may have are among them. Of
    a long description, which has them in quotes or capitals, only such words."""
    found: dict[str, None] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        text = schema.attributes[name].description if name in schema.attributes else ""
        every = dict.fromkeys(re.findall(r"[A-Za-z_]{3,}", text))
        marked = re.findall(r"""(?<=["'`])[A-Za-z_]{3,}(?=["'`])|\b[A-Z_]{3,}\b""", text)
        found |= every if len(every) <= FEW_WORDS else dict.fromkeys(marked)
    return tuple(found)


def values(attribute: Any, before: Any, rank: int) -> Iterator[Any]:
    """Other values of this attribute; None: without it."""
    kind = str(attribute.type).rpartition(".")[2].split(":")[0]
    if before is not None and not attribute.required:
        yield None
    if kind == "INT":
        yield from (v for v in (0, 1, 2, -1, 3) if v != before)
    elif kind == "FLOAT":
        yield from (v for v in (0.375, 1.75) if v != before)
    elif kind == "STRING":
        yield from (w for w in words(attribute.name) if w.encode() != before)
    elif kind == "INTS":
        if before:
            yield from ([v + 1 for v in before], list(before[::-1]), [max(0, v - 1) for v in before])
        else:
            yield from ([v] * count for count in range(1, 2 * rank + 1) for v in (1, 2, 0))
    elif kind == "FLOATS":
        yield from ([0.375] * count for count in (1, 2, 3))
    elif kind == "STRINGS" and before:
        yield [v.decode() for v in before[::-1]]


def schema_of(model: onnx.ModelProto, node: onnx.NodeProto) -> Schema | None:
    opset = next((o.version for o in model.opset_import if o.domain == node.domain), 1)
    versions = schemas().get((node.domain, node.op_type), [])
    return max((s for s in versions if s.since_version <= opset), key=lambda s: s.since_version, default=None)


def changed(model: onnx.ModelProto, at: int, name: str, value: Any) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    node = made.graph.node[at]
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, *([] if value is None else [helper.make_attribute(name, value)])])
    del made.graph.value_info[:]
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def wrong(model: onnx.ModelProto, feed: Feed, kind: str, name: str) -> str | None:
    """What is wrong with how the compiler takes this model; "" where it compiles; None where it is refused as it should."""
    try:
        compile_model(model.SerializeToString(), "m.onnx")
        return ""
    except InternalError as error:
        return f"InternalError: {error}"
    except QVerifyError as error:
        said = str(error)
    except Exception as error:  # a traceback, of whatever kind
        return f"{type(error).__name__}: {error}"
    if OURS.search(said):
        return said
    if name in said or f"({kind})" in said:
        return None
    if "onnxruntime" in said:
        try:
            Engine(model.SerializeToString()).run(feed)
        except BadFileError:
            return None
    return None if OUTSIDE.search(said) else said


def trials() -> Iterator[Trial]:
    """Each type, attribute and value once in each opset."""
    seen = set()
    for model, feed in models():
        for at, node in enumerate(model.graph.node):
            schema = schema_of(model, node)
            held = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            for name, attribute in sorted(schema.attributes.items()) if schema else ():
                if (node.op_type, name) in UNDEFINED:
                    continue
                for value in values(attribute, held.get(name), 5):
                    key = (schema.since_version, node.domain, node.op_type, name, str(value))
                    if key not in seen:
                        seen.add(key)
                        yield model, feed, at, attribute, value


@functools.cache
def trials_by_type() -> dict[str, list[Trial]]:
    """Returns the trials by the type of their node, of both domains."""
    found: dict[str, list[Trial]] = {}
    for trial in trials():
        found.setdefault(trial[0].graph.node[trial[2]].op_type, []).append(trial)
    return found


def types_to_try() -> set[str]:
    """Returns the types that have an attribute which a model here has."""
    attributes: dict[str, set[str]] = {}
    for (_, kind), versions in schemas().items():
        attributes.setdefault(kind, set()).update(name for schema in versions for name in schema.attributes)
    return {kind for kind, names in attributes.items() if names - NOT_TRIED.get(kind, set())}


@pytest.mark.parametrize("kind", sorted(types_to_try()))
def test_each_value_is_right_or_refused(kind: str) -> None:
    bad = set()
    for model, feed, at, attribute, value in trials_by_type()[kind]:
        if said := wrong(changed(model, at, attribute.name, value), feed, kind, attribute.name):
            bad.add(f"{attribute.name}={value}: {said[:300]}")
    assert not bad, "\n".join(sorted(bad))


def test_each_attribute_is_tried_or_refused_by_name() -> None:
    """What a lowering does not read check_attributes refuses, whatever the value."""
    read, missing = lowerings().read, set()
    tried = {
        (model.graph.node[at].domain, kind, attribute.name)
        for kind, every in trials_by_type().items()
        for model, _, at, attribute, _ in every
    }
    for (domain, kind), versions in schemas().items():
        for name in {n for schema in versions for n in schema.attributes} - NOT_TRIED.get(kind, set()):
            twin = domain and kind in TWINS
            if (domain, kind, name) not in tried and not twin and name in read.get(kind, {name: None}):
                missing.add(f"{domain}::{kind} {name}")
    assert not missing, f"no model has a node whose attribute could be changed: {sorted(missing)}"


def test_each_further_input_is_given_once() -> None:
    given: dict[str, set[int]] = {}
    for model, _ in models():
        for node in model.graph.node:
            given.setdefault(node.op_type, set()).update(at for at, name in enumerate(node.input) if name)
    missing = set()
    for (_, kind), versions in schemas().items():
        newest = max(versions, key=lambda schema: schema.since_version)
        for at, entry in enumerate(newest.inputs):
            if str(entry.option).endswith("Optional") and at not in given.get(kind, set()):
                missing.add(f"{kind} {entry.name}")
    assert missing == NOT_GIVEN

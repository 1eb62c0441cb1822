"""GroupQueryAttention of decoders, written out: its result is that of onnxruntime's kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.inputs.sources import InputRequest
from qverify.onnx_model.decompose import check_same_values, decompose
from qverify.onnx_model.load import load
from qverify.session.job import verify
from qverify.session.request import Request

HEADS, GROUPS, SIZE = 4, 2, 16
MICROSOFT = "com.microsoft"
FORMS: dict[str, dict[str, Any]] = {
    "one new token": {},
    "several new tokens": {"queries": 3, "batch": 1},
    "prompt": {"queries": 5, "past": 0},
    "packed": {"packed": True},
    "without rotation": {"do_rotary": 0},
    "interleaved": {"rotary_interleaved": 1},
    "given positions": {"positions": True, "queries": 3, "batch": 1},
    "window": {"local_window_size": 3},
    "window of a prompt": {"local_window_size": 2, "queries": 6, "past": 0},
    "softcap": {"softcap": 2.5},
    "scale": {"scale": 0.11},
    "bias": {"bias": True, "queries": 3, "batch": 1},
    "softcap and bias": {"bias": True, "softcap": 2.0},
    "room for more": {"room": 3},
    "room for one": {"room": 1},
    "room, several new tokens": {"room": 4, "queries": 3, "batch": 1, "local_window_size": 4},
    "room, bias": {"room": 2, "bias": True, "packed": True},
    "prompt with room": {"queries": 5, "past": 0, "room": 9},
    "smooth": {"smooth_softmax": 1, "queries": 3, "batch": 1},
    "sink": {"sink": True},
    "sink of a prompt": {"sink": True, "queries": 5, "past": 0},
    "not causal": {"causal": 0, "queries": 3, "batch": 1},
    "cache of int8": {"cache": "PER_TENSOR", "queries": 3, "batch": 1},
    "cache of int8 by channel": {"cache": "PER_CHANNEL", "room": 3, "sink": True},
    "prompt that fills the room": {"queries": 5, "past": 0, "room": 5, "packed": True},
}


def decoder(**form: Any) -> tuple[onnx.ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """A GroupQueryAttention between quantized queries and outputs, and inputs for it."""
    batch, queries, past, room = (form.pop(n, v) for n, v in (("batch", 2), ("queries", 1), ("past", 4), ("room", 0)))
    packed, positions, bias = form.pop("packed", False), form.pop("positions", False), form.pop("bias", False)
    sink, cache = form.pop("sink", False), form.pop("cache", "")
    rng, keys = np.random.default_rng(7), past + queries
    widths = [HEADS * SIZE, GROUPS * SIZE, GROUPS * SIZE]
    parts = {"q": sum(widths)} if packed else dict(zip(("q", "k", "v"), widths, strict=True))
    feed = {n: rng.normal(size=(batch, queries, width)).astype(np.float32) for n, width in parts.items()}
    for name in ("past_key", "past_value") if past + room else ():
        shape = (batch, GROUPS, past + room, SIZE)
        feed[name] = (
            rng.integers(-90, 90, shape).astype(np.int8) if cache else rng.normal(size=shape).astype(np.float32)
        )
    feed["mask"] = np.ones((batch, keys), np.int64)
    angles = rng.uniform(-3, 3, (keys + 2, SIZE // 2))
    constants = {"total": np.int32(keys), "s": np.float32(0.03), "z": np.uint8(128)}
    constants |= {"axis": np.array([1], np.int64), "one": np.int64(1)}
    constants |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    if sink:
        constants["sink"] = rng.normal(size=HEADS).astype(np.float32)
    for name in ("key_scale", "value_scale") if cache else ():
        size = 1 if cache == "PER_TENSOR" else GROUPS * SIZE
        constants[name] = rng.uniform(0.02, 0.03, size).astype(np.float32)
    if positions:
        feed["positions"] = past + np.tile(np.arange(queries, dtype=np.int64), (batch, 1))
    if bias:
        feed["bias"] = rng.normal(size=(1, HEADS, queries, keys)).astype(np.float32)
    nodes = [
        helper.make_node("QuantizeLinear", ["q", "s", "z"], ["qq"]),
        helper.make_node("DequantizeLinear", ["qq", "s", "z"], ["qd"]),
        helper.make_node("ReduceSum", ["mask", "axis"], ["tokens"], keepdims=0),
        helper.make_node("Sub", ["tokens", "one"], ["number"]),
        helper.make_node("Cast", ["number"], ["last"], to=TensorProto.INT32),
    ]
    rotates = form.setdefault("do_rotary", 1)
    inputs = ["qd", *(("", "") if packed else ("k", "v")), *(("past_key", "past_value") if past + room else ("", ""))]
    inputs += ["last", "total", *(("cos", "sin") if rotates else ("", ""))]
    inputs += ["positions" if positions else "", "bias" if bias else "", "sink" if sink else ""]
    inputs += ["key_scale", "value_scale"] if cache else []
    while not inputs[-1]:
        inputs.pop()
    outputs = ["y", "present_key", "present_value"]
    more = {"num_heads": HEADS, "kv_num_heads": GROUPS, **form}
    more |= {"kv_cache_bit_width": 8, "k_quant_type": cache, "v_quant_type": cache} if cache else {}
    nodes.append(helper.make_node("GroupQueryAttention", inputs, outputs, domain=MICROSOFT, **more))
    graph = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feed.items()],
        [helper.make_tensor_value_info(n, TensorProto.INT8 if cache and n != "y" else 1, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feed


def written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    done = decompose(load(model.SerializeToString(), "decoder"), "decoder", {})
    check_same_values(done)
    assert not done.refused
    assert not any(node.op_type == "GroupQueryAttention" for node in done.model.graph.node)
    return done.model


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return list(
        ort.InferenceSession(model.SerializeToString(), options).run(["y", "present_key", "present_value"], feed)
    )


@pytest.mark.parametrize("name", FORMS)
def test_it_computes_what_onnxruntime_does(name: str):
    model, feed = decoder(**FORMS[name])
    for mine, theirs in zip(run(written_out(model), feed), run(model, feed), strict=True):
        assert mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=0, atol=3e-6)


@pytest.mark.parametrize("name", FORMS)
def test_rows_of_other_lengths_in_one_batch(name: str):
    """Also padded rows of a prompt."""
    model, feed = decoder(**FORMS[name])
    tokens = feed["mask"].shape[1]
    queries = feed["q"].shape[1]
    past = tokens - queries
    window = FORMS[name].get("local_window_size", queries)  # outside of it padded queries have no key
    for shorter in range(1, past + 1 if past else min(window, queries)):
        feed["mask"][-1, tokens - shorter :] = 0
        for mine, theirs in zip(run(written_out(model), feed), run(model, feed), strict=True):
            assert np.allclose(mine, theirs, rtol=0, atol=3e-6), shorter


VERIFIED = ("one new token", "prompt", "softcap and bias", "room for more", "prompt with room", "sink", "smooth")


@pytest.mark.parametrize("name", [*VERIFIED, "cache of int8", "cache of int8 by channel"])
def test_it_is_verified(name: str, tmp_path: Path):
    model, feed = decoder(**FORMS[name])
    path, inputs = tmp_path / "decoder.onnx", tmp_path / "inputs.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(inputs, **feed)  # type: ignore[arg-type]
    report = verify(Request([str(path)], "local", inputs=InputRequest(files=str(inputs)))).report
    assert report.verdict == "PASSED"
    assert verify(Request([str(path)], "local")).report.verdict == "PASSED"  # a random mask


def test_another_form_is_refused_by_name():
    model, _ = decoder(local_window_size=3, sliding_window_cache=1)
    ((_, error),) = decompose(load(model.SerializeToString(), "decoder"), "decoder", {}).refused
    assert "sliding_window_cache is not supported" in str(error)


def test_room_needs_a_constant_total_length():
    model, _ = decoder(room=3)
    total = next(i for i in model.graph.initializer if i.name == "total")
    model.graph.initializer.remove(total)
    model.graph.input.append(helper.make_tensor_value_info("total", TensorProto.INT32, []))
    ((_, error),) = decompose(load(model.SerializeToString(), "decoder"), "decoder", {}).refused
    assert "its total_sequence_length is no constant" in str(error)
    assert "at most 8, the 7 tokens of the past and the 1 new ones" in str(error)


@pytest.mark.parametrize("more", [{"softcap": 2.0}, {"sink": True}])
def test_a_soft_cap_or_sink_and_a_window_of_a_prompt_are_verified_for_full_rows(more: dict[str, Any]):
    """onnxruntime computes queries of padding otherwise."""
    form = {**more, "local_window_size": 2, "queries": 6, "past": 0}
    for room in (0, 8):
        model, feed = decoder(**form, room=room)
        for mine, theirs in zip(run(written_out(model), feed), run(model, feed), strict=True):
            assert np.allclose(mine, theirs, rtol=0, atol=3e-6)


def test_a_past_without_presents_is_refused_by_name():
    model, _ = decoder()
    node = next(n for n in model.graph.node if n.op_type == "GroupQueryAttention")
    node.output[:] = ["y"]
    del model.graph.output[1:]
    ((_, error),) = decompose(load(model.SerializeToString(), "decoder"), "decoder", {}).refused
    assert "it has a past, but not both presents as outputs" in str(error)

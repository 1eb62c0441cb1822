"""model.bin: round trip, and any damage is a BadFileError, never anything else; the C loader refuses it too."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.model_bin import container
from qverify.model_bin.records import decode, encode
from qverify_agents.binaries import host_architecture, runtime_path


@pytest.fixture(scope="module")
def data() -> bytes:
    from qverify import example

    source = (Path(example.__file__).parent / "digits_quant.onnx").read_bytes()
    return encode(compile_model(source, "digits", CompilerOptions(check=False)).graph)


def test_round_trip(data):
    assert encode(decode(data)) == data


@given(at=st.integers(0, 10**9), bit=st.integers(0, 7))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_bit_is_found(data, at, bit):
    changed = bytearray(data)
    changed[at % len(data)] ^= 1 << bit
    with pytest.raises(BadFileError):
        decode(bytes(changed))


@given(
    kind=st.sampled_from(["GRPH", "TNSR", "NODE", "WORD", "STRS", "SCAL"]),
    at=st.integers(0, 10**9),
    value=st.integers(0, 12) | st.integers(0, 2**32 - 1),  # ids and flags are small
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_values_behind_good_checksums(data, kind, at, value):
    """A changed word with all CRCs made right again is refused, or gives a graph that is the same once written and read."""
    sections = {k: bytes(v) for k, v in container.unpack(data).items()}
    body = bytearray(sections[kind.encode()])
    place = at % max(1, len(body) // 4) * 4
    body[place : place + 4] = value.to_bytes(4, "little")[: len(body) - place]
    sections[kind.encode()] = bytes(body)
    try:
        graph = decode(container.pack(sections))
    except BadFileError:
        return
    again = decode(encode(graph))
    assert replace(again, constants={}) == replace(graph, constants={})
    assert list(again.constants) == list(graph.constants)
    for name, value in graph.constants.items():
        held = again.constants[name]
        assert (held.dtype, held.shape, held.tobytes()) == (value.dtype, value.shape, value.tobytes()), name


@pytest.mark.parametrize("length", [0, 7, 8, 63, 64, 319, 320, -1])
def test_truncated(data, length, tmp_path):
    with pytest.raises(BadFileError):
        decode(data[:length])
    path = tmp_path / "m.bin"
    path.write_bytes(data[:length])
    done = subprocess.run(
        [runtime_path(host_architecture()), "model_info", f"--model_file={path}"],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 2 and "valid model.bin" in done.stderr


def test_an_input_listed_twice_is_refused(data):
    graph = decode(data)
    with pytest.raises(BadFileError, match="an input is listed twice"):
        decode(encode(replace(graph, inputs=(*graph.inputs, graph.inputs[0]))))

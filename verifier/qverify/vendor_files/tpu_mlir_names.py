"""The names that tpu-mlir gives to tensors: those of the ONNX with the operator that computes them, and endings for what
the toolkit inserted (a cast, a reshape)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

CASTS = r"[su]?i(?:4|8|16|32)|u?int(?:8|16|32)|f32|f16|bf16|f8e4m3|f8e5m2"
_INSERTED = re.compile(rf"(?:_(?:{CASTS}|reshape|r_keepdims(?:_no_izp)?|r_reshape|to_matmul)|__softmax|_dequant_\d+)\Z")
_CAST = re.compile(rf"_(?:{CASTS})\Z")
_OPERATOR = re.compile(r"_[A-Z][A-Za-z0-9]*\Z")
_CHECKER = re.compile(r"(.+)_asm_(\d+)_(\d+)_(\d+)_(actual|desired)\Z", re.DOTALL)
QUANTIZED = "_QuantizeLinear_Output"  # the ending of onnxruntime's quantizer


def stems(name: str) -> list[str]:
    """Returns a name without what the toolkit inserted: the name itself first, and the shortest one last."""
    found = [name]
    while shorter := _INSERTED.sub("", found[-1]):
        if shorter == found[-1]:
            break
        found.append(shorter)
    return found


def without_operator(name: str) -> str:
    """Returns the name that a tensor has in the ONNX if its name here ends in an operator, as NAME_Conv; else ""."""
    match = _OPERATOR.search(name)
    return name[: match.start()] if match and match.start() else ""


def cast_of(name: str, names: Collection[str]) -> str:
    """Returns the tensor whose cast for one of its readers this is (NAME, the reader's name, _ui8), or "". names: those of
    the tensors that are known. Of a reader that is not among them the name must end in an operator."""
    body = _CAST.sub("", name)
    if body == name or body in names:
        return ""
    cuts = [at for at in range(1, len(body)) if body[:at] in names]
    known = [at for at in cuts if body[at:] in names]
    likely = known or [at for at in cuts if body[at].isalnum() and without_operator(body[at:])]
    return body[: likely[0]] if len(likely) == 1 else ""


def dumped_name(key: str) -> tuple[str, int, str]:
    """Returns the name of a tensor, the number of the command and "actual" or "desired" of a key in bmodel_checker's dump
    (NAME_asm_LINE_INDEX_CMD_actual); the key itself, -1 and "" for any other."""
    match = _CHECKER.match(key)
    return (match[1], int(match[4]), match[5]) if match else (key, -1, "")


def main_names(names: Iterable[str]) -> dict[str, str]:
    """Returns, by the shortest stem, the name that stands for a tensor of the network among those that differ by what the
    toolkit inserted: the stem itself, else the last one, which has the shape and type of the tensor."""
    found: dict[str, str] = {}
    listed = list(names)
    for name in listed:
        *_, stem = stems(name)
        if found.get(stem) != stem:
            found[stem] = name
    return found


def onnx_names(names: Iterable[str], outputs: Mapping[str, str]) -> dict[str, str]:
    """Returns the tensors of an ONNX by the names of this toolkit. outputs: the operator of each tensor of the ONNX, "" for
    its inputs."""
    spelled = {f"{name}_{op}" if op else name: name for name, op in outputs.items()}
    listed = list(names)
    found: dict[str, str] = {}
    for name in listed:
        source = next((spelled[stem] for stem in stems(name) if stem in spelled), None)
        if source is None and (cast := cast_of(name, listed)):
            source = next((spelled[stem] for stem in stems(cast) if stem in spelled), None)
        if source is not None:
            found[name] = source
    return found

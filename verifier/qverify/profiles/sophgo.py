"""Sophgo: the .npz files of tpu-mlir (model_runner, model_deploy, bmodel_checker) and of model_runner on a CV18xx board.

Arrays are real values in float32, also those of quantized and of BF16 tensors; with --out_fixed they are stored integers,
whose scales the text of the module beside the file states (NAME_tpu.mlir). Tensors are named after those of the ONNX,
with the operator (NAME_Conv), and with endings for what the toolkit inserted."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from qverify.errors import BadFileError
from qverify.files import parse_json
from qverify.plural import count
from qverify.vendor_files.array_files import StoredArray, npz
from qverify.vendor_files.tpu_mlir import INPUT, MAX_BYTES, Quantization, TpuModule, read_module
from qverify.vendor_files.tpu_mlir_names import QUANTIZED, cast_of, dumped_name, main_names, stems, without_operator
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, Rung, VendorDump, VendorTensor

WANTED = "the .npz of tpu-mlir or model_runner; NAME_tpu.mlir beside it states scales"
CHECKED = "checked with real files of tpu-mlir 1.30.2 (bm1684x, cv181x), not with output of a board"
TEXT = "_tpu.mlir"
STAGES = ("_tpu_outputs.npz", "_model_outputs.npz", "_top_outputs.npz")
REAL = "_f32"  # the ending of a cast to real values
SUMMARY = "bmodel_failed_summary.json"  # what bmodel_checker writes beside its dump
WEIGHTS = ("_merge", "_filter_i8", "_filter_int8", "_bias_int32", "_table")
MAX_SUMMARY_BYTES = 1 << 28


def recognised(folder: UntrustedFolder) -> bool:
    """Returns False, since its dumps look like any other .npz."""
    return False


def rungs(folder: UntrustedFolder) -> list[Rung]:
    """Returns the stages of tpu-mlir in the folder: the float network, the quantized one, what the cmodel or board gave."""
    if folder.is_file:
        return []
    stages = {"top": "_top_outputs.npz", "tpu": "_tpu_outputs.npz", "model": "_model_outputs.npz"}
    found = {stage: [n for n in folder.names() if n.endswith(ending)] for stage, ending in stages.items()}
    if any(len(files) > 1 for files in found.values()):
        return []  # of several chips or modes
    return [Rung(s, os.path.join(folder.path, n), "", s == "top") for s, files in found.items() for n in files]


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the dump, in its own order, which is that of the network. What several commands of a bmodel have of one tensor
    must agree."""
    file = _file(folder)
    arrays, dump = npz(file), VendorDump("sophgo", [])
    arrays = _commands(arrays, dump)
    module = _module_beside(file, dump)
    stated = _quantizations(file, module)
    names = [array.name for array in arrays]
    everything = {*names, *(op.tensor for op in module.computed)} if module is not None else set(names)
    inputs = {op.tensor for op in module.ops if op.name == INPUT} if module is not None else set[str]()
    computed = {op.tensor for op in module.computed} if module is not None else set[str]()
    mains = set(main_names(names).values())
    for array in arrays:
        weights = array.name not in computed and (array.name.startswith("load_") or array.name.endswith(WEIGHTS))
        tensor = _tensor(array, stated.get(array.name))
        inserted = weights or array.name not in mains or bool(cast_of(array.name, everything))
        aliases = () if weights or array.name in inputs else _aliases(array.name, everything, inserted)
        dump.tensors.append(replace(tensor, aliases=aliases, is_inserted=inserted, is_input=array.name in inputs))
    return dump


def _file(folder: UntrustedFolder) -> UntrustedFile:
    if folder.is_file:
        return folder.only()
    archives = [name for name in folder.names() if name.endswith(".npz")]
    if len(archives) != 1:
        raise BadFileError(f"{folder.path}: {count(len(archives), '.npz file')}; wanted {WANTED}")
    return folder.file(archives[0])


def _commands(arrays: list[StoredArray], dump: VendorDump) -> list[StoredArray]:
    """Returns the arrays under the names of their tensors; of what several commands have of one, the first. A tensor is
    missing if they contradict each other. Expected values of bmodel_checker are left out."""
    found: dict[str, StoredArray] = {}
    expected = []
    for array in arrays:
        name, command, kind = dumped_name(array.name)
        if kind == "desired":
            expected.append(name)
            continue
        shape = (
            array.shape[:2] + array.shape[3:]
            if command >= 0 and len(array.shape) == 5 and array.shape[2] == 1
            else array.shape
        )
        named = replace(array, name=name, shape=shape)
        first = found.setdefault(name, named)
        if first is named or name in dump.missing:
            continue
        if first.shape != shape:
            dump.missing[name] = f"commands of the bmodel have parts of it, {list(first.shape)} and {list(shape)}"
        elif first.read() != array.read():
            dump.missing[name] = f"two commands of the bmodel have different values of it, the second is {command}"
    if expected:
        dump.notes.append(f"sophgo: {count(len(expected), 'array')} of expected values, not compared")
    return [array for name, array in found.items() if name not in dump.missing]


def _aliases(name: str, names: Collection[str], inserted: bool) -> tuple[str, ...]:
    """Returns the names that a tensor may have in the ONNX, and in its quantized form."""
    if source := cast_of(name, names):
        base = without_operator(source) or source
        return f"{base}{QUANTIZED}", f"{source}{QUANTIZED}"
    *longer, stem = stems(name)
    base = without_operator(stem) or stem
    quantized = (f"{base}{QUANTIZED}", *([f"{stem}{QUANTIZED}"] if base != stem else []))
    real = name.endswith(REAL)
    if inserted:
        return (*([base] if real else []), quantized[0])
    others = [*longer[1:], *([stem] if stem != name else []), *([base] if base != stem else [])]
    cast = not real and f"{name}{REAL}" in names  # an output, whose real values are those of the cast
    return (*quantized, *others) if cast else (*others, *quantized)


def _module_beside(file: UntrustedFile, dump: VendorDump) -> TpuModule | None:
    """Returns the module of the text beside the file, None if there is none or several may be it."""
    folder, name = os.path.split(file.path)
    stem = next((name.removesuffix(stage) for stage in STAGES if name.endswith(stage)), "")
    texts = sorted(entry for entry in os.listdir(folder) if entry.endswith(TEXT))
    chosen = [text for text in texts if stem and text == stem + TEXT] or (texts if len(texts) == 1 and not stem else [])
    if len(chosen) != 1 or not os.path.isfile(path := os.path.join(folder, chosen[0])):
        return None
    dump.notes.append(f"sophgo: scales and kinds of tensors are those of {chosen[0]}")
    return read_module(UntrustedFile(os.path.realpath(path)).whole(MAX_BYTES), path)


def _quantizations(file: UntrustedFile, module: TpuModule | None) -> dict[str, Quantization]:
    """Returns what the text, or the summary of bmodel_checker, states of each tensor."""
    found = {op.tensor: op.quantization for op in module.ops if op.quantization is not None} if module else {}
    path = os.path.join(os.path.dirname(file.path), SUMMARY)
    if found or not os.path.isfile(path):
        return found
    content = parse_json(UntrustedFile(os.path.realpath(path)).whole(MAX_SUMMARY_BYTES), path)
    for entry in content if isinstance(content, list) else ():
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(value, dict) or not str(value.get("memory_type", "")).endswith(("i8>", "i16>")):
            continue
        scale, zero, name = value.get("scale"), value.get("zero_point"), value.get("name")
        if isinstance(scale, (int, float)) and scale > 0 and isinstance(zero, int) and isinstance(name, str):
            found[name] = Quantization("u8" if "xui8>" in str(value["memory_type"]) else "i8", float(scale), zero)
    return found


def _tensor(array: StoredArray, stated: Quantization | None) -> VendorTensor:
    """Returns the tensor. The tool of older boards stores BF16 as uint16. It may add dims of one element, and stores a padded
    tensor of n frames with the shape n,1,1,x."""
    dtypes: tuple[str, ...] = (array.dtype,)
    if array.dtype == "uint16":
        dtypes = ("bfloat16",) if array.name.endswith(("_bf16", ".bf16")) else ("uint16", "bfloat16")
    flat = len(array.shape) > 1 and sum(d != 1 for d in array.shape[1:]) <= 1
    scale: tuple[float, ...] = ()
    zero: tuple[int, ...] = ()
    if stated is not None and stated.dtype == array.dtype in ITEM:
        scale, zero = (stated.scale,), (stated.zero_point,)
    return VendorTensor(
        array.name,
        array.where,
        dtypes,
        array.size_bytes,
        array.read,
        array.shape,
        flat=flat,
        scale=scale,
        zero_point=zero,
    )

#!/usr/bin/env bash
# Sophgo's tpu-mlir 1.30.2 scales both operands of an Add by multipliers of at most 7 bits. For cv181x they are cut off, not
# rounded: 0.99999 becomes 63/64, so that every sum is 1.6 % low; a sum that should keep its scale does not. For
# bm1684x they are rounded (67/128 for 0.5229), and each operand is rounded to an integer before the sum. The same 7 bits
# are those of pools and products. model_deploy says nothing of it, and compares by cosine 0.90 and euclid 0.80.
# Wanted: multipliers of 15 bits or more, as for convolutions (31 bits). Needs CPython 3.10 and 3 GB; prints the multipliers.
set -euo pipefail
python=${PYTHON310:-python3.10}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'tpu-mlir[onnx]==1.30.2' psutil torch==1.12.1
rm -f "$folder"/venv/lib/python3.10/site-packages/tpu_mlir/lib/third_party/{libc.so.6,libm.so.6,libpthread.so.0}
cd "$folder"
venv/bin/python - <<'PYTHON'
import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

rng = np.random.default_rng(0)
w = [numpy_helper.from_array(rng.normal(0, 0.5, (4, 4, 1, 1)).astype(np.float32), n) for n in ("wa", "wb")]
nodes = [helper.make_node("Conv", ["x", n], [n[1]]) for n in ("wa", "wb")] + [helper.make_node("Add", ["a", "b"], ["y"])]
io = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 8, 8])] for n in "xy"]
save(helper.make_model(helper.make_graph(nodes, "g", *io, w), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
open("table", "w").write("# op_name threshold min max\nx 4 -4 4\na_Conv 5.23 -5.23 5.23\nb_Conv 9.9999 -9.9999 9.9999\ny_Add 10 -10 10\n")
PYTHON
export PATH="$folder/venv/bin:$PATH"
model_transform --model_name m --model_def m.onnx --input_shapes '[[1,4,8,8]]' --mlir m.mlir > log
for chip in bm1684x cv181x; do
  model_deploy --mlir m.mlir --quantize INT8 --chip "$chip" --calibration_table table --debug \
    --model "m.$([ "$chip" = cv181x ] && echo cvimodel || echo bmodel)" >> log
  found=$(grep -o '"tpu.Add".*multipliers = [^]]*\].*rshifts = [^]]*\]' "m_${chip}_int8_sym_tpu.mlir" | grep -o 'multipliers = [^]]*\]\|rshifts = [^]]*\]' | tr '\n' ' ')
  echo "$chip: 5.23/10 = 0.523, 9.9999/10 = 0.99999: $found"
  case "$chip $found" in
    "bm1684x multipliers = [67, 1] rshifts = [7, 0] " | "cv181x multipliers = [33, 63] rshifts = [6] ") ;;
    *) echo "not reproduced"; exit 1 ;;
  esac
done
echo reproduced

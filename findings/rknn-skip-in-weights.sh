#!/usr/bin/env bash
# Rockchip's rknn-toolkit2 2.5.0 computes Conv(x) + x as one convolution, with 1 added to the weights that carry x through,
# and quantizes these weights: their step is at least 1/255, whatever the convolution's own range is. A residual branch with
# weights below half of that (0.00196) is rounded to nothing; the text of quantization.cfg just lacks the branch's tensor.
# Wanted, as of a convolution and an addition: a step of the branch's own weights.
# Prints how many of the weights of a branch, all within 0.0018, have an effect, once with the skip and once without.
# Installs into a new folder (CPython 3.6 to 3.12; torch and its own pins are 3 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
cd "$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q rknn-toolkit2==2.5.0 onnx==1.18.0
  python="$folder/venv/bin/python"
fi
"$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rknn.api import RKNN

rng = np.random.default_rng(1)
weights = rng.uniform(-0.0018, 0.0018, (8, 8, 1, 1)).astype(np.float32)
np.save("x.npy", rng.normal(0, 1, (1, 8, 32, 32)).astype(np.float32))
open("dataset.txt", "w").write("x.npy\n")


def effective(skip):
    """Returns the matrix by which the toolkit's simulator gets y from its quantized x, before the Relu after it."""
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 32, 32]) for n in ("x", "z")]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c" if skip else "y"])]
    nodes += [helper.make_node("Add", ["c", "x"], ["y"])] if skip else []
    nodes += [helper.make_node("Relu", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "n.onnx")
    rknn = RKNN(verbose=False)
    rknn.config(target_platform="rk3588")
    assert rknn.load_onnx(model="n.onnx") == 0 and rknn.build(do_quantization=True, dataset="dataset.txt") == 0
    assert rknn.init_runtime() == 0 and rknn.accuracy_analysis(inputs=["x.npy"], output_dir=f"s{skip}") == 0
    x, y = (np.load(f"s{skip}/simulator/npy/{n}.npy")[0].reshape(8, -1).astype(float) for n in ("x_int8", "y"))
    return np.linalg.lstsq(x.T, y.T, rcond=None)[0].T


print(f"rknn-toolkit2 {version('rknn-toolkit2')}, rk3588")
with_skip, without = effective(True) - np.eye(8), effective(False)
alive = [int(np.count_nonzero(np.abs(m) > 1e-4)) for m in (with_skip, without)]
print(f"weights of the branch that have an effect, of 64: with the skip {alive[0]}, without {alive[1]}")
shown = alive[0] <= 8 and alive[1] >= 48  # on the diagonal, 1 plus a weight is rounded to a step of 1/255
print("reproduced" if shown else "not reproduced")
sys.exit(0 if shown else 1)
PYTHON

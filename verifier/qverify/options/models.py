"""Models: what runs, and how it is read."""

from __future__ import annotations

from qverify.options.option import OF_THE_JOB, FilePath, Option

_SHAPE = "dims of a dynamic input"
_TOOLKIT = "(rknn: NAME.quantization.cfg; sophgo: NAME_tpu.mlir); may be repeated"

MODELS = Option(
    "-m --model",
    "comma list: quant.onnx, model.bin, or a .tflite or .espdl alone (recognised by content); with a runner the last is the board's; may be repeated",
    name="models",
    many=True,
    required=True,
    keyword="models",
    job=OF_THE_JOB,
)
STAGES = Option(
    "--stages",
    "the stages in order, if not float, quantized, simulator, board: A.onnx,B.onnx,Q.onnx,simulator,board",
    listed=True,
)
SHAPE = Option(
    "--shape",
    f"{_SHAPE}; NAME=1x3x{{224,256}}x{{224,256}} verifies every combination; may be repeated",
    name="shapes",
    many=True,
    metavar="NAME=1,3,224,224",
    mapping=True,
    hint="Shapes",
)
ONE_SHAPE = SHAPE.but(help=f"{_SHAPE}; may be repeated")
PLAIN_SHAPE = SHAPE.but(help=_SHAPE)
SIGNATURE = Option(
    "--signature",
    "signature of a .tflite alone that is verified  [default: the first]",
    default="",
    metavar="NAME",
    job="a job verifies the first signature of a .tflite",
)
QUANTIZATION = Option(
    "--quantization",
    f"what a vendor's toolkit wrote of how it quantized the float ONNX of -m {_TOOLKIT}",
    FilePath(exists=True, folder=False),
    many=True,
    metavar="FILE",
    job="file",
)
ARITHMETIC = Option(
    "--arithmetic",
    "how the board rounds, as qverify identify found it, or a shipped arithmetic: the board must give every bit of the simulator under it",
    default="",
    metavar="FILE|NAME",
    job="compile the model.bin with --arithmetic and give it to the job",
)
ALLOW_OTHER_MODEL = Option(
    "--allow-other-model", "accept a model.bin compiled from another ONNX, and say so", "flag", weakens=True
)
NO_HOST = Option(
    "--no-host", "refuse a model with nodes that no kernel serves, which the host would compute, not verified", "flag"
)

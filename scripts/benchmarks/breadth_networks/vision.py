"""Networks that answer for each place of an image: detection, segmentation, super resolution, generation, text lines."""

from __future__ import annotations

import numpy as np
import onnx

from .builder import Net


def detector_heads() -> onnx.ModelProto:
    """A single-shot detector: two scales, heads reshaped and concatenated, scores through a Sigmoid."""
    net = Net("detector_heads", opset=17)
    x = net.op("Relu", net.conv_bn(net.input("image", [1, 3, 64, 64]), (3, 16), 3, 2))
    x = net.op("Relu", net.conv_bn(x, (16, 24), 3, 2))
    coarse = net.op("Relu", net.conv_bn(x, (24, 32), 3, 2))
    fine = net.op("Add", x, net.op("Resize", net.conv(coarse, (32, 24), 1), "", net.const([1, 1, 2, 2]),
                                   mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"))  # fmt: skip
    boxes: list[str] = []
    scores: list[str] = []
    for feature, channels in [(fine, 24), (coarse, 32)]:
        for found, width in [(boxes, 4), (scores, 3)]:
            head = net.transpose(net.conv(feature, (channels, 2 * width)), 0, 2, 3, 1)
            found.append(net.reshape(head, 1, -1, width))
    return net.finish(
        boxes=net.op("Concat", *boxes, axis=1), scores=net.op("Sigmoid", net.op("Concat", *scores, axis=1))
    )


def detector_nms() -> onnx.ModelProto:
    """A detector whose file ends in NonMaxSuppression and gathers the boxes it kept."""
    net = Net("detector_nms", opset=17)
    x = net.input("image", [1, 3, 48, 48])
    for channels in [(3, 12), (12, 24), (24, 32)]:
        x = net.op("LeakyRelu", net.conv_bn(x, channels, 3, 2), alpha=0.1)
    offsets = net.reshape(net.transpose(net.conv(x, (32, 4), 1), 0, 2, 3, 1), 1, 36, 4)
    classes = net.reshape(net.conv(x, (32, 3), 1), 1, 3, 36)
    scores = net.op("Sigmoid", classes)
    ys, xs = np.meshgrid(np.arange(6) * 8.0 + 4, np.arange(6) * 8.0 + 4, indexing="ij")
    anchors = np.stack([xs, ys], -1).reshape(1, 36, 2)
    centre, size = net.ops("Split", 2, offsets, net.ints(2, 2), axis=2)
    centre = net.op("Add", net.op("Mul", net.op("Tanh", centre), net.const(4.0)), net.const(anchors))
    half = net.op("Mul", net.op("Exp", net.op("Clip", size, net.const(-2.0), net.const(2.0))), net.const(5.0))
    boxes = net.op("Concat", net.op("Sub", centre, half), net.op("Add", centre, half), axis=2)
    kept = net.op("NonMaxSuppression", boxes, scores, net.const([10], np.int64), net.const([0.4]), net.const([0.3]))
    rows = net.op("Squeeze", net.slice(kept, 2, 3, 1), net.ints(1))
    chosen = net.op("Gather", net.op("Squeeze", boxes, net.ints(0)), rows, axis=0)
    return net.finish(kept_boxes=chosen, kept=kept)


def yolo() -> onnx.ModelProto:
    """SiLU blocks with Split, pooled pyramid, distances as an expectation over a Softmax, decoded boxes."""
    net = Net("yolo", opset=19)
    x = net.swish(net.conv(net.input("images", [1, 3, 64, 64]), (3, 16), 3, 2))
    x = net.swish(net.conv(x, (16, 32), 3, 2))
    first, second = net.ops("Split", 2, net.swish(net.conv(x, (32, 32), 1)), net.ints(16, 16), axis=1)
    inner = net.swish(net.conv(net.swish(net.conv(second, (16, 16))), (16, 16)))
    x = net.op("Concat", first, second, net.op("Add", second, inner), axis=1)
    x = net.swish(net.conv(x, (48, 32), 3, 2))
    y = net.swish(net.conv(x, (32, 16), 1))
    pools = [y]
    for _ in range(2):
        pools.append(net.pool("MaxPool", pools[-1], 5, 1, pad=2))
    x = net.swish(net.conv(net.op("Concat", *pools, axis=1), (48, 32), 1))
    distances = net.reshape(net.conv(x, (32, 32), 1), 1, 4, 8, 64)
    weights = net.op("Softmax", net.transpose(distances, 0, 2, 1, 3), axis=1)
    mean = net.conv(weights, (8, 1), 1)
    left_top, right_bottom = net.ops("Split", 2, net.reshape(mean, 1, 4, 64), net.ints(2, 2), axis=1)
    grid = np.stack(np.meshgrid(np.arange(8) + 0.5, np.arange(8) + 0.5)).reshape(1, 2, 64)
    low = net.op("Sub", net.const(grid), left_top)
    high = net.op("Add", net.const(grid), right_bottom)
    middle = net.op("Div", net.op("Add", low, high), net.const(2.0))
    boxes = net.op("Mul", net.op("Concat", middle, net.op("Sub", high, low), axis=1), net.const(8.0))
    scores = net.op("Sigmoid", net.reshape(net.conv(x, (32, 5), 1), 1, 5, 64))
    return net.finish(output0=net.op("Concat", boxes, scores, axis=1))


def segmentation() -> onnx.ModelProto:
    """Dilated context, ConvTranspose, linear Resize to the input's size, ArgMax over classes."""
    net = Net("segmentation", opset=19)
    x = net.op("Relu", net.conv_bn(net.input("image", [1, 3, 48, 48]), (3, 16), 3, 2))
    x = net.op("Relu", net.conv_bn(x, (16, 24), 3, 2))
    branches = [net.op("Relu", net.conv(x, (24, 12), 3, dilation=d)) for d in (1, 2, 4)]
    pooled = net.op("Relu", net.conv(net.op("GlobalAveragePool", x), (24, 12), 1))
    branches.append(net.op("Resize", pooled, "", "", net.ints(1, 12, 12, 12), mode="linear"))
    x = net.op("Relu", net.conv(net.op("Concat", *branches, axis=1), (48, 24), 1))
    x = net.op("Relu", net.conv_transpose(x, (24, 16), 4, 2))
    x = net.conv(x, (16, 5), 1)
    scores = net.op("Resize", x, "", "", net.ints(1, 5, 48, 48), mode="linear",
                    coordinate_transformation_mode="align_corners")  # fmt: skip
    return net.finish(scores=scores, labels=net.op("ArgMax", scores, axis=1, keepdims=0))


def unet() -> onnx.ModelProto:
    """Contracting and expanding path joined by Concat, Pad to even sizes, a Slice back at the end."""
    net = Net("unet", opset=17)
    x = net.input("image", [1, 1, 38, 38])
    x = net.op("Pad", x, net.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    skips, channels = [], 1
    for width in (12, 16, 24):
        x = net.op("Relu", net.conv(net.op("Relu", net.conv(x, (channels, width))), (width, width)))
        channels = width
        if width < 24:
            skips.append((x, width))
            x = net.pool("MaxPool", x, 2, 2)
    for skip, width in reversed(skips):
        x = net.op("Resize", x, "", net.const([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric") if width == 12 else \
            net.conv_transpose(x, (channels, channels))  # fmt: skip
        x = net.op("Relu", net.conv(net.op("Concat", skip, x, axis=1), (width + channels, width)))
        channels = width
    x = net.slice(net.slice(net.conv(x, (12, 2), 1), 1, 39, 2), 1, 39, 3)
    return net.finish(mask=net.op("Sigmoid", x))


def super_resolution() -> onnx.ModelProto:
    """Residual blocks, a cubic Resize of the input added to DepthToSpace, clipped to the range of a picture."""
    net = Net("super_resolution", opset=17)
    image = net.input("image", [1, 1, 24, 24])
    x = first = net.conv(image, (1, 16), 5)
    for _ in range(2):
        slope = net.const(net.rng.uniform(0.1, 0.3, (16, 1, 1)), stem="slope")
        y = net.conv(net.op("PRelu", net.conv(x, (16, 16)), slope), (16, 16))
        x = net.op("Add", x, net.op("Mul", y, net.const(0.1)))
    x = net.conv(net.op("Add", x, first), (16, 9))
    x = net.op("DepthToSpace", x, blocksize=3, mode="CRD")
    base = net.op("Resize", image, "", net.const([1, 1, 3, 3]), mode="cubic", cubic_coeff_a=-0.75,
                  coordinate_transformation_mode="half_pixel")  # fmt: skip
    return net.finish(picture=net.op("Clip", net.op("Add", x, base), net.const(-2.0), net.const(2.0)))


def generator() -> onnx.ModelProto:
    """Noise to a picture: Gemm, ConvTranspose, InstanceNormalization, LeakyRelu, Tanh."""
    net = Net("generator", opset=17)
    x = net.reshape(net.gemm(net.input("noise", [1, 32]), (32, 32 * 16)), 1, 32, 4, 4)
    for channels in [(32, 24), (24, 16), (16, 12)]:
        x = net.conv_transpose(x, channels, 4, 2)
        scale, bias = net.normal(channels[1], std=0.1, mean=1.0), net.normal(channels[1], std=0.1)
        x = net.op("LeakyRelu", net.op("InstanceNormalization", x, scale, bias, epsilon=1e-5), alpha=0.2)
    x = net.op("Pad", x, net.ints(0, 0, 3, 3, 0, 0, 3, 3), mode="reflect")
    return net.finish(picture=net.op("Tanh", net.conv(x, (12, 3), 7, pads=[0] * 4)))


def text_lines() -> onnx.ModelProto:
    """The style of PP-OCR: Paddle's HardSigmoid * x, strides (2, 1), the height pooled away, Softmax per column."""
    net = Net("text_lines", opset=17)
    x = net.input("x", [1, 3, 32, 80])

    def hard_swish(name: str) -> str:
        return net.op("Mul", name, net.op("HardSigmoid", name, alpha=1 / 6, beta=0.5))

    x = hard_swish(net.conv_bn(x, (3, 16), 3, 2))
    for channels, height_stride in [((16, 24), 2), ((24, 32), 2), ((32, 40), 2)]:
        x = hard_swish(net.conv_bn(x, (channels[0], channels[0]), 3, group=channels[0]))
        x = hard_swish(net.conv_bn(x, channels, 1))
        x = net.op("MaxPool", x, kernel_shape=[height_stride, 1], strides=[height_stride, 1])
    pooled = net.op("GlobalAveragePool", x)
    gate = net.op("HardSigmoid", net.conv(net.op("Relu", net.conv(pooled, (40, 10), 1)), (10, 40), 1), alpha=0.2)
    x = net.op("Mul", x, gate)
    x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.transpose(net.op("Squeeze", x, net.ints(2)), 0, 2, 1)
    x = net.linear(net.swish(net.linear(x, (40, 48))), (48, 60))
    return net.finish(softmax_0=net.op("Softmax", x, axis=2))

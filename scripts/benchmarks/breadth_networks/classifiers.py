"""Image classifiers: from a plain CNN to MobileNet, EfficientNet, Inception and DenseNet."""

from __future__ import annotations

import onnx

from .builder import Net


def plain_cnn() -> onnx.ModelProto:
    """Convolution, Relu, MaxPool, two dense layers, Softmax."""
    net = Net("plain_cnn", opset=17)
    x = net.input("image", [1, 3, 32, 32])
    for channels in [(3, 16), (16, 24), (24, 32)]:
        x = net.pool("MaxPool", net.op("Relu", net.conv(x, channels)), 2, 2)
    x = net.op("Flatten", x, axis=1)
    x = net.op("Relu", net.gemm(x, (512, 48)))
    return net.finish(probabilities=net.op("Softmax", net.gemm(x, (48, 10)), axis=-1))


def residual_cnn() -> onnx.ModelProto:
    """BatchNormalization, shortcuts with Add, GlobalAveragePool; a batch of symbolic size."""
    net = Net("residual_cnn", opset=20)
    x = net.op("Relu", net.conv_bn(net.input("image", ["batch", 3, 32, 32]), (3, 16), 3, 2))
    channels = 16
    for width, stride in [(16, 1), (32, 2), (48, 2)]:
        y = net.op("Relu", net.conv_bn(x, (channels, width), 3, stride))
        y = net.conv_bn(y, (width, width))
        shortcut = x if stride == 1 else net.conv_bn(x, (channels, width), 1, stride)
        x, channels = net.op("Relu", net.op("Add", y, shortcut)), width
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return net.finish(logits=net.gemm(x, (channels, 10)))


def mobilenet_v2() -> onnx.ModelProto:
    """Inverted residuals with depthwise convolutions and ReLU6."""
    net = Net("mobilenet_v2", opset=17)
    x = net.relu6(net.conv_bn(net.input("image", [1, 3, 48, 48]), (3, 16), 3, 2))
    channels = 16
    for width, stride in [(16, 1), (24, 2), (24, 1), (40, 2)]:
        y = net.relu6(net.conv_bn(x, (channels, channels * 4), 1))
        y = net.relu6(net.conv_bn(y, (channels * 4, channels * 4), 3, stride, group=channels * 4))
        y = net.conv_bn(y, (channels * 4, width), 1)
        x = net.op("Add", x, y) if stride == 1 and width == channels else y
        channels = width
    x = net.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    return net.finish(logits=net.gemm(x, (channels, 20)))


def squeeze_excite(net: Net, x: str, channels: int, gate: str) -> str:
    """Channel weights from the global mean: x * gate(W2 relu(W1 mean))."""
    y = net.op("GlobalAveragePool", x)
    y = net.op("Relu", net.conv(y, (channels, channels // 4), 1))
    y = net.conv(y, (channels // 4, channels), 1)
    weights = net.op("HardSigmoid", y, alpha=1 / 6, beta=0.5) if gate == "hard" else net.op("Sigmoid", y)
    return net.op("Mul", x, weights)


def mobilenet_v3() -> onnx.ModelProto:
    """HardSwish, squeeze-and-excite blocks with HardSigmoid, 5x5 depthwise kernels."""
    net = Net("mobilenet_v3", opset=21)
    x = net.op("HardSwish", net.conv_bn(net.input("image", [1, 3, 48, 48]), (3, 16), 3, 2))
    channels = 16
    for width, kernel, stride in [(16, 3, 2), (24, 5, 1), (24, 5, 1), (32, 5, 2)]:
        wide = channels * 3
        y = net.op("HardSwish", net.conv_bn(x, (channels, wide), 1))
        y = net.op("HardSwish", net.conv_bn(y, (wide, wide), kernel, stride, group=wide))
        y = net.conv_bn(squeeze_excite(net, y, wide, "hard"), (wide, width), 1)
        x = net.op("Add", x, y) if stride == 1 and width == channels else y
        channels = width
    x = net.op("HardSwish", net.conv(net.op("GlobalAveragePool", x), (channels, 64), 1))
    return net.finish(logits=net.gemm(net.op("Flatten", x, axis=1), (64, 10)))


def shuffle_net() -> onnx.ModelProto:
    """Channel split, depthwise branch, Concat, channel shuffle by Reshape and Transpose."""
    net = Net("shuffle_net", opset=17)
    x = net.op("Relu", net.conv_bn(net.input("image", [1, 3, 32, 32]), (3, 24), 3, 2))
    x = net.pool("MaxPool", x, 3, 2, pad=1)
    for _ in range(3):
        left, right = net.ops("Split", 2, x, net.ints(12, 12), axis=1)
        right = net.op("Relu", net.conv_bn(right, (12, 12), 1))
        right = net.conv_bn(right, (12, 12), 3, group=12)
        right = net.op("Relu", net.conv_bn(right, (12, 12), 1))
        x = net.op("Concat", left, right, axis=1)
        x = net.transpose(net.reshape_like_batch(x, 2, 12, 8, 8), 0, 2, 1, 3, 4)
        x = net.reshape_like_batch(x, 24, 8, 8)
    x = net.op("Relu", net.conv(x, (24, 48), 1, group=2))
    x = net.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    return net.finish(logits=net.gemm(x, (48, 12)))


def inception() -> onnx.ModelProto:
    """Branches of 1x1, 1x7 and 7x1 kernels and an AveragePool that counts its padding."""
    net = Net("inception", opset=17)
    x = net.op("Relu", net.conv(net.input("image", [1, 3, 35, 35]), (3, 16), 3, 2, pads=[0] * 4))
    x = net.pool("MaxPool", x, 3, 2, ceil_mode=1)
    channels = 16
    for count_pad in (1, 0):
        one = net.op("Relu", net.conv(x, (channels, 12), 1))
        two = net.op("Relu", net.conv(x, (channels, 8), 1))
        two = net.op("Relu", net.conv(net.op("Relu", net.conv(two, (8, 8), (1, 7))), (8, 12), (7, 1)))
        three = net.pool("AveragePool", x, 3, 1, pad=1, count_include_pad=count_pad)
        three = net.op("Relu", net.conv(three, (channels, 12), 1))
        x, channels = net.op("Concat", one, two, three, axis=1), 36
    x = net.pool("AveragePool", x, 8, 8)
    x = net.op("Dropout", net.op("Flatten", x, axis=1))
    return net.finish(logits=net.gemm(x, (36, 10)))


def dense_net() -> onnx.ModelProto:
    """BatchNormalization before each convolution, growing Concat, transitions with AveragePool."""
    net = Net("dense_net", opset=17)
    x, channels = net.conv(net.input("image", [1, 3, 32, 32]), (3, 16), 3, 2), 16
    for block in range(2):
        for _ in range(3):
            y = net.op("Relu", net.batch_norm(x, channels))
            y = net.op("Relu", net.conv_bn(y, (channels, 24), 1))
            x = net.op("Concat", x, net.conv(y, (24, 8)), axis=1)
            channels += 8
        if block == 0:
            x = net.conv(net.op("Relu", net.batch_norm(x, channels)), (channels, 20), 1)
            x, channels = net.pool("AveragePool", x, 2, 2), 20
    x = net.op("GlobalAveragePool", net.op("Relu", net.batch_norm(x, channels)))
    return net.finish(probabilities=net.op("Softmax", net.gemm(net.op("Flatten", x), (channels, 10)), axis=1))


def efficient_net() -> onnx.ModelProto:
    """Swish as x * Sigmoid(x), squeeze-and-excite with Sigmoid, asymmetric padding of strided layers."""
    net = Net("efficient_net", opset=17)
    x = net.op("Pad", net.input("image", [1, 3, 40, 40]), net.ints(0, 0, 0, 0, 0, 0, 1, 1), net.const(0.0))
    x = net.swish(net.batch_norm(net.conv(x, (3, 16), 3, 2, pads=[0] * 4), 16))
    channels = 16
    for width, kernel, stride in [(16, 3, 1), (24, 3, 2), (24, 5, 1)]:
        wide = channels * 4
        y = net.swish(net.conv_bn(x, (channels, wide), 1))
        y = net.swish(net.conv_bn(y, (wide, wide), kernel, stride, group=wide))
        y = net.conv_bn(squeeze_excite(net, y, wide, "soft"), (wide, width), 1)
        x = net.op("Add", y, x) if stride == 1 and width == channels else y
        channels = width
    x = net.op("GlobalAveragePool", net.swish(net.conv_bn(x, (channels, 48), 1)))
    return net.finish(logits=net.gemm(net.op("Flatten", x, axis=1), (48, 10)))


def conv_next() -> onnx.ModelProto:
    """7x7 depthwise kernels, LayerNormalization over the last axis between Transposes, Gelu, layer scale."""
    net = Net("conv_next", opset=20)
    x, width = net.conv(net.input("image", [1, 3, 32, 32]), (3, 24), 4, 4, pads=[0] * 4), 24
    for _ in range(2):
        y = net.transpose(net.conv(x, (width, width), 7, group=width), 0, 2, 3, 1)
        y = net.linear(net.layer_norm(y, width), (width, 3 * width))
        y = net.linear(net.op("Gelu", y), (3 * width, width))
        y = net.op("Mul", net.normal(width, std=0.1, mean=0.5), y)
        x = net.op("Add", x, net.transpose(y, 0, 3, 1, 2))
    x = net.op("ReduceMean", x, net.ints(-2, -1), keepdims=0)
    return net.finish(logits=net.gemm(net.layer_norm(x, width), (width, 10)))

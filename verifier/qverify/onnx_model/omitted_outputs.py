"""Names the outputs that recurrent nodes and Splits omit: each step is judged from the states that the step before it left,
and a part from where it lies."""

from __future__ import annotations

import onnx

OUTPUTS = {
    "LSTM": ("Y", "Y_h", "Y_c"),
    "DynamicQuantizeLSTM": ("Y", "Y_h", "Y_c"),
    "GRU": ("Y", "Y_h"),
    "RNN": ("Y", "Y_h"),
}


def name_omitted_outputs(model: onnx.ModelProto) -> None:
    """Names the omitted outputs of every LSTM, GRU, RNN and Split, in place: NODE/Y, NODE/Y_h, NODE/Y_c or NODE/part0 and so
    on, with `~` appended while the name is taken."""
    taken = {n for node in model.graph.node for n in (*node.input, *node.output)}
    taken |= {v.name for v in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    for node in model.graph.node:
        names = [*node.output, "", "", ""]
        output_names = OUTPUTS.get(node.op_type, ())
        if node.op_type == "Split" and "" in node.output:
            output_names = tuple(f"part{at}" for at in range(len(node.output)))
        if not any(names[: len(output_names)]):
            continue
        for at, output in enumerate(output_names):
            if not names[at]:
                names[at] = f"{node.name or next(n for n in names if n)}/{output}"
                while names[at] in taken:
                    names[at] += "~"
                taken.add(names[at])
        if output_names:
            del node.output[:]
            node.output.extend(names[: len(output_names)])

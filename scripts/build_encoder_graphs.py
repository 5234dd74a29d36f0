"""Build the ONNX graphs of local models without weights, which the package ships. Needs the development packages.

``python scripts/build_encoder_graphs.py [DIRECTORY]`` writes ``minilm_fp32.onnx``, ``minilm_int8.onnx`` and
``e5_int8.onnx``. Every weight is declared as external data without a file: the process that runs the graph supplies the
tensors from the checkpoint. The input is one text, so there is no batch axis and no attention mask. It consists of the
word embeddings instead of the token ids. With token ids the runtime would keep a second copy of the words' table.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.inference.embedding.e5_file import E5_SMALL
from app.inference.embedding.encoder_tensors import (
    HEADS,
    HIDDEN,
    POSITION_EMBEDDINGS,
    SEGMENT_EMBEDDINGS,
    Encoder,
    Linear,
    Precision,
    list_linear_layers,
    list_norms,
    list_tensor_shapes,
)
from app.inference.embedding.minilm_tensors import MINILM

PACKAGE = Path(__file__).resolve().parents[1] / "app" / "inference" / "embedding"
MICROSOFT = "com.microsoft"
OPSET, IR_VERSION = 20, 9
EPSILON = 1e-12

FILES: Mapping[str, tuple[Encoder, Precision]] = {
    "minilm_fp32.onnx": (MINILM, "fp32"),
    "minilm_int8.onnx": (MINILM, "int8"),
    "e5_int8.onnx": (E5_SMALL, "int8"),
}


class GraphBuilder:
    """Builder of a graph: it collects nodes and initialisers. Every method returns the name of a tensor."""

    def __init__(self, encoder: Encoder, precision: Precision) -> None:
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        self.encoder = encoder
        self.shapes = list_tensor_shapes(encoder)
        self.precision = precision

    def add_weight(self, name: str) -> str:
        """Add a float32 tensor of the checkpoint."""
        return self.add_external(name, self.shapes[name], TensorProto.FLOAT)

    def add_external(self, name: str, shape: Sequence[int], kind: int) -> str:
        """Add a tensor that the process supplies when it loads the graph."""
        tensor = onnx.TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="model.safetensors")
        self.tensors[name] = tensor
        return name

    def add_constant(self, name: str, values: Sequence[float], shape: Sequence[int], kind: int) -> str:
        """Add a small tensor that is a part of the graph."""
        self.tensors[name] = helper.make_tensor(name, kind, shape, values)
        return name

    def add_integers(self, name: str, *values: int) -> str:
        """Add a vector of int64."""
        return self.add_constant(name, values, [len(values)], TensorProto.INT64)

    def add_node(self, operator: str, *inputs: str, domain: str = "", output: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        name = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name


def add_linear(graph: GraphBuilder, x: str, layer: Linear) -> str:
    """Add input times transposed weight plus bias, with the layout of the checkpoint or with int8 weights."""
    bias = graph.add_weight(f"{layer.name}.bias")
    if graph.precision == "fp32" or layer.name in graph.encoder.float_layers:
        return graph.add_node("Gemm", x, graph.add_weight(f"{layer.name}.weight"), bias, transB=1)
    matrix = graph.add_external(f"{layer.name}.int8", [layer.inputs, layer.outputs], TensorProto.INT8)
    scale = graph.add_external(f"{layer.name}.scale", [layer.outputs], TensorProto.FLOAT)
    return graph.add_node("DynamicQuantizeMatMul", x, matrix, scale, "", bias, domain=MICROSOFT)


def add_layer_norm(graph: GraphBuilder, x: str, name: str) -> str:
    """Add a layer normalisation."""
    weight, bias = graph.add_weight(f"{name}.weight"), graph.add_weight(f"{name}.bias")
    return graph.add_node("LayerNormalization", x, weight, bias, axis=-1, epsilon=EPSILON)


def add_embeddings(graph: GraphBuilder) -> str:
    """Add word, position and segment embeddings; shape (tokens, HIDDEN)."""
    zero = graph.add_integers("zero", 0)
    length = graph.add_node("Shape", "words", start=0, end=1)
    positions = graph.add_node("Slice", graph.add_weight(POSITION_EMBEDDINGS), zero, length, zero)
    segment = graph.add_node("Gather", graph.add_weight(SEGMENT_EMBEDDINGS), zero)
    total = graph.add_node("Add", graph.add_node("Add", "words", positions), segment)
    return add_layer_norm(graph, total, "embeddings.LayerNorm")


def add_attention(graph: GraphBuilder, x: str, projections: Sequence[Linear]) -> str:
    """Add multi-head self-attention without its output projection; shape (tokens, HIDDEN)."""
    heads = graph.add_integers("heads", 0, HEADS, HIDDEN // HEADS)
    scale = graph.add_constant("scale", [(HIDDEN // HEADS) ** -0.5], [], TensorProto.FLOAT)
    query, key, value = (graph.add_node("Reshape", add_linear(graph, x, p), heads) for p in projections)
    scaled = graph.add_node("Mul", graph.add_node("Transpose", query, perm=[1, 0, 2]), scale)
    scores = graph.add_node("MatMul", scaled, graph.add_node("Transpose", key, perm=[1, 2, 0]))
    weights = graph.add_node("Softmax", scores, axis=-1)
    mixed = graph.add_node("MatMul", weights, graph.add_node("Transpose", value, perm=[1, 0, 2]))
    return graph.add_node(
        "Reshape", graph.add_node("Transpose", mixed, perm=[1, 0, 2]), graph.add_integers("flat", 0, HIDDEN)
    )


def build(encoder: Encoder, precision: Precision) -> bytes:
    """Build the serialised graph: input ``words`` (tokens, HIDDEN), output ``embedding`` (1, HIDDEN), both float32."""
    graph = GraphBuilder(encoder, precision)
    x = add_embeddings(graph)
    for index in range(encoder.layers):
        *projections, merge, widen, narrow = list_linear_layers(index)
        attention_norm, output_norm = list_norms(index)
        mixed = add_linear(graph, add_attention(graph, x, projections), merge)
        x = add_layer_norm(graph, graph.add_node("Add", mixed, x), attention_norm)
        inner = graph.add_node("Gelu", add_linear(graph, x, widen))
        x = add_layer_norm(graph, graph.add_node("Add", add_linear(graph, inner, narrow), x), output_norm)
    mean = graph.add_node("ReduceMean", x, "zero", keepdims=1)
    graph.add_node("LpNormalization", mean, output="embedding", axis=-1, p=2)
    created = helper.make_graph(
        graph.nodes,
        f"{encoder.name}-{precision}",
        [helper.make_tensor_value_info("words", TensorProto.FLOAT, ["tokens", HIDDEN])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, HIDDEN])],
        list(graph.tensors.values()),
    )
    operators = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(created, opset_imports=operators, ir_version=IR_VERSION)
    return bytes(model.SerializeToString(deterministic=True))


def main(arguments: Sequence[str]) -> None:
    """Write all graphs to the given directory, by default to the package."""
    directory = Path(arguments[0]) if arguments else PACKAGE
    for name, (encoder, precision) in FILES.items():
        (directory / name).write_bytes(build(encoder, precision))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Cross-encoders of tests: the tiny model, and small graphs that are not usable as rerankers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper

from scripts.build_tiny_reranker import TinyRerankerOptions, build_tiny_reranker, split_words

WORDS = split_words(
    "the old harbour of the town has two piers and a lighthouse ships leave at high tide every day "
    "an invoice is paid within thirty days a tern is a bird that eats fish who what where when how [ ] . ? !"
)
SUM_OF_TEXT = (
    helper.make_node("Mul", ["input_ids", "token_type_ids"], ["part"]),
    helper.make_node("Cast", ["part"], ["numbers"], to=TensorProto.FLOAT),
)
SUM_OF_QUERY = (
    helper.make_node("Sub", ["input_ids", "token_type_ids"], ["mixed"]),
    helper.make_node("Equal", ["token_type_ids", "zero"], ["is_query"]),
    helper.make_node("Where", ["is_query", "mixed", "zero"], ["part"]),
    helper.make_node("Cast", ["part"], ["numbers"], to=TensorProto.FLOAT),
)
NUMBERS = (helper.make_node("Cast", ["input_ids"], ["numbers"], to=TensorProto.FLOAT),)
SUM = (helper.make_node("ReduceMean", ["numbers"], ["logits"], axes=[1], keepdims=1),)


def write_tiny(directory: Path, **options: Any) -> Path:
    """Write the tiny model, which knows ``WORDS``, and return its directory."""
    return build_tiny_reranker(directory, WORDS, TinyRerankerOptions(**options))


def write_graph(
    directory: Path,
    nodes: Sequence[Any],
    *,
    outputs: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    shape: Sequence[Any] = ("batch", 1),
) -> Path:
    """Write another graph over the tokenizer of the tiny model.

    Args:
        directory: Directory of the model.
        nodes: Nodes, which may use the constants ``zero`` (int64), ``none`` and ``large`` (float).
        outputs: Types of the outputs by name.
        inputs: Types of the inputs by name.
        shape: Shape of the outputs.
    """
    write_tiny(directory)
    names = ("input_ids", "attention_mask", "token_type_ids")
    types = inputs or dict.fromkeys(names, TensorProto.INT64)
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, kind, ["batch", "tokens"]) for name, kind in types.items()],
        [
            helper.make_tensor_value_info(name, kind, list(shape))
            for name, kind in (outputs or {"logits": TensorProto.FLOAT}).items()
        ],
        [
            helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
            helper.make_tensor("none", TensorProto.FLOAT, [1], [0.0]),
            helper.make_tensor("large", TensorProto.FLOAT, [1], [3e38]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (directory / "model.onnx").write_bytes(model.SerializeToString())
    return directory


def write_slow(directory: Path, size: int) -> Path:
    """Write a model that multiplies two large matrices for each pair. Its logit is the mean of the ids."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [size, size])
    nodes = [
        *NUMBERS,
        helper.make_node("ReduceMean", ["numbers"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("Expand", ["mean", "shape"], ["matrix"]),
        helper.make_node("MatMul", ["matrix", "matrix"], ["product"]),
        helper.make_node("ReduceMean", ["product"], ["large_mean"], axes=[0, 1], keepdims=1),
        helper.make_node("Mul", ["large_mean", "none"], ["zeros"]),
        helper.make_node("Add", ["mean", "zeros"], ["logits"]),
    ]
    return write_graph(directory, nodes)

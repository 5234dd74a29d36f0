"""Cross-encoder with the shape of MiniLM and random weights, which costs as much as a trained one."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from scripts.build_tiny_reranker import SPECIAL_TOKENS, build_tokenizer

LAYERS, HIDDEN, HEADS, INNER = 6, 384, 12, 1536
VOCABULARY, POSITIONS = 30_522, 512
OPSET, IR_VERSION = 17, 9


def write_cross_encoder(directory: Path) -> list[str]:
    """Write the model in fp32 as ``model.onnx`` and quantized as ``model_int8.onnx``, with a tokenizer of whole words.

    Args:
        directory: Directory, which is created if necessary.

    Returns:
        The words of the tokenizer.
    """
    directory.mkdir(parents=True, exist_ok=True)
    words = [f"word{number}" for number in range(VOCABULARY - len(SPECIAL_TOKENS))]
    build_tokenizer([*SPECIAL_TOKENS, *words]).save(str(directory / "tokenizer.json"))
    (directory / "config.json").write_text(json.dumps({"model_type": "bert", "max_position_embeddings": POSITIONS}))
    (directory / "model.onnx").write_bytes(_Builder().build().SerializeToString())
    logging.getLogger().setLevel(logging.ERROR)  # the quantizer recommends another tool
    quantize_dynamic(directory / "model.onnx", directory / "model_int8.onnx", weight_type=QuantType.QInt8)
    return words


class _Builder:
    """Builder of the graph. Methods return the name of a tensor."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []
        self._random = np.random.default_rng(0)

    def build(self) -> Any:
        hidden = self._embed()
        mask = self._add_node("Cast", "attention_mask", to=TensorProto.FLOAT)
        wide = self._add_node("Unsqueeze", mask, self._add_tensor(np.array([1, 2], np.int64)))
        penalty = self._add_node("Mul", self._add_node("Sub", self._add_number(1.0), wide), self._add_number(-10_000.0))
        for _ in range(LAYERS):
            hidden = self._normalize(self._add_node("Add", hidden, self._add_attention(hidden, penalty)))
            inner = self._add_gelu(self._add_linear(hidden, HIDDEN, INNER))
            hidden = self._normalize(self._add_node("Add", hidden, self._add_linear(inner, INNER, HIDDEN)))
        first = self._add_node("Gather", hidden, self._add_tensor(np.int64(0)), axis=1)
        pooled = self._add_node("Tanh", self._add_linear(first, HIDDEN, HIDDEN))
        self._nodes.append(helper.make_node("Identity", [self._add_linear(pooled, HIDDEN, 1)], ["logits"]))
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in names]
        output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
        graph = helper.make_graph(self._nodes, "cross_encoder", inputs, [output], self._tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def _embed(self) -> str:
        words = self._add_node("Gather", self._add_weight(VOCABULARY, HIDDEN), "input_ids")
        types = self._add_node("Gather", self._add_weight(2, HIDDEN), "token_type_ids")
        length = self._add_node("Gather", self._add_node("Shape", "input_ids"), self._add_tensor(np.int64(1)), axis=0)
        numbers = self._add_node("Range", self._add_tensor(np.int64(0)), length, self._add_tensor(np.int64(1)))
        places = self._add_node("Gather", self._add_weight(POSITIONS, HIDDEN), numbers)
        return self._normalize(self._add_node("Add", self._add_node("Add", words, types), places))

    def _add_attention(self, hidden: str, penalty: str) -> str:
        query, key, value = (
            self._split_heads(self._add_linear(hidden, HIDDEN, HIDDEN), order) for order in _HEAD_ORDERS
        )
        scores = self._add_node("Div", self._add_node("MatMul", query, key), self._add_number((HIDDEN / HEADS) ** 0.5))
        weights = self._add_node("Softmax", self._add_node("Add", scores, penalty), axis=-1)
        joined = self._add_node("Transpose", self._add_node("MatMul", weights, value), perm=[0, 2, 1, 3])
        flat = self._add_node("Reshape", joined, self._add_tensor(np.array([0, 0, HIDDEN], np.int64)))
        return self._add_linear(flat, HIDDEN, HIDDEN)

    def _split_heads(self, x: str, order: Sequence[int]) -> str:
        shape = self._add_tensor(np.array([0, 0, HEADS, HIDDEN // HEADS], np.int64))
        return self._add_node("Transpose", self._add_node("Reshape", x, shape), perm=list(order))

    def _add_gelu(self, x: str) -> str:
        scaled = self._add_node("Erf", self._add_node("Div", x, self._add_number(2**0.5)))
        product = self._add_node("Mul", x, self._add_node("Add", scaled, self._add_number(1.0)))
        return self._add_node("Mul", product, self._add_number(0.5))

    def _add_linear(self, x: str, inputs: int, outputs: int) -> str:
        product = self._add_node("MatMul", x, self._add_weight(inputs, outputs))
        return self._add_node("Add", product, self._add_weight(outputs))

    def _normalize(self, x: str) -> str:
        scale, bias = self._add_tensor(np.ones(HIDDEN, np.float32)), self._add_tensor(np.zeros(HIDDEN, np.float32))
        return self._add_node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12)

    def _add_weight(self, *shape: int) -> str:
        return self._add_tensor(self._random.normal(0, 0.05, shape).astype(np.float32))

    def _add_number(self, value: float) -> str:
        return self._add_tensor(np.float32(value))

    def _add_tensor(self, values: Any) -> str:
        self._tensors.append(numpy_helper.from_array(np.asarray(values), f"tensor_{len(self._tensors)}"))
        return str(self._tensors[-1].name)

    def _add_node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name


# Orders of batch, token, head and number for query, key and value.
_HEAD_ORDERS = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))

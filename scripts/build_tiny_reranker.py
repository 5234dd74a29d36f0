"""Build a tiny cross-encoder in the layout of model hubs, for tests and demonstrations. Needs the development packages.

``python -m scripts.build_tiny_reranker DIRECTORY [TEXT_FILE ...]`` writes ``model.onnx``, ``tokenizer.json``,
``config.json`` and ``tokenizer_config.json``. The vocabulary is the words of the text files, by default those of the
documentation. The model is not trained: its logit grows with the share of the query's words that the text contains.
Each word has a fixed random vector, and the graph compares all words of the query with all words of the text.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

ROOT = Path(__file__).resolve().parents[1]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
UNKNOWN, SEPARATOR = 1, 3
MAX_WORDS = 20_000
VECTOR_SIZE = 128
MAX_TOKENS = 256
# Two different words have a cosine below this threshold, because their vectors are random.
THRESHOLD = 0.75
SLOPE, OFFSET = 8.0, -4.0
OPSET, IR_VERSION = 17, 9


@dataclass(frozen=True, slots=True)
class TinyRerankerOptions:
    """Variants of the model, as exporters of cross-encoders write them.

    Attributes:
        labels: Number of labels: one logit, or two whose difference is the logit.
        has_token_types: Whether the input ``token_type_ids`` separates query and text; otherwise the first ``[SEP]``.
        input_type: Type of the inputs.
        max_positions: Number of positions; a longer pair makes the model fail. None for no limit.
    """

    labels: Literal[1, 2] = 1
    has_token_types: bool = True
    input_type: Literal["int64", "int32"] = "int64"
    max_positions: int | None = 512


def build_tiny_reranker(
    directory: Path,
    words: Iterable[str],
    options: TinyRerankerOptions = TinyRerankerOptions(),
) -> Path:
    """Write a model that knows the given words.

    Args:
        directory: Directory, which is created if necessary.
        words: Words of the vocabulary, in any case.
        options: Variant of the model.

    Returns:
        The directory.
    """
    vocabulary = [*SPECIAL_TOKENS, *sorted({word.lower() for word in words} - set(SPECIAL_TOKENS))]
    directory.mkdir(parents=True, exist_ok=True)
    build_tokenizer(vocabulary).save(str(directory / "tokenizer.json"))
    (directory / "config.json").write_text(
        json.dumps({"model_type": "bert", "num_labels": options.labels, "max_position_embeddings": 512})
    )
    (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": MAX_TOKENS}))
    (directory / "model.onnx").write_bytes(build_model(len(vocabulary), options).SerializeToString())
    return directory


def split_words(text: str) -> list[str]:
    """Return the words of a text, as the tokenizer of the model separates them."""
    return re.findall(r"\w+", text.lower())


def build_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """Build a tokenizer of whole words with the template of BERT.

    Args:
        vocabulary: Words by id; the first four are ``SPECIAL_TOKENS``.
    """
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(vocabulary)}, "[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def build_model(vocabulary_size: int, options: TinyRerankerOptions) -> Any:
    """Build the graph: share of the query's words that are in the text, as one or two logits.

    Args:
        vocabulary_size: Number of words with special tokens.
        options: Variant of the model.
    """
    graph = _Graph()
    ids = graph.add_node("Cast", "input_ids", to=TensorProto.INT64)
    mask = graph.add_node(
        "Unsqueeze", graph.add_node("Cast", "attention_mask", to=TensorProto.FLOAT), graph.add_axes(-1)
    )
    vectors = graph.add_node(
        "Mul", graph.add_node("Gather", graph.add_constant(_build_vectors(vocabulary_size)), ids), mask
    )
    if options.max_positions is not None:
        vectors = _add_positions(graph, vectors, ids, options.max_positions)
    text_part = graph.add_node("Unsqueeze", _add_text_part(graph, ids, options), graph.add_axes(-1))
    query_part = graph.add_node("Sub", graph.add_number(1.0), text_part)
    query, text = graph.add_node("Mul", vectors, query_part), graph.add_node("Mul", vectors, text_part)
    cosines = graph.add_node("MatMul", query, graph.add_node("Transpose", text, perm=[0, 2, 1]))
    nearest = graph.add_node("ReduceMax", cosines, axes=[2], keepdims=0)
    is_found = graph.add_node(
        "Cast", graph.add_node("Greater", nearest, graph.add_number(THRESHOLD)), to=TensorProto.FLOAT
    )
    lengths = graph.add_node("ReduceSum", graph.add_node("Mul", query, query), graph.add_axes(2), keepdims=0)
    matches = graph.add_node("ReduceSum", is_found, graph.add_axes(1), keepdims=1)
    count = graph.add_node(
        "Max", graph.add_node("ReduceSum", lengths, graph.add_axes(1), keepdims=1), graph.add_number(1.0)
    )
    scaled = graph.add_node("Mul", graph.add_node("Div", matches, count), graph.add_number(SLOPE))
    if options.labels == 1:
        graph.add_node("Add", scaled, graph.add_number(OFFSET), output="logits")
    else:
        half = graph.add_node("Mul", graph.add_node("Add", scaled, graph.add_number(OFFSET)), graph.add_number(0.5))
        graph.add_node("Concat", graph.add_node("Neg", half), half, axis=1, output="logits")
    return graph.build(options)


class _Graph:
    """Graph under construction. Every method returns the name of a tensor."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []

    def add_node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def add_constant(self, values: Any) -> str:
        name = f"constant_{len(self._tensors)}"
        self._tensors.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add_number(self, value: float) -> str:
        return self.add_constant(np.float32(value))

    def add_axes(self, *values: int) -> str:
        return self.add_constant(np.array(values, np.int64))

    def build(self, options: TinyRerankerOptions) -> Any:
        names = ["input_ids", "attention_mask", *(["token_type_ids"] if options.has_token_types else [])]
        kind = TensorProto.INT64 if options.input_type == "int64" else TensorProto.INT32
        inputs = [helper.make_tensor_value_info(name, kind, ["batch", "tokens"]) for name in names]
        output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", options.labels])
        graph = helper.make_graph(self._nodes, "tiny_reranker", inputs, [output], self._tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        return model


def _build_vectors(vocabulary_size: int) -> Any:
    """Build a random vector of length one for each word; vectors of special tokens are zero."""
    signs = np.random.default_rng(0).integers(0, 2, (vocabulary_size, VECTOR_SIZE))
    vectors = (2 * signs - 1).astype(np.float32) / np.float32(VECTOR_SIZE**0.5)
    vectors[: len(SPECIAL_TOKENS)] = 0
    return vectors


def _add_positions(graph: _Graph, vectors: str, ids: str, max_positions: int) -> str:
    """Add zeros from a table of positions, so that a pair with more positions fails as in a trained model."""
    ones = graph.add_node("Add", graph.add_node("Mul", ids, graph.add_axes(0)), graph.add_axes(1))
    positions = graph.add_node(
        "Sub", graph.add_node("CumSum", ones, graph.add_constant(np.int64(1))), graph.add_axes(1)
    )
    table = graph.add_constant(np.zeros((max_positions, VECTOR_SIZE), np.float32))
    return graph.add_node("Add", vectors, graph.add_node("Gather", table, positions))


def _add_text_part(graph: _Graph, ids: str, options: TinyRerankerOptions) -> str:
    """Add a tensor that is one for the tokens of the text, and zero for those of the query."""
    if options.has_token_types:
        return graph.add_node("Cast", "token_type_ids", to=TensorProto.FLOAT)
    separators = graph.add_node("Cast", graph.add_node("Equal", ids, graph.add_axes(SEPARATOR)), to=TensorProto.FLOAT)
    count = graph.add_node("CumSum", separators, graph.add_constant(np.int64(1)))
    return graph.add_node("Min", count, graph.add_number(1.0))


def main(arguments: Sequence[str]) -> int:
    """Write the model into the given directory."""
    parser = argparse.ArgumentParser(description="Build a tiny cross-encoder for tests and demonstrations.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("text_files", type=Path, nargs="*")
    options = parser.parse_args(arguments)
    files = options.text_files or sorted((ROOT / "docs").rglob("*.md"))
    counts = Counter(word for file in files for word in split_words(file.read_text(encoding="utf-8")))
    words = [word for word, _ in counts.most_common(MAX_WORDS)]
    build_tiny_reranker(options.directory, words)
    sys.stdout.write(f"{options.directory}: {len(words)} words\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Small ONNX models of tests: they add a weight to their input."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 17


def build_model(nodes: Sequence[Any] | None = None, weights: Sequence[Any] = (), **extra: Any) -> Any:
    """Build a model with an input ``x`` and an output ``y`` of four numbers."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    weights = weights or [helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4])]
    nodes = nodes or [helper.make_node("Add", ["x", "w"], ["y"])]
    domains = sorted({node.domain for node in nodes} | {""})
    opsets = [helper.make_opsetid(domain, OPSET if not domain else 1) for domain in domains]
    return helper.make_model(
        helper.make_graph(list(nodes), "graph", [x], [y], list(weights)), opset_imports=opsets, ir_version=9, **extra
    )


def build_external_weight(location: str, name: str = "w") -> Any:
    """Build a weight of four numbers in another file."""
    weight = onnx.TensorProto(name=name, dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    return weight


def write_weight(path: Path) -> None:
    """Write the numbers of an external weight."""
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())


def write_directory(directory: Path, model: Any | None = None, name: str = "model.onnx") -> Path:
    """Write a directory with a model and an empty tokenizer, and return its path."""
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((model or build_model()).SerializeToString())
    (directory / "tokenizer.json").write_text("{}")
    return directory

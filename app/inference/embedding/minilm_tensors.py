"""The tensors of all-MiniLM-L6-v2: read from a memory-mapped safetensors file, and quantised for the int8 graph."""

import json
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from app.inference.embedding.weights import WeightsDamaged

Precision = Literal["fp32", "int8"]
Tensors = dict[str, npt.NDArray[Any]]

LAYERS, HIDDEN, HEADS, INNER, VOCABULARY, POSITIONS = 6, 384, 12, 1536, 30522, 512
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
MAX_HEADER_BYTES = 1 << 20

# Weights are in [-63, 63]: AVX2 adds two products of an unsigned and a signed byte in 16 bits, and 2 * 255 * 64 fits.
# Nothing saturates, so every CPU computes the same integers, with or without wider instructions.
INT8_LIMIT = 63
# The inputs of these two projections have outliers that eight bits for each tensor cannot represent. Without
# quantisation of these layers the lowest cosine with fp32 is 0.992 instead of 0.989, at no measurable cost.
FLOAT_LAYERS = frozenset(f"encoder.layer.{i}.output.dense" for i in (0, LAYERS - 1))


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer of the checkpoint: its name without ``.weight``, and its widths."""

    name: str
    inputs: int
    outputs: int


def list_linear_layers(layer: int) -> list[Linear]:
    """Return the linear layers of one encoder layer (counted from 0), in the order of execution."""
    prefix = f"encoder.layer.{layer}."
    attention = [
        Linear(f"{prefix}attention.{part}", HIDDEN, HIDDEN)
        for part in ("self.query", "self.key", "self.value", "output.dense")
    ]
    return [
        *attention,
        Linear(f"{prefix}intermediate.dense", HIDDEN, INNER),
        Linear(f"{prefix}output.dense", INNER, HIDDEN),
    ]


def list_tensor_shapes() -> dict[str, tuple[int, ...]]:
    """Return name and shape of every checkpoint tensor that the model reads, all float32."""
    shapes_by_name: dict[str, tuple[int, ...]] = {
        WORD_EMBEDDINGS: (VOCABULARY, HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        norms += [f"encoder.layer.{layer}.attention.output.LayerNorm", f"encoder.layer.{layer}.output.LayerNorm"]
        for linear in list_linear_layers(layer):
            shapes_by_name |= {
                f"{linear.name}.weight": (linear.outputs, linear.inputs),
                f"{linear.name}.bias": (linear.outputs,),
            }
    return shapes_by_name | {f"{norm}.{part}": (HIDDEN,) for norm in norms for part in ("weight", "bias")}


def map_file(path: Path) -> mmap.mmap:
    """Map the file for reading. Raises WeightsDamaged."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as exc:  # ValueError: an empty file cannot be mapped
        raise WeightsDamaged(f"{path} cannot be read: {exc}") from exc


def read_checkpoint(mapping: mmap.mmap) -> Tensors:
    """Return views into the mapping of a safetensors file, with the names and shapes of ``list_tensor_shapes``.

    The file has eight bytes for the length of the header, a JSON header with type, shape and offsets of each tensor,
    and the data. Raises WeightsDamaged.
    """
    try:
        (length,) = struct.unpack_from("<Q", mapping)
        if length > MAX_HEADER_BYTES:
            raise WeightsDamaged("model.safetensors has no readable header")
        header: Mapping[str, Mapping[str, Any]] = json.loads(mapping[8 : 8 + length])
        return {
            name: _view_tensor(mapping, 8 + length, header[name], shape) for name, shape in list_tensor_shapes().items()
        }
    except KeyError as exc:
        raise WeightsDamaged(f"model.safetensors has no tensor {exc}: another model?") from exc
    except (struct.error, ValueError, TypeError, AttributeError) as exc:
        raise WeightsDamaged(f"model.safetensors cannot be read: {exc}") from exc


def _view_tensor(
    mapping: mmap.mmap, data: int, entry: Mapping[str, Any], shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    if entry["dtype"] != "F32" or tuple(entry["shape"]) != shape:
        raise WeightsDamaged(
            f"model.safetensors holds {entry['dtype']} {entry['shape']} where {list(shape)} was expected"
        )
    count = int(np.prod(shape))
    return np.frombuffer(mapping, np.dtype("<f4"), count, data + int(entry["data_offsets"][0])).reshape(shape)


def prepare_tensors(checkpoint: Tensors, precision: Precision) -> Tensors:
    """Return the tensors that the graph of this precision declares: views for fp32, new small tensors for int8.

    The word embeddings are not among these tensors: the input of the graph is the rows for the tokens of a text.
    Quantisation is symmetric with one scale per output, and the matrix is laid out (inputs, outputs).
    """
    tensors = {name: tensor for name, tensor in checkpoint.items() if name != WORD_EMBEDDINGS}
    if precision == "fp32":
        return tensors
    for layer in range(LAYERS):
        for linear in list_linear_layers(layer):
            if linear.name not in FLOAT_LAYERS:
                weight = tensors.pop(f"{linear.name}.weight")
                scale = np.abs(weight).max(axis=1) / np.float32(INT8_LIMIT)
                tensors[f"{linear.name}.scale"] = scale
                tensors[f"{linear.name}.int8"] = np.ascontiguousarray(
                    np.rint(weight / scale[:, None]).astype(np.int8).T
                )
    return tensors

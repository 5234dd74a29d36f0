"""The tensors of all-MiniLM-L6-v2: read from a memory-mapped safetensors file, and quantised for the int8 graph."""

import json
import mmap
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.embedding.encoder_tensors import (
    WORD_EMBEDDINGS,
    Encoder,
    Precision,
    Tensors,
    list_linear_layers,
    list_tensor_shapes,
    quantize_matrix,
)
from app.inference.embedding.weights import WeightsDamaged

MAX_HEADER_BYTES = 1 << 20

# The inputs of these two projections have outliers that eight bits for each tensor cannot represent. Without
# quantisation of these layers the lowest cosine with fp32 is 0.992 instead of 0.989, at no measurable cost.
MINILM = Encoder(
    name="all-MiniLM-L6-v2",
    layers=6,
    vocabulary=30522,
    positions=512,
    float_layers=frozenset(f"encoder.layer.{layer}.output.dense" for layer in (0, 5)),
)


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
            name: _view_tensor(mapping, 8 + length, header[name], shape)
            for name, shape in list_tensor_shapes(MINILM).items()
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
    """
    tensors = {name: tensor for name, tensor in checkpoint.items() if name != WORD_EMBEDDINGS}
    if precision == "fp32":
        return tensors
    for layer in range(MINILM.layers):
        for linear in list_linear_layers(layer):
            if linear.name not in MINILM.float_layers:
                tensors |= quantize_matrix(linear.name, tensors.pop(f"{linear.name}.weight"))
    return tensors

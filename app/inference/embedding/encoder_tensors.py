"""The tensors of BERT encoders with 384 dimensions: names, shapes, and their quantisation for the int8 graphs."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Precision = Literal["fp32", "int8"]
Tensors = dict[str, npt.NDArray[Any]]

HIDDEN, HEADS, INNER = 384, 12, 1536
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
POSITION_EMBEDDINGS = "embeddings.position_embeddings.weight"
SEGMENT_EMBEDDINGS = "embeddings.token_type_embeddings.weight"

# Weights are in [-63, 63]: AVX2 adds two products of an unsigned and a signed byte in 16 bits, and 2 * 255 * 64 fits.
# Nothing saturates, so every CPU computes the same integers, with or without wider instructions.
INT8_LIMIT = 63


@dataclass(frozen=True, slots=True)
class Encoder:
    """Shape of an encoder.

    Attributes:
        name: Name of the model.
        layers: Number of layers.
        vocabulary: Number of words.
        positions: Number of positions, which is the maximum number of tokens.
        float_layers: Names of the linear layers that stay in fp32 in the int8 graph.
    """

    name: str
    layers: int
    vocabulary: int
    positions: int
    float_layers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer of an encoder: its name without ``.weight``, and its widths."""

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


def list_norms(layer: int) -> list[str]:
    """Return the names of the layer normalisations of one encoder layer, in the order of execution."""
    return [f"encoder.layer.{layer}.attention.output.LayerNorm", f"encoder.layer.{layer}.output.LayerNorm"]


def list_tensor_shapes(encoder: Encoder) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every tensor that the encoder reads, all float32."""
    shapes_by_name: dict[str, tuple[int, ...]] = {
        WORD_EMBEDDINGS: (encoder.vocabulary, HIDDEN),
        POSITION_EMBEDDINGS: (encoder.positions, HIDDEN),
        SEGMENT_EMBEDDINGS: (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(encoder.layers):
        norms += list_norms(layer)
        for linear in list_linear_layers(layer):
            shapes_by_name |= {
                f"{linear.name}.weight": (linear.outputs, linear.inputs),
                f"{linear.name}.bias": (linear.outputs,),
            }
    return shapes_by_name | {f"{norm}.{part}": (HIDDEN,) for norm in norms for part in ("weight", "bias")}


def quantize_matrix(name: str, weight: npt.NDArray[np.float32]) -> Tensors:
    """Return the int8 matrix and the scales of a linear layer, with the names that the int8 graph declares.

    Quantisation is symmetric with one scale per output, and the matrix is laid out (inputs, outputs).

    Args:
        name: Name of the linear layer.
        weight: Weights, of the shape (outputs, inputs).
    """
    smallest = np.finfo(np.float32).tiny  # an output may have no weights but zeros
    scale = np.maximum(np.abs(weight).max(axis=1) / np.float32(INT8_LIMIT), smallest)
    matrix = np.rint(weight / scale[:, None]).astype(np.int8)
    return {f"{name}.int8": np.ascontiguousarray(matrix.T), f"{name}.scale": scale}

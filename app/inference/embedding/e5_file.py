"""Read the file of multilingual-e5-small with four-bit weights: vocabulary, small tensors, and blocks of weights.

The file begins with a header of nine numbers. The vocabulary follows: offsets, scores and UTF-8 bytes of its pieces.
After a map of normalised characters, a directory names each tensor with its kind and place. All numbers are
little-endian. A matrix is stored as rows of blocks. A block has a 16-bit scale and 32 weights of four bits. Its byte
*j* has weight *j* in the lower half and weight *j* + 16 in the upper half. A weight is its four bits minus 8, times
the scale.
"""

import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from mmap import mmap

import numpy as np
import numpy.typing as npt

from app.inference.embedding.encoder_tensors import (
    HEADS,
    HIDDEN,
    INNER,
    POSITION_EMBEDDINGS,
    SEGMENT_EMBEDDINGS,
    WORD_EMBEDDINGS,
    Encoder,
    Tensors,
    list_linear_layers,
    list_norms,
    list_tensor_shapes,
    quantize_matrix,
)
from app.inference.embedding.weights import WeightsDamaged

E5_SMALL = Encoder(
    name="multilingual-e5-small",
    layers=12,
    vocabulary=250_037,
    positions=512,
    float_layers=frozenset(f"encoder.layer.{layer}.output.dense" for layer in (0, 4)),
)

FILE_NAME = "e5-small-q4.bin"
PIECES = 250_002
BEGIN_ID, PADDING_ID, END_ID, UNKNOWN_ID, MASK_ID = 0, 1, 2, 3, PIECES - 1
BLOCK_WEIGHTS = 32
_BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", (BLOCK_WEIGHTS // 2,))])
_FLOAT, _BLOCKS = 0, 1

_HEADER = struct.Struct("<4sI7ifi")
_EXPECTED_HEADER = (
    b"E5S1",
    1,
    HIDDEN,
    E5_SMALL.layers,
    HEADS,
    INNER,
    E5_SMALL.vocabulary,
    E5_SMALL.positions,
    2,
    np.float32(1e-12),
    BLOCK_WEIGHTS,
)
_VOCABULARY_HEADER = struct.Struct("<5iQ")
_EXPECTED_VOCABULARY = (PIECES, BEGIN_ID, END_ID, PADDING_ID, UNKNOWN_ID)
_MAP_HEADER = struct.Struct("<iI")
_ENTRY = struct.Struct("<BIQQ")
MAX_TENSORS = 1000

# Part of a layer's name in the file, by the end of its name in ``encoder_tensors``.
_LAYER_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}

Blocks = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class PieceVocabulary:
    """Pieces of words with their scores, in the order of their ids.

    Attributes:
        pieces: Pieces; the first four and the last one are special tokens.
        scores: Logarithm of the probability of each piece.
    """

    pieces: Sequence[str]
    scores: Sequence[float]


@dataclass(frozen=True, slots=True)
class E5File:
    """Contents of the file.

    Attributes:
        vocabulary: Vocabulary of the tokenizer.
        tensors: Tensors that the int8 graph declares.
        words: Rows of the word embeddings in four bits, a view into the mapping; shape (vocabulary, blocks of a row).
    """

    vocabulary: PieceVocabulary
    tensors: Tensors
    words: Blocks


@dataclass(frozen=True, slots=True)
class _StoredTensor:
    kind: int
    count: int
    offset: int


def read_e5_file(mapping: mmap) -> E5File:
    """Read the mapped file, and quantise the matrices of the encoder for the int8 graph.

    Args:
        mapping: The mapped file. It has to stay open as long as the word embeddings are used.

    Raises:
        WeightsDamaged: The file is cut off, or is another model.
    """
    try:
        position = _check_header(mapping)
        vocabulary, position = _read_vocabulary(mapping, position)
        _, map_bytes = _MAP_HEADER.unpack_from(mapping, position)
        directory = _read_directory(mapping, position + _MAP_HEADER.size + map_bytes)
        words = _view_blocks(mapping, directory["emb.word"], E5_SMALL.vocabulary, HIDDEN)
        return E5File(vocabulary, _read_tensors(mapping, directory), words)
    except KeyError as exc:
        raise WeightsDamaged(f"{FILE_NAME} has no tensor {exc}: another model?") from exc
    except (struct.error, ValueError, OverflowError) as exc:
        raise WeightsDamaged(f"{FILE_NAME} cannot be read: {exc}") from exc


def dequantize_blocks(blocks: Blocks) -> npt.NDArray[np.float32]:
    """Return the weights of rows of blocks, of the shape (rows, 32 times the blocks of a row)."""
    codes = blocks["codes"]
    weights = np.concatenate([codes & 0x0F, codes >> 4], axis=-1).astype(np.float32)
    weights -= 8
    weights *= blocks["scale"].astype(np.float32)[..., None]
    return weights.reshape(len(blocks), -1)


def _check_header(mapping: mmap) -> int:
    header = _HEADER.unpack_from(mapping, 0)
    if header != _EXPECTED_HEADER:
        raise WeightsDamaged(f"{FILE_NAME} has the header {header}: another model?")
    return _HEADER.size


def _read_vocabulary(mapping: mmap, position: int) -> tuple[PieceVocabulary, int]:
    """Return the vocabulary and the position after it."""
    *header, size = _VOCABULARY_HEADER.unpack_from(mapping, position)
    if tuple(header) != _EXPECTED_VOCABULARY:
        raise WeightsDamaged(f"{FILE_NAME} has the vocabulary {header}: another model?")
    position += _VOCABULARY_HEADER.size
    offsets = np.frombuffer(mapping, "<u4", PIECES + 1, position)
    position += offsets.nbytes
    scores = np.frombuffer(mapping, "<f4", PIECES, position)
    position += scores.nbytes
    if offsets[0] != 0 or offsets[-1] != size or (offsets[1:] < offsets[:-1]).any() or not np.isfinite(scores).all():
        raise WeightsDamaged(f"{FILE_NAME} has a damaged vocabulary")
    text = mapping[position : position + size]
    if len(text) != size:
        raise WeightsDamaged(f"{FILE_NAME} is cut off in its vocabulary")
    bounds = offsets.tolist()
    pieces = [text[start:end].decode() for start, end in pairwise(bounds)]
    return PieceVocabulary(pieces, array("d", scores.tolist())), position + size


def _read_directory(mapping: mmap, position: int) -> Mapping[str, _StoredTensor]:
    (count,) = struct.unpack_from("<i", mapping, position)
    position += 4
    if not 0 < count <= MAX_TENSORS:
        raise WeightsDamaged(f"{FILE_NAME} lists {count} tensors")
    directory: dict[str, _StoredTensor] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", mapping, position)
        position += 2
        name = mapping[position : position + length].decode()
        position += length
        kind, elements, offset, _ = _ENTRY.unpack_from(mapping, position)
        position += _ENTRY.size
        directory[name] = _StoredTensor(kind, elements, offset)
    return directory


def _read_tensors(mapping: mmap, directory: Mapping[str, _StoredTensor]) -> Tensors:
    """Return copies of the vectors and the quantised matrices. One matrix at a time is in fp32."""
    shapes_by_name = list_tensor_shapes(E5_SMALL)
    tensors: Tensors = {
        POSITION_EMBEDDINGS: _view_floats(mapping, directory["emb.pos"], shapes_by_name[POSITION_EMBEDDINGS]).copy(),
        SEGMENT_EMBEDDINGS: _view_floats(mapping, directory["emb.type"], shapes_by_name[SEGMENT_EMBEDDINGS]).copy(),
    }
    del shapes_by_name[POSITION_EMBEDDINGS], shapes_by_name[SEGMENT_EMBEDDINGS], shapes_by_name[WORD_EMBEDDINGS]
    stored_names = _list_stored_names()
    for layer in range(E5_SMALL.layers):
        for linear in list_linear_layers(layer):
            entry = directory[f"{stored_names[linear.name]}.w"]
            blocks = _view_blocks(mapping, entry, linear.outputs, linear.inputs)
            if not np.isfinite(blocks["scale"]).all():
                raise WeightsDamaged(f"{FILE_NAME} has weights that are no numbers")
            matrix = dequantize_blocks(blocks)
            if linear.name in E5_SMALL.float_layers:
                tensors[f"{linear.name}.weight"] = matrix
            else:
                tensors |= quantize_matrix(linear.name, matrix)
            del shapes_by_name[f"{linear.name}.weight"]
    for name, shape in shapes_by_name.items():
        layer_name, _, part = name.rpartition(".")
        entry = directory[f"{stored_names[layer_name]}.{part[0]}"]
        tensors[name] = _view_floats(mapping, entry, shape).copy()
    return tensors


def _list_stored_names() -> dict[str, str]:
    """Return the name in the file of every layer, without the end ``.w`` or ``.b``."""
    names = {"embeddings.LayerNorm": "emb.ln"}
    for layer in range(E5_SMALL.layers):
        for name in [*(linear.name for linear in list_linear_layers(layer)), *list_norms(layer)]:
            names[name] = f"l{layer}.{_LAYER_NAMES[name.removeprefix(f'encoder.layer.{layer}.')]}"
    return names


def _view_floats(mapping: mmap, entry: _StoredTensor, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    if entry.kind != _FLOAT or entry.count != np.prod(shape):
        raise WeightsDamaged(f"{FILE_NAME} has {entry.count} numbers where {list(shape)} was expected: another model?")
    return np.frombuffer(mapping, "<f4", entry.count, entry.offset).reshape(shape)


def _view_blocks(mapping: mmap, entry: _StoredTensor, rows: int, columns: int) -> Blocks:
    if entry.kind != _BLOCKS or entry.count != rows * columns:
        raise WeightsDamaged(f"{FILE_NAME} has {entry.count} weights where [{rows}, {columns}] was expected")
    count = entry.count // BLOCK_WEIGHTS
    return np.frombuffer(mapping, _BLOCK, count, entry.offset).reshape(rows, columns // BLOCK_WEIGHTS)

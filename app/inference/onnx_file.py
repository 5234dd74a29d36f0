"""Reader of the structure of an ONNX file: the operators of its nodes and the files of its external data.

An ONNX file is a protobuf message. The reader follows only the fields that hold nodes and tensors, and jumps over the
values of tensors. Its time is linear in the number of fields, and it does not recurse.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Fields that hold messages, by kind of message and number of the field, from onnx.proto.
MESSAGE_FIELDS: Mapping[str, Mapping[int, str]] = {
    "ModelProto": {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: "TensorProto",
        6: "GraphProto",
        10: "TensorProto",
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
    "TensorProto": {13: "StringStringEntryProto"},
    "StringStringEntryProto": {},
}
NODE_OPERATOR, NODE_DOMAIN = 4, 7
ENTRY_KEY, ENTRY_VALUE = 1, 2
TEXT_FIELDS: Mapping[str, frozenset[int]] = {
    "NodeProto": frozenset({NODE_OPERATOR, NODE_DOMAIN}),
    "StringStringEntryProto": frozenset({ENTRY_KEY, ENTRY_VALUE}),
}
MAX_FIELDS = 4_000_000
"""Maximum number of fields that are read. A model with 24 layers has some 50,000."""

MAX_NAME_BYTES = 4096
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED_SIZES = {FIXED64: 8, FIXED32: 4}


class InvalidOnnxFile(ValueError):
    """The file is not an ONNX model."""


@dataclass(frozen=True, slots=True)
class OnnxStructure:
    """Structure of an ONNX file.

    Attributes:
        operators: Pairs of domain and name of the operators of all nodes, also of nested graphs and functions.
        external_locations: Locations of external data, as they are in the file.
        has_functions: Whether the file defines operators as functions.
    """

    operators: frozenset[tuple[str, str]]
    external_locations: frozenset[str]
    has_functions: bool


def read_onnx_structure(path: Path) -> OnnxStructure:
    """Read the structure of an ONNX file. The call blocks.

    Args:
        path: Path of the file.

    Returns:
        The operators, external data and functions of the file.

    Raises:
        InvalidOnnxFile: The file is not an ONNX model, or it has more than ``MAX_FIELDS`` fields.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        if not path.stat().st_size:
            raise InvalidOnnxFile("it is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _StructureReader(data).read()


class _StructureReader:
    """Reader of one file, which collects operators and locations."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._field_count = 0
        self._operators: set[tuple[str, str]] = set()
        self._locations: set[str] = set()

    def read(self) -> OnnxStructure:
        kinds: set[str] = set()
        pending = [("ModelProto", 0, len(self._data))]
        while pending:
            kind, start, end = pending.pop()
            kinds.add(kind)
            texts: dict[int, str] = {}
            for number, value_start, value_end in self._read_fields(start, end):
                if (inner := MESSAGE_FIELDS[kind].get(number)) is not None:
                    pending.append((inner, value_start, value_end))
                elif number in TEXT_FIELDS.get(kind, ()):
                    # The last value of a repeated field is valid, as in every protobuf parser.
                    texts[number] = self._read_text(value_start, value_end)
            if kind == "NodeProto":
                self._operators.add((texts.get(NODE_DOMAIN, ""), texts.get(NODE_OPERATOR, "")))
            elif kind == "StringStringEntryProto" and texts.get(ENTRY_KEY) == "location":
                self._locations.add(texts.get(ENTRY_VALUE, ""))
        if "NodeProto" not in kinds:
            raise InvalidOnnxFile("it has no nodes")
        return OnnxStructure(frozenset(self._operators), frozenset(self._locations), "FunctionProto" in kinds)

    def _read_fields(self, position: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the number, start and end of every field of a message that has a length."""
        while position < end:
            self._field_count += 1
            if self._field_count > MAX_FIELDS:
                raise InvalidOnnxFile(f"it has more than {MAX_FIELDS:,} fields")
            tag, position = self._read_varint(position, end)
            number, wire_type = tag >> 3, tag & 7
            if wire_type == VARINT:
                _, position = self._read_varint(position, end)
                continue
            if wire_type == BYTES:
                size, position = self._read_varint(position, end)
            elif wire_type in FIXED_SIZES:
                size = FIXED_SIZES[wire_type]
            else:
                raise InvalidOnnxFile("it is not a protobuf message")
            if size > end - position:
                raise InvalidOnnxFile("it ends too early")
            if wire_type == BYTES:
                yield number, position, position + size
            position += size

    def _read_varint(self, position: int, end: int) -> tuple[int, int]:
        """Return an integer of at most ten bytes, and the position after it."""
        value = 0
        for shift in range(0, 70, 7):
            if position >= end:
                raise InvalidOnnxFile("it ends too early")
            byte = self._data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
        raise InvalidOnnxFile("it is not a protobuf message")

    def _read_text(self, start: int, end: int) -> str:
        """Return a text, cut to ``MAX_NAME_BYTES``."""
        return self._data[start : min(end, start + MAX_NAME_BYTES)].decode("utf-8", "replace")

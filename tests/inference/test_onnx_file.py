"""Structure of ONNX files: operators and external data, also of nested graphs, and files that are not models."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from app.inference.onnx_file import MESSAGE_FIELDS, InvalidOnnxFile, read_onnx_structure
from tests.inference.onnx_models import build_external_weight, build_model
from tests.linear_time.measuring import MAX_GROWTH, growth


def write(path: Path, model: Any) -> Path:
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def test_message_fields_are_those_of_onnx_package() -> None:
    for kind, fields in MESSAGE_FIELDS.items():
        descriptor = getattr(onnx, kind).DESCRIPTOR
        for number, inner in fields.items():
            assert descriptor.fields_by_number[number].message_type.name == inner, (kind, number)


@pytest.mark.parametrize("kind", ["NodeProto", "AttributeProto", "GraphProto", "TensorProto", "SparseTensorProto"])
def test_message_fields_have_every_field_with_nodes_or_tensors(kind: str) -> None:
    fields = getattr(onnx, kind).DESCRIPTOR.fields
    inner = {field.number for field in fields if field.message_type and field.message_type.name in MESSAGE_FIELDS}
    # Entries of metadata and of quantization are no external data.
    named = {field.number for field in fields if field.name in {"metadata_props", "quantization_annotation"}}
    assert inner - named == set(MESSAGE_FIELDS[kind])


def test_read_onnx_structure_names_operators(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Gelu", ["a"], ["y"], domain="com.microsoft")]
    structure = read_onnx_structure(write(tmp_path / "m", build_model(nodes)))
    assert structure.operators == {("", "Add"), ("com.microsoft", "Gelu")}
    assert structure.external_locations == frozenset()
    assert not structure.has_functions


def test_read_onnx_structure_nested_graphs_are_read(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Secret", [], ["z"], domain="far.away")], "b", [], [], [build_external_weight("../deep")]
    )
    for _ in range(30):
        branch = helper.make_graph([helper.make_node("If", ["c"], ["z"], then_branch=branch)], "b", [], [])
    node = helper.make_node("If", ["x"], ["y"], then_branch=branch)
    structure = read_onnx_structure(write(tmp_path / "m", build_model([node])))
    assert ("far.away", "Secret") in structure.operators
    assert structure.external_locations == {"../deep"}


def test_read_onnx_structure_tensors_of_attributes_are_read(tmp_path: Path) -> None:
    sparse = onnx.SparseTensorProto(values=build_external_weight("values"), indices=build_external_weight("indices"))
    nodes = [
        helper.make_node("Constant", [], ["a"], value=build_external_weight("one")),
        helper.make_node("Constant", [], ["b"], sparse_value=sparse),
    ]
    many = helper.make_node("Add", ["x", "a"], ["y"])
    many.attribute.add(name="list", type=onnx.AttributeProto.TENSORS, tensors=[build_external_weight("listed")])
    model = build_model([*nodes, many], [build_external_weight("top")])
    model.graph.sparse_initializer.append(sparse)
    assert read_onnx_structure(write(tmp_path / "m", model)).external_locations == {
        "one",
        "values",
        "indices",
        "listed",
        "top",
    }


def test_read_onnx_structure_functions_are_reported(tmp_path: Path) -> None:
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Odd", ["a"], ["b"], domain="odd")], []
    )
    structure = read_onnx_structure(write(tmp_path / "m", build_model(functions=[function])))
    assert structure.has_functions
    assert ("odd", "Odd") in structure.operators


def test_read_onnx_structure_repeated_graph_and_key_are_read(tmp_path: Path) -> None:
    # A protobuf parser merges repeated messages, and takes the last of repeated values.
    weight = build_external_weight("w")
    entry = b"\x0a\x01x\x12\x01y\x0a\x08location\x12\x06hidden"
    data = weight.SerializeToString() + b"\x6a" + bytes([len(entry)]) + entry
    graph = onnx.GraphProto()
    graph.ParseFromString(b"\x2a" + bytes([len(data)]) + data)
    second = onnx.ModelProto(graph=graph).SerializeToString()
    structure = read_onnx_structure(write(tmp_path / "m", build_model().SerializeToString() + second))
    assert structure.external_locations == {"w", "hidden"}


def test_read_onnx_structure_metadata_is_no_external_data(tmp_path: Path) -> None:
    model = build_model()
    model.metadata_props.add(key="location", value="../elsewhere")
    model.graph.node[0].metadata_props.add(key="location", value="/etc/passwd")
    assert read_onnx_structure(write(tmp_path / "m", model)).external_locations == frozenset()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"hello world, this is text", "it"),
        (b"\x3a\x7f\x0a", "it ends too early"),
        (b"\xff" * 30, "it is not a protobuf message"),
        (b"\x3a", "it ends too early"),
        (b"\x0b\x0c", "it is not a protobuf message"),
        (b"\x08\x09", "it has no nodes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 90\n", "it"),
        (b"PK\x03\x04" + b"\0" * 100, "it"),
    ],
)
def test_read_onnx_structure_other_content_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InvalidOnnxFile, match=f"^{reason}"):
        read_onnx_structure(write(tmp_path / "m", content))


def test_read_onnx_structure_cut_model_is_refused(tmp_path: Path) -> None:
    content = build_model().SerializeToString()
    for size in range(len(content) - 40, len(content)):
        try:
            read_onnx_structure(write(tmp_path / "m", content[:size]))
        except InvalidOnnxFile:
            continue
        onnx.ModelProto().ParseFromString(content[:size])  # the cut is between two fields


def test_read_onnx_structure_changed_byte_is_refused_or_read(tmp_path: Path) -> None:
    content = build_model(weights=[build_external_weight("w")]).SerializeToString()
    for position in range(len(content)):
        damaged = content[:position] + bytes([content[position] ^ 0xA5]) + content[position + 1 :]
        try:
            read_onnx_structure(write(tmp_path / "m", damaged))
        except InvalidOnnxFile:
            continue


def test_read_onnx_structure_deep_nesting_is_read(tmp_path: Path) -> None:
    leaf = helper.make_node("Leaf", [], [], domain="leaf").SerializeToString()
    model = _wrap(b"\x3a", _wrap(b"\x0a", _nest(leaf, 30_000)))
    assert ("leaf", "Leaf") in read_onnx_structure(write(tmp_path / "m", model)).operators


def test_read_onnx_structure_many_fields_are_refused(tmp_path: Path) -> None:
    content = build_model().SerializeToString() + b"\x08\x09" * 4_000_001
    with pytest.raises(InvalidOnnxFile, match="more than 4,000,000 fields"):
        read_onnx_structure(write(tmp_path / "m", content))


def test_read_onnx_structure_values_of_tensors_are_not_read(tmp_path: Path) -> None:
    big = helper.make_tensor("big", TensorProto.FLOAT, [2_000_000], bytes(8_000_000), raw=True)
    small = build_model()
    small.graph.initializer.append(big)
    structure = read_onnx_structure(write(tmp_path / "m", small))
    assert structure.operators == {("", "Add")}


def test_read_onnx_structure_twice_the_nesting_takes_at_most_two_and_a_half_times(tmp_path: Path) -> None:
    def read(text: str) -> None:
        read_onnx_structure(write(tmp_path / "m", _wrap(b"\x3a", _wrap(b"\x0a", _nest(b"", len(text))))))

    assert growth(read, lambda size: "a" * size) <= MAX_GROWTH


def _nest(node: bytes, levels: int) -> bytes:
    """Put a node into a graph in an attribute of a node, as often as levels say."""
    parts, size = [node], len(node)
    for _ in range(levels):
        for tag in (b"\x0a", b"\x32", b"\x2a"):
            parts.append(tag + _encode_size(size))
            size += len(parts[-1])
    return b"".join(reversed(parts))


def _wrap(tag: bytes, content: bytes) -> bytes:
    return tag + _encode_size(len(content)) + content


def _encode_size(size: int) -> bytes:
    content = bytearray()
    while size > 0x7F:
        content.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*content, size])

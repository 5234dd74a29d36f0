"""Directories of local models: choice of the file, links, external data, custom operators, name and token limit."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from onnx import helper

from app.inference.onnx_directory import LocalModelRefused, find_model_file, open_model_directory, read_token_limit
from tests.inference.onnx_models import build_external_weight, build_model, write_directory, write_weight


def test_open_model_directory_describes_files(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "tiny-model")
    found = open_model_directory(directory)
    sha256 = hashlib.sha256((directory / "model.onnx").read_bytes()).hexdigest()
    assert (found.path, found.model_file) == (directory, directory / "model.onnx")
    assert (found.tokenizer_file, found.external_files) == (directory / "tokenizer.json", ())
    assert (found.sha256, found.name) == (sha256, f"tiny-model@{sha256[:12]}")
    assert found.token_limit is None
    assert found.read_json("1_Pooling/config.json") == {}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["model.onnx"], "model.onnx"),
        (["onnx/model.onnx"], "onnx/model.onnx"),
        (["onnx/model.onnx", "onnx/model_quantized.onnx", "onnx/model_O4.onnx"], "onnx/model.onnx"),
        (["model.onnx", "onnx/model.onnx"], "model.onnx"),
        (["onnx/model_int8.onnx"], "onnx/model_int8.onnx"),
        (["model_optimized.onnx"], "model_optimized.onnx"),
        (["model-q4.onnx", "decoder.onnx"], "model-q4.onnx"),
    ],
)
def test_find_model_file_clear_choice_is_found(tmp_path: Path, names: list[str], chosen: str) -> None:
    for name in names:
        write_directory(tmp_path, name=name)
    assert find_model_file(tmp_path) == tmp_path / chosen


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "model.onnx does not exist, nor onnx/model.onnx."),
        (["decoder.onnx"], "model.onnx does not exist"),
        (["other/model.onnx"], "model.onnx does not exist"),
        (["onnx/model_int8.onnx", "onnx/model_fp16.onnx"], "(onnx/model_fp16.onnx, onnx/model_int8.onnx)"),
        (["model_a.onnx", "onnx/model_b.onnx"], "several models (model_a.onnx, onnx/model_b.onnx)"),
    ],
)
def test_find_model_file_no_clear_choice_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        write_directory(tmp_path, name=name)
    with pytest.raises(LocalModelRefused) as refused:
        find_model_file(tmp_path)
    assert message in refused.value.message
    assert str(tmp_path) in refused.value.message


def test_open_model_directory_path_of_file_chooses_among_several(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "several", name="onnx/model.onnx")
    other = build_model([helper.make_node("Mul", ["x", "w"], ["y"])])
    write_directory(directory, other, name="onnx/model_int8.onnx")
    found = open_model_directory(directory / "onnx" / "model_int8.onnx")
    assert (found.path, found.model_file) == (directory, directory / "onnx/model_int8.onnx")
    assert found.tokenizer_file == directory / "tokenizer.json"
    assert found.name.startswith("several@")
    assert found.name != open_model_directory(directory).name


@pytest.mark.parametrize("place", ["missing", "tokenizer.json", "model.safetensors", "missing.onnx"])
def test_open_model_directory_other_path_is_refused(tmp_path: Path, place: str) -> None:
    write_directory(tmp_path)
    with pytest.raises(LocalModelRefused, match="is neither a directory nor an ONNX file") as refused:
        open_model_directory(tmp_path / place)
    assert place in refused.value.message


def test_open_model_directory_missing_tokenizer_is_refused(tmp_path: Path) -> None:
    (write_directory(tmp_path) / "tokenizer.json").unlink()
    with pytest.raises(LocalModelRefused, match=r"tokenizer\.json does not exist"):
        open_model_directory(tmp_path)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "config.json"])
def test_open_model_directory_link_out_of_directory_is_refused(tmp_path: Path, name: str) -> None:
    directory = write_directory(tmp_path / "models" / "here")
    (tmp_path / "models" / "here-outside").mkdir()
    outside = tmp_path / "models" / "here-outside" / name
    outside.write_bytes((directory / name).read_bytes() if name != "config.json" else b"{}")
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(outside)
    with pytest.raises(LocalModelRefused, match="link to a file outside of the directory") as refused:
        open_model_directory(directory)
    assert name in refused.value.message


def test_open_model_directory_linked_folder_out_of_directory_is_refused(tmp_path: Path) -> None:
    write_directory(tmp_path / "outside", name="onnx/model.onnx")
    directory = tmp_path / "here"
    directory.mkdir()
    (directory / "tokenizer.json").write_text("{}")
    (directory / "onnx").symlink_to(tmp_path / "outside" / "onnx")
    with pytest.raises(LocalModelRefused, match="link to a file outside"):
        open_model_directory(directory)
    with pytest.raises(LocalModelRefused, match="link to a file outside"):
        open_model_directory(directory / "onnx" / "model.onnx")


@pytest.mark.parametrize("target", ["model.onnx", "nowhere.onnx"])
def test_open_model_directory_link_without_target_is_refused(tmp_path: Path, target: str) -> None:
    directory = write_directory(tmp_path)
    (directory / "model.onnx").unlink()
    (directory / "model.onnx").symlink_to(target)
    with pytest.raises(LocalModelRefused, match=r"model\.onnx (cannot be read|does not exist)"):
        open_model_directory(directory)


def test_open_model_directory_link_inside_directory_is_read(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "here", name="files/0001")
    (directory / "model.onnx").symlink_to("files/0001")
    assert open_model_directory(directory).model_file == directory / "files" / "0001"


def test_open_model_directory_linked_directory_has_configured_name(tmp_path: Path) -> None:
    write_directory(tmp_path / "version-2")
    (tmp_path / "current").symlink_to("version-2")
    found = open_model_directory(tmp_path / "current")
    assert found.path == tmp_path / "version-2"
    assert found.name.startswith("current@")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b", "a b"),
        ("line\nbreak", "line?break"),
        ("Größe", "Größe"),
        (os.fsdecode(b"\xff"), "?"),
        ("x\x1b[0m", "x?[0m"),
    ],
)
def test_open_model_directory_name_is_one_printable_line(tmp_path: Path, name: str, shown: str) -> None:
    found = open_model_directory(write_directory(tmp_path / name))
    assert found.name.rpartition("@")[0] == shown


def test_open_model_directory_relative_path_has_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_directory(tmp_path / "tiny" / "onnx")
    monkeypatch.chdir(tmp_path / "tiny" / "onnx")
    (tmp_path / "tiny" / "tokenizer.json").write_text("{}")
    assert open_model_directory(Path()).name.startswith("onnx@")
    assert open_model_directory(Path("..")).name.startswith("tiny@")


def test_open_model_directory_named_pipes_are_refused(tmp_path: Path) -> None:
    directory = write_directory(tmp_path)
    for name in ("tokenizer.json", "model.onnx"):
        (directory / name).unlink()
        os.mkfifo(directory / name)
        with pytest.raises(LocalModelRefused, match="is not a file"):
            open_model_directory(directory)


def test_open_model_directory_unreadable_file_is_refused(tmp_path: Path) -> None:
    directory = write_directory(tmp_path)
    (directory / "model.onnx").chmod(0)
    if os.access(directory / "model.onnx", os.R_OK):
        pytest.skip("the user may read every file")
    with pytest.raises(LocalModelRefused, match=r"model\.onnx cannot be read: Permission denied"):
        open_model_directory(directory)


@pytest.mark.parametrize(
    "content", [b"", b"text", b"version https://git-lfs.github.com/spec/v1\nsize 9\n", b"<html></html>", b"\0" * 50]
)
def test_open_model_directory_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    directory = write_directory(tmp_path)
    (directory / "model.onnx").write_bytes(content)
    with pytest.raises(LocalModelRefused, match=r"model\.onnx is not an ONNX model"):
        open_model_directory(directory)


@pytest.mark.parametrize("domain", ["my.ops", "ai.onnx.contrib", "com.microsoft.extensions", "ai.onnx.training"])
def test_open_model_directory_custom_operator_is_refused(tmp_path: Path, domain: str) -> None:
    model = build_model([helper.make_node("Tokenize", ["x", "w"], ["y"], domain=domain)])
    with pytest.raises(LocalModelRefused, match=rf"model\.onnx needs the custom operator {domain}:Tokenize\."):
        open_model_directory(write_directory(tmp_path, model))


def test_open_model_directory_function_is_refused(tmp_path: Path) -> None:
    function = helper.make_function("", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [])
    with pytest.raises(LocalModelRefused, match=r"model\.onnx defines operators as functions"):
        open_model_directory(write_directory(tmp_path, build_model(functions=[function])))


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx"])
@pytest.mark.parametrize("location", ["model.onnx_data", "data/w.bin", "./weights v1.bin"])
def test_open_model_directory_external_data_is_found_and_hashed(tmp_path: Path, name: str, location: str) -> None:
    directory = write_directory(tmp_path, build_model(weights=[build_external_weight(location)]), name=name)
    file = (directory / name).parent / location
    file.parent.mkdir(exist_ok=True)
    write_weight(file)
    found = open_model_directory(directory)
    assert found.external_files == (file.resolve(),)
    file.write_bytes(bytes(16))
    assert open_model_directory(directory).sha256 != found.sha256
    # onnxruntime accepts the same file
    onnxruntime.InferenceSession(str(found.model_file), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "location",
    [
        "../outside.bin",
        "/etc/hostname",
        "data/../../outside.bin",
        "*/_ORT_MEM_ADDR_/*",
        "..\\outside.bin",
        "C:/outside.bin",
        "",
        "a\0b",
        "file://host/w",
    ],
)
def test_open_model_directory_external_data_outside_is_refused(tmp_path: Path, location: str) -> None:
    write_weight(tmp_path / "outside.bin")
    directory = write_directory(tmp_path / "here", build_model(weights=[build_external_weight(location)]))
    (directory / "data").mkdir()
    with pytest.raises(LocalModelRefused, match=r"model\.onnx has external data at"):
        open_model_directory(directory)


@pytest.mark.parametrize("location", ["../w.bin", "linked.bin", "linked/w.bin"])
def test_open_model_directory_external_data_by_link_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "outside").mkdir()
    write_weight(tmp_path / "outside" / "w.bin")
    model = build_model(weights=[build_external_weight(location)])
    directory = write_directory(tmp_path / "here", model, name="onnx/model.onnx")
    write_weight(directory / "w.bin")
    (directory / "onnx" / "linked.bin").symlink_to(tmp_path / "outside" / "w.bin")
    (directory / "onnx" / "linked").symlink_to(tmp_path / "outside")
    with pytest.raises(LocalModelRefused):
        open_model_directory(directory)


def test_open_model_directory_missing_external_data_is_refused(tmp_path: Path) -> None:
    directory = write_directory(tmp_path, build_model(weights=[build_external_weight("w.bin")]))
    with pytest.raises(LocalModelRefused, match=r"w\.bin does not exist"):
        open_model_directory(directory)
    os.mkfifo(directory / "w.bin")
    with pytest.raises(LocalModelRefused, match=r"w\.bin is not a file"):
        open_model_directory(directory)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"sentence_bert_config.json": {"max_seq_length": 256}}, 256),
        ({"tokenizer_config.json": {"model_max_length": 512}}, 512),
        ({"config.json": {"max_position_embeddings": 512, "model_type": "bert"}}, 512),
        ({"config.json": {"max_position_embeddings": 514, "model_type": "xlm-roberta", "pad_token_id": 1}}, 512),
        ({"config.json": {"max_position_embeddings": 514, "model_type": "mpnet"}}, 512),
        ({"config.json": {"max_position_embeddings": 130, "model_type": "roberta", "pad_token_id": 0}}, 129),
        (
            {
                "sentence_bert_config.json": {"max_seq_length": 256},
                "tokenizer_config.json": {"model_max_length": 512},
                "config.json": {"max_position_embeddings": 512},
            },
            256,
        ),
        (
            {
                "sentence_bert_config.json": {"max_seq_length": None},
                "tokenizer_config.json": {"model_max_length": 1000000000000000019884624838656},
                "config.json": {"max_position_embeddings": 8194, "model_type": "xlm-roberta"},
            },
            8192,
        ),
        ({"tokenizer_config.json": {"model_max_length": 1e30}}, None),
        ({"tokenizer_config.json": {"model_max_length": 512.0}}, 512),
        ({"tokenizer_config.json": {"model_max_length": 0}, "config.json": {"max_position_embeddings": -1}}, None),
        ({"tokenizer_config.json": {"model_max_length": True}, "config.json": {"max_position_embeddings": "9"}}, None),
        ({"sentence_bert_config.json": {"max_seq_length": 100.5}, "tokenizer_config.json": {}}, None),
    ],
)
def test_read_token_limit_is_lowest_plausible_limit(tmp_path: Path, files: dict[str, Any], limit: int | None) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert read_token_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"max_position_embeddings": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b"7", "is not a JSON object"),
    ],
)
def test_read_token_limit_damaged_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(LocalModelRefused, match=rf"config\.json {message}"):
        read_token_limit(tmp_path)


def test_refusal_is_one_line(tmp_path: Path) -> None:
    location = "../a\nb\x1b[31m" + "x" * 5000
    directory = write_directory(tmp_path / "a\nb", build_model(weights=[build_external_weight(location)]))
    with pytest.raises(LocalModelRefused) as refused:
        open_model_directory(directory)
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 2500

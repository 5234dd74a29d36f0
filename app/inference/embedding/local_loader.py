"""Load pinned local models, and list the local models whose weights are on the machine."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.encoder_tensors import Precision
from app.inference.embedding.lazy_embedder import LazyEmbedder
from app.inference.embedding.local_embedder import LocalEmbedder, TextModel
from app.inference.embedding.local_models import LOCAL_MODELS, LocalModel
from app.inference.embedding.text_tokenizer import TextTokenizer, load_tokenizer
from app.inference.embedding.weights import find_weights


def get_identity(
    model: LocalModel,
    *,
    precision: str | None = None,
    query_prefix: str | None = None,
    document_prefix: str | None = None,
) -> EmbeddingIdentity:
    """Return the identity of a local model's vectors.

    Args:
        model: The model.
        precision: Precision of the arithmetic; None for the model's default.
        query_prefix: Text before every query; None for the model's own prefix.
        document_prefix: Text before every text of a document; None for the model's own prefix.
    """
    return EmbeddingIdentity(
        model.name,
        model.dimensions,
        precision or model.precisions[0],
        model.query_prefix if query_prefix is None else query_prefix,
        model.document_prefix if document_prefix is None else document_prefix,
    )


def load_local_embedder(directory: Path, identity: EmbeddingIdentity, *, bulk_threads: int) -> LocalEmbedder:
    """Load a pinned local model. The call blocks for some 0.2 seconds and holds the interpreter lock.

    Args:
        directory: Directory of the model's files.
        identity: Identity of the vectors, with the name of the model.
        bulk_threads: Number of threads for documents.

    Raises:
        WeightsDamaged: The weights cannot be read.
    """
    model = LOCAL_MODELS[identity.model]
    text_model, tokenizer = _load_parts(model, directory, identity.precision)
    return LocalEmbedder(text_model, tokenizer, identity, max_tokens=model.max_tokens, bulk_threads=bulk_threads)


def list_available_embedders(
    weights_dir: Path | None, cache_dir: Path, *, except_for: Iterable[EmbeddingIdentity], bulk_threads: int
) -> tuple[Sequence[LazyEmbedder], Sequence[LazyEmbedder]]:
    """List the pinned local models whose weights are on the machine. A model is loaded when it is first used.

    Args:
        weights_dir: Configured directory of the models, or None.
        cache_dir: Cache directory of the user.
        except_for: Identities that are configured already.
        bulk_threads: Number of threads for documents, for each model.

    Returns:
        The models in their default precision, and the models in other precisions, for older search indexes.
    """
    existing = set(except_for)
    defaults: list[LazyEmbedder] = []
    others: list[LazyEmbedder] = []
    for model in LOCAL_MODELS.values():
        directory = find_weights(model, weights_dir, cache_dir)
        if directory is None:
            continue
        is_named = any(identity.model == model.name for identity in existing)
        for precision in model.precisions:
            identity = get_identity(model, precision=precision)
            if identity in existing:
                continue
            embedder = LazyEmbedder(model, identity, _create_loader(directory, identity, bulk_threads))
            is_default = precision == model.precisions[0] and not is_named
            (defaults if is_default else others).append(embedder)
    return defaults, others


def _create_loader(directory: Path, identity: EmbeddingIdentity, bulk_threads: int) -> Callable[[], LocalEmbedder]:
    return lambda: load_local_embedder(directory, identity, bulk_threads=bulk_threads)


def _load_parts(model: LocalModel, directory: Path, precision: str) -> tuple[TextModel, TextTokenizer]:
    if model.model_file == "e5-small-q4.bin":
        from app.inference.embedding.e5_model import E5Model

        e5 = E5Model.load(directory)
        return e5, e5.tokenizer
    tokenizer = load_tokenizer(directory / "tokenizer.json")
    if model.model_file == "model.safetensors":
        from app.inference.embedding.minilm_model import MiniLMModel

        return MiniLMModel.load(directory, cast(Precision, precision)), tokenizer
    from app.inference.embedding.onnx_model import OnnxModel

    return OnnxModel(directory / model.model_file, model.pooling), tokenizer

"""``carrel models``: list, download and check the local embedding models."""

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.errors import InvalidInputError
from app.inference.embedding.local_models import DEFAULT_MODEL, LOCAL_MODELS, LocalModel
from app.inference.embedding.weights import (
    WeightsDamaged,
    find_weights,
    get_cached_models_dir,
    is_complete,
    pull_weights,
    require_weights,
)
from app.settings import get_user_cache_dir, load_settings

if TYPE_CHECKING:
    from app.inference.embedding.local_embedder import LocalEmbedder

app = typer.Typer(help="List, download and check the local embedding models.", no_args_is_help=True)

ALL = "all"
# About the length of a chunk, and the number of runs that are timed.
CHECK_TEXT = (
    "The tenant terminates the lease in writing. The period of notice is three months to the end of a month. " * 7
)
CHECK_RUNS = 20
# A query with a typical length.
CHECK_QUERY = "How long is the period of notice for a flat?"


@app.callback()
def models() -> None:
    """List, download and check the local embedding models."""


@app.command(name="list")
def list_models() -> None:
    """List the local models, their properties, and whether their weights are on this machine.

    A star marks the default model of new knowledge bases.

    Example: carrel models list
    """
    settings = load_settings().embedding
    is_local = settings.provider is None and settings.base_url is None and settings.local is None
    width = max(map(len, LOCAL_MODELS))
    typer.echo(f"  {'MODEL':{width}}  LANGUAGES     TOKENS  DOWNLOAD  LICENCE     WEIGHTS")
    for model in LOCAL_MODELS.values():
        directory = find_weights(model, settings.weights_dir, get_user_cache_dir())
        place = "not on this machine" if directory is None else str(directory)
        mark = "*" if is_local and model.name == settings.model else " "
        typer.echo(
            f"{mark} {model.name:{width}}  {model.language:12}  {model.max_tokens:>6}  {model.download_megabytes:>5} MB"
            f"  {model.license_name:10}  {place}"
        )
    if settings.local is not None:
        typer.echo(f"* {settings.local} (CARREL_EMBEDDING_LOCAL)")
    elif not is_local:
        typer.echo("The default model is not a local one: CARREL_EMBEDDING_BASE_URL or a plugin is set.")
    typer.echo(describe_cpu())


@app.command()
def pull(
    name: Annotated[
        str, typer.Argument(help=f"Name of the model: {', '.join(LOCAL_MODELS)}, or `all`.")
    ] = DEFAULT_MODEL,
    target: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the models, one sub-directory each. Default: CARREL_EMBEDDING_WEIGHTS_DIR, else the "
            "user's cache directory."
        ),
    ] = None,
) -> None:
    """Download the weights of a local model and verify them.

    Weights that exist already are not downloaded again. The service finds another directory than the default only if
    CARREL_EMBEDDING_WEIGHTS_DIR names it.

    Example: carrel models pull

    Example: carrel models pull all-MiniLM-L6-v2 --target /srv/carrel/models
    """
    # With a target, other settings may be missing or wrong, as in the build of an image.
    directory = target or load_settings().embedding.weights_dir or get_cached_models_dir(get_user_cache_dir())
    for model in LOCAL_MODELS.values() if name == ALL else [_get_model(name)]:
        pull_weights(model, directory / model.name)
        typer.echo(f"The weights of {model.name} are in {directory / model.name}.")


@app.command()
def check(
    name: Annotated[
        str | None,
        typer.Argument(help=f"Name of the model: {', '.join(LOCAL_MODELS)}. Default: the configured model."),
    ] = None,
) -> None:
    """Verify the files of a local model, and measure its speed on this machine.

    Without a name, the command checks the default model of the configuration, also that of CARREL_EMBEDDING_LOCAL.

    Example: carrel models check

    Example: carrel models check all-MiniLM-L6-v2
    """
    settings = load_settings().embedding
    if name is None and settings.local is not None:
        from app.inference.embedding.model_directory import load_directory_embedder

        directory = settings.local
        typer.echo(asyncio.run(_measure(lambda: load_directory_embedder(directory, settings, bulk_threads=1))))
        return
    if name is None and (settings.provider is not None or settings.base_url is not None):
        raise InvalidInputError("The configured model is not a local one; `carrel doctor` checks it. Name a model.")
    _check_pinned_model(_get_model(name or settings.model), settings.weights_dir)


def _check_pinned_model(model: LocalModel, weights_dir: Path | None) -> None:
    from app.inference.embedding.local_loader import get_identity, load_local_embedder

    directory = require_weights(model, weights_dir, get_user_cache_dir())
    if not is_complete(model, directory):
        # The damaged copy may be that of a source checkout.
        command = f"carrel models pull {model.name} --target {weights_dir or directory.parent}"
        raise WeightsDamaged(f"{directory} has other files than expected. Run `{command}`.")
    typer.echo(f"{directory}: all checksums are right.")
    for precision in model.precisions:
        identity = get_identity(model, precision=precision)
        load = partial(load_local_embedder, directory, identity, bulk_threads=1)
        typer.echo(asyncio.run(_measure(load)))


async def _measure(load: Callable[[], "LocalEmbedder"]) -> str:
    """Load a model, and return a line with its speed: tokens per CPU second, and milliseconds for a query."""
    begun = time.perf_counter()
    embedder = load()
    load_seconds = time.perf_counter() - begun
    try:
        await embedder.check()
        begun = time.process_time()
        embedded = await embedder.embed_documents([CHECK_TEXT] * CHECK_RUNS)
        rate = embedded.tokens / (time.process_time() - begun)
        begun = time.perf_counter()
        for _ in range(CHECK_RUNS):
            await embedder.embed_queries([CHECK_QUERY])
        query_ms = (time.perf_counter() - begun) / CHECK_RUNS * 1000
    finally:
        await embedder.close()
    return (
        f"{embedder.identity.model} ({embedder.identity.precision}): loaded in {load_seconds:.1f} s, "
        f"{rate:,.0f} tokens per CPU second, {query_ms:.1f} ms for a query"
    )


def describe_cpu() -> str:
    """Return a sentence about the model that fits the processor."""
    cores = os.cpu_count() or 1
    features = _read_cpu_features()
    if features is None:
        return f"This machine has {cores} cores."
    if {"avx_vnni", "avx512_vnni", "asimddp"} & features:
        return f"This machine has {cores} cores with fast 8-bit arithmetic: {DEFAULT_MODEL} fits."
    return (
        f"This machine has {cores} cores without fast 8-bit arithmetic (VNNI): all-MiniLM-L6-v2 needs about half of "
        "the time."
    )


def _read_cpu_features() -> set[str] | None:
    """Return the features of the processor, or None if the system does not list them. Only Linux does."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    feature_line = next((line for line in lines if line.startswith(("flags", "Features"))), None)
    return None if feature_line is None else set(feature_line.partition(":")[2].split())


def _get_model(name: str) -> LocalModel:
    if name not in LOCAL_MODELS:
        raise InvalidInputError(f"No local model is named {name!r}. Choose one of: {', '.join(LOCAL_MODELS)}.")
    return LOCAL_MODELS[name]

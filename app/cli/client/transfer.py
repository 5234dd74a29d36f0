"""``carrel export`` and ``carrel import``: transfer of a knowledge base as one file."""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from carrel_client import Client, NotFound
from carrel_client.http_requests import Request, build_path
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.client.archive import Archive, build_document_identity, verify_archive
from app.cli.client.configuration_export import export_configuration
from app.cli.client.options import REFUSED_STATUS, AsJson, Key, Url, open_client
from app.cli.client.output import print_json
from app.errors import InvalidInputError

INTERRUPTED_STATUS = 130


class FileAlreadyExists(InvalidInputError):
    """The file exists already; choose another name, or use --force to replace it."""

    code = "file_exists"


class InvalidExport(InvalidInputError):
    """The arguments name neither an archive nor a configuration file."""

    code = "invalid_export"


def export(
    name: Annotated[str | None, typer.Argument(help="Name or ID of the knowledge base.")] = None,
    target: Annotated[Path | None, typer.Option("--to", help="Path of the file to write.")] = None,
    config: Annotated[
        bool, typer.Option("--config", help="Write the settings of all knowledge bases and agents as YAML instead.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Export a knowledge base to one archive file, or all settings to a configuration file.

    The archive contains originals, parsed texts, chunks, vectors, settings and hashes. It is verified before it gets
    its name. Documents whose newest version is not ready are skipped and reported. The API key must have the role
    admin.

    With --config, the command writes a configuration file for `carrel apply` instead: the settings of all knowledge
    bases and agents, without documents. It goes to standard output without --to.

    Example: carrel export handbook --to handbook.tar

    Example: carrel export --config --to carrel.yaml
    """
    with open_client(url, key) as client:
        if target is not None and target.exists() and not force:
            raise FileAlreadyExists
        if config and name is None:
            export_configuration(client, target)
        elif not config and name is not None and target is not None:
            _export_archive(client, name, target, as_json=as_json)
        else:
            raise InvalidExport("Give the name of a knowledge base and --to, or --config without a name.")


def _export_archive(client: Client, name: str, target: Path, *, as_json: bool) -> None:
    """Write the archive of a knowledge base, verify it, and print a summary."""
    console = Console(stderr=True, quiet=as_json)
    unfinished = target.with_name(f"{target.name}.part")
    request = Request("GET", build_path("knowledge-bases", name, "export"))
    with _create_progress(console) as progress:
        task = progress.add_task("exporting", total=None)
        with client.stream(request) as response, unfinished.open("wb") as file:
            for piece in response.iter_bytes():
                progress.advance(task, file.write(piece))
        archive = _verify_archive(unfinished, progress)
    unfinished.replace(target)
    summary = {"file": str(target), "bytes": target.stat().st_size, "documents": len(archive.documents)}
    for skipped in archive.skipped:
        console.print(f"skipped: {skipped.get('source')}: {skipped.get('reason')}", markup=False, highlight=False)
    if as_json:
        print_json({**summary, "skipped": archive.skipped})
    console.print(
        f"{summary['documents']} documents, {summary['bytes']} bytes: {target}", markup=False, highlight=False
    )


def import_(
    file: Annotated[Path, typer.Argument(help="Archive that `carrel export` wrote.")],
    kb: Annotated[str, typer.Option("--kb", help="Knowledge base for the documents. A missing one is created.")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Import the documents of an archive into a knowledge base, without parsing or embedding them again.

    The archive is verified first. After Ctrl-C or a failure, run the same command again: stored documents are not sent
    again. A document that is stored with another original stays as it is and counts as a conflict (status 1). The API
    key must have the role admin.

    Example: carrel import handbook.tar --kb handbook-copy
    """
    console = Console(stderr=True, quiet=as_json)
    counts: Counter[str] = Counter(dict.fromkeys(("documents", "chunks", "existing", "conflicts"), 0))
    with open_client(url, key) as client:
        try:
            with _create_progress(console) as progress:
                _send_documents(client, kb, _verify_archive(file, progress), counts, progress)
        except KeyboardInterrupt:
            console.print("Interrupted. Run the same command again to continue.")
            raise typer.Exit(INTERRUPTED_STATUS) from None
    if as_json:
        print_json(dict(counts))
    console.print(", ".join(f"{count} {name}" for name, count in counts.items()), highlight=False)
    raise typer.Exit(REFUSED_STATUS if counts["conflicts"] else 0)


def _send_documents(client: Client, kb: str, archive: Archive, counts: Counter[str], progress: Progress) -> None:
    existing = _load_existing(client, kb, archive)
    task = progress.add_task("importing", total=sum(document.end - document.start for document in archive.documents))
    passed = 0
    for content, documents in archive.split(existing):
        if content:
            counts.update(client.knowledge_bases.import_archive(kb, content))
        batch = archive.documents[passed : passed + documents]
        counts["existing"] += sum(document.identity in existing for document in batch)
        progress.advance(task, sum(document.end - document.start for document in batch))
        passed += documents


def _load_existing(client: Client, kb: str, archive: Archive) -> set[tuple[str | None, ...]]:
    """Return the identities of the stored documents; create a missing knowledge base with the archive's settings."""
    try:
        client.knowledge_bases.get(kb)
    except NotFound:
        client.knowledge_bases.create(kb, **archive.settings)
        return set()
    identities = set()
    for document in client.documents.list(kb):
        scope: Any = document["scope"]
        ids = (scope["user_id"], scope["chat_id"], scope["agent_id"])
        identities.add(build_document_identity(document["external_id"], document["sha256"], ids))
    return identities


def _verify_archive(path: Path, progress: Progress) -> Archive:
    task = progress.add_task("verifying", total=path.stat().st_size)
    return verify_archive(path, lambda at: progress.update(task, completed=at))


def _create_progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=console.quiet or not sys.stderr.isatty(),
    )

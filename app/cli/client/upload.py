"""``carrel upload``: upload of files and directories to a knowledge base."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from carrel_client import Client
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from app.cli.client.file_selection import FileSelection, LocalFile
from app.cli.client.options import REFUSED_STATUS, AsJson, Kb, Key, Url, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_json
from app.cli.client.uploader import DirectoryWatcher, Uploader, UploadOutcome, load_remote_index, wait_for_ingestion

POLL_INTERVAL_SECONDS = 2.0
INTERRUPTED_STATUS = 130


def upload(
    paths: Annotated[list[Path], typer.Argument(help="Files and directories to upload.")],
    kb: Kb = "default",
    include: Annotated[
        list[str] | None, typer.Option(help="Upload only files of directories that match this glob; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out files of directories that match this glob; may be repeated.")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Prefix of the external IDs, to keep several directory trees apart.")
    ] = "",
    metadata: Annotated[str | None, typer.Option(help="Metadata of every document, as a JSON object.")] = None,
    user_id: Annotated[str | None, typer.Option(help="Store the documents for this user only.")] = None,
    chat_id: Annotated[
        str | None,
        typer.Option(help="Store the documents for this chat only; with --user-id, for this chat of the user."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=32, help="Number of uploads at the same time.")] = 4,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the documents are searchable.")] = True,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running and upload changed files, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Upload files and directories to a knowledge base; unchanged files are not sent again.

    The external ID of a file is its path below the given directory. A changed file becomes a new version of its
    document. No document is deleted. After Ctrl-C, run the same command again to continue.

    Status 1: a file failed, or the service refuses. Status 2: an option or the connection is wrong. Status 130: Ctrl-C.

    Example: carrel upload handbook.pdf --kb handbook --metadata '{"year": 2026}'

    Example: carrel upload contract.pdf --user-id u42 --chat-id c7

    Example: carrel upload docs --include '*.md' --exclude 'drafts/*' --watch
    """
    with open_client(url, key) as client:
        scope = drop_unset(user_id=user_id, chat_id=chat_id)
        options = {**drop_unset(metadata=parse_json_object("--metadata", metadata) or None), **scope}
        selection = FileSelection(include or (), exclude or (), _list_extensions(client), prefix)
        files = selection.list_files(paths)
        run = _UploadRun(client, kb, options, scope, concurrency, wait, Console(stderr=True, quiet=as_json))
        try:
            outcomes = run.upload_files(files)
            if as_json:
                print_json([outcome.to_json() for outcome in outcomes])
            if watch:
                run.watch(selection, paths, files)
        except KeyboardInterrupt:
            run.console.print("Interrupted. Run the same command again to continue.")
            raise typer.Exit(INTERRUPTED_STATUS) from None
    raise typer.Exit(REFUSED_STATUS if any(outcome.kind == "failed" for outcome in outcomes) else 0)


def _list_extensions(client: Client) -> frozenset[str]:
    return frozenset(
        extension.lower().removeprefix(".")
        for parser in client.capabilities()["parsers"]
        for extension in parser["extensions"]
    )


@dataclass(frozen=True, slots=True)
class _UploadRun:
    """One run of the command. ``options`` apply to every upload. ``filters`` select the stored documents that the files
    are compared with.
    """

    client: Client
    kb: str
    options: Mapping[str, Any]
    filters: Mapping[str, str]
    concurrency: int
    waits: bool
    console: Console

    def upload_files(self, files: Sequence[LocalFile]) -> list[UploadOutcome]:
        """Upload files, wait for their ingestion if requested, and return the outcomes. Print each failure."""
        remote_index = load_remote_index(self.client, self.kb, self.filters)
        uploader = Uploader(self.client, self.kb, self.options, remote_index, self.concurrency)
        with self._create_progress() as progress:
            outcomes = self._upload_all(uploader, files, progress)
            if self.waits:
                outcomes = self._wait_for_ingestion(outcomes, progress)
        counts = Counter(result.kind for result in outcomes)
        summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        self.console.print(summary or "No files to upload.", highlight=False)
        return outcomes

    def watch(self, selection: FileSelection, paths: Sequence[Path], files: Sequence[LocalFile]) -> None:
        """Upload new and changed files, until Ctrl-C."""
        watcher = DirectoryWatcher()
        watcher.mark_reported(files)
        self.console.print("Watching for changes. Press Ctrl-C to stop.")
        while True:
            time.sleep(POLL_INTERVAL_SECONDS)
            if changed := watcher.poll(selection.list_files(paths)):
                self.upload_files(changed)

    def _upload_all(self, uploader: Uploader, files: Sequence[LocalFile], progress: Progress) -> list[UploadOutcome]:
        sizes = {file: _get_size(file) for file in files}
        task = progress.add_task("uploading", total=sum(sizes.values()))
        outcomes = []
        for outcome in uploader.upload_all(files):
            outcomes.append(outcome)
            progress.advance(task, sizes[outcome.file])
            self._print_error(outcome)
        return outcomes

    def _wait_for_ingestion(self, outcomes: Sequence[UploadOutcome], progress: Progress) -> list[UploadOutcome]:
        uploaded = {outcome.document_id: outcome.file for outcome in outcomes if outcome.document_id is not None}
        latest = {outcome.file: outcome for outcome in outcomes}
        task = progress.add_task("ingesting", total=len(uploaded))

        def record_outcome(outcome: UploadOutcome) -> None:
            latest[outcome.file] = outcome
            progress.advance(task)
            self._print_error(outcome)

        wait_for_ingestion(self.client, self.kb, uploaded, record_outcome)
        return list(latest.values())

    def _print_error(self, outcome: UploadOutcome) -> None:
        if outcome.error is not None:
            message = f"{outcome.file.path}: {outcome.error['code']}: {outcome.error['message']}"
            self.console.print(message, markup=False, highlight=False)

    def _create_progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=self.console.quiet or not sys.stderr.isatty(),
        )


def _get_size(file: LocalFile) -> int:
    try:
        return file.path.stat().st_size
    except OSError:
        return 0

"""``carrel upload``: files and directories into a knowledge base."""

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

from app.cli.client.finding import Found, Selection
from app.cli.client.options import REFUSED, AsJson, Kb, Key, Url, given, json_object, service
from app.cli.client.printing import print_json
from app.cli.client.uploading import Changes, Told, Uploader, follow, known_documents

LOOK_SECONDS = 2.0
INTERRUPTED = 130


def upload(
    paths: Annotated[list[Path], typer.Argument(help="Files and directories.")],
    kb: Kb = "default",
    include: Annotated[list[str] | None, typer.Option(help="Of directories only what this glob says.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Of directories not what this glob says.")] = None,
    prefix: Annotated[str, typer.Option(help="Put before the external ids, to keep trees apart.")] = "",
    metadata: Annotated[str | None, typer.Option(help="Of every document, as JSON.")] = None,
    user_id: Annotated[str | None, typer.Option(help="For this user alone.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Uploads at a time.")] = 4,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until they are searchable.")] = True,
    watch: Annotated[bool, typer.Option("--watch", help="Go on and upload what changes, until Ctrl-C.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Upload files and whole directories; what is there already is not sent again.

    A file's external id is its path below the directory that is named: a changed file is a new version of its document.
    After Ctrl-C the same command goes on where it was. Nothing is ever deleted. Status 1: a file failed, or the
    service refuses. Status 2: something is wrong with the options or the connection. Status 130: Ctrl-C.

    Example: carrel upload handbook.pdf --kb handbook --metadata '{"year": 2026}'

    Example: carrel upload docs --include '*.md' --exclude 'drafts/*' --watch
    """
    with service(url, key) as client:
        options = given(metadata=json_object("--metadata", metadata) or None, user_id=user_id)
        selection = Selection(include or (), exclude or (), _extensions(client), prefix)
        files = selection.files(paths)
        level = given(user_id=user_id)
        run = _Run(client, kb, options, level, parallel, wait, Console(stderr=True, quiet=as_json))
        try:
            told = run.once(files)
            if as_json:
                print_json([one.as_json() for one in told])
            if watch:
                run.watch(selection, paths, files)
        except KeyboardInterrupt:
            run.console.print("Interrupted. The same command goes on where it was.")
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(REFUSED if any(one.outcome == "failed" for one in told) else 0)


def _extensions(client: Client) -> frozenset[str]:
    return frozenset(
        extension.lower().removeprefix(".")
        for parser in client.capabilities()["parsers"]
        for extension in parser["extensions"]
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One command: ``options`` are said of every document, ``level`` says whose documents are looked at."""

    client: Client
    kb: str
    options: Mapping[str, Any]
    level: Mapping[str, str]
    parallel: int
    wait: bool
    console: Console

    def once(self, files: Sequence[Found]) -> list[Told]:
        """Upload them, and wait for them where that is wished for; what failed is told at once."""
        known = known_documents(self.client, self.kb, self.level)
        uploader = Uploader(self.client, self.kb, self.options, known, self.parallel)
        with self._progress() as progress:
            told = self._upload(uploader, files, progress)
            if self.wait:
                told = self._follow(told, progress)
        counts = Counter(one.outcome for one in told)
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        self.console.print(said or "No files.", highlight=False)
        return told

    def watch(self, selection: Selection, paths: Sequence[Path], files: Sequence[Found]) -> None:
        """Look again and again, until Ctrl-C."""
        changes = Changes()
        changes.skip(files)
        self.console.print("Watching; Ctrl-C ends it.")
        while True:
            time.sleep(LOOK_SECONDS)
            if changed := changes.look(selection.files(paths)):
                self.once(changed)

    def _upload(self, uploader: Uploader, files: Sequence[Found], progress: Progress) -> list[Told]:
        sizes = {file: _size(file) for file in files}
        task = progress.add_task("uploading", total=sum(sizes.values()))
        told = []
        for one in uploader.upload_all(files):
            told.append(one)
            progress.advance(task, sizes[one.file])
            self._complain(one)
        return told

    def _follow(self, told: Sequence[Told], progress: Progress) -> list[Told]:
        uploaded = {one.document: one.file for one in told if one.document is not None}
        ended = {one.file: one for one in told}
        task = progress.add_task("ingesting", total=len(uploaded))

        def end(one: Told) -> None:
            ended[one.file] = one
            progress.advance(task)
            self._complain(one)

        follow(self.client, self.kb, uploaded, end)
        return list(ended.values())

    def _complain(self, one: Told) -> None:
        if one.error is not None:
            said = f"{one.file.path}: {one.error['code']}: {one.error['message']}"
            self.console.print(said, markup=False, highlight=False)

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=self.console.quiet or not sys.stderr.isatty(),
        )


def _size(file: Found) -> int:
    try:
        return file.path.stat().st_size
    except OSError:
        return 0

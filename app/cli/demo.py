"""``carrel demo``: start, upload and search with sample documents, with a check of each step."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer

from app.cli import child_process
from app.cli.console_link import format_console_link, open_console
from app.cli.runtime_state import read_credentials
from app.db.requirements import EARLIER_SCHEMA_MESSAGE, UNRELEASED_SCHEMA_MESSAGE
from app.errors import AppError
from app.settings.environment import ENV_FILE
from app.settings.settings_group import PREFIX

SAMPLE_FILES = ("handbook.pdf", "product-tour.pptx")
START_TIMEOUT_SECONDS = 120
TOP_K = 2


class DemoFailed(AppError):
    """The demo failed; its message names the step."""

    code = "demo_failed"


class UnusableDemoData(DemoFailed):
    """Another version of Carrel created the demo's data, and this version cannot read the data."""


class PortTaken(DemoFailed):
    """Another program took the port while the service started."""


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """Conversation, and the words that the found passages must contain."""

    messages: tuple[tuple[str, str], ...]
    expected_text: str

    def to_search_body(self) -> dict[str, Any]:
        """Return the request body, which both search endpoints accept."""
        return {"messages": [{"role": role, "content": text} for role, text in self.messages], "top_k": TOP_K}


QUESTIONS = (
    DemoQuestion((("customer", "What's your cancellation policy?"),), "up to 24 hours before pickup"),
    DemoQuestion(
        (
            ("customer", "What's your cancellation policy?"),
            ("agent", "Free cancellation up to 24 hours before pickup."),
            ("customer", "And for one-way rentals?"),
        ),
        "at least 72 hours before pickup",
    ),
    DemoQuestion((("customer", "How many points do I need for Silver status?"),), "Silver status from 2,000 points"),
)


def demo(
    data_dir: Annotated[Path, typer.Option(help="Directory of the demo's data.")] = Path(".carrel-demo"),
) -> None:
    """Start the service, upload two sample documents and ask three questions.

    In a terminal the demo opens the console in a browser, and the service keeps running until Ctrl-C. Without a
    terminal the demo ends after the questions.
    Status 1: an expected answer was not found.

    Example: carrel demo
    """
    begun = time.monotonic()
    with suppress(KeyboardInterrupt), _open_service(data_dir) as (url, process):
        credentials = read_credentials(data_dir)
        if credentials is None:
            raise DemoFailed(f"the service wrote no credentials; see {data_dir / 'serve.log'}")
        headers = {"Authorization": f"Bearer {credentials.api_key}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=90) as client:
            _print_line(f"The service runs on {url} ({time.monotonic() - begun:.1f} s).")
            for name in SAMPLE_FILES:
                _upload(client, _find_samples_dir() / name)
            for number, question in enumerate(QUESTIONS, 1):
                _check_question(client, number, question)
                if number == 1:
                    _print_line(f"First answer after {time.monotonic() - begun:.1f} s.")
        _print_line(f"All three answers are as expected. API documentation: {url}/docs")
        if sys.stdin.isatty() and sys.stdout.isatty():
            link = format_console_link(url, credentials.api_key)
            _print_line(f"Console: {link}")
            _print_line(
                f"The service keeps running with the API key in {data_dir / 'credentials.json'}. Ctrl-C stops it."
            )
            with open_console(link, data_dir):
                process.wait()
        else:
            _print_line(f"Console: {url}/")


def _find_samples_dir() -> Path:
    """Return the directory of the sample documents: in the package of a wheel, or in a source checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_samples"
    return inside if inside.is_dir() else package.parent / "samples"


@contextmanager
def _open_service(data_dir: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run the service on the demo's data. If this version cannot read existing data, move them away first."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(_run_service(data_dir))
        except UnusableDemoData:
            moved = data_dir.with_name(f"{data_dir.name}-{time.strftime('%Y%m%d-%H%M%S')}")
            data_dir.rename(moved)
            _print_line(f"Another version of Carrel made the data in {data_dir}. They are in {moved} now.")
            opened = stack.enter_context(_run_service(data_dir))
        except PortTaken:
            opened = stack.enter_context(_run_service(data_dir, ports=(0,)))
        yield opened


@contextmanager
def _run_service(
    data_dir: Path, *, ports: tuple[int, ...] = (8000, 0)
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run ``carrel serve`` in a separate process, with its log in its data directory."""
    # Under root, Postgres runs as another user, who must be able to enter the directory.
    data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    port = _find_free_port(ports)
    url = f"http://127.0.0.1:{port}"
    inherited = child_process.build_inherited_environment()
    environment = {name: value for name, value in inherited.items() if not name.upper().startswith(PREFIX)} | {
        ENV_FILE: ""
    }
    command = child_process.build_command("serve", "--port", str(port), "--data-dir", str(data_dir.absolute()))
    (data_dir / "serve.log").touch(mode=0o600)
    with (data_dir / "serve.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  (our own interpreter)
            command, stdout=log, stderr=log, env=environment, cwd=child_process.WORKING_DIRECTORY
        )
        try:
            _wait_until_ready(url, process, data_dir)
            yield url, process
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the service and wait for its end; after a Ctrl-C it is stopping already."""
    process.send_signal(signal.SIGTERM)
    with suppress(KeyboardInterrupt):
        process.wait(60)


def _find_free_port(ports: tuple[int, ...]) -> int:
    """Return the first of these ports that is free; 0 is any free port."""
    for port in ports:
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise DemoFailed("no port is free on 127.0.0.1; stop another service and try again")


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], data_dir: Path) -> None:
    """Wait until the service of the data directory answers, not another one on its port."""
    log = data_dir / "serve.log"
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
            unusable = EARLIER_SCHEMA_MESSAGE in last or UNRELEASED_SCHEMA_MESSAGE in last
            kind = UnusableDemoData if unusable else PortTaken if "cannot listen on" in last else DemoFailed
            raise kind(f"the service did not start: {last}")
        credentials = read_credentials(data_dir)
        with suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/readyz", timeout=2).status_code == 200 and credentials is not None:
                headers = {"Authorization": f"Bearer {credentials.api_key}"}
                if httpx2.get(f"{url}/v1/knowledge-bases", headers=headers, timeout=2).status_code == 200:
                    return
        time.sleep(0.1)
    raise DemoFailed(f"the service was not ready after {START_TIMEOUT_SECONDS} s; see its log {log}")


def _upload(client: httpx2.Client, path: Path) -> None:
    begun = time.monotonic()
    with path.open("rb") as file:
        reply = client.post(
            "/v1/knowledge-bases/default/documents", params={"wait": 60}, files={"file": (path.name, file)}
        )
    reply.raise_for_status()
    document = reply.json()
    while document["status"] not in ("ready", "failed"):
        time.sleep(0.5)
        document = client.get(f"/v1/knowledge-bases/default/documents/{document['id']}").json()
    if document["status"] == "failed":
        raise DemoFailed(f"{path.name}: {document['error']['message']}")
    pages, chunks, seconds = document["page_count"], document["chunk_count"], time.monotonic() - begun
    _print_line(f"{path.name}: {pages} pages or slides, {chunks} chunks, searchable ({seconds:.1f} s).")


def _check_question(client: httpx2.Client, number: int, question: DemoQuestion) -> None:
    """Search with both search endpoints; check that both return the same passages and the expected words."""
    typer.echo("")
    for role, text in question.messages:
        typer.secho(f"  {role}: {text}", bold=True)
    snippets = client.post("/v1/agent-search", json=question.to_search_body()).raise_for_status().json()
    results = client.post("/v1/search", json=question.to_search_body()).raise_for_status().json()["results"]
    for snippet in snippets:
        typer.echo(textwrap.indent(textwrap.fill(" ".join(snippet.split()), 96, max_lines=4), "    > "))
    for result in results:
        location = f"page {result['page']}" if result["page"] else f"slide {result['slide']}"
        typer.echo(f"    from {result['document']['source']}, {location}")
    if [result["text"] for result in results] != snippets:
        raise DemoFailed(f"question {number}: agent-search and search return different passages")
    if not any(question.expected_text in " ".join(snippet.split()) for snippet in snippets):
        raise DemoFailed(f"question {number}: no passage contains {question.expected_text!r}")


def _print_line(text: str) -> None:
    typer.echo(text)
    sys.stdout.flush()

"""``make prove NAME=upgrade``: upgrade from an earlier commit while clients write, delete and search.

The service of the earlier commit runs on a temporary Postgres. While a changed ``metadata_filter`` waits for its
backfill, the proof migrates the schema under the running API. Then an API and a worker of this checkout start, and the
earlier worker stops. Every request must succeed, and every search must return ``top_k`` results. At the end, searches
must find every document with the value of the last filter. The exit code is 1 otherwise. ``--from`` names the earlier
commit. The default is the last commit that changed the baseline, so that all later migrations run on its data.
"""

import argparse
import asyncio
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.embedded_postgres.server import find_free_ports
from harness.processes import ROOT, build_environment, embedding_endpoint, exit_on_sigterm, wait_for_answer

OPERATOR_KEY = "operator" * 5
KB = "/v1/knowledge-bases/default"
# A change of the baseline's SQL changes this file. After the release of 0.1.0 the baseline does not change.
BASELINE_PINS = "migrations/pins/0001_baseline.sha256"
BASE_DOCUMENTS, NAMES_PER_WRITER, TOP_K = (
    60,
    40,
    5,
)  # documents that stay, external ids that each writer reuses, results of a search
PHASE_SECONDS, SETTLE_TIMEOUT_SECONDS = 4.0, 60.0
SEARCHES: Sequence[dict[str, Any]] = (
    {"query": "a heron that fishes at dawn", "explain": True},
    {"query": "heron", "strategy": "lexical", "filter": {"team": {"exists": True}}},
    {"query": " ".join(f"heron dawn {number}" for number in range(200)), "strategy": "hybrid"},
)


class StuckError(Exception):
    """A state was not reached before its timeout."""


@dataclass
class UpgradeClients:
    """Threads that write, delete and search until ``end``, with counts of their faults and replies."""

    key: str
    faults: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def create_client(self, url: str) -> httpx2.Client:
        return httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60)

    def begin(self, name: str, url: str) -> None:
        """Start one thread that writes and one that searches, both at one API."""
        for work in (self._write, self._search):
            thread = threading.Thread(target=self._run_loop, args=(name, url, work))
            thread.start()
            self._threads.append(thread)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run_loop(self, name: str, url: str, work: Callable[[str, httpx2.Client, int], None]) -> None:
        with self.create_client(url) as client:
            for number in count():
                if self._stop.wait(0.05):
                    return
                try:
                    work(name, client, number)
                except (httpx2.HTTPError, LookupError, ValueError) as exc:
                    self.faults[f"{name}: {exc!r}"] += 1

    def _write(self, name: str, client: httpx2.Client, number: int) -> None:
        text, of = f"A heron of {name} fishes at dawn, number {number}.", {"team": "mine", "number": number}
        body = {"text": text, "external_id": f"{name}-{number % NAMES_PER_WRITER}", "metadata": of}
        document = client.post(f"{KB}/documents", json=body).raise_for_status().json()
        self.answers[f"written at {name}"] += 1
        if number % 5 == 4:
            client.delete(f"{KB}/documents/{document['id']}").raise_for_status()
            self.answers[f"deleted at {name}"] += 1

    def _search(self, name: str, client: httpx2.Client, number: int) -> None:
        body = {"top_k": TOP_K, **SEARCHES[number % len(SEARCHES)]}
        result = client.post(f"{KB}/search", json=body).raise_for_status().json()
        self.answers[f"searched at {name}"] += 1
        if len(result["results"]) < TOP_K or result["warnings"]:
            self.faults[f"{name}: {len(result['results'])} results, {result['warnings']}"] += 1


@dataclass(frozen=True)
class RollingUpgrade:
    """Processes of two source trees on one database."""

    earlier_tree: Path
    earlier_python: Path
    folder: Path
    urls: DatabaseUrls
    embedding_url: str
    stack: ExitStack

    def run(self, tree: Path, *arguments: str) -> None:
        """Run a Carrel command of a source tree and wait for its end."""
        subprocess.run(self._build_command(tree, *arguments), cwd=tree, env=self._build_environment(tree), check=True)

    def start(self, tree: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a Carrel process of a source tree. The process ends with the proof at the latest."""
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                self._build_command(tree, *arguments),
                cwd=tree,
                env=self._build_environment(tree),
                stdout=log,
                stderr=log,
            )
        self.stack.callback(end_process, process)
        return process

    def serve(self, tree: Path) -> str:
        """Start an API of a source tree, wait until it is ready, and return its URL."""
        (port,) = islice(find_free_ports(), 1)
        url = f"http://127.0.0.1:{port}"
        process = self.start(tree, "serve", "--api-only", "--port", str(port))
        if not wait_for_answer(process, lambda: httpx2.get(f"{url}/readyz").is_success or None):
            raise StuckError(f"the API of {tree} did not start")
        return url

    def _build_command(self, tree: Path, *arguments: str) -> list[str]:
        python = str(self.earlier_python) if tree == self.earlier_tree else sys.executable
        return [python, "-m", "app.cli", *arguments]

    def _build_environment(self, tree: Path) -> dict[str, str]:
        return build_environment(self.embedding_url) | {
            "PYTHONPATH": str(tree),
            "CARREL_DATABASE_URL": self.urls.app,
            "CARREL_ADMIN_DATABASE_URL": self.urls.owner,
            "CARREL_DATA_DIR": str(self.folder / "service"),
            "CARREL_OPERATOR_KEY": OPERATOR_KEY,
        }


def end_process(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait()


def wait_until_settled(client: httpx2.Client) -> list[dict[str, Any]]:
    """Wait until all documents are ready and no metadata filter is pending; return the documents."""
    until = time.monotonic() + SETTLE_TIMEOUT_SECONDS
    while time.monotonic() < until:
        view = client.get(KB).raise_for_status().json()
        result, cursor = list[dict[str, Any]](), dict[str, str]()
        while True:
            page = client.get(f"{KB}/documents", params={"limit": 200, **cursor}).raise_for_status().json()
            result += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        if view["pending_metadata_filter"] is None and all(item["status"] == "ready" for item in result):
            return result
        time.sleep(0.1)
    raise StuckError(f"{Counter(item['status'] for item in result)}, filter {view['pending_metadata_filter']}")


def change_metadata_filter(client: httpx2.Client, team: str, *, wait: bool = True) -> None:
    """Change the ``metadata_filter``. With ``wait``, wait until all documents have the new value."""
    client.patch(KB, json={"metadata_filter": {"team": team}}).raise_for_status()
    until = time.monotonic() + SETTLE_TIMEOUT_SECONDS
    while wait and client.get(KB).json()["pending_metadata_filter"] is not None:
        if time.monotonic() > until:
            raise StuckError(f"the metadata filter {team!r} is still pending after {SETTLE_TIMEOUT_SECONDS} s")
        time.sleep(0.1)


def run_upgrade(run: RollingUpgrade) -> tuple[UpgradeClients, httpx2.Client]:
    """Run the upgrade; return the stopped client threads and a client of the new API."""
    run.run(run.earlier_tree, "migrate")
    old = run.serve(run.earlier_tree)
    worker = run.start(run.earlier_tree, "worker")
    operator = {"Authorization": f"Bearer {OPERATOR_KEY}"}
    tenant = httpx2.post(f"{old}/v1/tenants", headers=operator, json={"name": "acme"}).raise_for_status().json()
    clients = UpgradeClients(tenant["api_key"]["key"])
    run.stack.callback(clients.end)
    at_old = run.stack.enter_context(clients.create_client(old))
    change_metadata_filter(at_old, "first")
    for number in range(BASE_DOCUMENTS):
        body = {"text": f"A heron fishes at dawn in the lake of number {number}.", "external_id": f"base-{number}"}
        at_old.post(f"{KB}/documents", json=body).raise_for_status()
    wait_until_settled(at_old)
    clients.begin("the earlier API", old)
    time.sleep(PHASE_SECONDS)
    end_process(worker)
    change_metadata_filter(at_old, "waits", wait=False)
    run.run(ROOT, "migrate")
    worker = run.start(run.earlier_tree, "worker")
    time.sleep(PHASE_SECONDS)
    new = run.serve(ROOT)
    clients.begin("the new API", new)
    at_new = run.stack.enter_context(clients.create_client(new))
    run.start(ROOT, "worker")
    time.sleep(PHASE_SECONDS)
    end_process(worker)
    for client, team in ((at_old, "by the earlier"), (at_new, "last")):
        change_metadata_filter(client, team)
        time.sleep(PHASE_SECONDS)
    clients.end()
    return clients, at_new


def find_leftovers(client: httpx2.Client, superuser_url: str) -> Iterator[str]:
    """Yield the faults of the final state: wrong filter values, missing documents, dead jobs, wrong rows."""
    documents = wait_until_settled(client)
    teams = Counter(item["metadata"].get("team") for item in documents)
    if set(teams) != {"last"}:
        yield f"documents by the filter's value: {dict(teams)}"
    result = client.post(f"{KB}/search", json={"query": "heron", "top_k": 500}).raise_for_status().json()
    missing = {item["id"] for item in documents} ^ {item["document"]["id"] for item in result["results"]}
    if missing:
        yield f"{len(missing)} of {len(documents)} documents are missing from the search or the list"
    yield from asyncio.run(_find_wrong_rows(superuser_url))
    print(f"{len(documents)} documents at the end")


async def _find_wrong_rows(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        dead = await connection.fetch("select kind, error from job where state = 'dead'")
        retrievers = await connection.fetch(
            "select 'dense' as lane, count(*) from chunk_embedding where metadata->>'team' <> 'last' union all"
            " select 'lexical', count(*) from chunk_lexical where metadata->>'team' <> 'last'"
        )
    finally:
        await connection.close()
    reported = [f"dead: {row['kind']}, {row['error']}" for row in dead]
    return reported + [
        f"{row['lane']}: {row['count']} rows with another filter value" for row in retrievers if row["count"]
    ]


@contextmanager
def checked_out_tree(revision: str | None, folder: Path) -> Iterator[Path]:
    """Check out an earlier commit in a temporary worktree and yield its folder.

    A history without the commit of the baseline raises StuckError.
    """

    def run_git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    revision = revision or run_git("log", "-1", "--format=%H", "--", BASELINE_PINS)
    if not revision:
        raise StuckError("the Git history has no commit that created the baseline; fetch the whole history")
    print(f"from {run_git('log', '-1', '--format=%h %s', revision)}", flush=True)
    tree = folder / "earlier"
    run_git("worktree", "add", "--detach", str(tree), revision)
    try:
        (tree / "models").symlink_to(ROOT / "models")
        yield tree
    finally:
        run_git("worktree", "remove", "--force", str(tree))


def create_environment(folder: Path, tree: Path) -> Path:
    """Create a Python environment that imports a source tree, and return its interpreter.

    Processes that parse files start Python isolated, so they ignore ``PYTHONPATH``. With the environment of this
    checkout, they would run the new parsers for the earlier worker.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    packages = [f"import site; site.addsitedir({sysconfig.get_path(kind)!r})" for kind in ("purelib", "platlib")]
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "earlier.pth").write_text("\n".join([str(tree), *packages]))
    return folder / "bin" / "python"


def main(arguments: Sequence[str]) -> int:
    """Run the upgrade and print the counts of replies and the faults."""
    parser = argparse.ArgumentParser(prog="make prove NAME=upgrade", description=__doc__)
    parser.add_argument("--from", dest="revision", metavar="COMMIT", help="the earlier commit")
    provided = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="carrel-upgrade-")))
        folder.chmod(0o711)  # under root, Postgres runs as another user, who must be able to enter this directory
        earlier = stack.enter_context(checked_out_tree(provided.revision, folder))
        endpoint = stack.enter_context(embedding_endpoint())
        postgres = stack.enter_context(EmbeddedPostgres(folder / "data", fsync=False))
        (folder / "service").mkdir()
        python = create_environment(folder / "python", earlier)
        run = RollingUpgrade(earlier, python, folder, postgres.ensure_database("upgrade"), endpoint, stack)
        clients, at_new = run_upgrade(run)
        faults = [f"{reported} ({times} times)" for reported, times in clients.faults.items()]
        faults += find_leftovers(at_new, postgres.build_url("upgrade"))
        print(", ".join(f"{times} {reported}" for reported, times in sorted(clients.answers.items())))
    print("\n".join(faults) or "no faults")
    return int(bool(faults))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))

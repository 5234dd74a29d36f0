"""Recovery after a killed owner or server: remains and the next start."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from app.embedded_postgres import ClusterUnusable, EmbeddedPostgres
from app.embedded_postgres.binaries import find_binaries
from tests.embedded_postgres.conftest import server_account
from tests.embedded_postgres.owners import HANG_SECONDS, owner, wait_until_ended


async def run(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


@contextmanager
def process_of_the_servers_user(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    account = server_account()
    change = os.geteuid() == 0
    with subprocess.Popen(
        command,
        cwd="/",
        stderr=subprocess.DEVNULL,
        user=account.uid if change else None,
        group=account.gid if change else None,
        extra_groups=[] if change else None,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def kill_server(server: EmbeddedPostgres) -> Path:
    """Kill Postgres, release the data directory, and return the pid file that remains."""
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    stale = server.directory / "pgdata" / "postmaster.pid"
    assert stale.exists()
    return stale


async def test_postgres_ends_with_killed_owner_and_rows_survive(stopped_cluster: Path) -> None:
    with owner(stopped_cluster) as first:
        url = first.told["urls"][0]
        await run(url, "create table kept as select 'committed' as word")
        open_transaction = await asyncpg.connect(url)
        await open_transaction.execute("begin; insert into kept values ('not committed')")
        # Stopped by a signal, its server still runs when the next owner starts.
        os.kill(first.told["pid"], signal.SIGSTOP)
        first.process.kill()
        first.process.wait(HANG_SECONDS)
        threading.Timer(0.5, os.kill, (first.told["pid"], signal.SIGCONT)).start()
        with EmbeddedPostgres(stopped_cluster, fsync=False) as second:
            wait_until_ended(first.told["pid"])
            assert await run(second.ensure_database().owner, "select * from kept") == [("committed",)]
            await run(second.ensure_database().owner, "drop table kept")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError)):
            await open_transaction.fetch("select 1")
        open_transaction.terminate()


async def test_killed_postgres_recovers(stopped_cluster: Path) -> None:
    # With fsync, as in production: without it a commit is durable only a moment later.
    with EmbeddedPostgres(stopped_cluster) as server:
        await run(server.build_url("carrel"), "create table kept as select 1 as number")
        kill_server(server)
        assert not server.is_running
        server.start()
        assert await run(server.build_url("carrel"), "select * from kept") == [(1,)]
        await run(server.build_url("carrel"), "drop table kept")


def test_stale_pid_file_with_reused_pid_is_ignored(server: EmbeddedPostgres) -> None:
    stale = kill_server(server)
    with process_of_the_servers_user("/bin/sleep", str(HANG_SECONDS)) as other:
        stale.write_text("\n".join([str(other.pid), *stale.read_text().splitlines()[1:]]) + "\n")
        server.start()
        assert other.poll() is None
    assert server.is_running


def test_foreign_postgres_in_directory_is_left_running(server: EmbeddedPostgres) -> None:
    pgdata = server.directory / "pgdata"
    server.stop()
    postgres = find_binaries().get_program_path("postgres")
    command = [
        str(postgres),
        "-D",
        str(pgdata),
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={pgdata.parent}/run",
    ]
    with process_of_the_servers_user(*command) as other:
        pid_file = pgdata / "postmaster.pid"
        while "ready" not in (pid_file.read_text() if pid_file.exists() else ""):
            assert other.poll() is None
        before = pid_file.read_text()
        with pytest.raises(ClusterUnusable, match=str(other.pid)):
            server.start()
        assert other.poll() is None
        assert pid_file.read_text() == before


async def test_postgres_starts_inside_running_event_loop(stopped_cluster: Path) -> None:
    assert asyncio.get_running_loop().is_running()
    with EmbeddedPostgres(stopped_cluster, fsync=False) as server:
        assert await run(server.ensure_database().app, "select 1") == [(1,)]

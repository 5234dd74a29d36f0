"""Start, stop and description of the server of a data directory."""

import os
import re
import stat
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from app.embedded_postgres import (
    ClusterUnusable,
    DataDirectoryInUse,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    PortInUse,
    PostgresFailed,
)
from app.embedded_postgres.binaries import find_binaries
from tests.embedded_postgres.conftest import server_account
from tests.embedded_postgres.owners import alive, owner


def mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def test_first_start_creates_closed_cluster(directory: Path) -> None:
    parents = {path: path.stat().st_mode for path in (directory, *directory.parents)}
    data_dir = directory / "a 'b', c ü" / "data"
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.directory == data_dir / "postgres"
        assert not server.is_relocated
        assert await fetch(server.build_url("postgres"), "select current_user::text") == [("postgres",)]
        ((version, sockets, listens, checksums),) = await fetch(
            server.build_url("postgres"),
            "select current_setting('server_version_num')::int / 10000, current_setting('unix_socket_directories'),"
            " current_setting('listen_addresses'), current_setting('data_checksums')",
        )
        assert (version, listens, checksums) == (18, "127.0.0.1", "on")
        assert str(sockets).strip('"') == str(server.directory / "run")
        assert mode(server.directory / "run" / f".s.PGSQL.{server.port}") == "srwx------"
    assert {path: path.stat().st_mode for path in parents} == parents
    modes = {path.name: mode(path) for path in server.directory.iterdir()}
    assert modes == {
        "owner.lock": "-rw-------",
        "server.lock": "-rw-------",
        "password": "-rw-------",
        "postgres.log": "-rw-------",
        "pgdata": "drwx------",
        "run": "drwx------",
    }
    account = server_account().uid
    assert {(server.directory / name).stat().st_uid for name in ("pgdata", "run")} == {account}
    assert {(server.directory / name).stat().st_uid for name in ("password", "owner.lock")} == {os.geteuid()}


async def test_cluster_requires_password(server: EmbeddedPostgres) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(server.build_url("postgres", "postgres", "guess"))
    psql = find_binaries().get_program_path("psql")
    through_the_socket = subprocess.run(
        [psql, "-w", "-h", server.directory / "run", "-p", str(server.port), "-U", "postgres", "-c", "select 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert through_the_socket.returncode
    assert "no password supplied" in through_the_socket.stderr


def test_server_has_own_session_and_clean_environment(stopped_cluster: Path) -> None:
    with owner(stopped_cluster) as running:
        pid = running.told["pid"]
        assert os.getsid(pid) == pid
        assert Path(f"/proc/{pid}").stat().st_uid == server_account().uid
        assert b"CARREL_" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert not alive(pid)


async def test_roles_have_minimal_rights(server: EmbeddedPostgres) -> None:
    urls = server.ensure_database()
    assert server.ensure_database() == urls
    attributes = await fetch(
        server.build_url("carrel"),
        "select rolname::text, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication"
        " from pg_roles where rolname like 'carrel%' order by 1",
    )
    assert attributes == [
        ("carrel_owner", True, False, True, False, False, False),
        ("carrel_runtime", True, False, False, False, False, False),
    ]
    owned = "select pg_get_userbyid(datdba)::text from pg_database where datname = current_database()"
    assert await fetch(urls.app, owned) == [("carrel_owner",)]
    assert await fetch(urls.owner, "create table mine (v vector(3))") == []
    assert await fetch(urls.owner, "drop table mine") == []
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await fetch(urls.app, "create table mine (v vector(3))")
    for name in ("carrel_owner.password", "carrel_runtime.password"):
        assert mode(server.directory / name) == "-rw-------"


async def test_database_url_escapes_any_name(server: EmbeddedPostgres) -> None:
    name = """odd "name"/with 'quotes' = ü?"""
    urls = server.ensure_database(name)
    for url in (urls.owner, urls.app):
        assert await fetch(url, "select current_database()::text, count(*)::int from pg_extension") == [(name, 2)]
    assert (
        urlsplit(server.build_url(name, "a user", "p@ss/word")).netloc
        == f"a%20user:p%40ss%2Fword@127.0.0.1:{server.port}"
    )


def test_second_owner_is_refused_with_reason(server: EmbeddedPostgres, stopped_cluster: Path) -> None:
    with owner(stopped_cluster) as second:
        assert second.told["code"] == "data_directory_in_use"
        assert re.fullmatch(f"the data directory {stopped_cluster} is in use .*{os.getpid()}.*", second.told["message"])
    with pytest.raises(DataDirectoryInUse):
        EmbeddedPostgres(stopped_cluster).start()
    assert server.is_running


def test_stopped_server_reports_state(stopped_cluster: Path) -> None:
    server = EmbeddedPostgres(stopped_cluster, fsync=False)
    for ask in (lambda: server.directory, lambda: server.port, lambda: server.build_url("x"), server.ensure_database):
        with pytest.raises(EmbeddedPostgresError):
            ask()
    server.stop()
    server.start()
    pid = server.pid
    server.start()
    assert server.pid == pid
    server.stop()
    server.stop()
    assert not server.is_running
    assert not alive(pid)
    with pytest.raises(EmbeddedPostgresError):
        server.build_url("postgres")


def test_start_from_thread_is_refused(stopped_cluster: Path) -> None:
    refused: list[str] = []

    def start() -> None:
        try:
            EmbeddedPostgres(stopped_cluster).start()
        except EmbeddedPostgresError as error:
            refused.append(error.message)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert refused == ["the embedded Postgres was not started from the main thread"]


def test_configured_port_is_used_or_refused(server: EmbeddedPostgres, directory: Path) -> None:
    with pytest.raises(PortInUse, match=str(server.port)):
        EmbeddedPostgres(directory / "data", fsync=False, port=server.port).start()
    port = server.port
    server.stop()
    with EmbeddedPostgres(server.data_dir, fsync=False, port=port) as chosen:
        assert chosen.port == port


def test_failed_start_names_log_and_releases_directory(stopped_cluster: Path) -> None:
    broken = EmbeddedPostgres(stopped_cluster, settings={"shared_buffers": "no number"})
    with pytest.raises(PostgresFailed, match=re.escape(str(stopped_cluster / "postgres" / "postgres.log"))):
        broken.start()
    assert "no number" in broken.log_path.read_text()
    with EmbeddedPostgres(stopped_cluster, fsync=False) as server:
        assert server.is_running


def test_data_directory_that_is_a_file_is_refused(directory: Path) -> None:
    (directory / "file").write_text("not a directory")
    with pytest.raises(EmbeddedPostgresError, match=r"\A[^\n]*file[^\n]*\Z"):
        EmbeddedPostgres(directory / "file").start()


def test_readable_socket_directory_is_refused(stopped_cluster: Path) -> None:
    sockets = stopped_cluster / "postgres" / "run"
    sockets.chmod(0o755)
    with pytest.raises(ClusterUnusable, match="mode 0700"):
        EmbeddedPostgres(stopped_cluster).start()
    sockets.chmod(0o700)


def test_long_path_uses_temporary_socket_directory(copied_cluster: Path) -> None:
    data_dir = copied_cluster.with_name("a-rather-long-name" * 6)
    copied_cluster.rename(data_dir)
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.directory == data_dir / "postgres"
        sockets = (server.directory / "pgdata" / "postmaster.pid").read_text().splitlines()[4]
        assert Path(sockets).parent == Path(tempfile.gettempdir())
        assert mode(Path(sockets)) == "drwx------"
        assert len(sockets) < 80
    Path(sockets).rmdir()

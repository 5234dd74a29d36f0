"""The system user that runs Postgres: the service's user, or an unprivileged user if the service runs as root."""

import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from app.embedded_postgres.errors import ClusterUnusable, EmbeddedPostgresError

DEDICATED_IDS = (1_899_999_999, 61_183)
"""Uids and gids without an account.

The first is just below those of sandboxed processes. The second exists in user namespaces of 65,536 ids.
"""

FALLBACK_USERS = ("postgres", "nobody")
"""Users with which earlier versions ran Postgres. They may run other programs too."""

NO_USER_MESSAGE = "Postgres refuses to run as root, and there is no user to run it: create a user 'postgres'"
_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True, slots=True)
class Account:
    """The user that owns the processes and files of Postgres.

    ``is_foreign`` is true if this user is not the user of the service.
    """

    name: str
    uid: int
    gid: int
    is_foreign: bool

    @classmethod
    def choose(cls, clusters: Iterable[Path]) -> Self:
        """Choose the user of Postgres: the owner of the first existing cluster, or a user for a new cluster.

        If the service runs as root, the ids of ``DEDICATED_IDS`` come first for a new cluster.

        Args:
            clusters: Directories in which a cluster may exist.

        Raises:
            ClusterUnusable: A cluster belongs to a user that this process cannot become.
            EmbeddedPostgresError: The service runs as root and finds no unprivileged user.
        """
        candidates = cls._list_candidates()
        for cluster in clusters:
            if cluster.exists():
                uid = cluster.stat().st_uid
                for account in candidates:
                    if account.uid == uid:
                        return account
                raise ClusterUnusable(
                    f"the database in {cluster} belongs to user {_get_user_name(uid)}: start Carrel as that user"
                )
        if not candidates:
            raise EmbeddedPostgresError(NO_USER_MESSAGE)
        return candidates[0]

    @classmethod
    def _list_candidates(cls) -> list[Self]:
        if os.geteuid() != 0:
            return [cls(name=_get_user_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), is_foreign=False)]
        dedicated = [
            cls(name=str(number), uid=number, gid=number, is_foreign=True)
            for number in DEDICATED_IDS
            if _is_unused_id(number)
        ]
        return [*dedicated, *cls._list_named_users()]

    @classmethod
    def _list_named_users(cls) -> list[Self]:
        accounts = []
        for name in FALLBACK_USERS:
            with suppress(KeyError):
                user = pwd.getpwnam(name)
                accounts.append(cls(name=name, uid=user.pw_uid, gid=user.pw_gid, is_foreign=True))
        return accounts

    def choose_initdb_account(self) -> Self:
        """Return the user that runs initdb: a user with a name, which initdb needs, and with the group of this user.

        Raises EmbeddedPostgresError.
        """
        if not self.is_foreign or self.is_shared:
            return self
        for account in self._list_named_users():
            return replace(account, gid=self.gid)
        raise EmbeddedPostgresError(NO_USER_MESSAGE)

    def choose_successor(self) -> Self:
        """Return the user that should own this user's cluster: a dedicated user if other programs may run with this
        user.
        """
        return self._list_candidates()[0] if self.is_shared else self

    @property
    def is_shared(self) -> bool:
        """Whether other programs may run with this user. It is false for the user of the service."""
        return self.is_foreign and self.uid not in DEDICATED_IDS

    @property
    def directory_mode(self) -> int:
        """Mode of the directories above the cluster. A foreign user may enter them, but not list them."""
        return 0o711 if self.is_foreign else 0o700

    def build_command(self, program: Path | str, *arguments: str) -> list[str]:
        """Return the command line that runs a program with this user. The program ends when this process dies.

        Args:
            program: The program.
            arguments: Its arguments.
        """
        ids = [str(self.uid), str(self.gid)] if self.is_foreign else ["-", "-"]
        # -I -S: before the user changes, the interpreter ignores the environment and the packages of the service.
        return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *ids, str(program), *arguments]

    def find_unreachable_path(self, paths: Iterable[Path]) -> Path | None:
        """Return the first path that this user cannot enter (directory) or read (file), or None.

        A child process with this user tests the paths, so the kernel decides.

        Args:
            paths: Directories and files.

        Raises:
            EmbeddedPostgresError: This process cannot become the user.
        """
        if not self.is_foreign:
            return None
        command = self.build_command("--reach", *(str(path) for path in paths))
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", check=False)  # noqa: S603
        if result.returncode and not result.stdout:
            reason = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
            raise EmbeddedPostgresError(f"cannot change to user {self.name}: {reason}")
        return Path(result.stdout) if result.stdout else None

    def take_ownership(self, path: Path) -> None:
        """Give a file or directory to this user. The target of a link does not change."""
        if self.is_foreign:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def _get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_unused_id(number: int) -> bool:
    """Return whether no account and no group has this id, and this process can switch to a user with this id."""
    with suppress(KeyError):
        pwd.getpwuid(number)
        return False
    with suppress(KeyError):
        grp.getgrgid(number)
        return False
    return all(_is_mapped(number, Path("/proc/self") / name) for name in ("uid_map", "gid_map"))


def _is_mapped(number: int, user_namespace: Path) -> bool:
    try:
        lines = user_namespace.read_text(encoding="ascii").splitlines()
    except OSError:  # a platform without user namespaces
        return True
    ranges = [tuple(int(field) for field in line.split()) for line in lines]
    return any(first <= number < first + length for first, _, length in ranges)

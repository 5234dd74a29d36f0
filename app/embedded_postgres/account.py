"""Which system user Postgres runs as: oneself, or as root an unprivileged user that runs nothing else."""

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
"""Uids and gids that no account has: just below those of sandboxed processes, and one for user namespaces of 65,536."""

FALLBACK_USERS = ("postgres", "nobody")
"""Users that earlier versions ran Postgres as. They may run other programs too."""

NO_USER_MESSAGE = "Postgres refuses to run as root, and there is no user 'postgres' or 'nobody'"
_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True, slots=True)
class Account:
    """The user that Postgres' processes and files belong to; ``is_foreign`` where it is not the service's own."""

    name: str
    uid: int
    gid: int
    is_foreign: bool

    @classmethod
    def choose(cls, clusters: Iterable[Path]) -> Self:
        """The user for the first of ``clusters`` that exists, or for a new one. As root an own uid comes first.

        Raises ClusterUnusable where a cluster belongs to a user that this process cannot run Postgres as, and
        EmbeddedPostgresError where root finds no unprivileged user.
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
        """A user that has a name, which initdb insists on, with this user's group. Raises EmbeddedPostgresError."""
        if not self.is_foreign or self.is_shared:
            return self
        for account in self._list_named_users():
            return replace(account, gid=self.gid)
        raise EmbeddedPostgresError(NO_USER_MESSAGE)

    def choose_successor(self) -> Self:
        """The user that a cluster of this one should be given to; often itself."""
        return self._list_candidates()[0] if self.is_shared else self

    @property
    def is_shared(self) -> bool:
        """Whether other programs may run as this user, which is not the service's own."""
        return self.is_foreign and self.uid not in DEDICATED_IDS

    @property
    def directory_mode(self) -> int:
        """The mode of directories on the way to the cluster: a foreign user may pass, but not look around."""
        return 0o711 if self.is_foreign else 0o700

    def build_command(self, program: Path | str, *arguments: str) -> list[str]:
        """The command line that runs ``program`` as this user and ends it when this process dies."""
        ids = [str(self.uid), str(self.gid)] if self.is_foreign else ["-", "-"]
        # -I -S: neither the service's environment nor its packages have a say in what runs before the user changes.
        return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *ids, str(program), *arguments]

    def find_unreachable_path(self, paths: Iterable[Path]) -> Path | None:
        """The first of ``paths`` that this user cannot enter (directory) or read (file), asked of the kernel."""
        if not self.is_foreign:
            return None
        command = self.build_command("--reach", *(str(path) for path in paths))
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", check=False)  # noqa: S603
        if result.returncode and not result.stdout:
            reason = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
            raise EmbeddedPostgresError(f"cannot change to user {self.name}: {reason}")
        return Path(result.stdout) if result.stdout else None

    def take_ownership(self, path: Path) -> None:
        """Give ``path`` itself (never what a link points to) to this user."""
        if self.is_foreign:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def _get_user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_unused_id(number: int) -> bool:
    """Whether no account and no group has this number, and this process can become a user with it."""
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

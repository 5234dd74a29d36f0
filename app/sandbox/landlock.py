"""Landlock: a Linux feature by which an unprivileged process limits its own access to files, TCP and signals."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from app.sandbox.kernel import syscall

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY, _TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_REMOVE_FILE, _MAKE_SOCKET = 1 << 5, 1 << 9
_RIGHTS_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_FILE_RIGHT_COUNTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file access rights by version of Landlock; version 5 and later have 16."""

_ALL_NETWORK, _ALL_SCOPES = 0b11, 0b11
_NETWORK_SINCE, _SCOPES_SINCE = 4, 6


def find_version() -> int:
    """Return the version of Landlock that this kernel supports; 0 if it supports none."""
    try:
        return syscall(_CREATE_RULESET, 0, 0, _VERSION)
    except OSError:
        return 0


class Ruleset:
    """Set of Landlock rules, which is enforced after it is complete.

    Adding a path needs rights on that path. The process may have lost these rights when it enforces the rules.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        files = self._all_rights = (1 << _FILE_RIGHT_COUNTS.get(version, 16)) - 1
        network = _ALL_NETWORK if version >= _NETWORK_SINCE else 0
        scopes = _ALL_SCOPES if version >= _SCOPES_SINCE else 0
        size = 8 if version < _NETWORK_SINCE else 16 if version < _SCOPES_SINCE else 24
        attributes = ctypes.create_string_buffer(struct.pack("QQQ", files, network, scopes)[:size], size)
        self._descriptor = syscall(_CREATE_RULESET, attributes, size, 0)

    def allow_reading(self, paths: Iterable[Path]) -> None:
        """Allow reading files, and all files below directories; skip paths that do not exist."""
        self._allow_paths(paths, _READ_FILE | _READ_DIRECTORY)

    def allow_executing(self, paths: Iterable[Path]) -> None:
        """Allow reading and executing files, and all files below directories; skip paths that do not exist."""
        self._allow_paths(paths, _EXECUTE | _READ_FILE | _READ_DIRECTORY)

    def allow_writing(self, paths: Iterable[Path]) -> None:
        """Allow everything except execution below directories; skip paths that do not exist."""
        self._allow_paths(paths, self._all_rights & ~_EXECUTE)

    def allow_local_sockets(self, paths: Iterable[Path]) -> None:
        """Allow creating and removing local sockets in directories; skip paths that do not exist."""
        self._allow_paths(paths, _MAKE_SOCKET | _REMOVE_FILE)

    def _allow_paths(self, paths: Iterable[Path], rights: int) -> None:
        for path in paths:
            with suppress(OSError):
                self._allow_path(path, rights)

    def _allow_path(self, path: Path, rights: int) -> None:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            rights &= self._all_rights if is_directory else self._all_rights & _RIGHTS_OF_FILES
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor), 12)
            syscall(_ADD_RULE, self._descriptor, _PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)

    def enforce(self) -> None:
        """Restrict this thread, and the threads and processes that it starts, permanently. Raises OSError."""
        try:
            syscall(_RESTRICT_SELF, self._descriptor, 0)
        finally:
            os.close(self._descriptor)

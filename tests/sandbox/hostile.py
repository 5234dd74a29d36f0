"""Parser that does what an exploit of a real one would try; the file's text is the attempt and its arguments.

It uses the C library and raw system calls where Python itself refuses. The answer is the outcome:
``done`` with a result, or the name of the error. An attempt that ends the process has no answer.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from carrel.plugins.parsers import Block, BlockKind, ParsedDocument, ParseOptions

supported_media_types = ["test/hostile"]
supported_extensions = ["hostile"]

_LIBC = ctypes.CDLL(None, use_errno=True)
_X86_64 = {"ptrace": 101, "process_vm_readv": 310, "memfd_create": 319, "execveat": 322, "io_uring_setup": 425,
           "personality": 135, "unshare": 272, "clone": 56, "keyctl": 250, "bpf": 321, "userfaultfd": 323,
           "perf_event_open": 298, "open_by_handle_at": 304, "mount": 165, "chroot": 161, "pidfd_open": 434,
           "pidfd_getfd": 438, "openat2": 437, "shmget": 29, "capset": 126, "inotify_init1": 294,
           "fchmodat2": 452, "tgkill": 234, "seccomp": 317}  # fmt: skip
_AARCH64 = {"ptrace": 117, "process_vm_readv": 270, "memfd_create": 279, "execveat": 281, "io_uring_setup": 425,
            "personality": 92, "unshare": 97, "clone": 220, "keyctl": 219, "bpf": 280, "userfaultfd": 282,
            "perf_event_open": 241, "open_by_handle_at": 265, "mount": 40, "chroot": 51, "pidfd_open": 434,
            "pidfd_getfd": 438, "openat2": 437, "shmget": 194, "capset": 91, "inotify_init1": 26,
            "fchmodat2": 452, "tgkill": 131, "seccomp": 277}  # fmt: skip
_NUMBERS = _X86_64 if os.uname().machine == "x86_64" else _AARCH64


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    del options
    name, *arguments = path.read_text().split()
    try:
        text = f"done {_ATTEMPTS[name](*arguments)}"
    except OSError as exc:
        text = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
    except Exception as exc:
        text = type(exc).__name__
    return ParsedDocument([Block(BlockKind.PARAGRAPH, text)])


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def _call(name: str, *arguments: object) -> int:
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    _LIBC.syscall.restype = ctypes.c_long
    return _checked(_LIBC.syscall(ctypes.c_long(_NUMBERS[name]), *values))


def read(path: str) -> str:
    parent, own = str(os.getppid()), str(os.getpid())
    return (
        Path(path.replace("PARENT", parent).replace("SELF", own))
        .read_bytes()[:60]
        .decode(errors="replace")
        .replace("\0", " ")
    )


def listing(path: str) -> str:
    return " ".join(sorted(os.listdir(path))[:5])  # noqa: PTH208


def connect(port: str) -> str:
    """Connect through the C library: the audit hook already refuses Python's own socket."""
    descriptor = _checked(_LIBC.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
    address = socket.AF_INET.to_bytes(2, "little") + int(port).to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    _checked(_LIBC.connect(descriptor, address, 16))
    _LIBC.write(descriptor, b"hello", 5)
    return "connected"


def open_socket(family: str, kind: str) -> int:
    return _checked(_LIBC.socket(int(family), int(kind), 0))


def abstract(name: str) -> str:
    descriptor = _checked(_LIBC.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0))
    address = socket.AF_UNIX.to_bytes(2, "little") + b"\0" + name.encode()
    _checked(_LIBC.connect(descriptor, address, len(address)))
    return "connected"


def fork_exec(target: str = "") -> str:
    """Call the function below ``subprocess``, which raises no audit event."""
    import _posixsubprocess

    start: Any = _posixsubprocess.fork_exec
    reading, writing = os.pipe()
    pid: int = start(
        [b"/bin/sh", b"-c", f"echo ran; test -n '{target}' && : > {target}".encode()], [b"/bin/sh"], True, (writing,),
        None, None, -1, -1, -1, -1, -1, -1, reading, writing, True, True, -1, None, None, None, -1, None, True,
    )  # fmt: skip
    os.waitpid(pid, 0)
    return "ran"


def fork() -> str:
    """Leave a process behind that has a separate session."""
    pid = _checked(_LIBC.fork())
    if pid == 0:
        _LIBC.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        while True:
            _LIBC.sleep(3600)
    return str(pid)


def read_memory() -> str:
    """Read the service's memory with ``process_vm_readv``."""
    try:
        address = int(Path(f"/proc/{os.getppid()}/maps").read_text().partition("-")[0], 16)
    except OSError:
        address = 0x400000
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_size_t * 2)(address, 16)
    return f"{_call('process_vm_readv', os.getppid(), local, 1, remote, 1, 0)} bytes"


def overwrite(path: str) -> str:
    """Change an existing file in place, which no limit of file size prevents."""
    descriptor = os.open(path, os.O_RDWR)
    with mmap.mmap(descriptor, 4) as memory:
        memory[:4] = b"EVIL"
        memory.flush()
    return "changed"


def open_for_writing(path: str) -> str:
    descriptor = os.open(path, os.O_WRONLY)
    os.close(descriptor)
    return "opened"


def create(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return "created"


def signal_parent(number: str) -> str:
    os.kill(os.getppid(), int(number))
    return "sent"


def who() -> str:
    status = Path("/proc/self/status").read_text().splitlines()
    kept = ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "CapAmb")
    words = {line.partition(":")[0]: line.split()[1:2] for line in status if line.startswith(kept)}
    return " ".join(f"{name}={''.join(words.get(name, []))}" for name in kept)


def be_root() -> str:
    os.setresuid(0, 0, 0)
    return "root"


def raise_limit() -> str:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


def limit_parent() -> str:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (10_000, 10_000))
    return "limited"


def slow_parent() -> str:
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)
    return "slowed"


def memfd_exec() -> str:
    descriptor = _call("memfd_create", ctypes.c_char_p(b"x"), 0)
    empty = (ctypes.c_char_p * 1)(None)
    return str(_call("execveat", descriptor, ctypes.c_char_p(b""), empty, empty, 0x1000))


def execute(program: str) -> str:
    arguments = (ctypes.c_char_p * 2)(program.encode(), None)
    return str(_checked(_LIBC.execve(program.encode(), arguments, None)))


def attach() -> str:
    return str(_call("ptrace", 16, os.getppid(), 0, 0))


def raw(name: str, *arguments: str) -> str:
    return str(_call(name, *(os.getppid() if word == "PARENT" else int(word, 0) for word in arguments)))


def other_architecture() -> str:
    """Make a system call by the 32-bit interface of x86, whose numbers mean other calls."""
    code = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _checked(_LIBC.mprotect(ctypes.c_void_p(start), 4096, mmap.PROT_READ | mmap.PROT_EXEC))
    return str(ctypes.CFUNCTYPE(ctypes.c_int)(start)())


def other_numbers() -> str:
    """Make a system call by the numbers of the x32 interface."""
    return str(_checked(_LIBC.syscall(ctypes.c_long(0x40000000 | 39))))


def write_to_descriptors() -> str:
    """Return the kinds of the inherited descriptors that accept a byte."""
    taken = []
    for descriptor in range(64):
        try:
            kind = str(Path(f"/proc/self/fd/{descriptor}").readlink()).partition(":")[0]
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
            if kind != "pipe" and flags != os.O_RDONLY and os.write(descriptor, b"x"):
                taken.append(kind)
        except OSError:
            continue
    return " ".join(sorted(set(taken)))


def own_signals() -> str:
    """Let the kernel signal the service when input arrives."""
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())
    return "set"


def outlive() -> str:
    """Continue to run when the service dies."""
    return str(_checked(_LIBC.prctl(1, 0, 0, 0, 0)))


def change(what: str, path: str, other: str = "") -> str:
    actions: dict[str, Callable[[], object]] = {
        "unlink": lambda: os.unlink(path),  # noqa: PTH108
        "rename": lambda: os.rename(path, other),  # noqa: PTH104
        "mkdir": lambda: os.mkdir(other),  # noqa: PTH102
        "symlink": lambda: os.symlink(path, other),  # noqa: PTH211
        "link": lambda: os.link(path, other),
        "chmod": lambda: os.chmod(path, 0o777),  # noqa: PTH101
        "truncate": lambda: os.truncate(path, 0),
        "utime": lambda: os.utime(path, (1, 1)),
        "mkfifo": lambda: os.mkfifo(other),
        "chown": lambda: os.chown(path, 12345, 12345),
        "setxattr": lambda: os.setxattr(path, "user.x", b"1"),
    }
    actions[what]()
    return what


def thread() -> str:
    """Do what honest libraries need: threads, callbacks from C, a signal to the own process."""
    results: list[str] = []
    worker = threading.Thread(target=lambda: results.append("thread"))
    worker.start()
    worker.join()
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    _LIBC.qsort(numbers, 3, ctypes.sizeof(ctypes.c_int), compare(lambda a, b: a[0] - b[0]))
    signal.signal(signal.SIGUSR1, lambda *_: results.append("signal"))
    os.kill(os.getpid(), signal.SIGUSR1)
    return " ".join([*results, *map(str, numbers)])


_ATTEMPTS: dict[str, Callable[..., object]] = {
    function.__name__: function
    for function in (
        read, listing, connect, open_socket, abstract, fork_exec, fork, read_memory, overwrite, open_for_writing,
        create, signal_parent, who, be_root, raise_limit, limit_parent, slow_parent, memfd_exec, execute, attach, raw,
        other_architecture, other_numbers, write_to_descriptors, own_signals, outlive, change,
        thread,
    )
}  # fmt: skip

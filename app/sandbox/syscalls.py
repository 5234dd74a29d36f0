"""System call numbers of x86-64 and aarch64, grouped by the action of the filter.

Each entry is ``name=x86_64/aarch64``; ``-`` means that the architecture has no such call. The numbers are from the
kernel's ``asm/unistd_64.h`` and ``asm-generic/unistd.h``. The kernel never changes an assigned number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_ALLOWED = """
read=0/63 write=1/64 readv=19/65 writev=20/66 pread64=17/67 preadv=295/69 preadv2=327/286 pwrite64=18/68
pwritev=296/70 lseek=8/62 close=3/57 close_range=436/436 dup=32/23 dup2=33/- dup3=292/24 pipe=22/- pipe2=293/59
poll=7/- ppoll=271/73 select=23/- pselect6=270/72 fstat=5/80 stat=4/- lstat=6/- newfstatat=262/79 statx=332/291
access=21/- faccessat=269/48 faccessat2=439/439 readlink=89/- readlinkat=267/78 getcwd=79/17 getdents=78/-
getdents64=217/61 statfs=137/43 fstatfs=138/44 fadvise64=221/223 readahead=187/213 flock=73/32 recvfrom=45/207
recvmsg=47/212 mmap=9/222 mprotect=10/226 munmap=11/215 mremap=25/216 brk=12/214 madvise=28/233 mincore=27/232
membarrier=324/283 futex=202/98 set_robust_list=273/99 get_robust_list=274/100 set_tid_address=218/96 rseq=334/293
arch_prctl=158/- gettid=186/178 getpid=39/172 getppid=110/173 getpgrp=111/- getpgid=121/155 getsid=124/156
exit=60/93 exit_group=231/94 restart_syscall=219/128 wait4=61/260 waitid=247/95 sched_yield=24/124
sched_getaffinity=204/123 sched_getparam=143/121 sched_getscheduler=145/120 sched_get_priority_max=146/125
sched_get_priority_min=147/126 getcpu=309/168 getpriority=140/141 rt_sigaction=13/134 rt_sigprocmask=14/135
rt_sigreturn=15/139 rt_sigpending=127/136 rt_sigtimedwait=128/137 rt_sigsuspend=130/133 sigaltstack=131/132
pause=34/- clock_gettime=228/113 clock_getres=229/114 clock_nanosleep=230/115 nanosleep=35/101 gettimeofday=96/169
time=201/- times=100/153 getitimer=36/102 setitimer=38/103 alarm=37/- getuid=102/174 geteuid=107/175 getgid=104/176
getegid=108/177 getresuid=118/148 getresgid=120/150 getgroups=115/158 capget=125/90 sysinfo=99/179 uname=63/160
getrlimit=97/163 setrlimit=160/164 getrusage=98/165 getrandom=318/278 umask=95/166
"""

_CHECKED = """
open=2/- openat=257/56 clone=56/220 fcntl=72/25 ioctl=16/29 prctl=157/167
prlimit64=302/261 kill=62/129 tgkill=234/131 rt_sigqueueinfo=129/138 rt_tgsigqueueinfo=297/240
"""
"""Calls that are allowed only with certain arguments, which ``seccomp`` checks."""

_DENIED = """
socket=41/198 socketpair=53/199 connect=42/203 bind=49/200 listen=50/201 accept=43/202 accept4=288/242 sendto=44/206
sendmsg=46/211 sendmmsg=307/269 recvmmsg=299/243 shutdown=48/210 getsockname=51/204 getpeername=52/205
setsockopt=54/208 getsockopt=55/209 fork=57/- vfork=58/- execve=59/221 execveat=322/281 tkill=200/130
pidfd_open=434/434 pidfd_send_signal=424/424 memfd_create=319/279 memfd_secret=447/447 creat=85/- truncate=76/45
ftruncate=77/46 fallocate=285/47 sync=162/81 fsync=74/82 fdatasync=75/83 syncfs=306/267 unlink=87/- unlinkat=263/35
rename=82/- renameat=264/38 renameat2=316/276 mkdir=83/- mkdirat=258/34 rmdir=84/- link=86/- linkat=265/37
symlink=88/- symlinkat=266/36 mknod=133/- mknodat=259/33 chmod=90/- fchmod=91/52 fchmodat=268/53 fchmodat2=452/452
chown=92/- fchown=93/55 lchown=94/- fchownat=260/54 utime=132/- utimes=235/- utimensat=280/88 futimesat=261/-
setxattr=188/5 lsetxattr=189/6 fsetxattr=190/7 removexattr=197/14 lremovexattr=198/15 fremovexattr=199/16
setuid=105/146 setgid=106/144 setreuid=113/145 setregid=114/143 setresuid=117/147 setresgid=119/149 setfsuid=122/151
setfsgid=123/152 setgroups=116/159 capset=126/91 personality=135/92 setsid=112/157 setpgid=109/154
setpriority=141/140 ioprio_set=251/30 sched_setaffinity=203/122 sched_setparam=142/118 sched_setscheduler=144/119
sched_setattr=314/274 chdir=80/49 fchdir=81/50 shmget=29/194 shmat=30/196 shmctl=31/195 shmdt=67/197 msgget=68/186
msgsnd=69/189 msgrcv=70/188 msgctl=71/187 semget=64/190 semop=65/193 semtimedop=220/192 semctl=66/191
mq_open=240/180 mq_unlink=241/181 inotify_init=253/- inotify_init1=294/26 inotify_add_watch=254/27
fanotify_init=300/262 seccomp=317/277 landlock_create_ruleset=444/444 landlock_add_rule=445/445
landlock_restrict_self=446/446
"""
"""Calls that fail with EPERM: libraries may try them, and continue without them."""

_FATAL = """
ptrace=101/117 process_vm_readv=310/270 process_vm_writev=311/271 process_madvise=440/440 process_mrelease=448/448
kcmp=312/272 pidfd_getfd=438/438 keyctl=250/219 add_key=248/217 request_key=249/218 bpf=321/280
perf_event_open=298/241 userfaultfd=323/282 io_uring_setup=425/425 io_uring_enter=426/426 io_uring_register=427/427
mount=165/40 umount2=166/39 move_mount=429/429 fsopen=430/430 fsconfig=431/431 fsmount=432/432 fspick=433/433
open_tree=428/428 mount_setattr=442/442 pivot_root=155/41 chroot=161/51 unshare=272/97 setns=308/268
init_module=175/105 finit_module=313/273 delete_module=176/106 kexec_load=246/104 kexec_file_load=320/294
reboot=169/142 swapon=167/224 swapoff=168/225 open_by_handle_at=304/265 iopl=172/- ioperm=173/- modify_ldt=154/-
syslog=103/116 vhangup=153/58 acct=163/89 quotactl=179/60 quotactl_fd=443/443 settimeofday=164/170
clock_settime=227/112 clock_adjtime=305/266 adjtimex=159/171 sethostname=170/161 setdomainname=171/162
migrate_pages=256/238 move_pages=279/239
"""
"""Calls that kill the process: no library of a parser needs them, so only an exploit makes them."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """System call numbers of an instruction set.

    Attributes:
        name: Name of the architecture.
        audit_number: Number by which the kernel identifies the architecture in a filter.
        allowed_calls: Numbers of the allowed calls, by name.
        checked_calls: Numbers of the calls that are allowed with certain arguments, by name.
        denied_calls: Numbers of the calls that fail with EPERM, by name.
        fatal_calls: Numbers of the calls that kill the process, by name.
        seccomp_number: Number of the call that installs the filter.
    """

    name: str
    audit_number: int
    allowed_calls: Mapping[str, int]
    checked_calls: Mapping[str, int]
    denied_calls: Mapping[str, int]
    fatal_calls: Mapping[str, int]
    seccomp_number: int


def _parse_numbers(table: str, column: int) -> dict[str, int]:
    pairs = (entry.split("=") for entry in table.split())
    numbers = {name: columns.split("/")[column] for name, columns in pairs}
    return {name: int(number) for name, number in numbers.items() if number != "-"}


def _build_architecture(name: str, audit_number: int, column: int, *, seccomp_number: int) -> Architecture:
    allowed, checked, denied, fatal = (_parse_numbers(table, column) for table in (_ALLOWED, _CHECKED, _DENIED, _FATAL))
    return Architecture(name, audit_number, allowed, checked, denied, fatal, seccomp_number)


def find_architecture(machine: str) -> Architecture | None:
    """Return the architecture of a ``platform.machine()``, or None if the filter does not support it."""
    if machine == "x86_64":
        return _build_architecture("x86_64", 0xC000003E, 0, seccomp_number=317)
    if machine == "aarch64":
        return _build_architecture("aarch64", 0xC00000B7, 1, seccomp_number=277)
    return None

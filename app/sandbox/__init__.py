"""Sandboxed processes: programs that read untrusted files and can reach only the descriptors they receive.

The service starts a program by the name of its module and sends it lines of JSON with open file descriptors. It
validates every reply, because a hostile file may have taken over the program:

    process = await SandboxedProcess.start("app.transfer.archive_reader", {"memory_mb": 500})
    log(process.confinement)                       # the measures that this platform supports
    with path.open("rb") as file:
        await process.send(b'{"kind":"archive"}\\n', [file.fileno()])
    while (line := await process.read_line(max_bytes)) is not None: ...
    await process.kill()                           # always, at the end

The program's module imports its dependencies, opens a ``Channel`` and confines itself. Only then it reads requests:

    channel = Channel()                            # takes over standard input and output
    channel.confine(SandboxLimits(memory_mb=channel.setup["memory_mb"]))
    for request, descriptors in channel.iter_requests():
        with os.fdopen(descriptors[0], "rb", closefd=False) as file: ...
        channel.send({"done": True})

``start`` waits until the process is confined. The descriptors of a request are closed before the next request. A
program that reads from a descriptor needs no copy of the file. A program that must open its file by name receives the
descriptor of a ``create_sealed_copy`` and opens ``/proc/self/fd/N``. The sandbox has no time limit: the caller kills a
process that takes too long.
"""

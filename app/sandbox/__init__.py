"""Sandboxed processes: a program that reads hostile bytes, and can reach nothing but the descriptors that it is given.

The service starts a program by the name of its module, sends it lines of JSON with open descriptors, and believes
nothing that comes back:

    process = await SandboxedProcess.start("app.transfer.archive_reader", {"memory_mb": 500})
    log(process.confinement)                       # what this platform could put in force
    with path.open("rb") as file:
        await process.send(b'{"kind":"archive"}\\n', [file.fileno()])
    while (line := await process.line(limit)) is not None: ...
    await process.kill()                           # in any case, at the end

The program's module imports all that it needs, opens a ``Channel``, confines itself, and only then takes requests:

    channel = Channel()                            # takes standard input and output
    channel.confine(Limits(memory_mb=channel.setup["memory_mb"]))
    for request, descriptors in channel.requests():
        with os.fdopen(descriptors[0], "rb", closefd=False) as file: ...
        channel.send({"done": True})

A request's descriptors are closed before the next request. A program that must open its file by name gets a
``create_sealed_copy`` and opens ``/proc/self/fd/N``; one that reads from the descriptor needs no copy, whatever its
size. Time limits are the caller's: it kills a process that takes too long. ``start`` waits until the process is
confined.
"""

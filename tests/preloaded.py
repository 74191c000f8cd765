"""Python that has PyTorch imported already: a server forks itself for every program that a test runs.

Importing PyTorch takes seconds, and the pages of the documentation run dozens of commands.

    python preloaded.py SOCKET              the server
    python preloaded.py SOCKET -c CODE …    runs Python in it
    python preloaded.py SOCKET train …      runs `ctlpp train …` in it

The last two hand over their arguments, folder, environment and standard streams, and end as the program does.
"""

import json
import os
import signal
import socket
import sys
import types
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any


def ask(path: str, arguments: list[str]) -> int:
    """Have a program run by the server; its exit code."""
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection, TemporaryFile("w+") as file:
        json.dump(request, file)
        file.seek(0)
        connection.connect(path)
        socket.send_fds(connection, [b"."], [0, 1, 2, file.fileno()])
        return (connection.recv(1) or b"\1")[0]


def serve(path: str) -> dict[str, Any]:
    """Fork for every request. Only the children return: with the request."""
    import ctlpp.analysis.analysis
    import ctlpp.figures.run
    import ctlpp.training.train  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        while True:
            connection, _ = server.accept()
            if os.fork():
                connection.close()
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _, (*streams, file), _, _ = socket.recv_fds(connection, 1, 4)
            if child := os.fork():
                status = os.waitpid(child, 0)[1]
                connection.sendall(bytes([os.waitstatus_to_exitcode(status) % 256]))
                os._exit(0)
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            with os.fdopen(file) as content:
                request: dict[str, Any] = json.load(content)
            return request


def run(request: dict[str, Any]) -> None:
    """Run a program as if it had just been started."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = ""
    if request["arguments"][0] == "-c":
        sys.argv = ["-c", *request["arguments"][2:]]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(request["arguments"][1], "<string>", "exec"), main.__dict__)
    else:
        from ctlpp.cli.main import main as command

        sys.argv = ["ctlpp", *request["arguments"]]
        command()


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
    run(serve(sys.argv[1]))

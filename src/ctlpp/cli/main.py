"""`ctlpp`: the commands together, and how they end."""

from __future__ import annotations

import atexit
import errno
import os
import re
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from shutil import get_terminal_size
from typing import Any, NoReturn

import typer

from ctlpp import __version__
from ctlpp.files import Terminated, TimeUp, UserError

COMMANDS = {  # command -> its module, in the order of the help
    **dict.fromkeys(("generate", "check", "show"), "data"),
    **dict.fromkeys(("train", "evaluate", "models"), "train"),
    **dict.fromkeys(("analyze", "report", "compare"), "look"),
    **dict.fromkeys(("ask", "score"), "ask"),
    "reproduce": "reproduce",
    "sweep": "sweep",
    "demo": "reproduce",
    "bench": "look",
}
EXIT_CODES = """
Exit codes: 0 done; 1 a failure of ours or of the machine; 2 a mistake in what was asked for;
124 the minutes allowed are over; 130 interrupted; 143 ended by SIGTERM.
"""
UNUSABLE = {  # what a system says of paths that a user should not have given
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOSPC,
    errno.EDQUOT,
}


def make_app(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """`ctlpp` with these commands, whose modules are imported now."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode="markdown",
        epilog=EXIT_CODES,
    )
    app.callback()(about)
    for name in names:
        command = getattr(import_module(f"ctlpp.cli.{COMMANDS[name]}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command()(command)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ctlpp {__version__}")
        raise typer.Exit


def about(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Do neural networks compose? The CTL++ benchmark: exact data, many seeds at once, a look inside."""


def program() -> None:
    """Run a command as the whole of a process.

    It leaves as soon as Python's exit handlers are through. While an interpreter is taken down, a thread of
    PyTorch or Arrow that asks for it is ended by force, in C++ that must not be left so: the process aborts,
    although its work is done (pytorch/pytorch#38228).
    """
    code = 1

    def leave() -> None:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)

    atexit.register(leave)  # the first, so it is called last
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # a second one ends what little is left
            signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """Run a command. The user's mistake is one line on stderr; a bug of ours keeps its traceback."""
    # PyTorch is not loaded yet. By default its idle threads spin so long that two programs on the same cores
    # get in each other's way (benchmarks/side_by_side.py).
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    asked = [name for name in sys.argv[1:2] if name in COMMANDS]
    command = typer.main.get_command(make_app(asked or COMMANDS))
    _hide_types_of_flags(command)
    signal.signal(signal.SIGTERM, partial(_terminate, os.getpid()))
    try:
        with command.make_context("ctlpp", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except TimeUp as stop:
        fail(str(stop), code=124)
    except Terminated as stop:
        fail(str(stop) or "ended by SIGTERM; nothing is left half written", code=143)
    except (KeyboardInterrupt, typer.Abort) as stop:
        fail(str(stop) or "interrupted", code=130)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        name = error.filename or "a file"
        fail(f"{name} cannot be used ({error.strerror}): choose another, or make it usable")
    except UserError as error:
        fail(error.on_command_line())
    except Exception as error:
        if not hasattr(error, "format_message"):  # not one of typer's own complaints about the arguments
            raise
        if not error.format_message():  # no arguments at all: it has printed the help
            sys.exit(0)
        fail(about_arguments(error))


def _terminate(command: int, *_: object) -> NoReturn:
    """On SIGTERM clean up as after Ctrl-C; processes that the command has forked just end."""
    if os.getpid() != command:
        os._exit(143)
    raise Terminated


def _hide_types_of_flags(command: Any) -> None:
    """Show `--force` in the help, not `--force <bool>`."""
    for one in getattr(command, "commands", {}).values():
        _hide_types_of_flags(one)
    for option in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(option, "is_flag", False):
            option.metavar = ""


def about_arguments(error: Any) -> str:
    """What typer complains about, in our words where it is a choice, and else with the way to the help."""
    said = error.format_message().rstrip(".")
    pattern = r"""Invalid value for '(--[a-z-]+)': .*?(['"])(.*)\2 is not one of '(.*)'"""
    if choice := re.fullmatch(pattern, said, flags=re.DOTALL):
        option, _, value, choices = choice.groups()
        listed = ", ".join(choices.split("', '"))
        return f"{option} {value}: choose from {listed}"
    where = getattr(getattr(error, "ctx", None), "command_path", "ctlpp")
    return f"{said}; see {where} --help"


def fail(message: str, code: int = 2) -> NoReturn:
    """One line on stderr, in which very long numbers are cut short, and out."""
    line = re.sub(
        r"\d{60,}", lambda number: f"{number[0][:9]}… ({len(number[0])} digits)", " ".join(message.split())
    )
    line = f"ctlpp: {line}"
    if sys.stderr.isatty():  # words stay whole there; a log has one line
        from ctlpp.cli.output import fill

        line = fill(line, get_terminal_size().columns, indent=2)
    print(line, file=sys.stderr)
    sys.exit(code)

"""The Typer application, `neuralrde data`, and error handling: every error becomes a sentence and an exit code."""

import difflib
import io
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ..._version import __version__
from ...errors import notation
from . import flags
from .console import FAILED, WRONG_USE, Refusal, drop, how_stopped, print_json, table
from .fit import fit
from .flags import as_flag
from .forecast import forecast
from .inspect import card, inspect, parts
from .predict import evaluate, explain, export, predict
from .prepare import prepare
from .serve import serve
from .sweep import sweep

data_app = typer.Typer(
    no_args_is_help=True, help="List the named data sets and the file formats, or download a data set."
)


@data_app.command("list")
def list_(json: flags.AsJson = False) -> None:
    """List the named data sets: size (samples x length x channels), task, and whether they are here."""
    from ...datasets import available, data_folder

    entries = available()
    where = ["simulated" if entry.find is None else "here" if entry.present else "to be fetched" for entry in entries]
    if json:
        keys = ("name", "size", "task", "origin")
        print_json([{key: getattr(e, key) for key in keys} | {"where": w} for e, w in zip(entries, where, strict=True)])
        return
    rows = [[e.name, e.size, e.task, w, e.origin] for e, w in zip(entries, where, strict=True)]
    print(table(rows, header=["name", "size", "task", "where", "origin"], indent=0))
    print(f"\nAny other set of the UEA, UCR and TSER archives can be loaded by name. They are kept in {data_folder()}.")


@data_app.command()
def formats() -> None:
    """List the file formats that can be read, by their endings."""
    from ...datasets._read import READERS

    rows = [[" ".join(filter(None, r.endings)), "table" if r.table else "series", r.about] for r in READERS]
    print(table(rows, header=["endings", "holds", "what it is"], indent=0))
    print("\nA table's columns are explained by --id, --time, --target and so on. Text may be gzipped (.gz).")


@data_app.command()
def get(name: Annotated[str, typer.Argument(help="A name that `neuralrde data list` shows.")]) -> None:
    """Download a data set, unless it is here, and describe it."""
    from ...datasets import load

    print(load(name).summary())


app = typer.Typer(
    name="neuralrde",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 an error in the data or the model, 2 an error in the command line, 130 "
    "interrupted, 143 terminated. Add `--debug` anywhere to see where an error comes from.",
)


for command in (fit, predict, evaluate, explain, forecast, inspect, card, prepare, sweep, parts):
    app.command()(command)
app.add_typer(data_app, name="data")
for command in (serve, export):
    app.command()(command)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"neuralrde {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _front(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Long, irregular time series by neural rough differential equations.

    Look at the data, train, and use what was learned:

        neuralrde inspect hearts.csv --id patient --time hour --target ill
        neuralrde fit hearts.csv --id patient --time hour --target ill
        neuralrde predict runs/hearts new.csv

    DATA is a file, a folder of files, or the name of a data set. `neuralrde data formats` lists the file formats,
    `neuralrde data list` the data sets.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. An error is one sentence on stderr, after a traceback with `--debug`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks, such as ± in ASCII, is spelled out
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings(), notation(as_flag):
        warnings.showwarning = _note
        warnings.filterwarnings("default", category=UserWarning, module="neuralrde")
        try:
            # Not `app(arguments)`: it would turn interrupts and closed pipes into exit codes of its own.
            command = typer.main.get_command(app)
            with command.make_context("neuralrde", list(arguments)) as context:
                command.invoke(context)
            sys.stdout.flush()
            return 0
        except typer.Exit as done:
            return done.exit_code
        except (KeyboardInterrupt, typer.Abort) as error:
            word, code = how_stopped(error)
            return _say(f"{word}.", code)
        except BrokenPipeError:  # `neuralrde ... | head` has read enough
            drop(sys.stdout)
            return 0
        except Exception as error:
            if debug:
                traceback.print_exc()
            return _say(*_explain(error))


def _explain(error: Exception) -> tuple[str, int]:
    """The sentence for an error, and the exit code."""
    if isinstance(error, Refusal):
        return str(error), error.code
    if hasattr(error, "format_message"):  # Typer's own, of a wrong flag or a missing argument
        return _usage(error), WRONG_USE
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}.", FAILED
    if isinstance(error, ValueError | TypeError | OSError | ImportError | ArithmeticError | MemoryError):
        return str(error) or type(error).__name__, FAILED
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"Something went wrong that should not have ({what}). Add --debug to see where, and tell us.", FAILED


def _usage(error: Any) -> str:
    name, near = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if name is not None:
        nearest = difflib.get_close_matches(name, near or [], n=1)
        meant = f" Did you mean {nearest[0]}?" if nearest else ""
        message = f"There is no option {name}.{meant}"
    else:
        message = error.format_message()
        if not message:  # no command at all: the help that was shown says everything
            return ""
        message += "" if message.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} `{context.command_path} --help` lists what there is."


def _say(message: str, code: int) -> int:
    if message:
        print(f"neuralrde: {message}", file=sys.stderr)
    return code


def _note(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning without the line of code that it comes from."""
    print(f"note: {message}", file=sys.stderr)

"""Tools on top of the library, which imports none of them: stores, a service, sweeps, assessment, the command line."""

from importlib import import_module as _import_module

_TOOLS = ("assessment", "cli", "serving", "stores", "sweeps")


def __getattr__(name: str):
    if name in _TOOLS:
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*_TOOLS]

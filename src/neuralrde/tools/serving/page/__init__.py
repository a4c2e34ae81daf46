"""The page's files. Nothing in them comes from elsewhere."""

from importlib.resources import files

_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
          "svg": "image/svg+xml"}  # fmt: skip


def _read(name: str) -> tuple[bytes, str]:
    return files(__name__).joinpath(name).read_bytes(), _TYPES[name.rpartition(".")[2]]


FILES = {"/": _read("index.html")}
FILES |= {f"/{name}": _read(name) for name in ("style.css", "page.js", "trace.js", "icon.svg")}
LOGIN = _read("login.html")[0]

__all__ = ["FILES", "LOGIN"]

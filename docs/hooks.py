"""For MkDocs: `<!-- registry: models -->` on a page becomes a table of that registry (`mkdocs.yml` loads this).

A class that is entered in a registry is so in the documentation at once, with the first sentence of its docstring.
"""

import importlib
import inspect
import re
from typing import Any

# Where each registry is. A test checks that none is missing here and that every one is on a page.
REGISTRIES = {
    "models": "neuralrde.models.MODELS",
    "readouts": "neuralrde.models.READOUTS",
    "transforms": "neuralrde.transforms.TRANSFORMS",
    "fields": "neuralrde.fields.FIELDS",
    "activations": "neuralrde.fields.ACTIVATIONS",
    "solvers": "neuralrde.solvers.SOLVERS",
    "gradients": "neuralrde.solvers.GRADIENTS",
    "losses": "neuralrde.training.LOSSES",
    "optimizers": "neuralrde.training.OPTIMIZERS",
    "schedules": "neuralrde.training.SCHEDULES",
    "augmentations": "neuralrde.training.AUGMENTATIONS",
}
MARK = re.compile(r"^<!-- registry: ([\w-]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """MkDocs calls this with the text of each page."""
    return MARK.sub(lambda found: table(found[1]), markdown)


def registry(name: str) -> Any:
    if name not in REGISTRIES:
        raise ValueError(f"Got <!-- registry: {name} -->; expected one of {', '.join(REGISTRIES)}.")
    home, _, variable = REGISTRIES[name].rpartition(".")
    return getattr(importlib.import_module(home), variable)


def table(name: str) -> str:
    """Short name, class and first sentence of everything in a registry, as a Markdown table."""
    rows = [f"| `{short}` | {_linked(cls)} | {first_sentence(cls)} |" for short, cls in registry(name).items()]
    return "\n".join(["| short name | class | what it is |", "|---|---|---|", *rows])


def first_sentence(cls: Any) -> str:
    """The first sentence of a docstring, on one line and safe inside a table."""
    paragraph = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z`])|(?<=\.)$", paragraph)[0].rstrip(":")
    return sentence.replace("|", r"\|").replace("$", "")


def _linked(cls: Any) -> str:
    """A link to the reference for what is ours; only the name for what belongs to another library."""
    name, module = getattr(cls, "__qualname__", str(cls)), getattr(cls, "__module__", "")
    if not module.startswith("neuralrde."):
        library = module.partition(".")[0]
        return f"`{'jax.nn' if library == 'jax' else library}.{name}`"
    owner = name.partition(".")[0]  # a constructor, `FreeLinearField.random`, is described with its class
    return f"[`{name}`][neuralrde.{module.split('.')[1]}.{owner}]"

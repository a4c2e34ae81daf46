"""For MkDocs (`mkdocs.yml` loads this): comments on a page become what the code says.

`<!-- registry: models -->` becomes a table of that registry: a class that is entered in a registry is so in the
documentation at once, with the first sentence of its docstring. `<!-- flow -->` becomes the picture of the parts.
"""

import html
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
# The parts of the library, in the order in which data flows: a part imports only from the parts before it.
# `tests/test_architecture.py` checks that, and that no part is missing here. Readers make series, so paths come before
# datasets.
FLOW = {
    "_cores": "",
    "_version": "",
    "_write": "",
    "_types": "",
    "errors": "",
    "registry": "short names of parts, and parts with their options",
    "frozen": "arrays that are not trained",
    "paths": "Series, and the Windows that cut them",
    "transforms": "fill, scale, resample, add time: learned from the training part",
    "datasets": "files become series with targets; splits",
    "signatures": "one log-signature per window, by a kernel in C++",
    "torch": "the same kernel for PyTorch, without JAX",
    "fields": "a field and a log-signature give the equation of one window",
    "solvers": "the state through all windows, and how that is differentiated",
    "devices": "cores, GPUs and hosts as one mesh",
    "processes": "several processes that agree",
    "models": "first point in, state driven, prediction out",
    "training": "one loop over batches: losses, optimizers, checkpoints",
    "features": "the closed form: random windows, statistics, ridge regression",
    "online": "the same stages for points that are still arriving; export",
    "estimators": "scikit-learn's interface: the closed form, the neural models, and the two blended",
    "_inside": "",
    "aeon": "the closed form by aeon's conventions",
    "sktime": "the closed form by sktime's conventions",
    "plots": "pictures",
    "tools": "on top of the library, which imports none of them",
    "tools._lock": "",
    "tools.stores": "examples on disk, for data larger than memory",
    "tools.serving": "streams of many clients, kept on disk, and a live page",
    "tools.assessment": "metrics with intervals, baselines, a verdict",
    "tools.sweeps": "many runs, each result once",
    "tools.cli": "the command line",
    "__main__": "",
}


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """MkDocs calls this with the text of each page."""
    return MARK.sub(lambda found: table(found[1]), markdown).replace("<!-- flow -->", flow())


def flow() -> str:
    """The parts as boxes from top to bottom, each with a line about it, as SVG in the colours of the page."""
    parts = {name: line for name, line in FLOW.items() if line}
    rows = []
    for i, (name, line) in enumerate(parts.items()):
        y = 34 * i
        arrow = f'<path d="M70 {y + 26}v8" stroke="currentColor"/>' if i < len(parts) - 1 else ""
        rows.append(
            f'<rect x="0.5" y="{y + 0.5}" width="140" height="25" rx="4" fill="none" stroke="currentColor"/>'
            f'<text x="70" y="{y + 17}" text-anchor="middle" font-family="monospace">{name}</text>'
            f'<text x="156" y="{y + 17}">{html.escape(line)}</text>{arrow}'
        )
    label = f"The parts of the library from {next(iter(parts))} to {list(parts)[-1]}, in the order in which data flows."
    return (
        f'<figure><svg viewBox="0 0 720 {34 * len(parts)}" role="img" aria-label="{label}" font-size="13" '
        'fill="currentColor">'
        f"{''.join(rows)}</svg></figure>"
    )


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
    return f"[`{name}`][{'.'.join(module.split('.')[:2])}.{owner}]"

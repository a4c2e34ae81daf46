"""Notebooks of tested pages: `make notebooks` writes them to examples/notebooks/; tests/test_notebooks.py runs them."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
FOLDER = DOCS.parent / "examples" / "notebooks"
PAGES = {
    "quick_start": "guides/classify.md",
    "irregular_medical_series": "guides/medical.md",
    "streaming": "guides/streams.md",
    "pytorch": "guides/pytorch.md",
}
CODE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def notebook(page: str) -> dict:
    """A page of Markdown as a notebook: what the page's tests run is code, everything else is text."""
    parts = CODE.split(page)
    cells = [_cell(number, part.strip("\n"), number % 2 == 1) for number, part in enumerate(parts) if part.strip()]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, text: str, is_code: bool) -> dict:
    cell = {"id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
    if is_code:
        return {"cell_type": "code", "execution_count": None, "outputs": [], **cell}
    return {"cell_type": "markdown", **cell}


def written(name: str) -> str:
    return json.dumps(notebook((DOCS / PAGES[name]).read_text("utf-8")), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        (FOLDER / f"{name}.ipynb").write_text(written(name), "utf-8")

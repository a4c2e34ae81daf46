"""The notebooks are those of the pages as they are now, and every code cell runs."""

import json

import pytest

from docs import notebooks

from .test_docs import stays  # noqa: F401 (a fixture: a small part of PhysioNet's files)


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_a_notebook_is_its_page(name):
    found = (notebooks.FOLDER / f"{name}.ipynb").read_text("utf-8")
    assert found == notebooks.written(name), "Write `make notebooks`."


@pytest.mark.long
@pytest.mark.filterwarnings("default::UserWarning")  # see tests/test_docs.py
@pytest.mark.parametrize("name", notebooks.PAGES)
def test_a_notebook_runs(name, tmp_path, monkeypatch, request):
    if name == "irregular_medical_series":
        request.getfixturevalue("stays")
    else:
        monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    for cell in json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)

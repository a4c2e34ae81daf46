"""The code in README and docs runs as it stands: each page from top to bottom, in an empty folder."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if CODE.search(page.read_text())], ids=lambda page: page.name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(CODE.findall(page.read_text())), str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    gone = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not gone

"""Print the lowest versions that pyproject.toml promises, as pins for pip: what `make test-lowest` installs."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
    name, version = re.fullmatch(r"([\w-]+)>=([\w.]+)", requirement).groups()
    print(f"{name}=={version}")
    if name == "jax":
        print(f"jaxlib=={version}")

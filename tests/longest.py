"""The longest files and functions of the library: `python tests/longest.py [number]`. To be read, not obeyed."""

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "neuralrde"


def main(number: int = 5) -> None:
    files, functions = [], []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        files.append((text.count("\n"), str(path.relative_to(SOURCE))))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                code = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (node.end_lineno or 0) - code[0].lineno + 1 if code else 0  # signature and docstring apart
                functions.append((lines, f"{path.relative_to(SOURCE)}: {node.name}"))
    for title, found in (("files", files), ("functions, without signature and docstring", functions)):
        print(f"Longest {title}, in lines:")
        for lines, name in sorted(found, reverse=True)[:number]:
            print(f"  {lines:4}  {name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))

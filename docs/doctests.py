"""For the reference pages: doctests as code, and no class variables as parameters (`mkdocs.yml` loads this)."""

import re
from typing import Any

import griffe

# From a line that begins with >>> to the next empty line: what was typed, and what came out.
_DOCTEST = re.compile(r"^>>> .*\n?(?:(?!\s*$).*\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            value = _DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
            obj.docstring.value = value

    def on_attribute_instance(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        # griffe takes a bare `ClassVar` for a field of a dataclass, and would show it as a parameter.
        if str(attr.annotation) == "ClassVar":
            attr.annotation = None

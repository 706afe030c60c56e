"""A page for each reason for a graph break, made from the table `break_reasons`: what the site shows, and
``dynamo-lite explain``.

The table is parsed, not imported: building the site needs no torch. Where `break_examples/` has a file of a code's
name, a program that breaks and the fixed one, the page includes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).resolve().parent
_TABLE = _HERE / "break_reasons.py"
_EXAMPLES = _HERE / "break_examples"


class Reason(NamedTuple):
    """One row of the table. ``fields``: their names, and what the table says of them."""

    code: str
    name: str
    happened: str
    fix: str
    numbers_matter: bool
    fields: dict[str, str]

    @property
    def family(self) -> str:
        return self.code[2:4]

    @property
    def title(self) -> str:
        """The name in words."""
        words = re.sub(r"(?<!^)(?=[A-Z])", " ", self.name).lower()
        return words[0].upper() + words[1:]


def reasons(table: Path = _TABLE) -> list[Reason]:
    """All reasons, sorted by code."""
    classes = (node for node in ast.parse(table.read_text()).body if isinstance(node, ast.ClassDef))
    return sorted(map(_reason, classes))


def _reason(row: ast.ClassDef) -> Reason:
    options = {each.arg: ast.literal_eval(each.value) for each in row.keywords if each.arg is not None}
    texts = {each.targets[0].id: each.value for each in row.body if _is_text(each)}  # type: ignore[attr-defined]
    happened, fix = (ast.literal_eval(texts[name]) for name in ("happened", "fix"))
    return Reason(options["code"], row.name, happened, fix, options["numbers_matter"], dict(_fields(row)))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)


def _fields(row: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Each field, and the string below it, if there is one."""
    for statement, below in zip(row.body, [*row.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            yield statement.target.id, str(below.value.value) if said else ""  # type: ignore[union-attr]


def families(table: Path = _TABLE) -> dict[str, str]:
    """What the table's docstring calls each family, by the two digits."""
    said = ast.get_docstring(ast.parse(table.read_text())) or ""
    return {digits: " ".join(name.split()) for digits, name in re.findall(r"\b(\d\d) ([^·]+)", said)}


def pages() -> dict[str, str]:
    """The text of each page, by its path in the site."""
    rows = reasons()
    links = "\n[All reasons](index.md) · [Graph breaks](../graph-breaks.md) · [Limits](../limits.md)\n"
    return {"breaks/index.md": _index(rows), **{f"breaks/{each.code}.md": page(each) + links for each in rows}}


def _index(rows: list[Reason]) -> str:
    parts = [
        "# Reasons for breaks\n\n**What can end a graph, and what can I do about it?** A page for each reason. Errors "
        "and logs begin with its code;\nwords in angle brackets are filled in. See [graph breaks](../graph-breaks.md) "
        "for what a break costs.\n"
    ]
    names = families()
    for family, members in groupby(rows, key=lambda each: each.family):
        title = names[family]
        parts.append(f"## {family}: {title[0].upper()}{title[1:]}\n\n| code | reason | message |\n|---|---|---|")
        parts.extend(f"| [{each.code}]({each.code}.md) | {each.title} | {_shown(each.happened)} |" for each in members)
        parts.append("")
    return "\n".join(parts)


def with_named_fields(text: str) -> str:
    """A message with the names of its fields in angle brackets."""
    return re.sub(r"\{(\w+)[^}]*\}", r"<\1>", text)


def _shown(text: str) -> str:
    """The same in Markdown. Code between backticks is as it is."""
    escapes = {"<": "&lt;", ">": "&gt;", "__": r"\_\_", "|": r"\|"}
    return re.sub("`[^`]*`|<|>|__|[|]", lambda found: escapes.get(found[0], found[0]), with_named_fields(text))


def _sentence_part(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}".rstrip(".")


def page(reason: Reason) -> str:
    """What happened, what to do, and an example, in Markdown."""
    hint = _shown(reason.fix)
    parts = [
        f"# {reason.code}: {reason.title}\n",
        "**Why did the graph end here?**\n",
        f"> {reason.code}: {_shown(reason.happened)}\n",
    ]
    said = (f"`{name}`" + (f" ({_sentence_part(text)})" if text else "") for name, text in reason.fields.items())
    fields = f", with the fields {', '.join(said)}" if reason.fields else ""
    parts.append(f"`Unsupported.reason` is of the class `{reason.name}`{fields}.\n")
    parts.append(f"## What to do\n\n{hint[0].upper()}{hint[1:]}.\n")
    parts.append(f"## Do numbers matter?\n\n{_NUMBERS[reason.numbers_matter]}\n")
    example = _EXAMPLES / f"{reason.code}.md"
    if example.exists():
        parts.append(f"## Example\n\n{example.read_text()}")
    return "\n".join(parts)


_NUMBERS = {
    True: "They can: if a size, an int or a float was symbolic here, the frame is traced again with it as a constant,\n"
    "since the graph might not break then. Only if it still does, it is a break.",
    False: "No: the graph breaks here whatever the values of sizes, ints and floats are.",
}

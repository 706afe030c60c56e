"""Texts of the page that libraries turn into HTML: code, and the pages of break codes."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from dynamo_lite.insight import break_pages
from dynamo_lite.insight.explanation_html import with_code
from dynamo_lite.insight.recorder import Recorder

if TYPE_CHECKING:
    from markupsafe import Markup

_LONGEST_COLOURED = 200_000
"""Longer code isn't coloured, which takes time."""


def coloured(code: str) -> Markup:
    """Python code, coloured by Pygments with the classes of `code_styles`."""
    from markupsafe import Markup
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    if len(code) > _LONGEST_COLOURED:
        return Markup(html.escape(code))
    return Markup(highlight(code, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def sentence(text: str) -> Markup:
    """A sentence, in which what stands between backticks is code."""
    from markupsafe import Markup

    return Markup(with_code(text))


def code_styles() -> Markup:
    """The style sheet for code, on light and dark paper."""
    from markupsafe import Markup
    from pygments.formatters import HtmlFormatter

    light, dark = (
        "\n".join(
            rule
            for rule in HtmlFormatter(style=style).get_style_defs("pre").splitlines()
            if re.match(r"pre \.\w+ ", rule)
        )
        for style in ("default", "github-dark")
    )
    return Markup(f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}")


def code_pages(recorder: Recorder) -> dict[str, Markup]:
    """The pages of the codes that occur, as HTML."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    wanted = {each.reason.code for each in recorder.breaks}
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return {
        each.code: Markup(parser.render(_without_title(break_pages.page(each))))
        for each in break_pages.reasons()
        if each.code in wanted
    }


def _without_title(page: str) -> str:
    """The page, from its message on, with its headings below those of the report."""
    _, _, rest = page.partition("\n> ")
    return re.sub(r"^## ", "#### ", f"> {rest}", flags=re.MULTILINE)

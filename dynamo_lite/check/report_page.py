"""The page of ``--fullgraph-report``: each test with its graphs, breaks and recompiles, in one file without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dynamo_lite.insight.report_files import write_text

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>fullgraph: {{ tests|length - failed }} passed, {{ failed }} failed</title>
<style>
:root { color-scheme: light dark; --line: #d0d7de; --soft: #f6f8fa; --dim: #57606a; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) {
  :root { --line: #30363d; --soft: #161b22; --dim: #8b949e; --good: #3fb950; --bad: #f85149; }
  body { background: #0d1117; color: #e6edf3; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
section { border: 1px solid var(--line); border-radius: 6px; padding: .6rem 1rem; margin: 1rem 0; }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
.passed h2::before { content: "✓ "; color: var(--good); }
.failed h2::before { content: "✗ "; color: var(--bad); }
p { margin: .3rem 0; overflow-wrap: anywhere; }
.dim { color: var(--dim); }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .5rem; overflow-x: auto; margin: .3rem 0; }
summary { cursor: pointer; }
</style>
<h1>fullgraph: {{ tests|length - failed }} passed, {{ failed }} failed</h1>
{% macro finding(each, word) %}
<p><strong>{{ each.code }}</strong> {{ each.message }} <span class="dim">{{ word }}</span></p>
{% if each.place %}<pre>{{ each.place.file }}:{{ each.place.line }} in {{ each.place.function }}
    {{ each.place.text }}</pre>{% endif %}
<p class="dim">hint: {{ each.hint }}</p>
{% endmacro %}
{% for test in tests %}
<section class="{{ 'passed' if test.outcome == 'passed' else 'failed' }}">
<h2>{{ test.target }}</h2>
<p class="dim">{{ test.code|length }} captured, {{ test.graphs }} in one call at most; {{ test.recompiles|length }} \
recompiled{{ '' if test.marked else '; not marked' }}</p>
{% for each in test.findings %}{{ finding(each, '' if test.marked else '(not required)') }}{% endfor %}
{% for each in test.allowed %}{{ finding(each, '(allowed)') }}{% endfor %}
{% for each in test.recompiles %}<p>recompiled: {{ each }}</p>{% endfor %}
{% for code in test.code %}<details><summary>graph {{ loop.index }}</summary><pre>{{ code }}</pre></details>{% endfor %}
</section>
{% else %}
<p>No test was marked <code>fullgraph</code> or asked for <code>capture</code>.</p>
{% endfor %}
</html>
"""


def write(path: str, tests: Sequence[dict[str, Any]]) -> None:
    """Write the page, of what the plugin gathered of each test."""
    import jinja2

    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(_PAGE)
    failed = sum(test["outcome"] != "passed" for test in tests)
    write_text(Path(path), template.render(tests=sorted(tests, key=lambda each: each["target"]), failed=failed))

"""Prints the packages of groups in pyproject.toml, for pip.

    pip install $(python distribution/requirements.py build test)

The groups are those of PEP 735, which pip reads itself from 25.1 on (``pip install --group test``). The pip that comes
with an interpreter may be older.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def packages_of(*groups: str) -> list[str]:
    """The requirements of the groups, and of the groups that these include, in their order."""
    known = tomllib.loads(PROJECT.read_text())["dependency-groups"]
    found: list[str] = []
    for group in groups:
        for each in known[group]:
            found += packages_of(each["include-group"]) if isinstance(each, dict) else [each]
    return found


def supported_torch() -> str:
    """The requirement of any torch that is supported: "torch>=2.11,<2.16"."""
    (metadata,) = tomllib.loads(PROJECT.read_text())["tool"]["dynamic-metadata"]
    return str(metadata["torch"])


if __name__ == "__main__":
    print(*packages_of(*sys.argv[1:]))

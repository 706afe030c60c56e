"""Generated code objects as text: as Python where ``depyf`` can show it, else as bytecode."""

from __future__ import annotations

import dis
import io
from types import CodeType


def as_text(code: CodeType) -> str:
    """The code as Python, if ``depyf`` is installed and finds Python that compiles to such code; else its bytecode."""
    return _decompiled(code) or _disassembled(code)


def _decompiled(code: CodeType) -> str | None:
    try:
        from depyf import DecompilationError, decompile
    except ImportError:
        return None
    try:
        return decompile(code)
    except DecompilationError:
        return None


def _disassembled(code: CodeType) -> str:
    text = io.StringIO()
    dis.dis(code, file=text, depth=0)
    return text.getvalue().rstrip()

"""If interpreter, torch and extension don't match, the import raises one clear sentence."""

from __future__ import annotations

import pytest

from processes import run_program

CASES = {
    "another Python": (
        "sys.version_info = (3, 9, 1, 'final', 0)",
        "dynamo_lite supports CPython 3.11 and 3.12; this is 3.9.",
    ),
    "another implementation": (
        "sys.implementation.name = 'pypy'",
        "dynamo_lite needs CPython; this is pypy.",
    ),
    "an old torch": (
        "import torch; torch.__version__ = '2.4.1+cpu'",
        "dynamo_lite needs torch 2.11 or newer; this is torch 2.4.1+cpu.",
    ),
    "a newer torch than it was built for": (
        "import torch; torch.__version__ = '2.99.0'",
        "and this is torch 2.99.0; build it again with: pip install --no-build-isolation .",
    ),
    "another build of that torch": (
        "import torch; torch.__version__ = torch.__version__.partition('+')[0] + '+cu0'",
        "+cu0; build it again with: pip install --no-build-isolation .",
    ),
    "another commit": (
        "import types, torch; torch.__version__ = '2.14.0a0+git1234567'; "
        "sys.modules['dynamo_lite._C'] = types.SimpleNamespace(TORCH_VERSION='2.14.0a0+git7654321')",
        "was built for torch 2.14.0a0+git7654321, and this is torch 2.14.0a0+git1234567; build it again",
    ),
    "no extension": (
        "sys.modules['dynamo_lite._C'] = None",
        "dynamo_lite's extension can't be loaded",
    ),
}


@pytest.mark.parametrize("change, sentence", CASES.values(), ids=CASES)
def test_importing_says_what_does_not_fit(change, sentence):
    program = f"""
import sys
{change}
try:
    import dynamo_lite
except ImportError as error:
    print(error)
"""
    done = run_program(program)
    assert done.returncode == 0, done.stderr[-2000:]
    assert sentence in done.stdout and done.stdout.count("\n") == 1

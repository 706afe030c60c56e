"""The check, on import, that the interpreter, torch and the compiled extension are compatible."""

from __future__ import annotations

import importlib
import re
import sys
import warnings

PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))
UNABLE_PYTHON = (3, 13, 0)
"""Its dict watchers miss writes to the attributes of instances."""
OLDEST_TORCH = (2, 11)
NEWEST_TESTED_TORCH = (2, 15)


def check() -> None:
    """Check that this Python and torch are supported, and that the extension was built for them.

    Raises:
        ImportError: they are not; the message says what to install.
    """
    running = sys.version_info[:2]
    if running not in PYTHONS:
        *others, newest = (f"{major}.{minor}" for major, minor in PYTHONS)
        known = f"{', '.join(others)} and {newest}"
        raise ImportError(f"dynamo_lite supports CPython {known}; this is {running[0]}.{running[1]}.")
    if sys.version_info[:3] == UNABLE_PYTHON:
        raise ImportError("dynamo_lite needs CPython 3.13.1 or newer; this is 3.13.0.")
    if sys.implementation.name != "cpython":
        raise ImportError(f"dynamo_lite needs CPython; this is {sys.implementation.name}.")
    if "t" in sys.abiflags:  # with PYTHON_GIL=1, too: objects are laid out otherwise
        raise ImportError("dynamo_lite needs a CPython with the GIL; this one is a free-threaded build.")
    jit = getattr(sys, "_jit", None)  # of CPython 3.14 on
    if jit is not None and jit.is_enabled():  # what it compiles doesn't look for a frame hook
        raise ImportError("dynamo_lite can't run with CPython's experimental JIT; unset PYTHON_JIT.")
    if type(globals()["warnings"]) is not type(importlib):  # read as it is: its name would import it
        raise ImportError(
            "dynamo_lite's modules register what they model when they are imported, so that CPython can't import them "
            'lazily; let sys.set_lazy_imports("normal") be in force, or a filter that leaves dynamo_lite out.'
        )
    torch = importlib.import_module("torch")
    if _minor(torch.__version__) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ImportError(f"dynamo_lite needs torch {oldest} or newer; this is torch {torch.__version__}.")
    try:
        extension = importlib.import_module("dynamo_lite._C")
    except ImportError as error:
        raise ImportError(
            f"dynamo_lite's extension can't be loaded ({error}); build it against the installed torch "
            f"{torch.__version__} with: pip install --no-build-isolation ."
        ) from error
    built = extension.TORCH_VERSION
    # A development version's C++ differs between commits, a release's between minor versions.
    is_release = not re.search("[a-z]", torch.__version__.partition("+")[0])
    if _minor(built) != _minor(torch.__version__) or not is_release and built != torch.__version__:
        raise ImportError(
            f"dynamo_lite was built for torch {built}, and this is torch {torch.__version__}; "
            "build it again with: pip install --no-build-isolation ."
        )
    misplaced = importlib.import_module("dynamo_lite.runtime.torch_layouts").find_misplaced(extension)
    if misplaced is not None:
        raise ImportError(
            f"dynamo_lite was built for torch {built}, and in this torch {torch.__version__} {misplaced} has another "
            "layout; build it again with: pip install --no-build-isolation ."
        )
    if _minor(torch.__version__) > NEWEST_TESTED_TORCH:
        newest = ".".join(map(str, NEWEST_TESTED_TORCH))
        warnings.warn(
            f"dynamo_lite was tested with torch up to {newest}; this is torch {torch.__version__}.", stacklevel=3
        )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])

"""The check, on import, that the interpreter, torch and the compiled extension are compatible."""

from __future__ import annotations

import importlib
import sys

PYTHONS = ((3, 11), (3, 12))
OLDEST_TORCH = (2, 11)


def check() -> None:
    """Check that this Python and torch are supported, and that the extension was built for them.

    Raises:
        ImportError: they are not; the message says what to install.
    """
    running = sys.version_info[:2]
    if running not in PYTHONS:
        known = " and ".join(f"{major}.{minor}" for major, minor in PYTHONS)
        raise ImportError(f"dynamo_lite supports CPython {known}; this is {running[0]}.{running[1]}.")
    if sys.implementation.name != "cpython":
        raise ImportError(f"dynamo_lite needs CPython; this is {sys.implementation.name}.")
    torch = importlib.import_module("torch")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise ImportError(f"dynamo_lite needs torch {oldest} or newer; this is torch {torch.__version__}.")
    try:
        extension = importlib.import_module("dynamo_lite._C")
    except ImportError as error:
        raise ImportError(
            f"dynamo_lite's extension can't be loaded ({error}); build it against the installed torch "
            f"{torch.__version__} with: pip install --no-build-isolation ."
        ) from error
    if extension.TORCH_VERSION != torch.__version__:  # C++ of torch differs between builds and between commits
        raise ImportError(
            f"dynamo_lite was built for torch {extension.TORCH_VERSION}, and this is torch {torch.__version__}; "
            "build it again with: pip install --no-build-isolation ."
        )

"""The metadata that a build decides: the version, and which torch the wheel needs.

The extension reads torch's C++ objects, whose layout differs between minor versions. So a wheel requires the minor
version that it was built against (``torch>=2.15,<2.16``), and pip can't put it beside another. A source distribution
requires no more than a supported torch.

On an index, wheels for several versions of torch need versions of their own, for pip looks at one wheel a version.
Those that ``make wheels`` builds add torch's: 0.1.0.214, 0.1.0.215. The source distribution, 0.1.0, comes before all of
them, so that pip builds it only for a torch that has no wheel.

scikit-build-core calls ``Provider`` (https://github.com/scikit-build/dynamic-metadata). As a program, this prints what
the installed torch needs beside it, for pip: the torch itself, so that nothing replaces it, and the Triton that it was
made for. A torch without CUDA needs one only for tests, and doesn't name it.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Mapping
from pathlib import Path

FOR_AN_INDEX = "DYNAMO_LITE_WHEEL_FOR_INDEX"
"""The environment variable that adds torch's version to the wheel's."""


class Provider:
    """What scikit-build-core asks for ``version`` and ``dependencies``."""

    is_sdist = False

    def build_state(self, build_state: str) -> None:
        self.is_sdist = build_state == "sdist"

    def dynamic_wheel(self, settings: Mapping[str, str]) -> dict[str, bool]:
        return {"dependencies": True}

    def dynamic_metadata(self, settings: Mapping[str, str], project: Mapping[str, object]) -> dict[str, object]:
        """The fields, by the torch that is installed; ``settings["torch"]`` is what is supported."""
        version = version_of_package()
        if self.is_sdist:
            return {"version": version, "dependencies": [settings["torch"]]}
        major, minor = minor_version(importlib.metadata.version("torch"))
        if os.environ.get(FOR_AN_INDEX):
            version = f"{version}.{major}{minor:02}"
        return {"version": version, "dependencies": [f"torch>={major}.{minor},<{major}.{minor + 1}"]}


TRITONS = {(2, 11): "3.6", (2, 12): "3.7", (2, 13): "3.7", (2, 14): "3.8", (2, 15): "3.9"}


def requirements_beside_torch() -> list[str]:
    """For example ["torch==2.13.0+cpu", "triton==3.7.*"]."""
    version = importlib.metadata.version("torch")
    names = [f"torch=={version}"]
    required = importlib.metadata.requires("torch") or []
    if not any(each.startswith("triton") for each in required) and minor_version(version) in TRITONS:
        names.append(f"triton=={TRITONS[minor_version(version)]}.*")
    return names


def minor_version(version: str) -> tuple[int, int]:
    """Major and minor of a version: (2, 15) of "2.15.0+cu132"."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def version_of_package() -> str:
    """The package's own version."""
    source = Path(__file__).resolve().parents[1] / "dynamo_lite" / "runtime" / "version.py"
    found = re.search(r'^__version__ = "(.+)"$', source.read_text(), re.MULTILINE)
    assert found is not None, source
    return found[1]


if __name__ == "__main__":
    print(*requirements_beside_torch())

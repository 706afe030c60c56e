"""What pip calls to build this project (PEP 517): scikit-build-core, behind a check of the interpreter.

pip reads ``requires-python`` of a source tree or a source distribution only after it has installed what a build needs,
torch with its gigabytes among it. So nothing is required to start with: what is needed is listed after the check.
"""

from __future__ import annotations

import sys

from supported_python import find_problem_here

_problem = find_problem_here()
if _problem is not None:
    sys.exit(_problem)

from types import ModuleType  # noqa: E402

from requirements import packages_of, supported_torch  # noqa: E402

Settings = dict[str, "str | list[str]"]
"""pip's ``--config-settings``."""


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:
    return packages_of("build")


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    return [*packages_of("build"), supported_torch()]


get_requires_for_build_editable = get_requires_for_build_wheel


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    return _builder().build_sdist(sdist_directory, config_settings)


def build_wheel(directory: str, config_settings: Settings | None = None, metadata: str | None = None) -> str:
    return _builder().build_wheel(directory, config_settings, metadata)


def build_editable(directory: str, config_settings: Settings | None = None, metadata: str | None = None) -> str:
    return _builder().build_editable(directory, config_settings, metadata)


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings | None = None) -> str:
    return _builder().prepare_metadata_for_build_wheel(directory, config_settings)


def prepare_metadata_for_build_editable(directory: str, config_settings: Settings | None = None) -> str:
    return _builder().prepare_metadata_for_build_editable(directory, config_settings)


def _builder() -> ModuleType:
    """scikit-build-core, which isn't there yet when the requirements are asked for."""
    import scikit_build_core.build

    return scikit_build_core.build

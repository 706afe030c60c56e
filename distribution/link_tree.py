"""Makes an environment import the package from this tree, with its command and its pytest plugin.

    .venv/bin/python distribution/link_tree.py

It does what an editable install does, but an import needs no finder: a ``.pth`` file names the tree, which holds the
built extension, too, and PYTHONPATH can name another tree. The metadata, which lists the command and the plugin, is
made by the build's own hook.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import site
import sys
from pathlib import Path

import scikit_build_core.build as backend

ROOT = Path(__file__).resolve().parents[1]
COMMAND = """#!{python}
import sys

from {module} import {function}

sys.exit({function}())
"""


def main() -> None:
    packages = Path(site.getsitepackages()[0])
    for old in packages.glob("dynamo_lite-*.dist-info"):
        shutil.rmtree(old)
    os.chdir(ROOT)
    info = packages / backend.prepare_metadata_for_build_editable(str(packages))
    link = packages / "dynamo_lite.pth"
    link.write_text(f"{ROOT}\n")
    written = [*(path for path in info.rglob("*") if path.is_file()), link]
    for point in importlib.metadata.Distribution.at(info).entry_points.select(group="console_scripts"):
        command = Path(sys.executable).parent / point.name
        command.write_text(COMMAND.format(python=sys.executable, module=point.module, function=point.attr))
        command.chmod(0o755)
        written.append(command)
    (info / "INSTALLER").write_text("make\n")
    # What `pip uninstall dynamo_lite` removes.
    record = [info / "INSTALLER", info / "RECORD", *written]
    (info / "RECORD").write_text("".join(f"{os.path.relpath(path, packages)},,\n" for path in record))


if __name__ == "__main__":
    main()

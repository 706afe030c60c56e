"""Fails in one sentence where an interpreter isn't supported: before an environment is made and gigabytes are fetched.

    python distribution/supported_python.py

It must run on any Python, so it is plain code.
"""

import platform
import re
import sys
from os.path import abspath, dirname, join


def find_problem(requirement, version, implementation, abi_flags=""):
    """What is wrong with an interpreter for a ``requires-python`` of comparisons, or None.

    Args:
        requirement: for example ">=3.11,<3.13".
        version: the interpreter's, for example (3, 10, 13).
        implementation: its name, for example "CPython".
        abi_flags: "t" among them says that it is a free-threaded build.
    """
    if implementation != "CPython":
        sentence = "dynamo_lite needs CPython; this is {}."
        return sentence.format(implementation)
    if "t" in abi_flags:
        return "dynamo_lite needs a CPython with the GIL; this one is a free-threaded build."
    tests = {
        ">=": lambda bound: version[: len(bound)] >= bound,
        "<": lambda bound: version[: len(bound)] < bound,
        "!=": lambda bound: version[: len(bound)] != bound,
    }
    for each in requirement.split(","):
        operator, bound = re.match(r"(>=|<|!=)([\d.]+)$", each.strip()).groups()
        if not tests[operator](tuple(int(part) for part in bound.split("."))):
            running = ".".join(str(part) for part in version)
            sentence = "dynamo_lite needs Python {}; this is {} (choose another: make PYTHON=python3.12)."
            return sentence.format(requirement, running)
    return None


if __name__ == "__main__":
    with open(join(dirname(dirname(abspath(__file__))), "pyproject.toml")) as file:
        requirement = re.search('requires-python = "(.+)"', file.read()).group(1)
    running = (tuple(sys.version_info[:3]), platform.python_implementation(), getattr(sys, "abiflags", ""))
    sys.exit(find_problem(requirement, *running))

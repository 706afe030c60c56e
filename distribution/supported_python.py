"""Fails in one sentence where an interpreter isn't supported: before an environment is made and gigabytes are fetched.

    python distribution/supported_python.py
    python distribution/supported_python.py --newest    prints the newest minor version that is supported

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


def newest_minor_version(requirement):
    """The newest Python that is supported, without its patch release: "3.13"."""
    minors = [minor for minor in range(100) if find_problem(requirement, (3, minor, 99), "CPython") is None]
    return "3." + str(max(minors))


def find_problem_here():
    """What is wrong with the interpreter that runs this, or None."""
    running = (tuple(sys.version_info[:3]), platform.python_implementation(), getattr(sys, "abiflags", ""))
    return find_problem(read_requirement(), *running)


def read_requirement():
    """``requires-python`` in pyproject.toml."""
    with open(join(dirname(dirname(abspath(__file__))), "pyproject.toml")) as file:
        return re.search('requires-python = "(.+)"', file.read()).group(1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--newest"]:
        print(newest_minor_version(read_requirement()))
    else:
        sys.exit(find_problem_here())

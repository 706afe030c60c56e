"""If interpreter, torch and extension don't match, the import raises one clear sentence."""

from __future__ import annotations

import sys

import pytest

from processes import run_program

# The extension, before the package that checks it.
EXTENSION = """
import importlib.util, sys, torch
from importlib.machinery import PathFinder
spec = PathFinder.find_spec("dynamo_lite._C", PathFinder.find_spec("dynamo_lite").submodule_search_locations)
extension = sys.modules["dynamo_lite._C"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(extension)
"""

CASES = {
    "another Python": (
        "sys.version_info = (3, 9, 1, 'final', 0)",
        "dynamo_lite supports CPython 3.11, 3.12, 3.13, 3.14 and 3.15; this is 3.9.",
    ),
    "a patch release that can't be supported": (
        "sys.version_info = (3, 13, 0, 'final', 0)",
        "dynamo_lite needs CPython 3.13.1 or newer; this is 3.13.0.",
    ),
    "another implementation": (
        "sys.implementation.name = 'pypy'",
        "dynamo_lite needs CPython; this is pypy.",
    ),
    "a build without the GIL": (
        "sys.abiflags = 't'",
        "dynamo_lite needs a CPython with the GIL; this one is a free-threaded build.",
    ),
    "CPython's JIT": (
        "import types; sys._jit = types.SimpleNamespace(is_enabled=lambda: True)",
        "dynamo_lite can't run with CPython's experimental JIT; unset PYTHON_JIT.",
    ),
    "an old torch": (
        "import torch; torch.__version__ = '2.4.1+cpu'",
        "dynamo_lite needs torch 2.11 or newer; this is torch 2.4.1+cpu.",
    ),
    "another minor version than it was built for": (
        "import torch; torch.__version__ = '2.99.0'",
        "and this is torch 2.99.0; build it again with: pip install --no-build-isolation .",
    ),
    "another commit": (
        "import types, torch; torch.__version__ = '2.14.0a0+git1234567'; "
        "sys.modules['dynamo_lite._C'] = types.SimpleNamespace(TORCH_VERSION='2.14.0a0+git7654321')",
        "was built for torch 2.14.0a0+git7654321, and this is torch 2.14.0a0+git1234567; build it again",
    ),
    "another size of a type": (
        EXTENSION + "extension.sizes_of_torch_objects = lambda: {'device': 8}",
        " torch.device has another layout; build it again",
    ),
    "another place in a tensor": (
        EXTENSION + "read = extension.tensor_layout\n"
        "extension.tensor_layout = lambda tensor: {**read(tensor), 'version': 12345}",
        " the version of a tensor has another layout; build it again",
    ),
    "another place of a setting": (
        EXTENSION + "extension.state_layout_fits = lambda: False",
        " torch's global state has another layout; build it again",
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


@pytest.mark.parametrize(
    "change",
    [
        "torch.__version__ = torch.__version__.partition('+')[0] + '+cu0'",
        "torch.__version__ = '.'.join([*torch.__version__.split('.')[:2], '99'])",
    ],
    ids=["another build", "another patch release"],
)
def test_a_release_of_the_same_minor_version_fits(change):
    done = run_program(f"import torch\n{change}\nimport dynamo_lite as dl\nprint(dl.__name__)")
    assert (done.returncode, done.stdout) == (0, "dynamo_lite\n"), done.stderr[-2000:]


def test_a_torch_newer_than_was_tested_gives_one_warning():
    program = f"""
{EXTENSION}
import warnings
torch.__version__ = extension.TORCH_VERSION = "2.99.0"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import dynamo_lite as dl
print([str(each.message) for each in caught if "dynamo_lite" in str(each.message)])
print(dl.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1)).item())
"""
    done = run_program(program)
    assert done.returncode == 0, done.stderr[-2000:]
    warning, result = done.stdout.splitlines()
    assert warning.count("dynamo_lite was tested with torch up to") == 1 and result == "2.0"


def test_layouts_are_read_as_torch_reads_them_under_any_mode():
    program = f"""
{EXTENSION}
torch.set_default_device("meta")
from torch._subclasses.fake_tensor import FakeTensorMode
with torch.inference_mode(), FakeTensorMode(), torch.device("meta"):
    import dynamo_lite
print(torch.get_default_device().type)
"""
    done = run_program(program)
    assert (done.returncode, done.stdout) == (0, "meta\n"), done.stderr[-2000:]


@pytest.mark.skipif(sys.version_info < (3, 15), reason="CPython 3.15 has lazy imports")
@pytest.mark.parametrize(
    "takes_all, expected",
    [(True, "dynamo_lite's modules register what they model when they are imported"), (False, "2.0")],
    ids=["all imports", "all but ours"],
)
def test_imports_that_the_process_makes_lazy_are_refused(takes_all, expected):
    program = f"""
import sys
import torch
sys.set_lazy_imports_filter(lambda importing, imported, names: {takes_all} or not importing.startswith("dynamo_lite"))
sys.set_lazy_imports("all")
import dynamo_lite as dl
try:
    print(dl.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1)).item())
except ImportError as error:
    print(error)
"""
    done = run_program(program)
    assert done.returncode == 0, done.stderr[-2000:]
    assert expected in done.stdout and done.stdout.count("\n") == 1

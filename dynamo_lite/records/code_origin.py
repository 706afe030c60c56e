"""Which frames are compiled and which functions are inlined, decided by the file that their code is in.

Called from eager code, functions of the standard library and of torch's internals run in eager. Called from a traced
function they are inlined like user functions, unless their module acts on the process (files, threads, the clock).
"""

from __future__ import annotations

import builtins
import importlib.util
import inspect
import itertools
import os
import struct
import sys
import sysconfig
import types
from collections.abc import Mapping
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_NEWLOCALS

import torch

from dynamo_lite import _C, config
from dynamo_lite.bytecode import Instruction, decode, drop_unreachable, roles, stack_depths
from dynamo_lite.insight.program_files import OURS

_ASYNCHRONOUS = CO_COROUTINE | CO_ASYNC_GENERATOR

DISABLED = "dl.disable or torch.compiler.disable marks it"
FILES = "it reads or writes a file"

FOLDED_ERRORS: tuple[type[Exception], ...] = (
    *(ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError),
    struct.error,
)
"""Errors that a pure function may raise on constants. The traced program raises the same."""

_STDLIB = os.path.normpath(sysconfig.get_paths()["stdlib"]) + os.sep
_SITE = tuple(os.path.normpath(sysconfig.get_paths()[name]) + os.sep for name in ("purelib", "platlib"))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_FRAME_SHIM = os.path.join(OURS, "callables", "frame_shim.py")
_INLINED_OF_OURS = (
    os.path.join(OURS, "variables", "polyfills") + os.sep,
    os.path.join(OURS, "export", "exported_program.py"),
    _FRAME_SHIM,
)


def _package(name: str) -> tuple[str, ...]:
    """The folder of a package; nothing if it isn't installed."""
    found = importlib.util.find_spec(name)
    return () if found is None or not found.origin else (os.path.dirname(found.origin) + os.sep,)


_NUMPY, _TRITON = _package("numpy"), _package("triton")


def _in_torch(paths: str) -> tuple[str, ...]:
    """The full paths of files and folders of torch, which are given relative to its own folder."""
    return tuple(os.path.join(_TORCH, *path.split("/")) for path in paths.split())


_TORCH_USER_CODE = _in_torch("nn/modules nn/init.py distributions optim nn/utils")
"""Parts of torch that read like user code. Their frames are worth compiling."""

_RECURRENT = _in_torch("nn/modules/rnn.py nn/utils/rnn.py")
"""Recurrent layers and packed sequences. Called from eager code, these are given what can't be traced."""

_TORCH_INLINED = _TORCH_USER_CODE + _in_torch(
    """__future__.py __init__.py _VF.py _dynamo/external_utils.py _functorch/functional_call.py
    _higher_order_ops/associative_scan.py _higher_order_ops/cond.py _higher_order_ops/map.py _higher_order_ops/scan.py
    _higher_order_ops/while_loop.py _jit_internal.py _prims_common/__init__.py _tensor.py _utils.py _vendor amp
    autograd/forward_ad.py autograd/functional.py autograd/grad_mode.py backends distributed/_functional_collectives.py
    distributed/algorithms/_checkpoint/checkpoint_wrapper.py
    distributed/tensor/parallel/style.py foreach functional.py fx/experimental/symbolic_shapes.py jit/__init__.py
    nn/_reduction.py nn/attention nn/functional.py nn/parameter.py
    overrides.py testing torch_version.py types.py utils/_contextlib.py utils/_foreach_utils.py utils/_ordered_set.py
    utils/_pytree.py utils/_typing_utils.py utils/checkpoint.py utils/data/dataset.py"""
)
"""Parts of torch whose functions are inlined."""

_TORCH_INLINED_FUNCTIONS = {
    os.path.join(_TORCH, *path.split("/")): frozenset(names.split())
    for path, names in {
        "cuda/__init__.py": """current_device get_arch_list get_device_capability get_device_name is_bf16_supported
            is_tf32_supported is_initialized _is_compiled stream set_device device.__init__ device.__enter__
            device.__exit__ device_of.__init__""",
        "cuda/_utils.py": "_get_device_index",
        "cuda/graphs.py": "is_current_stream_capturing",
        "xpu/graphs.py": "is_current_stream_capturing",
        "cuda/nvtx.py": "range",
        "cuda/amp/autocast_mode.py": "autocast.__call__",
        "cpu/amp/autocast_mode.py": "autocast.__call__",
        "accelerator/__init__.py": """current_accelerator current_device_index device_count is_available
            set_device_index device_index.__init__ device_index.__enter__ device_index.__exit__""",
        "accelerator/_utils.py": "_get_device_index",
        "random.py": "fork_rng",
        "distributed/distributed_c10d.py": """get_rank get_world_size get_backend get_group_rank
            get_global_rank get_process_group_ranks _rank_not_in_group _get_default_group _get_group_size
            _get_group_size_by_name _group_or_default_group _canonicalize_group_rank _get_group_tag _WorldMeta.WORLD
            _World.default_pg _World.pg_map _World.pg_group_ranks _World.pg_coalesce_state _World.pg_to_tag""",
        "distributed/tensor/_api.py": "distribute_module.<locals>.<lambda>",
        "_subclasses/meta_utils.py": "is_sparse_any is_sparse_coo is_sparse_compressed is_sparse_compressed_layout",
    }.items()
}
"""Functions that only read, in files of which the rest acts on processes or on fake tensors."""

_PROCESS_MODULES = frozenset(
    """asyncio atexit concurrent ctypes faulthandler fcntl gc getpass http importlib io linecache logging mmap
    multiprocessing pdb pickle platform pprint queue random secrets select selectors shutil signal
    socket ssl subprocess sys tempfile threading time timeit tokenize trace traceback tracemalloc unittest urllib uuid
    warnings weakref zipfile _weakrefset glob datetime""".split()
)
"""Standard modules whose functions act on the process or the outside world."""

_LOGGING = frozenset(
    f"Logger.{name}" for name in "critical debug error exception getEffectiveLevel info log warning".split()
)
"""Methods of ``logging`` that emit nothing themselves."""


def _stdlib_module(filename: str) -> str | None:
    if not filename.startswith(_STDLIB) or filename.startswith(_SITE):
        return None
    rest = filename[len(_STDLIB) :]
    return rest.partition(os.sep)[0].removesuffix(".py")


def is_standard(code: types.CodeType) -> bool:
    """Whether the code belongs to the standard library."""
    return code.co_filename.startswith("<frozen") or _stdlib_module(code.co_filename) is not None


def is_library(code: types.CodeType) -> bool:
    """Whether the code belongs to the standard library or to torch."""
    return code.co_filename.startswith(_TORCH) or is_standard(code)


def is_polyfill(code: types.CodeType) -> bool:
    """Whether the code is ours and inlined in place of code in C."""
    return code.co_filename.startswith(_INLINED_OF_OURS)


def why_skipped(code: types.CodeType) -> str | None:
    """Why a frame of this code is skipped when eager code calls it; None if it is compiled."""
    filename = code.co_filename
    if _suspends(code):
        return "a generator's or coroutine's frame"
    if not code.co_flags & CO_NEWLOCALS:
        return "a class body or a module"
    if filename.startswith("<frozen") or filename == "<string>" and code.co_name == "<module>":
        return "the interpreter's own code"
    if filename.startswith(OURS):
        is_shim = filename == _FRAME_SHIM and code.co_freevars  # it refers to what it wraps
        return None if is_shim else "dynamo_lite's own code"
    if filename.startswith(_TORCH):
        is_compiled = filename.startswith(_TORCH_USER_CODE) and filename not in _RECURRENT
        return None if is_compiled else "torch's internals"
    if filename.startswith(_NUMPY):  # branches on the last bits of a number, which may differ in a graph
        return "numpy's own code"
    if filename.startswith(_TRITON):
        return "Triton's own code"
    if _stdlib_module(filename) is not None and not config.translate_library:
        return "the standard library"
    return None


def is_compiled_with_caller(code: types.CodeType) -> bool:
    """Whether this library code is compiled only as a part of its callers."""
    return not _suspends(code) and is_library(code) and why_skipped(code) is not None


def _suspends(code: types.CodeType) -> bool:
    return bool(code.co_flags & (CO_GENERATOR | _ASYNCHRONOUS))


_UNCOMPILED = _in_torch(
    """_dynamo _export _functorch _higher_order_ops _inductor autograd/function.py distributed export fx jit onnx
    utils/checkpoint.py"""
)

_C.ask_about_code_in((_TORCH, *_TRITON))

_MODULE_CALLS = os.path.join(_TORCH, "nn", "modules", "module.py")


def is_module_call(filename: str) -> bool:
    """Whether the file is that of ``Module.__call__``, which all modules share. If it can't be compiled, the hooks and
    the ``forward`` that it calls still can."""
    return filename == _MODULE_CALLS


def calls_module(code: types.CodeType) -> bool:
    """Whether the code is that of ``Module.__call__`` itself, and not of another method that all modules share, such as
    ``Module.__getattr__``."""
    return is_module_call(code.co_filename) and code.co_qualname.startswith(_CALL_METHODS)


_CALL_METHODS = ("Module._wrapped_call_impl", "Module._call_impl")


_CALL_WRAPPERS = _in_torch("fx/graph_module.py _dynamo/external_utils.py")
"""Files of wrappers whose callees may be compiled: ``__call__`` of modules of torch.fx, and the wrapper of
``torch.compiler.disable(recursive=False)``."""


def runs_uncompiled(code: types.CodeType) -> bool:
    """Whether callees of this code must not be compiled either: compilers, tracers, code that runs a function twice,
    the interpreter of Triton's kernels."""
    if code.co_filename.startswith(_TRITON):
        return True
    is_wrapper = code.co_filename in _CALL_WRAPPERS or _is_compiled_modules(code)
    return code.co_filename.startswith(_UNCOMPILED) and not is_wrapper


_SERIALIZATION = os.path.join(_TORCH, "serialization.py")
"""``torch.save`` and ``torch.load``."""

_COMPILED_MODULES = os.path.join(_TORCH, "_dynamo", "eval_frame.py")


def _is_compiled_modules(code: types.CodeType) -> bool:
    """Whether it is a method of what torch.compile returns for a module, which hands everything on to the module."""
    return code.co_filename == _COMPILED_MODULES and code.co_qualname.startswith("OptimizedModule.")


def why_not_inlined(code: types.CodeType, function: object) -> str | None:
    """Why a call of this function breaks the graph; None if it is inlined."""
    if code.co_flags & _ASYNCHRONOUS:
        return "it is a coroutine or an asynchronous generator"
    if function is not None and getattr(function, "_torchdynamo_disable", False):
        return DISABLED
    filename = code.co_filename
    if filename.startswith(OURS):
        return None if filename.startswith(_INLINED_OF_OURS) else "it belongs to dynamo_lite"
    if filename == _SERIALIZATION:
        return FILES
    if filename.startswith(_TORCH):
        is_inlined = filename.startswith(_TORCH_INLINED) or _is_compiled_modules(code)
        names = {code.co_qualname, code.co_qualname.partition(".<locals>")[0]}
        is_inlined = is_inlined or not names.isdisjoint(_TORCH_INLINED_FUNCTIONS.get(filename, ()))
        return None if is_inlined else "it belongs to torch's internals, which act on more than tensors"
    module = _stdlib_module(filename)
    if module is None and filename.startswith("<frozen"):
        module = filename[len("<frozen ") : -1].partition(".")[0]
    if module in _PROCESS_MODULES and not (module == "logging" and code.co_qualname in _LOGGING):
        return f"functions of the module {module} act on the process"
    return None


def reads_frame_by_name(code: types.CodeType, namespace: Mapping[str, object]) -> bool:
    """Whether the code may read the variables of its own frame by name (``locals()``). ``namespace``: its globals."""
    names = code.co_names
    if not _FRAME_READERS.isdisjoint(names):
        return True
    known = {name: namespace[name] for name in names if name in namespace}
    if any(value is reader for value in known.values() for reader in _READERS):
        return True
    names_module = "builtins" in names or "__builtins__" in names or any(value is builtins for value in known.values())
    if names_module and not _IN_BUILTINS.isdisjoint(names):
        return True
    readers = {name: known.get(name, getattr(builtins, name, None)) for name in names}
    return any(
        not _is_given_an_object(code, name) if value is vars or value is dir else value is eval and _loads(code, name)
        for name, value in readers.items()
    )


def _loads(code: types.CodeType, name: str) -> list[Instruction]:
    """The instructions that load a global, and not an attribute of this name (``Module.eval``)."""
    return [each for each in decode(code) if roles.loads_global(each) and each.argval == name]


def _is_given_an_object(code: types.CodeType, name: str) -> bool:
    """Whether the code only ever calls the global ``name``, which is `vars` or `dir`, with an argument: without one it
    reads the frame."""
    depths = stack_depths(drop_unreachable(decode(code)))
    calls = [_consumer(code, load, depths) for load in _loads(code, name)]
    return all(roles.is_call(each) and each.arg for each in calls)


def _consumer(code: types.CodeType, load: Instruction, depths: Mapping[Instruction, int]) -> Instruction:
    """The instruction that takes what the load of a global for a call has pushed: the function and a NULL."""
    after_call = depths.get(load, 0) + 1
    following = decode(code)[load.index + 1 :]
    return [load, *itertools.takewhile(lambda each: depths.get(each, 0) > after_call, following)][-1]


_FRAME_READERS = frozenset({"locals", "exec", "_getframe", "currentframe"})
_READERS = (eval, exec, locals, sys._getframe, inspect.currentframe)
_IN_BUILTINS = frozenset({"eval", "vars", "dir"})
"""Other functions of the module ``builtins`` that may read the frame."""

"""Users' Triton kernels: their kinds and parameters, and torch's operator for their launches.

Triton may be missing, and is slow to import. So values are compared with classes of Triton only if the program has
imported it.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from . import interpreted_kernels

_JIT = "triton.runtime.jit"
_AUTOTUNER = "triton.runtime.autotuner"
_INTERPRETER = "triton.runtime.interpreter"

_NAMES = frozenset({"JITFunction", "InterpretedFunction", "Autotuner", "Heuristics"})
Kernel = Any
"""A ``JITFunction``, ``InterpretedFunction``, ``Autotuner`` or ``Heuristics`` of Triton's."""
Config = Any
"""A ``triton.Config``."""
Grid = tuple[Any, Any, Any]

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Options of a launch that are fields of a ``triton.Config`` too."""


def _is(value: object, module: str, name: str) -> bool:
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and type(value) is cls


def is_kernel(value: object) -> bool:
    """Whether it is a function under ``triton.jit``, and perhaps under its decorators for tuning."""
    if type(value).__name__ not in _NAMES:
        return False
    return is_function(value) or is_autotuner(value) or is_heuristics(value)


def is_function(value: object) -> bool:
    return _is(value, _JIT, "JITFunction") or is_interpreted(value)


def is_interpreted(value: object) -> bool:
    """Whether Python runs it, as ``TRITON_INTERPRET=1`` says."""
    return _is(value, _INTERPRETER, "InterpretedFunction")


def is_autotuner(value: object) -> bool:
    return _is(value, _AUTOTUNER, "Autotuner")


def is_heuristics(value: object) -> bool:
    return _is(value, _AUTOTUNER, "Heuristics")


def is_host_function(value: object) -> bool:
    """Whether it is a function under ``triton.constexpr_function``."""
    return _is(value, _JIT, "ConstexprFunction")


def descriptor_class() -> Any:
    """The class of tensor descriptors; None if the program hasn't imported it."""
    return getattr(sys.modules.get("triton.tools.tensor_descriptor"), "TensorDescriptor", None)


def is_descriptor_class(value: object) -> bool:
    return value is not None and value is descriptor_class()


class Parameter(NamedTuple):
    name: str
    is_constexpr: bool
    default: Any
    """``inspect.Parameter.empty`` if there is none."""


@functools.lru_cache(maxsize=1024)
def _parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    declared = inspect.signature(function).parameters.values()
    return tuple(Parameter(each.name, "constexpr" in str(each.annotation), each.default) for each in declared)


def parameters(kernel: Kernel) -> tuple[Parameter, ...]:
    """The parameters of a function under ``triton.jit``."""
    return _parameters(kernel.fn)


def read_globals(kernel: Kernel) -> Iterable[tuple[str, dict[str, Any], Any]]:
    """The globals that a function under ``triton.jit``, and those that it calls, read: name, namespace, and the value
    that Triton compiles in. Triton raises at the launch if one has changed.

    Raises:
        RuntimeError: it reads one that Triton doesn't allow."""
    if is_interpreted(kernel):
        return
    kernel.cache_key  # noqa: B018  computes the others
    for (name, _), (value, namespace) in kernel.used_global_vals.items():
        if "__name__" in namespace:  # others are copies of closures
            yield name, namespace, value


def config_fields(config: Config) -> dict[str, Any]:
    """All that a configuration gives a launch: values of parameters, and options."""
    return config.all_kwargs()


_tuned: dict[Any, Kernel] = {}
"""Kernel, function and configurations -> the autotuner made of them. It keeps what it measured, over recompilations."""


def with_options(function: Kernel, options: Mapping[str, object]) -> Kernel:
    """The function under an autotuner of one configuration, which has these options."""
    triton = importlib.import_module("triton")
    key = (id(function), tuple(sorted(options.items())))
    if key not in _tuned:
        _tuned[key] = triton.autotune([triton.Config(_taken(function, options), **options)], [])(function)
    return _tuned[key]


def with_configs(tuner: Kernel, function: Kernel, configs: Sequence[Config]) -> Kernel:
    """An autotuner like ``tuner`` of these configurations, without pruning."""
    key = (tuner, *(repr(sorted(config_fields(each).items())) for each in configs))
    if key not in _tuned:
        made = copy.copy(tuner)
        made.fn, made.configs, made.cache = function, list(configs), {}
        made.early_config_prune = made.perf_model = None
        _tuned[key] = made
    return _tuned[key]


def with_values(config: Config, values: Mapping[str, object]) -> Config:
    """A configuration with more values of parameters, or other options."""
    made = copy.copy(config)
    made.kwargs = {**config.kwargs, **{name: value for name, value in values.items() if name not in OPTIONS}}
    for name in values.keys() & set(OPTIONS):
        setattr(made, name, values[name])
    return made


def with_parameters(function: Kernel, configs: Sequence[Config]) -> Sequence[Config]:
    """The configurations with those options among their values that are parameters of the function too; the same list
    if there are none."""
    if all(_taken(function, config_fields(each)).keys() <= each.kwargs.keys() for each in configs):
        return configs
    made = [copy.copy(each) for each in configs]
    for each in made:
        each.kwargs = {**each.kwargs, **_taken(function, config_fields(each))}
    return made


def _taken(function: Kernel, options: Mapping[str, object]) -> dict[str, object]:
    """The options that are parameters of the function."""
    names = {each.name for each in parameters(function)}
    return {name: value for name, value in options.items() if name in names and name in OPTIONS}


def is_plain(value: object) -> bool:
    """Whether a global is a constant that is compared by its value."""
    return type(value) in (int, float, bool, str, type(None)) or type(value) is tuple and all(map(is_plain, value))


def _library() -> Any:
    return importlib.import_module("torch._higher_order_ops.triton_kernel_wrap")


class Launch(NamedTuple):
    """A launch as torch's operator has it. Numbers and tensors in ``grids`` and ``values`` are fakes here."""

    kernel: Kernel
    grids: list[Grid]
    """One for each configuration of an autotuner."""
    values: dict[str, Any]
    """The arguments that a graph can have. Tensor descriptors are represented by their tensors."""
    constants: dict[str, Any]
    """Those that it can't."""
    descriptors: dict[str, Sequence[Any]]
    """Names of arguments that are tensor descriptors -> their block shapes."""

    @property
    def operator(self) -> Callable[..., None]:
        return _library().triton_kernel_wrapper_mutation

    def arguments(self) -> dict[str, Any]:
        """The operator's arguments."""
        library = _library()
        table = library.kernel_side_table
        described = {name: library.create_tma_stable_metadata(shape) for name, shape in self.descriptors.items()}
        return {
            "kernel_idx": table.add_kernel(self.kernel),
            "constant_args_idx": table.add_constant_args(self.constants),
            "grid": self.grids,
            "tma_descriptor_metadata": described,
            "kwargs": self.values,
        }

    def mutated(self, arguments: dict[str, Any]) -> set[str]:
        """The names of the tensors that the kernel writes into, as torch's analysis of its code finds them. All, where
        Triton has no device to compile for."""
        tensors = {name for name, value in self.values.items() if isinstance(value, torch.Tensor)}
        function = self.kernel.fn if is_autotuner(self.kernel) else self.kernel
        if is_interpreted(function):
            return tensors - interpreted_kernels.only_read(function.fn)
        if not _has_device():
            return tensors
        kinds = [(name, _kind(value)) for name, value in self.values.items()]
        key = arguments["kernel_idx"], repr(kinds), repr(self.constants), repr(self.descriptors)
        if key not in _mutated:
            of = [arguments[name] for name in ("kernel_idx", "constant_args_idx", "kwargs", "tma_descriptor_metadata")]
            _mutated[key] = frozenset(_library().get_mutated_tensors(*of))
        restored = [*self.kernel.restore_value, *self.kernel.reset_to_zero] if is_autotuner(self.kernel) else []
        return {*_mutated[key], *tensors.intersection(restored)}


_mutated: dict[Any, frozenset[str]] = {}
"""Index of a kernel, the types and constants that it is called with -> the names of what it writes into."""


def _kind(value: object) -> object:
    """The property of an argument that the code compiled by Triton depends on."""
    if isinstance(value, torch.Tensor):
        return value.dtype
    return type(value) if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else value


def _has_device() -> bool:
    driver = importlib.import_module("triton.runtime.driver").driver
    try:
        driver.active.get_current_target()
    except RuntimeError:
        return False
    return True

"""Users' Triton kernels: a launch is one node, of torch's own operator for them.

What Triton's decorators do at a launch is traced here. Heuristics and grids are the program's functions: they are
called while tracing, for each configuration of an autotuner. Configurations are pruned while tracing; which of those
that remain is the fastest is measured when the graph runs.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any, NoReturn

import torch

from dynamo_lite.insight.break_reasons import KernelLaunch
from dynamo_lite.plan.rows import Attribute, Value
from dynamo_lite.runtime import triton_kernels
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import Model, models, models_if
from dynamo_lite.variables.core.wrapping import wraps_if
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import SequenceVariable, TupleVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, is_plain_dense

from .kernel_launches import record_launch


class KernelVariable(UserObjectVariable):
    """A function under ``triton.jit``, perhaps under ``triton.autotune`` and ``triton.heuristics``."""

    __slots__ = ()

    def describe(self) -> str:
        return f"the Triton kernel {self.name}"

    @property
    def name(self) -> str:
        kernel = self.value
        while not isinstance(kernel, FunctionType):
            kernel = kernel.fn
        return kernel.__qualname__

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return LauncherVariable(self, key)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return LauncherVariable(self, None) if name == "run" else super().getattr(tx, name)

    def refuse(self, why: str, **instead: str) -> NoReturn:
        unsupported(KernelLaunch(self.name, why, **instead))


@wraps_if(triton_kernels.is_kernel, order=60)
def _wrap_kernel(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check("type", type(value))
    return KernelVariable(value, type(value), source)


class HostFunctionVariable(UserObjectVariable):
    """A function under ``triton.constexpr_function``, as ``triton.cdiv`` is: on a host it is the function itself."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        given = [each.realize() for each in (*args, *kwargs.values())]
        if "_semantic" in kwargs or any(isinstance(each, UserObjectVariable) for each in given):
            return super().call(tx, args, kwargs)  # an argument may be a `tl.constexpr`
        return tx.call(self.getattr(tx, "fn"), args, kwargs)


@wraps_if(triton_kernels.is_host_function, order=60)
def _wrap_host_function(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check("type", type(value))
    return HostFunctionVariable(value, type(value), source)


@models_if(type)
def _descriptor_class(value: type) -> Model | None:
    return _make_descriptor if triton_kernels.is_descriptor_class(value) else None


def _make_descriptor(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Describe a tensor. Its address, which must be aligned, is checked when the graph runs."""
    cls = triton_kernels.descriptor_class()
    try:
        bound = inspect.signature(cls).bind(*args, **kwargs)
    except TypeError:
        refuse_arguments(cls.__name__)
    bound.apply_defaults()
    made = UserObjectVariable(None, cls)
    for name, value in bound.arguments.items():
        made.attrs[name] = value if isinstance(value, VariableTracker) else tx.make(value)
    return made


@models(torch.library.wrap_triton)
def _wrap_triton(tx: Translator, kernel: VariableTracker) -> VariableTracker:
    """It lets other tracers see the kernel."""
    return kernel


class LauncherVariable(VariableTracker):
    """``kernel[grid]``; ``kernel.run`` if ``grid`` is None."""

    __slots__ = ("kernel", "grid")

    def __init__(self, kernel: KernelVariable, grid: VariableTracker | None) -> None:
        self.source = None
        self.kernel = kernel
        self.grid = grid

    def python_type(self) -> type:
        return FunctionType

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        own = {} if self.grid is None else {"grid": self.grid, "warmup": ConstantVariable(False)}
        return _Launch(tx, self.kernel, list(args), {**own, **kwargs}).record()

    def construct(self, plan: Planner) -> Value:
        grid = self.grid
        if grid is None:
            return Attribute(plan.value(self.kernel), "run")
        return plan.call(operator.getitem, self.kernel, grid)


class CompiledKernelVariable(VariableTracker):
    """What a launch returns. Only its existence is known: it is compiled when the graph runs."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: KernelVariable) -> None:
        self.source = None
        self.kernel = kernel

    def python_type(self) -> type:
        self.kernel.refuse("the program uses what it returns, which is compiled when the graph runs")


class _Launch:
    """A call of a kernel, as Triton's decorators pass it on to the function under ``triton.jit``."""

    def __init__(self, tx: Translator, kernel: KernelVariable, args: Args, kwargs: Kwargs) -> None:
        self.tx = tx
        self.kernel = kernel
        self.args = [each.realize() for each in args]
        self.kwargs = {name: value.realize() for name, value in kwargs.items()}
        self.block_shapes: dict[str, Sequence[int]] = {}
        """Parameter -> the block shape of the tensor descriptor that is its argument."""

    def record(self) -> VariableTracker:
        """Record the launch. Returns its result."""
        kernel = self.kernel
        while triton_kernels.is_heuristics(kernel.value):
            for name, value in self._heuristic_values(kernel, self.kwargs):
                self.kwargs[name] = value
            kernel = self._decorated(kernel)
        grid = self.kwargs.pop("grid", ConstantVariable(None))
        if self.tx.is_none(grid):
            self.kernel.refuse("it has no grid")
        if self.tx.truth(self.kwargs.pop("warmup", ConstantVariable(False))):
            self.kernel.refuse("it is a warm-up")
        self._guard(kernel)
        if any(body.transform for body in self.tx.graph.scope.nesting) or torch._C._are_functorch_transforms_active():
            self.kernel.refuse("torch.func transforms it")
        configs: Sequence[triton_kernels.Config] = ()
        function, launched = kernel, kernel.value
        if triton_kernels.is_autotuner(kernel.value):
            function, configs = self._configurations(kernel, grid)
            if configs is not kernel.value.configs:
                launched = triton_kernels.with_configs(kernel.value, function.value, configs)
        if not triton_kernels.is_function(function.value):
            self.kernel.refuse("its decorators are nested in a way that isn't modelled")
        if triton_kernels.is_interpreted(function.value) and self.tx.attempt.traits.generates_kernels:
            why = "under TRITON_INTERPRET=1 Python runs it, and this backend generates code that launches kernels"
            self.kernel.refuse(why, instead='use backend="aot_eager"')
        self._guard_function(function)
        fields = [triton_kernels.config_fields(each) for each in configs]
        arguments, options = self._bound(function.value, fields[0] if fields else {})
        if options:
            launched = triton_kernels.with_options(launched, options)
        names = [each.name for each in triton_kernels.parameters(function.value)]
        metas = [
            {name: self.tx.make(each[name]) if name in each else arguments[name] for name in names}
            for each in fields or [options]
        ]
        grids = [self._grid(grid, meta) for meta in metas]
        constexprs = {each.name for each in triton_kernels.parameters(function.value) if each.is_constexpr}
        values = {name: self._argument(name, value, name in constexprs) for name, value in arguments.items()}
        record_launch(self.tx, self.kernel.name, launched, grids, values, self.block_shapes)
        if triton_kernels.is_interpreted(function.value):
            return ConstantVariable(None)
        return CompiledKernelVariable(self.kernel)

    # -- Triton's decorators -------------------------------------------------------------------------------------------

    def _decorated(self, kernel: KernelVariable) -> KernelVariable:
        found = kernel.getattr(self.tx, "fn").realize()
        if not isinstance(found, KernelVariable):
            self.kernel.refuse(f"it decorates {found.describe()}")
        return found

    def _heuristic_values(self, kernel: KernelVariable, given: Kwargs) -> Iterable[tuple[str, VariableTracker]]:
        """The values that ``triton.heuristics`` computes, one by one: each sees those before it in ``given``."""
        functions = kernel.getattr(self.tx, "values").realize().builtin_part()
        if not isinstance(functions, DictVariable):
            self.kernel.refuse("its heuristics are no dict")
        for name, function in list(functions.items.items()):
            arguments = DictVariable({**self._positional(), **given})
            yield name, self.tx.call(function, [arguments], {}).realize()

    def _positional(self) -> Kwargs:
        return dict(zip(self.kernel.value.arg_names, self.args))

    def _configurations(
        self, kernel: KernelVariable, grid: VariableTracker
    ) -> tuple[KernelVariable, Sequence[triton_kernels.Config]]:
        """The function that an autotuner tunes, and the configurations that it tries; its own list if it tries all."""
        tuner = kernel.value
        if tuner.user_defined_pre_hook or tuner.user_defined_post_hook or any(each.pre_hook for each in tuner.configs):
            self.kernel.refuse("its autotuner runs hooks of the program's at each launch")
        assert kernel.source is not None
        configs = kernel.source.instance_item("configs")
        configs.check("id", tuner.configs)
        configs.check("length", len(tuner.configs))
        chosen = self._pruned(kernel, grid)
        function = self._decorated(kernel)
        while triton_kernels.is_heuristics(function.value):
            chosen = [self._with_heuristics(function, each, grid) for each in chosen]
            function = self._decorated(function)
        if triton_kernels.is_function(function.value):
            chosen = triton_kernels.with_parameters(function.value, chosen)
        return function, chosen

    def _with_heuristics(
        self, kernel: KernelVariable, config: triton_kernels.Config, grid: VariableTracker
    ) -> triton_kernels.Config:
        fields = {name: self.tx.make(value) for name, value in triton_kernels.config_fields(config).items()}
        given = {**self.kwargs, "grid": grid, "warmup": ConstantVariable(False), **fields}
        found = {}
        for name, value in self._heuristic_values(kernel, given):
            given[name], found[name] = value, self._constant(name, value)
        return triton_kernels.with_values(config, found)

    def _pruned(self, kernel: KernelVariable, grid: VariableTracker) -> Sequence[triton_kernels.Config]:
        """The configurations that ``early_config_prune``, a function of the program, leaves."""
        tuner, tx = kernel.value, self.tx
        if tuner.perf_model is not None:
            self.kernel.refuse("its autotuner chooses configurations by a perf_model")
        if tuner.early_config_prune is None:
            return tuner.configs
        arguments: Args = [kernel.getattr(tx, "configs"), DictVariable(self._positional())]
        given = {**self.kwargs, "grid": grid, "warmup": ConstantVariable(False)}
        configs = tx.call(kernel.getattr(tx, "early_config_prune"), arguments, given)
        found = [each.realize() for each in configs.elements(tx)]
        if not found or any(not isinstance(each, UserObjectVariable) or each.is_new or each.attrs for each in found):
            self.kernel.refuse("its autotuner's early_config_prune doesn't select some of its configurations")
        for each in found:
            assert each.source is not None
            each.source.check("id", each.value)
        return [each.value for each in found]

    # -- what is guarded -----------------------------------------------------------------------------------------------

    def _guard(self, kernel: KernelVariable) -> None:
        if kernel.attrs or kernel.source is None:
            self.kernel.refuse("the program assigns its attributes")
        kernel.source.check("id", kernel.value)

    def _guard_function(self, kernel: KernelVariable) -> None:
        """Guard a function under ``triton.jit``, and the globals that Triton compiles in."""
        self._guard(kernel)
        assert kernel.source is not None
        if kernel.value.pre_run_hooks:
            self.kernel.refuse("it has hooks that run before each launch")
        kernel.source.instance_item("pre_run_hooks").check("length", 0)
        try:
            used = list(triton_kernels.read_globals(kernel.value))
        except (RuntimeError, AttributeError) as error:
            self.kernel.refuse(f"Triton can't find out which globals it reads: {error}")
        for name, namespace, value in used:
            scope = self.tx.attempt.values.scope(namespace)
            now = namespace.get(name, MISSING)
            if name in scope.writes or now is MISSING or bool(now != value):
                self.kernel.refuse(f"the global {name} has changed, which Triton refuses")
            kind = "equals" if triton_kernels.is_plain(now) else "id"
            scope.source.child("dict_item", name).check(kind, now)

    # -- arguments -----------------------------------------------------------------------------------------------------

    def _bound(
        self, function: triton_kernels.Kernel, fields: dict[str, Any]
    ) -> tuple[dict[str, VariableTracker], dict[str, Any]]:
        """The arguments by parameter, without those of a configuration (``fields``), and the launch's options."""
        declared = triton_kernels.parameters(function)
        names = [each.name for each in declared]
        given = {**dict(zip(names, self.args)), **self.kwargs}
        options = {name: self._constant(name, given[name]) for name in triton_kernels.OPTIONS if name in given}
        given = {name: value for name, value in given.items() if name not in options}
        if any(type(value) not in (int, type(None)) for value in options.values()):
            self.kernel.refuse("an option is no integer")
        unknown = given.keys() - set(names)
        if unknown:
            self.kernel.refuse(f"its option {min(unknown)} has no equivalent in a graph")
        if options.get("num_ctas", 1) != 1:
            self.kernel.refuse("torch takes num_ctas only from a configuration of an autotuner")
        is_twice = len(self.args) > len(names) or any(name in self.kwargs for name in names[: len(self.args)])
        if is_twice or fields.keys() & {*given, *options}:
            self.kernel.refuse("an argument is given twice")
        for each in declared:
            if each.name not in given and each.name not in fields and each.name not in options:
                if each.default is inspect.Parameter.empty:
                    self.kernel.refuse(f"it lacks the argument {each.name}")
                given[each.name] = self.tx.make(each.default)
        return {name: given[name] for name in names if name in given}, options

    def _grid(self, grid: VariableTracker, meta: Kwargs) -> list[VariableTracker]:
        """The three sizes of a grid. ``meta``: the arguments that a function which computes it is called with."""
        found = grid
        if not isinstance(grid, SequenceVariable):
            found = self.tx.call(grid, [DictVariable(dict(meta))], {}).realize()
        if not isinstance(found, SequenceVariable):
            self.kernel.refuse(f"its grid is {found.describe()}, and no tuple")
        sizes = [each.realize() for each in found.items]
        if not 1 <= len(sizes) <= 3 or any(each.python_type() is not int for each in sizes):
            self.kernel.refuse("its grid isn't one to three integers")
        return [*sizes, *[ConstantVariable(1)] * (3 - len(sizes))]

    def _argument(self, name: str, value: VariableTracker, is_constexpr: bool) -> VariableTracker:
        value = value.realize()
        if not is_constexpr:
            if isinstance(value, TensorVariable):
                return self._plain_tensor(name, value)
            if isinstance(value, SymbolicNumber):
                return value
            if triton_kernels.is_descriptor_class(value.python_type()):
                return self._described_tensor(name, value)
        return InvariantVariable(self._constant(name, value))

    def _plain_tensor(self, name: str, value: VariableTracker) -> TensorVariable:
        if not isinstance(value, TensorVariable) or value.has_torch_function or not is_plain_dense(value.fake):
            self.kernel.refuse(f"its argument {name} is no plain tensor")
        return value

    def _described_tensor(self, name: str, value: VariableTracker) -> TensorVariable:
        """The tensor of a host's tensor descriptor. Torch takes those that describe the whole of a tensor."""
        tx = self.tx
        parts = {each: value.getattr(tx, each).realize() for each in inspect.signature(value.python_type()).parameters}
        base = self._plain_tensor(name, parts["base"])
        sizes = [tx.make(tuple(each)) for each in (base.fake.shape, base.fake.stride())]
        given = [TupleVariable(parts[each].elements(tx)) for each in ("shape", "strides")]
        settings = [tx.python_value(parts[each]) for each in ("padding", "round_f32_to_tf32") if each in parts]
        if any(each not in ("zero", False) for each in settings) or not all(map(tx.same_or_equal, given, sizes)):
            self.kernel.refuse(f"the tensor descriptor {name} describes a part of its tensor, or changes what it loads")
        self.block_shapes[name] = [*tx.python_value(parts["block_shape"])]
        return base

    def _constant(self, name: str, value: VariableTracker) -> Any:
        """The value of a ``tl.constexpr``, guarded: a symbolic number is specialized."""
        value = value.realize()
        if isinstance(value, (UserObjectVariable, FunctionVariable)) and value.source is not None:
            value.source.check("id", value.value)
            return value.value
        if isinstance(value, TensorVariable):
            self.kernel.refuse(f"its argument {name} is a tensor, and must be a constant")
        return self.tx.python_value(value)

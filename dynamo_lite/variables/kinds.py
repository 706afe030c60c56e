"""Registers all kinds of values and all models of callables, by importing their modules."""

# ruff: noqa: F401

from importlib.util import find_spec

from . import stdlib
from .core import constant
from .python import builtins
from .python.classes import classes, construct, super_object
from .python.containers import deques, existing_dict, iterators, mappings, sequences, sets
from .python.functions import builtin_callable, function
from .python.numbers import symbolic
from .python.objects import (
    enumeration,
    exception,
    existing_iterator,
    existing_objects,
    identifiers,
    opaque,
    property_object,
    thread_local,
    user_object,
    weak_reference,
)
from .torch.autograd import created_leaves, function_objects, gradients, leaf_attributes, tensor_hooks
from .torch.autograd import function as autograd_function
from .torch.contexts import streams, torch_contexts
from .torch.functions import (
    collectives,
    compile_calls,
    compiler_marks,
    devices,
    legacy_constructors,
    nvtx,
    optimizers,
    predicates,
    random_state,
    scalar_arguments,
    symbolic_float_factors,
    torch_function,
    torch_functions,
)
from .torch.higher_order import control_flow, flex_attention, transforms, triton_kernels
from .torch.modules import backward_hooks, lazy_modules, nn_module, packed_sequences
from .torch.subclasses import created_wrappers, distributed_tensors, wrapper_subclass
from .torch.tensors import hook_handles, symbolic_indices, tensor

if find_spec("numpy") is not None:
    from .numpy import arrays, conversions, existing_iterators, existing_scalars

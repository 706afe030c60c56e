"""Registers all kinds of values and all models of callables, by importing their modules."""

# ruff: noqa: F401

from importlib.util import find_spec

from . import stdlib
from .core import constant
from .python import builtins
from .python.classes import classes, construct, super_object
from .python.containers import deques, existing_dict, iterator, mapping, sequence, sets
from .python.functions import c_callable, function
from .python.numbers import symbolic
from .python.objects import (
    enumeration,
    exception,
    existing_iterator,
    identity,
    property_object,
    thread_local,
    user_object,
    weak_proxy,
    weak_reference,
)
from .torch.autograd import created_leaves, gradients, nodes, tensor_history, tensor_hooks
from .torch.autograd import function as autograd_function
from .torch.contexts import context
from .torch.functions import (
    compiler_marks,
    float_factors,
    legacy_constructors,
    number_arguments,
    torch_function_classes,
    torch_functions,
)
from .torch.higher_order import control_flow, flex_attention, transforms
from .torch.modules import backward_hooks, lazy_modules, nn_module
from .torch.subclasses import created_wrappers, wrapper_subclass
from .torch.tensors import default_dtype, hook_handles, symbolic_indices, tensor

if find_spec("numpy") is not None:
    from .numpy import numpy, tensors

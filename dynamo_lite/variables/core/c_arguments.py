"""Arguments of callables in C: whether one takes them, and CPython's error if it doesn't."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeVar

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import UnsupportedArguments

from .class_lookup import is_immutable

EMPTY_SAMPLES = frozenset({list, tuple, dict, set, frozenset, deque, OrderedDict})
"""Types for which an empty instance raises the same errors as any other."""
_CREATED_EMPTY = (*EMPTY_SAMPLES, defaultdict, str, bytes, int, float, complex)
"""Types whose methods, on an empty instance that nobody else has, affect nothing else."""


class Raises(Protocol):
    """Raises exceptions in the traced program."""

    def raise_error(self, cls: type[BaseException], *args: object) -> NoReturn: ...


_TYPES_IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def takes_arguments(function: Any, count: int, names: Iterable[str]) -> bool:
    """Whether a callable in C takes ``count`` positional arguments and keyword arguments of these names. True for other
    callables, and for those that don't declare a signature."""
    kind = type(function)
    is_in_c = kind in _TYPES_IN_C or kind is type and is_immutable(function)
    return not is_in_c or fits_signature(function, count, tuple(names))


@functools.cache
def fits_signature(function: Any, count: int, names: tuple[str, ...]) -> bool:
    """Whether a callable's signature takes these arguments; True if it doesn't declare one."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return True
    try:
        signature.bind(*(None,) * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


_ABOUT_ARGUMENTS = re.compile(
    r"\b(takes|expected) (no|exactly|at most|at least|from|\d+) |keyword argument|missing required"
)
"""The texts of errors for a wrong number or wrong names of arguments."""


def raise_argument_error(
    tx: Raises, function: Any, count: int, names: Iterable[str], derived: type | None = None
) -> None:
    """Raise CPython's TypeError if a callable in C doesn't take this number of arguments, or these names. To find out,
    it is called with an empty instance and None, unless such a call might have an effect. ``derived``: the receiver's
    class, which the text names."""
    owner = function if type(function) is type else getattr(function, "__objclass__", None)
    is_method = type(function) in (types.MethodDescriptorType, types.WrapperDescriptorType)
    if not any(owner is each for each in _CREATED_EMPTY) and (is_method or takes_arguments(function, count, names)):
        return
    receivers: list[object] = []
    if is_method and owner is not None:
        kind = owner if derived is None else type(derived.__name__, (owner,), {})
        receivers = [kind()]
    try:
        function(*receivers, *[None] * (count - len(receivers)), **dict.fromkeys(names))
    except TypeError as error:
        if _ABOUT_ARGUMENTS.search(str(error)):
            tx.raise_error(TypeError, *error.args)
    except (ValueError, LookupError, AttributeError, OverflowError):
        return


def refuse_arguments(name: str) -> NoReturn:
    """Break the graph: CPython raises the error for arguments that a builtin doesn't take."""
    raise Unsupported(UnsupportedArguments(name))


_Result = TypeVar("_Result")


def call_handler(
    handler: Callable[..., _Result],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    name: str,
    function: Any = None,
    count: int = 0,
) -> _Result:
    """Call the model of the builtin ``name``, the callable ``function``. If the model doesn't take the arguments, of
    which ``count`` are positional ones of the builtin, raise CPython's error or break the graph."""
    try:
        return handler(*args, **kwargs)
    except TypeError as error:
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:
            raise
    raise_argument_error(args[0], function, count, kwargs)
    refuse_arguments(name)

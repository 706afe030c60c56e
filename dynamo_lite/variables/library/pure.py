"""Functions of numbers and strings: called on known values."""

from __future__ import annotations

import math
import types
from typing import Any

from ...reasons import UnsupportedOperation
from ..base import Args, Kwargs, VariableTracker, unsupported
from ..registry import models_raw
from ..tensor import TensorVariable
from ..user_object import UserObjectVariable

_PURE: tuple[Any, ...] = (
    *(value for name, value in vars(math).items() if isinstance(value, types.BuiltinFunctionType)),
    *(round, divmod, pow, chr, ord, bin, hex, oct, ascii, bytes, bytearray.fromhex),
    *(str.maketrans, int.from_bytes, float.fromhex),
)


def _pure(value: Any) -> None:
    def model(tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        if any(isinstance(arg, TensorVariable) for arg in args):
            return _pure_of_tensor(tx, value, args, kwargs)
        if args and isinstance(args[0], UserObjectVariable) and not args[0].is_constant():
            method = args[0].special(tx, f"__{value.__name__}__")
            if method is not None:
                return tx.call(method, args[1:], kwargs)
        named = {name: tx.python_value(item) for name, item in kwargs.items()}
        return tx.make(tx.fold(value, [tx.python_value(arg) for arg in args], named))

    models_raw(value, model)


def _pure_of_tensor(tx: Any, value: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    if value is pow and len(args) == 2:
        return tx.binary("**", *args)
    unsupported(UnsupportedOperation(f"{value.__name__}()", "a tensor"))


for _value in _PURE:
    _pure(_value)

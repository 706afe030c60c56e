"""The module ``copy``: each object once."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

from ...reasons import UnsupportedOperation
from ..attributes import MISSING, class_lookup
from ..base import VariableTracker, unsupported
from ..c_callable import BuiltinVariable
from ..constant import ConstantVariable
from ..function import ClassVariable, FunctionVariable, ModuleVariable
from ..mapping import DictVariable, SetVariable
from ..registry import models
from ..sequence import ListVariable, TupleVariable
from ..user_object import EnumVariable, InstanceDictVariable, UserObjectVariable


@models(copy.copy)
def _copy(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, (ListVariable, DictVariable, SetVariable)):
        return of.method_copy(tx)
    if isinstance(of, (ConstantVariable, TupleVariable, ClassVariable, FunctionVariable)):
        return of
    unsupported(UnsupportedOperation("copy.copy()", of.describe()))


@models(copy.deepcopy)
def _deepcopy(tx: Any, of: VariableTracker, memo: VariableTracker | None = None) -> VariableTracker:
    if memo is not None:
        unsupported(UnsupportedOperation("copy.deepcopy() with a memo", of.describe()))
    return _DeepCopy(tx).copy(of)


class _DeepCopy:
    """``copy.deepcopy``: each object once."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self._done: dict[VariableTracker, VariableTracker] = {}

    def copy(self, of: VariableTracker) -> VariableTracker:
        of = of.realize()
        if isinstance(of, _ATOMIC):
            return of
        found = self._done.get(of)
        if found is None:
            found = self._done[of] = self._copy(of)
        return found

    def _copy(self, of: VariableTracker) -> VariableTracker:
        if type(of) is ListVariable or type(of) is TupleVariable:
            made: Any = type(of)([])
            self._done[of] = made
            made.items.extend(self.copy(item) for item in of.items)  # type: ignore[attr-defined]
            same = isinstance(of, TupleVariable) and all(a is b.realize() for a, b in zip(made.items, of.items))
            return of if same else made
        if isinstance(of, DictVariable) and of.cls is not defaultdict:
            made = self._done[of] = DictVariable({}, None, None, of.cls)
            for key, value in of.items.items():
                made.put(self.copy(of.key_variable(key)), self.copy(value))
            return made
        if isinstance(of, InstanceDictVariable):
            return self._copy(of.of.namespace(self._tx))
        if isinstance(of, SetVariable):
            return SetVariable({key: self.copy(item) for key, item in of.items.items()}, None, of.cls)
        if type(of) is UserObjectVariable and of.payload is None:
            return self._copy_object(of)
        unsupported(UnsupportedOperation("copy.deepcopy()", of.describe()))

    def _copy_object(self, of: UserObjectVariable) -> VariableTracker:
        for name in _COPY_HOOKS:
            if class_lookup(of.cls, name) is not getattr(object, name, MISSING):
                unsupported(UnsupportedOperation(f"copy.deepcopy() by {name}", of.describe()))
        made = self._done[of] = UserObjectVariable(None, of.cls)
        for name, value in of.namespace(self._tx).items.items():
            made.attrs[name] = self.copy(value)
        return made


_ATOMIC = (ConstantVariable, ClassVariable, FunctionVariable, BuiltinVariable, ModuleVariable, EnumVariable)
_COPY_HOOKS = (
    "__deepcopy__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__slots__",
    "__getnewargs_ex__",
)

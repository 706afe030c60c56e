"""The module ``copy``: containers natively, each object once; objects as their classes say."""

from __future__ import annotations

import copy
from typing import Any

from ...reasons import UnsupportedOperation
from .. import polyfills
from ..attributes import MISSING, MethodVariable
from ..base import VariableTracker, unsupported
from ..c_callable import BuiltinVariable
from ..constant import ConstantVariable
from ..deques import DequeVariable
from ..function import ClassVariable, FunctionVariable, NestedFunctionVariable
from ..identity import IdVariable
from ..instance_dict import InstanceDictVariable
from ..keys import key_of
from ..mapping import DictVariable
from ..registry import models
from ..sequence import ListVariable, NamedTupleVariable, TupleVariable
from ..sets import SetVariable
from ..user_object import EnumVariable, UserObjectVariable

_ATOMIC = (
    *(ConstantVariable, ClassVariable, FunctionVariable, NestedFunctionVariable, BuiltinVariable),
    EnumVariable,
)


@models(copy.copy)
def _copy(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, (ListVariable, DictVariable, SetVariable, DequeVariable)):
        return of.method_copy(tx)
    if isinstance(of, NamedTupleVariable):
        return of.like(list(of.items))
    if isinstance(of, (*_ATOMIC, TupleVariable)):
        return of
    if isinstance(of, InstanceDictVariable):
        return of.of.namespace(tx)
    if type(of) is UserObjectVariable:
        return tx.call(tx.make(polyfills.copy.copy_object), [of], {})
    unsupported(UnsupportedOperation("copy.copy()", of.describe()))


class MemoVariable(DictVariable):
    """The memo of a deep copy under way: id of what is copied -> its copy."""

    __slots__ = ()


@models(copy.deepcopy)
def _deepcopy(tx: Any, of: VariableTracker, memo: VariableTracker | None = None) -> VariableTracker:
    if memo is None or tx.is_none(memo):
        memo = MemoVariable({})
    if not isinstance(memo, MemoVariable):
        unsupported(UnsupportedOperation("copy.deepcopy() with a memo", of.describe()))
    return _DeepCopy(tx, memo).copy(of)


class _DeepCopy:
    def __init__(self, tx: Any, memo: MemoVariable) -> None:
        self._tx = tx
        self._memo = memo

    def copy(self, of: VariableTracker) -> VariableTracker:
        of = of.realize()
        if isinstance(of, _ATOMIC):
            return of
        found = self._memo.items.get(key_of(self._tx, IdVariable(of)))
        return found.realize() if found is not None else self._note(of, self._copy(of))

    def _note(self, of: VariableTracker, made: Any) -> Any:
        if made is not of:
            self._memo.put(self._tx, IdVariable(of), made)
        return made

    def _copy(self, of: VariableTracker) -> VariableTracker:
        if type(of) in (ListVariable, TupleVariable):
            return self._copy_sequence(of)
        if isinstance(of, NamedTupleVariable) and type(of) is NamedTupleVariable:
            return of.like([self.copy(item) for item in of.items])
        if isinstance(of, DequeVariable):
            made: Any = self._note(of, DequeVariable([], None, of.maxlen))
            made.items.extend(self.copy(item) for item in of.items)
            return made
        if isinstance(of, DictVariable):
            factory = None if of.factory is None else self.copy(of.factory)
            made = self._note(of, DictVariable({}, None, None, of.cls, factory))
            for key, value in of.items.items():
                made.put(self._tx, self.copy(of.key_variable(key)), self.copy(value))
            return made
        if isinstance(of, InstanceDictVariable):
            return self._copy(of.of.namespace(self._tx))
        if isinstance(of, SetVariable):
            return SetVariable.of(self._tx, [self.copy(item) for item in of.elements(self._tx)], of.cls)
        if isinstance(of, MethodVariable):
            return MethodVariable(of.function, self.copy(of.receiver))
        if type(of) is UserObjectVariable:
            return self._copy_object(of)
        unsupported(UnsupportedOperation("copy.deepcopy()", of.describe()))

    def _copy_sequence(self, of: Any) -> VariableTracker:
        made: Any = type(of)([])
        self._note(of, made)
        made.items.extend(self.copy(item) for item in of.items)
        if isinstance(of, TupleVariable) and all(a is b.realize() for a, b in zip(made.items, of.items)):
            return of
        return made

    def _copy_object(self, of: UserObjectVariable) -> VariableTracker:
        plain = all(self._tx.lookup(of.cls, name) is getattr(object, name, MISSING) for name in _HOOKS)
        if not plain or of.payload is not None:
            return self._tx.call(self._tx.make(polyfills.copy.deepcopy_object), [of, self._memo], {}).realize()
        made = self._note(of, UserObjectVariable(None, of.cls))
        for name, value in of.namespace(self._tx).items.items():
            made.attrs[name] = self.copy(value)
        return made


_HOOKS = (
    *("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__slots__"),
    *("__getnewargs__", "__getnewargs_ex__", "__new__"),
)
"""What a class may have to say how its instances are copied."""

"""Methods of builtin types that call the class of the instance, or other methods of it: what they do, in Python.

These are facts of CPython, one row a type and method. A method without a row works on the items or the value alone. A
test compares the table with the running CPython.
"""

from __future__ import annotations

import copyreg
import operator
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from typing import Any

# -- strings -----------------------------------------------------------------------------------------------------------


def _percent(self: Any, values: object, /) -> str:
    template = str.__str__(self)
    text = template.__mod__(values)  # without __rmod__ of the values' class
    return self if template and "%" not in template else text


def _format(self: Any, /, *args: Any, **named: Any) -> str:
    template = str.__str__(self)
    return self if template and not _has_fields(template) else template.format(*args, **named)


def _format_map(self: Any, mapping: Any, /) -> str:
    template = str.__str__(self)
    return self if template and not _has_fields(template) else template.format_map(mapping)


def _has_fields(template: str) -> bool:
    return "{" in template or "}" in template


# -- sets and deques ---------------------------------------------------------------------------------------------------


class _HidesItems(set[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


# CPython 3.14 and late releases of 3.13 don't call the class's own `__iter__` and `__len__`; others do.
_SHOWN_BY_OWN_ITEMS = "7" in repr(_HidesItems({7}))


def _repr_of_set(self: Any) -> str:
    items = repr(list(set.__iter__(self) if _SHOWN_BY_OWN_ITEMS else self)) if set.__len__(self) else ""
    return f"{type(self).__name__}({{{items[1:-1]}}})" if items else f"{type(self).__name__}()"


def _repr_of_frozenset(self: Any) -> str:
    items = repr(list(frozenset.__iter__(self) if _SHOWN_BY_OWN_ITEMS else self)) if frozenset.__len__(self) else ""
    return f"{type(self).__name__}({{{items[1:-1]}}})" if items else f"{type(self).__name__}()"


_maxlen_of: Any = deque.__dict__["maxlen"]


def _repr_of_deque(self: Any) -> str:
    limit = _maxlen_of.__get__(self)
    items = repr(list(self))
    return f"{type(self).__name__}({items})" if limit is None else f"{type(self).__name__}({items}, maxlen={limit})"


def _comparing(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    is_equality = compare in (operator.eq, operator.ne)

    def compared(self: Any, other: Any, /) -> Any:
        if not isinstance(other, deque):
            return NotImplemented
        if is_equality and (self is other or deque.__len__(self) != deque.__len__(other)):
            return compare(self is other, True)
        for one, another in zip_longest(self, other, fillvalue=_END):
            if one is _END or another is _END:
                return compare(one is not _END, another is not _END)
            if not (one is another or one == another):
                return bool(compare(one, another))
        return compare(0, 0)

    return compared


_END = object()


def _place_in_deque(self: Any, index: Any) -> Any:
    """Of an item. Negative indices count from the end by the class's own `__len__`."""
    if not hasattr(type(index), "__index__"):
        return index  # the deque refuses it
    at = operator.index(index)
    if at < 0:
        at += len(self)
        if at < 0:
            raise IndexError("deque index out of range")
    return at


def _get_item_of_deque(self: Any, index: Any, /) -> Any:
    return deque.__getitem__(self, _place_in_deque(self, index))


def _set_item_of_deque(self: Any, index: Any, value: Any, /) -> None:
    deque.__setitem__(self, _place_in_deque(self, index), value)


def _delete_item_of_deque(self: Any, index: Any, /) -> None:
    deque.__delitem__(self, _place_in_deque(self, index))


def _copy_of_deque(self: Any, /) -> Any:
    limit = _maxlen_of.__get__(self)
    made = type(self)(self) if limit is None else type(self)(self, limit)
    if not isinstance(made, deque):
        raise TypeError(f"{type(self).__name__}() must return a deque, not {type(made).__name__}")
    return made


def _add_deques(self: object, other: object, /) -> Any:
    if not isinstance(other, deque):
        raise TypeError(f'can only concatenate deque (not "{type(other).__name__}") to deque')
    made = _copy_of_deque(self)
    deque.extend(made, other)
    return made


def _repeat_deque(self: object, count: Any, /) -> Any:
    times = operator.index(count)
    made = _copy_of_deque(self)
    return _repeat_in_place(made, times)


def _repeat_in_place(self: Any, count: Any, /) -> Any:
    times = operator.index(count)
    size = deque.__len__(self)
    if times <= 0:
        deque.clear(self)
    elif times > 1 and size:
        items = list(self) if size > 1 else [deque.__getitem__(self, 0)]
        deque.extend(self, items * (times - 1))
    return self


# -- dicts -------------------------------------------------------------------------------------------------------------


def _merging(base: type, create: Callable[[Any, Any], Any], update: Callable[[Any, Any], None]) -> dict[str, Any]:
    """``|`` of dicts. ``create``: from the operand of the type, the left one if both are, and the left operand, a dict
    with the items of that."""

    def merged(self: object, other: object, /) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        made = create(self, self)
        update(made, other)
        return made

    def merged_into(self: object, other: object, /) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        made = create(other if isinstance(other, base) else self, other)
        update(made, self)
        return made

    return {"__or__": merged, "__ror__": merged_into}


def _copy_of_dict(self: Any, /) -> Any:
    """``PyDict_Copy``."""
    if not dict.__len__(self):
        return {}
    if type(self).__iter__ is dict.__iter__:
        return dict(dict.items(self))
    return {key: self[key] for key in list(self.keys())}


_factory_of: Any = defaultdict.__dict__["default_factory"]


def _init_defaultdict(self: Any, factory: object = None, /, *args: Any, **named: Any) -> None:
    if factory is not None and not callable(factory):
        raise TypeError("first argument must be callable or None")
    if len(args) > 1:
        raise TypeError(f"dict expected at most 1 argument, got {len(args)}")
    object.__setattr__(self, "default_factory", factory)
    dict.update(self, *args, **named)


def _repr_of_defaultdict(self: Any) -> str:
    return f"{type(self).__name__}({_factory_of.__get__(self)!r}, {dict(dict.items(self))!r})"


class _KeepsNothing(defaultdict[str, int]):
    def __setitem__(self, key: str, value: int) -> None:
        """Stores nothing."""


_LACKS = _KeepsNothing(int)
# That of CPython 3.14.8 doesn't call the class's own `__setitem__`; others do.
_MISSING_CALLS_SETITEM = _LACKS["any"] not in _LACKS.values()


def _missing(self: Any, key: object, /) -> Any:
    factory = _factory_of.__get__(self)
    if factory is None:
        raise KeyError(key)
    value = factory()
    if not _MISSING_CALLS_SETITEM:
        return dict.setdefault(self, key, value)
    self[key] = value
    return value


def _copy_of_defaultdict(self: Any, /) -> Any:
    return type(self)(_factory_of.__get__(self), self)


_MISSING: Any = object()


def _update_ordered(self: Any, other: Any = (), /, **named: object) -> None:
    if type(other) is dict:
        for key, value in other.items():
            self[key] = value
    elif (keys := getattr(other, "keys", _MISSING)) is not _MISSING:
        for key in keys():
            self[key] = other[key]
    else:
        items = getattr(other, "items", _MISSING)
        for pair in other if items is _MISSING else items():
            parts = list(islice(pair, 3))
            if len(parts) < 2:
                raise ValueError(f"need more than {len(parts)} value{'' if parts else 's'} to unpack")
            if len(parts) > 2:
                raise ValueError("too many values to unpack (expected 2)")
            self[parts[0]] = parts[1]
    for key, value in named.items():
        self[key] = value


def _update_in_place(self: object, other: object, /) -> Any:
    _update_ordered(self, other)
    return self


def _setdefault_ordered(self: Any, key: Any, default: Any = None) -> Any:
    if key in self:
        return self[key]
    self[key] = default
    return default


def _copy_of_ordered(self: Any, /) -> Any:
    made = type(self)()
    for key in OrderedDict.__iter__(self):
        made[key] = self[key]
    return made


def _repr_of_ordered(self: Any) -> str:
    if not dict.__len__(self):
        return f"{type(self).__name__}()"
    return f"{type(self).__name__}({_copy_of_dict(self) if sys.version_info >= (3, 12) else list(self.items())!r})"


# -- copying and pickling ----------------------------------------------------------------------------------------------


def reduce_to_parts(self: Any, getter: str, /) -> Any:
    """``object.__reduce_ex__`` from protocol 2 on, for ``copy.copy`` and ``copy.deepcopy``. ``getter``: the method that
    the class has of those for arguments of ``__new__``, or an empty string."""
    cls: Any = type(self)
    reduce = getattr(self, "__reduce__", None)
    if reduce is not None and cls.__reduce__ is not object.__reduce__:
        return reduce()
    named: dict[str, Any] = {}
    args: tuple[Any, ...] = ()
    if getter == "__getnewargs_ex__":
        args, named = cls.__getnewargs_ex__(self)
    elif getter:
        args = cls.__getnewargs__(self)
    state = self.__getstate__()
    items = iter(self) if issubclass(cls, list) else None  # without `isinstance`, which may read `__class__`
    pairs = iter(self.items()) if issubclass(cls, dict) else None
    if named:
        return copyreg.__newobj_ex__, (cls, args, named), state, items, pairs  # type: ignore[attr-defined]
    return copyreg.__newobj__, (cls, *args), state, items, pairs  # type: ignore[attr-defined]


def _arguments_of_tuple(self: Any, /) -> tuple[Any, ...]:
    return (tuple.__getitem__(self, slice(None)),)


def _reduce_set(self: Any, /) -> Any:
    return type(self), (list(self),), self.__getstate__()


def _reduce_deque(self: Any, /) -> Any:
    limit = _maxlen_of.__get__(self)
    return type(self), () if limit is None else ((), limit), self.__getstate__(), iter(self)


def _reduce_defaultdict(self: Any, /) -> Any:
    factory = _factory_of.__get__(self)
    return type(self), () if factory is None else (factory,), None, None, iter(self.items())


def _reduce_ordered(self: Any, /) -> Any:
    return type(self), (), self.__getstate__(), None, iter(self.items())


OF_DERIVED: dict[type, dict[str, Any]] = {
    str: {"__mod__": _percent, "format": _format, "format_map": _format_map},
    tuple: {"__getnewargs__": _arguments_of_tuple},
    set: {"__repr__": _repr_of_set, "__reduce__": _reduce_set},
    frozenset: {"__repr__": _repr_of_frozenset, "__reduce__": _reduce_set},
    deque: {
        "__getitem__": _get_item_of_deque,
        "__setitem__": _set_item_of_deque,
        "__delitem__": _delete_item_of_deque,
        "__reduce__": _reduce_deque,
        "__repr__": _repr_of_deque,
        **{f"__{each.__name__}__": _comparing(each) for each in (operator.eq, operator.ne, operator.lt, operator.le)},
        **{f"__{each.__name__}__": _comparing(each) for each in (operator.gt, operator.ge)},
        **dict.fromkeys(("copy", "__copy__"), _copy_of_deque),
        "__add__": _add_deques,
        **dict.fromkeys(("__mul__", "__rmul__"), _repeat_deque),
        "__imul__": _repeat_in_place,
    },
    dict: {"copy": _copy_of_dict, **_merging(dict, lambda self, left: _copy_of_dict(left), dict.update)},
    defaultdict: {
        "__init__": _init_defaultdict,
        "__missing__": _missing,
        "__repr__": _repr_of_defaultdict,
        "__reduce__": _reduce_defaultdict,
        **dict.fromkeys(("copy", "__copy__"), _copy_of_defaultdict),
        **_merging(defaultdict, lambda self, left: type(self)(_factory_of.__get__(self), left), dict.update),
    },
    OrderedDict: {
        "__repr__": _repr_of_ordered,
        "__reduce__": _reduce_ordered,
        **dict.fromkeys(("__init__", "update"), _update_ordered),
        "setdefault": _setdefault_ordered,
        "copy": _copy_of_ordered,
        **_merging(OrderedDict, lambda self, left: type(self)(left), _update_ordered),
        "__ior__": _update_in_place,
    },
}
"""The builtin type, the name of its method -> the function that is inlined on an instance of a derived class."""

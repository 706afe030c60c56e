"""What ``except*`` and exception groups' methods do, as CPython's ``exceptions.c`` does it."""

from __future__ import annotations

from typing import Any


def _wraps_one() -> bool:
    """Whether one exception that a clause of ``except*`` raises comes out in a group: before 3.11.4 it does."""
    try:
        try:
            raise ExceptionGroup("", [ValueError()])
        except* ValueError:
            raise KeyError from None
    except ExceptionGroup:
        return True
    except KeyError:
        return False


WRAPS_ONE = _wraps_one()


def _matches(error: Any, condition: Any) -> Any:
    return isinstance(error, condition) if isinstance(condition, (type, tuple)) else condition(error)


def derived(group: Any, errors: Any) -> Any:
    """A group like this one of other errors; None of none."""
    if not errors:
        return None
    made = group.derive(errors)
    made.__context__ = group.__context__
    if group.__cause__ is not None:
        made.__cause__ = group.__cause__
    notes = getattr(group, "__notes__", None)
    if notes is not None:
        made.__notes__ = list(notes)
    return made


def split(group: Any, condition: Any) -> Any:
    if _matches(group, condition):
        return group, None
    matched, rest = [], []
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            inside, outside = split(error, condition)
            if inside is not None:
                matched.append(inside)
            if outside is not None:
                rest.append(outside)
        elif _matches(error, condition):
            matched.append(error)
        else:
            rest.append(error)
    return derived(group, matched), derived(group, rest)


def subgroup(group: Any, condition: Any) -> Any:
    return split(group, condition)[0]


def match(error: Any, kinds: Any) -> Any:
    """``CHECK_EG_MATCH``: what an ``except*`` clause takes, and what it leaves."""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise TypeError("catching classes that do not inherit from BaseException is not allowed")
        if issubclass(kind, BaseExceptionGroup):
            raise TypeError("catching ExceptionGroup with except* is not allowed. Use except instead.")
    if isinstance(error, kinds):
        return (error if isinstance(error, BaseExceptionGroup) else BaseExceptionGroup("", (error,))), None
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)
    return None, error


def _leaves(error: Any) -> Any:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _comes_from(error: Any, original: Any) -> Any:
    """Whether it is a part of the original that was only passed on."""
    if not isinstance(error, BaseExceptionGroup):
        return False
    for name in ("__notes__", "__cause__", "__context__"):
        if getattr(error, name, None) is not getattr(original, name, None):
            return False
    return True


def reraised(original: Any, errors: Any) -> Any:
    """``PREP_RERAISE_STAR``: what is raised after all clauses; None if nothing is."""
    if not isinstance(original, BaseExceptionGroup):
        return errors[0]
    raised, kept = [], []
    for error in errors:
        if error is not None:
            if _comes_from(error, original):
                kept += _leaves(error)
            else:
                raised.append(error)
    rest = split(original, lambda error: any([error is each for each in kept]))[0] if kept else None
    if not raised:
        return rest
    if rest is not None:
        raised.append(rest)
    return BaseExceptionGroup("", raised) if len(raised) > 1 or WRAPS_ONE else raised[0]

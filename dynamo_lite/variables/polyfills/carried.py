"""What makes an object again that went over a break in its parts."""

from __future__ import annotations

from typing import Any


def create_generator(function: Any, cells: Any, *values: Any) -> Any:
    """``function``: makes the generator's function from its cells."""
    return function(cells)(*values)


def create_started_generator(function: Any, cells: Any, *values: Any) -> Any:
    """One that has come to its first ``yield``."""
    generator = function(cells)(*values)
    next(generator)
    return generator


def create_object(cls: Any, names: Any, *values: Any) -> Any:
    """An instance with these attributes."""
    made = object.__new__(cls)
    for name, value in zip(names, values):
        object.__setattr__(made, name, value)
    return made


def strict_zip(*iterators: Any) -> Any:
    return zip(*iterators, strict=True)


def build_from_recipe(recipe: Any, values: Any) -> Any:
    """``recipe``: what makes it, what that takes first, and of each value a recipe or None."""
    make, first, *recipes = recipe
    made = [value if inner is None else build_from_recipe(inner, value) for inner, value in zip(recipes, values)]
    return make(*first, *made)


def advanced(iterator: Any, count: int) -> Any:
    """The iterator after that many items."""
    for _ in range(count):
        next(iterator)
    return iterator

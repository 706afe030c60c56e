"""Numbers that may differ from call to call: which sizes and arguments are symbols, and what a graph relies on.

torch's ``ShapeEnv`` does the algebra and gathers what it was asked. Each symbol has a `Place`, where a call finds its
number; from the places and what the ``ShapeEnv`` gathered come the facts that are checked, in C++, before each call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch._guards

from dynamo_lite.exc import ConstraintViolation, Unsupported
from dynamo_lite.insight.break_reasons import DataDependentValue, RandomValue
from dynamo_lite.runtime.inner_tensors import is_wrapper, parts

from .conditions import checkable_parts, integer_roots, no_limit, printer, symbolic_shapes, sympy_module
from .expressions import Step
from .facts import LARGE, Computed, Fact, Place, marked_ranges
from .float_formulas import Bounds, Formula, decided, of_integer, same
from .policy import Free
from .python_random import Draw

if TYPE_CHECKING:
    from dynamo_lite.records.source import Source

SYMBOLIC: tuple[type, ...] = (torch.SymInt, torch.SymFloat, torch.SymBool)


_LARGE_PRIME = (1 << 31) - 1


class _Name(torch._guards.Source):
    """A place as torch's ``ShapeEnv`` names it in its messages."""

    def __init__(self, name: str, is_ephemeral: bool = False) -> None:
        self._text = name
        self._is_ephemeral = is_ephemeral

    def is_ephemeral(self) -> bool:
        return self._is_ephemeral

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Name) and self._text == other._text


class Symbols:
    """The symbols of one attempt, over a ``ShapeEnv``."""

    def __init__(self, shape_env: Any) -> None:
        self.env = shape_env
        self.places: dict[Any, Place | Computed] = {}
        """Symbol -> where its number is found."""
        self._hints: dict[Any, int] = {}
        self._of_bases: dict[Any, tuple[Place, int]] = {}
        """Symbol -> where it is found, and what it is there, if a condition comes to name it."""
        self._numbers: list[tuple[Any, Place | Computed, int]] = []
        """(SymInt, place, number) of all that may differ from call to call."""
        self._marked: list[tuple[Any, Place]] = []
        self._ranges: list[tuple[Any, Any]] = []
        """Symbols with their first ranges."""
        self.of_data: set[Any] = set()
        """Symbols of which nothing is known before the graph runs."""
        self._names: dict[str, int] = {}
        self._symbols: dict[Place | Computed, Any] = {}
        """Those that only facts have."""
        self._by_source: dict[Source, torch.SymInt] = {}
        self._floats: dict[Source, Formula] = {}
        self._drawn: dict[Any, torch.SymInt] = {}
        """Symbols of random numbers, and what stands for them."""
        self.has_floats = False
        """Whether there are formulas of floats."""
        self.settled: set[Formula] = set()
        """Those that are the same in every call."""
        self._required: list[tuple[Formula, bool]] = []
        """Comparisons of floats, and what they must give."""
        self._noted: list[Any] = []
        """The user's frame at which each of the ``ShapeEnv``'s guards came to be."""

    def close(self) -> None:
        """torch remembers answers of each ``ShapeEnv``, and with them that itself, for as long as there is room."""
        if self.there_are or self._drawn:
            for method in vars(type(self.env)).values():
                if hasattr(method, "cache_clear"):
                    method.cache_clear()

    @property
    def there_are(self) -> bool:
        """Whether any size or integer is a symbol."""
        return bool(self._numbers)

    def fake(self, mode: Any, source: Source, tensor: torch.Tensor, free: Free) -> torch.Tensor:
        """A fake tensor with symbols, and what follows from those."""
        found = self._with_symbols(mode, source, tensor, _context(tensor, *free))
        if found.layout is torch.jagged:
            self._check_made_of(found)
            return found
        for dim, (size, number) in enumerate(zip(found.shape, tensor.shape)):
            self._add(size, Place(source, "size", dim), number)
        for dim, (stride, number) in enumerate(zip(found.stride(), tensor.stride())):
            self._add(stride, Place(source, "stride", dim), number)
        self._add(found.storage_offset(), Place(source, "offset"), tensor.storage_offset())
        if found._base is not None:
            self._note_base(found._base, source.child("c_attr", "_base"))
        marked = getattr(tensor, "_dynamo_dynamic_indices", ())
        self._marked += [(found.shape[dim], Place(source, "size", dim)) for dim in free.sizes if dim in marked]
        return found

    def fake_of_array(self, mode: Any, source: Source, tensor: torch.Tensor, free: Free) -> torch.Tensor:
        """The same for an array of numpy's, whose memory this tensor has."""
        found = self._with_symbols(mode, source, tensor, _context(tensor, free.sizes))
        places = [source.child("c_attr", name) for name in ("shape", "strides")]
        for dim, (size, stride) in enumerate(zip(found.shape, found.stride())):
            self._add_item(places[0].child("tuple_item", dim), size)
            if isinstance(stride, torch.SymInt) and stride.node.expr.is_Symbol and stride.node.expr not in self.places:
                stride = int(stride)  # it follows from no size
            self._add_item(places[1].child("tuple_item", dim), stride * tensor.itemsize)
        return found

    def _note_base(self, base: torch.Tensor, source: Source) -> None:
        """Sizes of what a view is a view of matter where an operator asks whether memory suffices."""
        for dim, size in enumerate(base.shape):
            if isinstance(size, torch.SymInt):
                self._of_bases[size.node.expr] = Place(source, "size", dim), size.node.hint

    def _add_item(self, source: Source, number: Any) -> None:
        """An integer that is found as such."""
        if isinstance(number, torch.SymInt):
            source.check("type", int)
            self._add(number, Place(source, "int"), number.node.hint)
        else:
            source.check("equals", number)

    def _with_symbols(self, mode: Any, source: Source, tensor: torch.Tensor, context: Any) -> torch.Tensor:
        name = self._named(str(source), tensor.layout is torch.jagged)
        found: torch.Tensor = mode.from_tensor(tensor, source=name, symbolic_context=context)
        return found

    def _check_made_of(self, fake: torch.Tensor) -> None:
        """Sizes of a jagged tensor follow from those of what it is made of, where calls find them, and from objects."""
        for size in fake.shape:
            if isinstance(size, torch.SymInt) and not (size.node.is_nested_int() or self.has_places(size)):
                raise Unsupported(DataDependentValue("a size of a jagged tensor"))

    def _named(self, name: str, is_ephemeral: bool = False) -> _Name:
        """A name for the ``ShapeEnv``, to which two places of one name would be one. ``is_ephemeral``: symbols of
        others that are the same go before its own."""
        self._names[name] = count = self._names.get(name, 0) + 1
        return _Name(name if count == 1 else f"{name} ({count})", is_ephemeral)

    def number(self, source: Source, value: int) -> torch.SymInt:
        """A symbol for an integer."""
        found = self._by_source.get(source)
        if found is None:
            dynamic = symbolic_shapes().DimDynamic.DYNAMIC
            found = self.env.create_unspecified_symint_and_symbol(value, self._named(str(source)), dynamic)
            self._by_source[source] = found
            self._add(found, Place(source, "int"), value)
        return found

    def _add(self, number: Any, place: Place | Computed, value: int) -> None:
        if not isinstance(number, torch.SymInt):
            return
        expression = number.node.expr
        if expression.is_Symbol and expression not in self.places:
            self.places[expression] = place
            self._hints[expression] = value
            self._ranges.append((expression, self.env.var_to_range[expression]))
        self._numbers.append((number, place, value))

    def draw(self, draw: Draw, value: float, bounds: Bounds) -> Formula:
        """The formula of a random number that the call draws."""
        self.has_floats = True
        return Formula(value, place=draw, drawn=bounds)

    def drawn(self, formula: Formula) -> torch.SymInt:
        """A symbol for a random integer, or one that is made of random numbers."""
        found = self._of_random(self.env.create_unbacked_symint())
        symbol = found.node.expr
        low, high = (end if math.isfinite(end) else math.copysign(LARGE, end) for end in formula.bounds)
        self.env.constrain_symbol_range(symbol, compiler_min=int(low), compiler_max=int(high))
        self.places[symbol] = Computed(formula)
        self._drawn[symbol] = found
        self.of_data.add(symbol)
        return found

    def unknown(self) -> torch.SymInt:
        """A symbol for an integer that an operator gives its function."""
        found = self._of_random(self.env.create_unbacked_symint())
        self.of_data.add(found.node.expr)
        return found  # type: ignore[no-any-return]

    def _of_random(self, number: Any) -> Any:
        """A new symbol, of which nothing is known but its range."""
        self.env.pending_fresh_unbacked_symbols.remove(number.node.expr)
        return number

    def formula_of_random_int(self, expression: Any) -> Formula | None:
        """What a symbol stands for, if it is such an integer."""
        return self.places[expression].formula if expression in self._drawn else None

    def float(self, source: Source, value: float) -> Formula:
        """The formula of a float that a call brings."""
        self.has_floats = True
        found = self._floats.get(source)
        if found is None:
            found = self._floats[source] = Formula(value, place=Place(source, "float"))
        return found

    def of_integer(self, number: torch.SymInt) -> Formula | None:
        """The formula of an integer, None where there is none."""
        self.has_floats = True
        return of_integer(number.node.expr, number.node.hint, self._hints)

    def computed(self, formula: Formula) -> torch.SymInt:
        """A symbol for an integer that is computed of floats."""
        if formula.is_random:
            return self.drawn(formula)
        place = Computed(formula)
        dynamic = symbolic_shapes().DimDynamic.DYNAMIC
        name = self._named(self._name(place))
        found = self.env.create_unspecified_symint_and_symbol(formula.value, name, dynamic)
        self._add(found, place, formula.value)
        return found

    def formula_text(self, formula: Formula) -> str:
        return formula.text(self._name)

    def first_source(self, formula: Formula) -> Source:
        """The first place that a formula reads."""
        leaf = next(formula.leaves())
        place = leaf.place or self.places[min(leaf.expression.free_symbols, key=str)]
        return self.first_source(place.formula) if isinstance(place, Computed) else place.source

    def settle(self, formula: Formula) -> None:
        """A float is the same in every call: where it is made of integers alone, these are."""
        self._refuse_random(formula)
        self.settled.add(formula)
        leaves = list(formula.leaves())
        if all(leaf.place is None for leaf in leaves):
            for leaf in leaves:
                int(self.env.create_symintnode(leaf.expression, hint=leaf.value))
        else:
            self.require(same(formula))

    def require(self, condition: Formula, truth: bool = True) -> None:
        """Assume that a comparison of floats gives this; where no check computes it, that they are what they are."""
        if condition.is_random and decided(condition) is truth:
            return
        self._refuse_random(condition)
        if condition.has_program:
            self._required.append((condition, truth))
        else:
            for leaf in condition.leaves():
                self.settle(leaf)

    def break_on_random_number(self, number: Any) -> None:
        """Break the graph where random numbers decide what a number, or a truth value, is."""
        for symbol in number.node.expr.free_symbols & self._drawn.keys():
            self._refuse_random(self.places[symbol].formula)

    def at(self, number: Any, factor: int) -> int:
        """What a number of symbols is where each symbol is this many times what it is in the call that is traced."""
        if not isinstance(number, torch.SymInt):
            return int(number)
        expression = number.node.expr
        if not self._hints.keys() >= expression.free_symbols:
            raise Unsupported(DataDependentValue("an array of this size"))
        return int(expression.xreplace({each: factor * self._hints[each] for each in expression.free_symbols}))

    def _refuse_random(self, formula: Formula) -> None:
        if formula.is_random:
            raise Unsupported(RandomValue(self.formula_text(formula)))

    def number_of(self, symbol: Any) -> torch.SymInt:
        """A symbol as a number."""
        if symbol in self._drawn:
            return self._drawn[symbol]
        return self.env.create_symintnode(symbol, hint=self._hints[symbol])

    def hint(self, symbol: Any) -> int:
        """What it is in the call that is traced."""
        return self._hints[symbol]

    def is_new(self, number: Any) -> bool:
        """Whether it is a symbol that no operator so far was seen to bring: an operator may have read it for itself."""
        expression = number.node.expr
        unseen = expression.is_Symbol and expression not in self.places and expression not in self.of_data
        return bool(self.env.pending_fresh_unbacked_symbols) or unseen

    def new_in(self, result: Any) -> dict[Any, Any]:
        """The symbols that hang on data and came to be with an operator's result, and where in it they are."""
        pending = self.env.pending_fresh_unbacked_symbols
        if pending:
            self.env.ignorable_fresh_unbacked_symbols.extend(pending)  # the operator may have read some for itself
            found = symbolic_shapes().compute_unbacked_bindings(self.env, result) or {}
        else:
            found = {result.node.expr: ()} if isinstance(result, SYMBOLIC) and self.is_new(result) else {}
        self.of_data.update(found)
        return found

    def is_data_dependent(self, number: Any) -> bool:
        symbols = number.node.expr.free_symbols
        return not self.of_data.isdisjoint(symbols) or any(map(self._is_ragged, symbols))

    def _is_ragged(self, symbol: Any) -> bool:
        """Whether it is a size that is told apart from others by the tensor of offsets that it belongs to."""
        values = getattr(self.env, "backed_var_to_val", None) or self.env.var_to_val
        return type(values.get(symbol)).__name__ == "SingletonInt"

    def has_places(self, number: Any) -> bool:
        """Whether a call finds all that it hangs on before the graph runs."""
        return self.places.keys() >= number.node.expr.free_symbols

    def note_guards(self, translator: Any) -> None:
        """What the ``ShapeEnv`` has come to assume since the last time is the doing of this translator's place (None:
        of no place in the program)."""
        missing = len(self.env.guards) - len(self._noted)
        if missing > 0:
            self._noted += [() if translator is None else translator.places()] * missing

    def symbolic_dims(self, source: Source) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions of a tensor whose sizes, and those whose strides, only facts tell."""
        places = [place for _, place, _ in self._numbers if isinstance(place, Place) and place.source is source]
        sizes = tuple(place.dim for place in places if place.kind == "size")
        return sizes, tuple(place.dim for place in places if place.kind == "stride")

    def check_marks(self, backend: str = "") -> None:
        """``backend``: the one that has seen the graph since it was last found right.

        Raises:
            ConstraintViolation: a dimension that was marked dynamic can have one size only.
        """
        settled = self._settled() if self._marked else {}
        for number, place in self._marked:
            size = number.node.expr.xreplace(settled)
            if size.is_Integer:
                by = f": backend {backend!r} compiled the graph for that size" if backend else ""
                at = () if backend else self._settled_at(number)
                raise ConstraintViolation(f"{place} is marked dynamic, but must be {size}{by}", at)

    def _settled(self) -> dict[Any, Any]:
        """Symbols that have one value in every call that the facts let through."""
        bounds = {symbol: self.env.bound_sympy(symbol) for symbol, _ in self._ranges}
        found = {symbol: each.lower for symbol, each in bounds.items() if each.is_singleton()}
        waiting = [fact for fact in self._all_parts() if isinstance(fact, sympy_module().Eq)]
        while waiting:  # one that is settled may settle another
            known = dict(found)
            left = []
            for fact in waiting:
                difference = (fact.lhs - fact.rhs).xreplace(known)
                symbols = difference.free_symbols
                if len(symbols) > 1:
                    left.append(fact)
                    continue
                for symbol in symbols:
                    values = integer_roots(difference, symbol)
                    if symbol in bounds:
                        values = [each for each in values if bounds[symbol].lower <= each <= bounds[symbol].upper]
                    if len(values) == 1:
                        found[symbol] = values[0]
            if found == known:
                break
            waiting = left
        return found

    def _settled_at(self, number: Any) -> tuple[Any, ...]:
        """The user's frames where a symbol's number was settled, as far as they are known: by an equality; else by the
        last comparison."""
        related = {number.node._expr}
        last: tuple[Any, ...] = ()
        for guard, at in zip(self.env.guards, self._noted):
            symbols = guard.expr.free_symbols
            if related & symbols:
                related |= symbols
                if at and guard.expr.func.__name__ == "Equality":
                    return at
                last = at or last
        return last

    # -- facts ---------------------------------------------------------------------------------------------------------

    def facts(self) -> list[Fact]:
        """What must be true of a call's numbers for the graph to be right, each once."""
        facts = [self._fact(Formula(True, expression=condition), True) for condition in self._all_parts()]
        facts += [self._fact(condition, truth) for condition, truth in self._required]
        return list({(tuple(fact.sources), tuple(fact.program)): fact for fact in facts}.values())

    def _all_parts(self) -> dict[Any, None]:
        """Conditions of integers."""
        found: dict[Any, None] = {}
        for condition in self._conditions():
            found.update(dict.fromkeys(checkable_parts(condition, self._hints)))
        return found

    def _conditions(self) -> Iterator[Any]:
        sympy = sympy_module()
        for number, place, value in self._numbers:
            expression = number.node.expr
            if self.places.get(expression) != place:
                yield sympy.Eq(self._symbol(place, value), expression, evaluate=False)
        for symbol, values in self._ranges:
            known = self.env.replace(symbol)  # by another symbol, which has a range of its own
            if values.lower.is_Integer:
                yield known >= values.lower
            if values.upper.is_Integer:
                yield known <= values.upper
        for guard in self.env.guards:
            condition = self._of_places(self.env.replace(guard.expr))
            for symbol in condition.free_symbols & self._of_bases.keys() - self.places.keys():
                self.places[symbol], self._hints[symbol] = self._of_bases[symbol]
            yield condition

    def _of_places(self, condition: Any) -> Any:
        """A condition without ragged sizes, which have no number in a call: it holds for any if for a large one."""
        ragged = {symbol: _LARGE_PRIME for symbol in condition.free_symbols if self._is_ragged(symbol)}
        if ragged.keys() == condition.free_symbols and ragged:
            return sympy_module().true
        return condition.xreplace(ragged)

    def _symbol(self, place: Place | Computed, value: int) -> Any:
        """A symbol that stands for what is found at a place."""
        symbol = self._symbols.get(place)
        if symbol is None:
            symbol = self._symbols[place] = sympy_module().Dummy(self._name(place), integer=True)
            self.places[symbol] = place
            self._hints[symbol] = value
        return symbol

    def _fact(self, condition: Formula, truth: bool) -> Fact:
        sources: dict[Source, int] = {}

        def read(where: Any) -> list[Step]:
            place = where if isinstance(where, Place) else self.places[where]
            if isinstance(place, Computed):
                return place.formula.steps(read)
            return [place.instruction(sources.setdefault(place.source, len(sources)))]

        program = condition.steps(read)
        text = condition.text(self._name)
        return Fact(list(sources), program, text) if truth else Fact(list(sources), [*program, ("not",)], f"not {text}")

    def _name(self, of: Any) -> str:
        """In the user's own terms."""
        if isinstance(of, Computed):
            return of.formula.text(self._name)
        return str(of) if isinstance(of, (Place, Draw)) else self.text(of)

    def text(self, expression: Any) -> str:
        """An expression in the user's own terms: ``x.size(0) == y.size(1)``."""
        named = {symbol: sympy_module().Symbol(self._name(self.places[symbol])) for symbol in expression.free_symbols}
        return printer().doprint(expression.xreplace(named))


def _context(tensor: torch.Tensor, dims: list[int], strides: Iterable[int] = ()) -> Any:
    shapes = symbolic_shapes()
    constraints: list[Any] = [None] * tensor.dim()
    for each in marked_ranges(tensor):
        if each.dim in dims and (each.min is not None or each.max is not None):
            upper = no_limit() if each.max is None else each.max
            constraints[each.dim] = shapes.StrictMinMaxConstraint(
                vr=shapes.ValueRanges(lower=each.low, upper=upper), warn_only=False
            )
    kinds = shapes.DimDynamic
    base = tensor._base if tensor._is_view() else None
    make = shapes.StatelessSymbolicContext
    if is_wrapper(tensor):
        inner = {name: _context(part, []) for name, part in parts(tensor)}
        make = functools.partial(shapes.SubclassSymbolicContext, tensor_source=_Name("part"), inner_contexts=inner)
    return make(
        dynamic_sizes=[kinds.DYNAMIC if dim in dims else kinds.STATIC for dim in range(tensor.dim())],
        dynamic_strides=[kinds.DYNAMIC if dim in strides else kinds.INFER_STRIDE for dim in range(tensor.dim())],
        constraint_sizes=constraints,
        view_base_context=None
        if base is None
        else _context(base, [d for d, size in enumerate(base.shape) if size > 1]),
    )

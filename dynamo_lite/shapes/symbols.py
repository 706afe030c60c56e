"""The symbols of one attempt: symbolic sizes, ints and floats, where calls read them, and the guards on them.

torch's ``ShapeEnv`` does the algebra and collects the conditions that it was queried for. Each symbol has a
`NumberSource`, from which a call reads its number. With these, the collected conditions become guards, which C++ checks
before each call.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch._guards

from dynamo_lite.exc import ConstraintViolation, Unsupported
from dynamo_lite.insight.break_reasons import DataDependentValue
from dynamo_lite.runtime.inner_tensors import is_wrapper, parts
from dynamo_lite.sources.source import Source

from .expressions import Expression, Step, Symbol, checkable_parts, hint_of, symbolic_shapes
from .float_formulas import ComputedInt, Formula, equals_traced_value, of_integer
from .number_guards import NumberSource, SymbolicGuard, marked_ranges
from .policy import SymbolicDims

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
Symbolic = torch.SymInt | torch.SymFloat | torch.SymBool
Frames = tuple[FrameSummary, ...]
"""The user's frames, outermost first."""


class Place(Protocol):
    """Knows the frames that are being traced."""

    def places(self) -> Frames: ...


@dataclass(frozen=True)
class _Name(torch._guards.Source):
    """A source as torch's ``ShapeEnv`` names it in its messages."""

    text: str

    @property
    def name(self) -> str:
        return self.text


class Symbols:
    """The symbols of one attempt, over a ``ShapeEnv``."""

    def __init__(self, make_env: Callable[[], ShapeEnv]) -> None:
        self._make_env = make_env
        self._env: Any = None
        self.places: dict[Symbol, NumberSource | ComputedInt] = {}
        """Symbol -> where a call reads its number."""
        self._hints: dict[Symbol, int] = {}
        """Symbol -> its number in the call that is traced."""
        self._numbers: list[tuple[torch.SymInt, NumberSource | ComputedInt, int]] = []
        """(number, where it is read, hint) of every symbolic size, stride, offset and int."""
        self._marked: list[tuple[Any, NumberSource]] = []
        """Sizes that are marked dynamic."""
        self._ranges: list[tuple[Symbol, Any]] = []
        """Symbols with the ranges that they were created with."""
        self.of_data: set[Symbol] = set()
        """Symbols whose numbers aren't known before the graph runs."""
        self._names: dict[str, int] = {}
        self._symbols: dict[NumberSource | ComputedInt, Symbol] = {}
        """Symbols that occur in guards only."""
        self._by_source: dict[Source, torch.SymInt] = {}
        self._floats: dict[Source, Formula] = {}
        self.has_floats = False
        """Whether there are formulas of floats."""
        self.specialized: set[Formula] = set()
        """Formulas whose values are the same in every call."""
        self._required: list[tuple[Formula, bool]] = []
        """Comparisons of floats, and the results that they must have."""
        self._guard_frames: list[Frames] = []
        """For each guard of the ``ShapeEnv``, the user's frames that it comes from."""

    def close(self) -> None:
        """Clear the caches of the ``ShapeEnv``'s methods, which keep it alive."""
        if self.has_symbols:
            for method in vars(type(self.env)).values():
                if hasattr(method, "cache_clear"):
                    method.cache_clear()

    @property
    def env(self) -> Any:
        """The ``ShapeEnv``, created when it is first needed."""
        if self._env is None:
            self._env = self._make_env()
        return self._env

    @property
    def has_symbols(self) -> bool:
        """Whether any size or integer is a symbol."""
        return bool(self._numbers)

    def without_guards(self) -> contextlib.AbstractContextManager[None]:
        """Compute with symbols without assuming anything of them."""
        return self.env.suppress_guards() if self.has_symbols else contextlib.nullcontext()

    def fake(self, mode: FakeTensorMode, source: Source, tensor: torch.Tensor, free: SymbolicDims) -> torch.Tensor:
        """A fake tensor with symbolic sizes, strides and offset."""
        found = self._with_symbols(mode, source, tensor, _context(tensor, *free))
        for dim, (size, number) in enumerate(zip(found.shape, tensor.shape)):
            self._add(size, NumberSource(source, "size", dim), int(number))
        for dim, (stride, number) in enumerate(zip(found.stride(), tensor.stride())):
            self._add(stride, NumberSource(source, "stride", dim), number)
        self._add(found.storage_offset(), NumberSource(source, "offset"), int(tensor.storage_offset()))
        if found._base is not None:
            self._note_base(found._base, source.child("c_attr", "_base"))
        marked = getattr(tensor, "_dynamo_dynamic_indices", ())
        self._marked += [(found.shape[dim], NumberSource(source, "size", dim)) for dim in free.sizes if dim in marked]
        return found

    def fake_of_array(
        self, mode: FakeTensorMode, source: Source, tensor: torch.Tensor, free: SymbolicDims
    ) -> torch.Tensor:
        """A fake tensor for the tensor that shares an array's memory. Its sizes and strides are read from the array."""
        found = self._with_symbols(mode, source, tensor, _context(tensor, free.sizes))
        places = [source.child("c_attr", name) for name in ("shape", "strides")]
        for dim, (size, stride) in enumerate(zip(found.shape, found.stride())):
            self._add_item(places[0].child("tuple_item", dim), size)
            if isinstance(stride, torch.SymInt) and stride.node.expr.is_Symbol and stride.node.expr not in self.places:
                stride = int(stride)  # its own symbol, which isn't read: specialized
            self._add_item(places[1].child("tuple_item", dim), stride * tensor.itemsize)
        return found

    def _note_base(self, base: torch.Tensor, source: Source) -> None:
        """Note the sizes of a view's base: operators that check the size of the storage make conditions on them, and
        the ``ShapeEnv`` may replace the view's own symbols by them. Read as ints: the base is no input of the graph."""
        shape = source.child("c_attr", "shape")
        for dim, size in enumerate(base.shape):
            if isinstance(size, torch.SymInt) and size.node.expr not in self.places:
                self.places[size.node.expr] = NumberSource(shape.child("tuple_item", dim), "int")
                self._hints[size.node.expr] = hint_of(size)

    def _add_item(self, source: Source, number: torch.SymInt | int) -> None:
        """Add a size or stride that is read as an int; guard it by its value if it isn't symbolic."""
        if isinstance(number, torch.SymInt):
            source.check("type", int)
            self._add(number, NumberSource(source, "int"), hint_of(number))
        else:
            source.check("equals", number)

    def _with_symbols(self, mode: FakeTensorMode, source: Source, tensor: torch.Tensor, context: Any) -> torch.Tensor:
        name = self._named(str(source))
        found: torch.Tensor = mode.from_tensor(tensor, source=name, symbolic_context=context)
        return found

    def _named(self, name: str) -> _Name:
        """A name for the ``ShapeEnv``, made unique: it takes sources of equal names for one."""
        self._names[name] = count = self._names.get(name, 0) + 1
        return _Name(name if count == 1 else f"{name} ({count})")

    def number(self, source: Source, value: int) -> torch.SymInt:
        """The symbolic int at a source."""
        found = self._by_source.get(source)
        if found is None:
            found = self._by_source[source] = self._created(NumberSource(source, "int"), value)
        return found

    def _created(self, place: NumberSource | ComputedInt, value: int) -> torch.SymInt:
        dynamic = symbolic_shapes().DimDynamic.DYNAMIC
        found: torch.SymInt = self.env.create_unspecified_symint_and_symbol(
            value, self._named(self._name(place)), dynamic
        )
        self._add(found, place, value)
        return found

    def _add(self, number: torch.SymInt | int, place: NumberSource | ComputedInt, value: int) -> None:
        if not isinstance(number, torch.SymInt):
            return
        expression = number.node.expr
        if expression.is_Symbol and expression not in self.places:
            self.places[expression] = place
            self._hints[expression] = value
            self._ranges.append((expression, self.env.var_to_range[expression]))
        self._numbers.append((number, place, value))

    def float(self, source: Source, value: float) -> Formula:
        """The formula of the float at a source."""
        self.has_floats = True
        return self._floats.setdefault(source, Formula(value, place=NumberSource(source, "float")))

    def of_integer(self, number: torch.SymInt) -> Formula | None:
        """The formula of a symbolic int; None if guards can't compute it."""
        self.has_floats = True
        return of_integer(number.node.expr, hint_of(number), self._hints)

    def computed(self, formula: Formula) -> torch.SymInt:
        """A symbolic int that is computed from floats."""
        return self._created(ComputedInt(formula), formula.value)

    def formula_text(self, formula: Formula) -> str:
        """A formula in the user's terms."""
        return formula.text(self._name)

    def first_source(self, formula: Formula) -> Source:
        """The source of the first number that a formula reads."""
        leaf = next(formula.leaves())
        place: Any = leaf.place or self.places[min(leaf.expression.free_symbols, key=str)]
        return self.first_source(place.formula) if isinstance(place, ComputedInt) else place.source

    def specialize(self, formula: Formula) -> None:
        """Specialize a formula. If it depends on ints only, specialize these."""
        self.specialized.add(formula)
        leaves = list(formula.leaves())
        if all(leaf.place is None for leaf in leaves):
            for leaf in leaves:
                int(self.env.create_symintnode(leaf.expression, hint=leaf.value))
        else:
            self.require(equals_traced_value(formula))

    def specialize_symbols(self, number: int | torch.SymInt) -> None:
        """Specialize each symbol of a number. From then on torch computes with it as with a constant."""
        if isinstance(number, torch.SymInt) and self._hints.keys() >= number.node.expr.free_symbols:
            for symbol in number.node.expr.free_symbols:
                int(self.number_of(symbol))

    def require(self, condition: Formula, truth: bool = True) -> None:
        """Guard on the result of a comparison of floats. If guards can't compute it, specialize what it reads."""
        if condition.has_program:
            self._required.append((condition, truth))
        else:
            for leaf in condition.leaves():
                self.specialize(leaf)

    def at(self, number: torch.SymInt | int, factor: int) -> int:
        """The value of a number if each of its symbols were ``factor`` times its hint."""
        if not isinstance(number, torch.SymInt):
            return int(number)
        expression = number.node.expr
        if not self._hints.keys() >= expression.free_symbols:
            raise Unsupported(DataDependentValue("an array of this size"))
        return int(expression.xreplace({each: factor * self._hints[each] for each in expression.free_symbols}))

    def number_of(self, symbol: Symbol) -> torch.SymInt:
        """The ``SymInt`` of a symbol."""
        number: torch.SymInt = self.env.create_symintnode(symbol, hint=self._hints[symbol])
        return number

    def is_new(self, number: Symbolic) -> bool:
        """Whether the last operator may have created symbols: this number, or some that it read internally."""
        expression = number.node.expr
        unseen = expression.is_Symbol and expression not in self.places and expression not in self.of_data
        return bool(self.env.pending_fresh_unbacked_symbols) or unseen

    def new_in(self, result: object) -> dict[Symbol, Any]:
        """The unbacked symbols that an operator created -> their paths in its result."""
        pending = self.env.pending_fresh_unbacked_symbols
        if pending:
            self.env.ignorable_fresh_unbacked_symbols.extend(pending)  # the operator may have read some internally
            found = symbolic_shapes().compute_unbacked_bindings(self.env, result) or {}
        else:
            found = {result.node.expr: ()} if isinstance(result, Symbolic) and self.is_new(result) else {}
        self.of_data.update(found)
        return found

    def is_data_dependent(self, number: Symbolic) -> bool:
        """Whether a number isn't known before the graph runs."""
        return not self.of_data.isdisjoint(number.node.expr.free_symbols)

    def assumptions(self) -> list[Expression]:
        """The conditions on data that torch assumed because operators need them, or the program checks them."""
        if not self.of_data:
            return []
        return [each.expr for found in self.env.deferred_runtime_asserts.values() for each in found]

    def note_guards(self, place: Place | None) -> None:
        """Attribute the guards that the ``ShapeEnv`` has added since the last call to the current frames; None: to no
        place in the program."""
        if self._env is None:
            return
        missing = len(self.env.guards) - len(self._guard_frames)
        if missing > 0:
            self._guard_frames += [() if place is None else place.places()] * missing

    def symbolic_dims(self, source: Source) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions of a tensor whose sizes, and those whose strides, are guarded as symbols."""
        places = [place for _, place, _ in self._numbers if isinstance(place, NumberSource) and place.source is source]
        sizes = tuple(place.dim for place in places if place.kind == "size")
        return sizes, tuple(place.dim for place in places if place.kind == "stride")

    def check_marks(self, backend: str = "") -> None:
        """Check that sizes that are marked dynamic aren't specialized.

        Args:
            backend: the backend that has compiled the graph since the last check; empty: none.

        Raises:
            ConstraintViolation: a marked size can have one value only.
        """
        specialized = self._specialized_symbols() if self._marked else {}
        for number, place in self._marked:
            size = number.node.expr.xreplace(specialized)
            if size.is_Integer:
                by = f": backend {backend!r} compiled the graph for that size" if backend else ""
                at = () if backend else self._frames_that_specialize(number)
                raise ConstraintViolation(f"{place} is marked dynamic, but must be {size}{by}", at)

    def _specialized_symbols(self) -> dict[Symbol, Any]:
        """The symbols that the guards allow one value only, with it."""
        bounds = {symbol: self.env.bound_sympy(symbol) for symbol, _ in self._ranges}
        return {symbol: each.lower for symbol, each in bounds.items() if each.is_singleton()}

    def _frames_that_specialize(self, number: torch.SymInt) -> Frames:
        """The user's frames at the first equality on a symbol or one related to it; without one, at the last
        comparison."""
        related = {number.node._expr}
        last: Frames = ()
        for guard, at in zip(self.env.guards, self._guard_frames):
            symbols = guard.expr.free_symbols
            if related & symbols:
                related |= symbols
                if at and guard.expr.func.__name__ == "Equality":
                    return at
                last = at or last
        return last

    # -- guards --------------------------------------------------------------------------------------------------------

    def guards(self) -> list[SymbolicGuard]:
        """The guards on a call's numbers, without duplicates."""
        found = {part: None for each in self._conditions() for part in checkable_parts(each, self._hints)}
        guards = [self._guard(Formula(True, expression=part), True) for part in found]
        guards += [self._guard(condition, truth) for condition, truth in self._required]
        return list({(tuple(each.sources), tuple(each.program)): each for each in guards}.values())

    def _conditions(self) -> Iterator[Expression]:
        """Numbers equal the expressions that fake tensors have for them, symbols are in their ranges, and the
        ``ShapeEnv``'s guards hold."""
        import sympy

        for number, place, value in self._numbers:
            expression = number.node.expr
            if self.places.get(expression) != place:
                yield sympy.Eq(self._symbol(place, value), expression, evaluate=False)
        for symbol, values in self._ranges:
            known = self.env.replace(symbol)  # by an equal symbol, which has a range of its own
            if values.lower.is_Integer:
                yield known >= values.lower
            if values.upper.is_Integer:
                yield known <= values.upper
        for guard in () if self._env is None else self.env.guards:
            yield self.env.replace(guard.expr)

    def _symbol(self, place: NumberSource | ComputedInt, value: int) -> Symbol:
        """A symbol, for guards only, of the number that is read at a place."""
        import sympy

        symbol = self._symbols.get(place)
        if symbol is None:
            symbol = self._symbols[place] = sympy.Dummy(self._name(place), integer=True)
            self.places[symbol] = place
            self._hints[symbol] = value
        return symbol

    def _guard(self, condition: Formula, truth: bool) -> SymbolicGuard:
        sources: dict[Source, int] = {}

        def read(where: NumberSource | Symbol) -> list[Step]:
            place = where if isinstance(where, NumberSource) else self.places[where]
            if isinstance(place, ComputedInt):
                return place.formula.steps(read)
            return [place.instruction(sources.setdefault(place.source, len(sources)))]

        program = condition.steps(read)
        text = condition.text(self._name)
        if truth:
            return SymbolicGuard(list(sources), program, text)
        return SymbolicGuard(list(sources), [*program, ("not",)], f"not {text}")

    def _name(self, of: object) -> str:
        """The text of a place or expression in the user's terms."""
        if isinstance(of, ComputedInt):
            return of.formula.text(self._name)
        return str(of) if isinstance(of, NumberSource) else self.text(of)

    def text(self, expression: Expression) -> str:
        """An expression in the user's terms: ``x.size(0) == y.size(1)``."""
        import sympy
        from torch.utils._sympy.printers import PythonPrinter

        named = {symbol: sympy.Symbol(self._name(self.places[symbol])) for symbol in expression.free_symbols}
        return str(PythonPrinter().doprint(expression.xreplace(named)))


def _context(tensor: torch.Tensor, dims: list[int], strides: Iterable[int] = ()) -> Any:
    """torch's context for a fake tensor with symbols for these dimensions' sizes and strides."""
    shapes = symbolic_shapes()
    constraints: list[Any] = [None] * tensor.dim()
    for each in marked_ranges(tensor):
        if each.dim in dims and (each.min is not None or each.max is not None):
            upper = shapes.int_oo if each.max is None else each.max
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

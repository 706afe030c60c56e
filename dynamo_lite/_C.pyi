"""The C++ half: the frame hook, guard trees, and the cache of entries on code objects.

It contains the hot path: no function of this module runs Python while it checks a guard.
"""

from _thread import RLock
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from types import CodeType, FunctionType
from typing import Any, Final

import torch

TORCH_VERSION: Final[str]
"""The version of torch against which this extension was built."""

def sizes_of_torch_objects() -> dict[str, int]:
    """The sizes of instances of torch's types whose fields guards read, according to the headers."""

def tensor_layout(tensor: Any) -> dict[str, Any]:
    """The fields of a tensor that guards read, by the headers' layout. Only its address if the layout differs."""

def state_layout_fits() -> bool:
    """Whether torch's own functions return the values that guards read at the offsets in the headers."""

def has_node_creation_hooks() -> bool:
    """Whether this thread has hooks on the nodes that autograd creates (from torch 2.15 on)."""

# -- marks: process-wide words on a code object ----------------------------------------------------------------

class Mark:
    NONE: Final[Mark]
    SKIP: Final[Mark]
    """Frames of this code run in eager. The frames that they call may be compiled."""
    SKIP_RECURSIVE: Final[Mark]
    """Frames of this code, and all frames that they call, run in eager."""

def mark_code(code: CodeType, mark: Mark) -> None: ...
def get_mark(code: CodeType) -> Mark: ...

# -- owners ----------------------------------------------------------------------------------------------------

class Verdict:
    """The decision of an owner's callback that has no code for a frame: one of the constants below."""

PASS: Final[Verdict]
"""Run this call in eager. The callback is called again at the next call."""
PASS_RECURSIVE: Final[Verdict]
"""The same, and run all frames that it calls in eager."""
RETRY: Final[Verdict]
"""Check the entries again, because the callback has renewed one. If none holds, the callback is called again."""
SKIP: Final[Verdict]
"""Don't call the callback again for this code object. Existing entries still run, and callees may be compiled."""
SKIP_WITHOUT_TENSORS: Final[Verdict]
"""The same, but only for calls without tensors or numpy arrays among the arguments and the first items of lists, tuples
and dicts, up to two levels deep."""
FREEZE: Final[Verdict]
"""Keep the existing entries. At a miss, run the frame and all frames that it calls in eager."""

class FrameView:
    """A frame that has not begun, as passed to a callback. Raises RuntimeError after the callback has returned."""

    code: CodeType
    func: FunctionType
    globals: dict[str, Any]
    builtins: dict[str, Any]
    closure: tuple[Any, ...]
    """The function's cells in the order of co_freevars; empty if it has none."""
    locals: dict[str, Any]
    """The bound arguments by name. An argument that will become a cell isn't one yet."""
    owner: Owner
    entries: int
    """The number of this owner's valid entries on this code."""
    cost: float
    """The expected time to compile this code, in seconds; 0.0 if unknown."""
    def set_cost(self, seconds: float) -> None: ...
    def end_wait(self) -> bool:
        """Whether compilation of this code was delayed at the last miss. Resets this flag."""
    def hold(self, lock: RLock, seconds: float) -> bool:
        """Acquire a lock and hold it until the hook has processed the callback's result, for instance added an entry.
        False if this takes longer than ``seconds``."""
    def misses(self) -> list[Failure]:
        """The failed checks of this owner's entries, in the order in which these were tried."""
    def adopt(self) -> bool:
        """Look for an entry of another owner of the family that holds, and add a copy to this owner. The copy's guards
        have their own memory. Return whether one was found; the callback should then return RETRY."""

_Answer = (
    tuple[GuardTree, CodeType, bool, Owner | None] | Verdict | float | BaseException | tuple[CodeType, BaseException]
)
"""What a callback of an `Owner` returns."""

class Owner:
    """A user of the compiler: one per dl.compile or dl.enable. An entry belongs to a code object and an owner."""

    def __init__(
        self,
        callback: Callable[[FrameView], _Answer] | None,
        name: str = "",
        family: object = None,
    ) -> None:
        """callback: called for each frame for which no entry holds; None: only cached code runs. Its result decides:

        - a tuple (guards, code, self_contained, second owner or None): a new entry. ``self_contained``: the code calls
          nothing that should be compiled. The second owner gets an equal entry.
        - a `Verdict`.
        - an exception: the frame raises it, with its traceback.
        - a tuple (code, exception): the code is called in place of the frame, with the frame's arguments and the
          exception, and isn't compiled.
        - a float: frames of this code for which no entry holds run in eager, without calling the callback, until they
          have taken so many seconds.

        family: owners with the same family, an object other than None, can share entries."""
    callback: Callable[[FrameView], Any] | None
    name: str
    when_observed: bool
    """Whether its frames must be captured, even if a tracer watches them and inside a trace function. A call that can't
    be captured raises. Initially False."""
    spent: float
    """Seconds that misses took, in the callback and in the hook. The callback may deduct some."""
    has_spent_allowance: bool
    """Whether ``spent`` has reached the limit of `set_allowance`."""
    wait_of_new: float
    """The delay, in seconds, of code that no owner has seen before, once the allowance is spent. The callback isn't
    called for it. Initially 0.0, which means that the callback is called."""
    def entries(self, code: CodeType) -> list[Entry]: ...
    def codes(self) -> list[CodeType]:
        """The code objects on which this owner has entries or verdicts."""
    def reset(self) -> None:
        """Drop this owner's entries and verdicts on all code objects, and set ``spent`` to 0. Running frames keep their
        code."""

class Entry:
    hits: int
    valid: bool
    owner: Owner
    code: CodeType
    tree: GuardTree

def looks_up_quietly(dict: dict[Any, Any], name: str) -> bool:
    """Whether dict's own lookup of a name runs no Python. It would for a key with the same hash whose class derives
    from str and has its own ``__eq__``."""

def stored_hashes(container: dict[Any, Any] | AbstractSet[Any]) -> tuple[int, ...]:
    """The hashes under which a dict or set stores its keys or items, in order. No ``__hash__`` runs."""

def next_number(iterator: Any) -> int | None:
    """The next number of an ``enumerate``, or of an ``itertools.count`` of ints with step 1. None for others."""

def thread_dict(local: Any) -> dict[str, Any] | None:
    """The dict of a threading.local on this thread. None if this thread hasn't used it yet."""

def accepts_writes(tensor: Any) -> bool:
    """Whether autograd lets an operator mutate the tensor where gradients are required; False if it is no tensor."""

def computes_sizes(tensor: Any) -> bool:
    """Whether a tensor's sizes or strides are what Python says."""

def copy_metadata(like: torch.Tensor, base: torch.Tensor | None) -> torch.Tensor:
    """A tensor like ``like``, a plain one on the meta device, over the memory of ``base``; None: over new memory. No
    symbolic size is computed again, so no guard is added."""

def weak_referent(reference: Any) -> Any:
    """What a weak reference or proxy refers to; None: it has died."""

def entries(code: CodeType) -> list[Entry]:
    """Every owner's valid entries on a code object."""

OFF: Final[Owner]
"""The owner of threads on which nothing is compiled."""

def enter_block(owner: Owner, process: bool) -> None:
    """Begin a block in which an owner compiles the code of this thread, or of the process. A thread's block compiles
    nothing if torch.compile is active on the thread. The hook is installed while any thread or the process has an
    owner other than OFF."""

def leave_block(owner: Owner, process: bool) -> None:
    """End the owner's most recently entered block. Blocks that were entered later stay in effect. Does nothing if there
    is no such block, for instance if it was entered on another thread."""

def current_owner() -> Owner | None:
    """The owner that compiles on this thread: its own, otherwise that of the process."""

def hook_installed() -> bool: ...
def begin_process() -> None:
    """Reset the owners of this thread and the process, in a forked child that never returns to its parent's calls.
    (Otherwise a child keeps the calls of the forking thread and the process's owner.)"""

def compile_when_observed(on: bool) -> None:
    """Set whether all owners compile frames that a tracer watches."""

def force_eager(on: bool) -> None:
    """Set whether all frames run in eager. A frame that a graph break has split continues in compiled code."""

def set_allowance(seconds: float) -> None:
    """Set how many seconds the misses of an owner may take before new code is delayed (`Owner.wait_of_new`)."""

def ask_about_new_code(on: bool) -> None:
    """Set whether callbacks are called for new code even if the allowance is spent."""

def ask_about_code_in(folders: tuple[str, ...]) -> None:
    """Always call callbacks for code of files in these folders. Their names end with a separator."""

def waits() -> int:
    """How often a compilation was delayed in this process."""

def tell_when_traced(tell: Callable[[], None]) -> None:
    """Call ``tell`` once, when a tracer next prevents a compilation. The frame raises an exception of ``tell``."""

def hold_collector() -> None:
    """Turn the garbage collector off for the process, until `release_collector` or the end of this thread's callback.
    Does nothing if the program has turned it off."""

def release_collector() -> None: ...
def freeze_objects() -> None:
    """Hide all objects that exist from the garbage collector, until `unfreeze_objects` or the end of this thread's
    callback. Does nothing if some are hidden already: see ``gc.freeze``."""

def unfreeze_objects() -> None: ...
def is_busy_elsewhere() -> bool:
    """Whether a callback is running in another greenlet of this thread."""

def is_free(lock: Any) -> bool:
    """Whether this thread could acquire a threading.RLock without waiting."""

def call_watched(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a user function during an owner's callback. Trace and profile functions see this call, although they don't
    see the callback."""

def outermost_calls() -> int:
    """How often this thread entered compiled code while it had no owner: by a call of a result of dl.compile, or by a
    with-block."""

class Wrapped:
    """Calls ``fn`` with ``owner`` set for this thread: the result of dl.compile, or of dl.disable (OFF).

    It supports vectorcall, binds as a method, and has fn's __name__, __qualname__, __doc__ and __module__, a
    __wrapped__, a __dict__ and weak references. Its __class__ is FunctionType."""

    def __init__(self, fn: Callable[..., Any], owner: Owner) -> None: ...
    __wrapped__: Callable[..., Any]
    __qualname__: str
    __copy__: Callable[[Wrapped], Callable[..., Any]]
    """This and the next attribute are set from Python."""
    __deepcopy__: Callable[[Wrapped, dict[int, Any]], Callable[..., Any]]
    owner: Owner
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class InstanceCall:
    """A descriptor for a class's ``__call__``. It calls, in C, the callable that ``member`` (a member descriptor of the
    class) reads from the instance, with the arguments of the call except self.

    Reading it from the class returns ``function``, which does the same in Python."""

    def __init__(self, member: Any, function: Callable[..., Any]) -> None: ...

# -- guards ----------------------------------------------------------------------------------------------------

class GlobalState:
    """A snapshot of torch's state that is not on any tensor: grad mode, inference mode, autocast (each device
    type's enabled and dtype, cache), default dtype, deterministic algorithms (and warn only, fill), cuBLAS/float32
    matmul precision and tf32, number of threads, depth of the torch-function and torch-dispatch mode stacks,
    functorch's depth, torch function enabled."""

    def __init__(self) -> None: ...
    def differences(self, other: GlobalState) -> tuple[Difference, ...]:
        """In what ``other`` differs from this; what it was is what this has."""

class InferenceBlock:
    """A block of ``torch.inference_mode``. Creating the object enters it; deallocating the object doesn't exit it."""

    def __init__(self, enabled: bool) -> None: ...
    def exit(self) -> None:
        """Restore the modes from before the block."""

Difference = tuple[str, Any, Any]
"""What differs, what it is now, and what it was when the guard was made. Sizes that may be any are None."""

class Failure:
    """The first check of a tree that did not hold."""

    reason: Any
    """The object that was passed to check(). None if nothing was checked."""
    kind: str
    expected: Any
    """The object which `GuardTree.checks` has; of kind ``present`` the kind of accessor."""
    value: Any
    """What the check was made of; of kind ``symbolic`` the numbers that it read, of ``distinct`` the object that is in
    two places. None where that isn't one value, or couldn't be read."""
    differences: tuple[Difference, ...]
    """In what it differs, for kinds that compare several facts."""
    words: str
    """Why the check failed, where neither of these tells; else empty."""

class CheckKind:
    """What a user is told of a kind of check: format strings, whose fields are those in ``records/guards.py`` and, if
    the check has failed, in ``insight/changes.py``."""

    text: str
    """The check, as a sentence without its subject."""
    change: str
    """What changed, for a failure with a value or differences."""
    remark: str
    """What changed, for a failure with words."""
    difference: str
    """One of several differences."""
    about: str
    """What changed, whatever it is now."""
    hint: str | None
    """What to do. None: it depends on the values."""
    wanted: str | None
    """What an exported program says it wanted; None if such a program doesn't check the kind."""
    given: str | None
    """What it says it was given. The field ``arg`` is the value."""

ACCESSOR_KINDS: Final[dict[str, str]]
"""Every kind of accessor, with the text of the place it leads to."""
CHECK_KINDS: Final[dict[str, CheckKind]]
"""Every kind of check."""
TENSOR_FACTS: Final[dict[str, str]]
"""The facts of a tensor that a `Difference` may name, each with a hint."""

class GuardTree:
    """Assumptions about a frame that has not begun, as a tree: accessors reach a value, checks are made of it.

    Built once, then only read. Node 0 is the frame. Nothing here runs Python when checked.

    Accessors (kind, arg) are those of ACCESSOR_KINDS. Of the frame: ``local`` (argument's name), ``closure`` (index in
    co_freevars; the cell), ``globals``, ``builtins``, ``function``; anywhere ``const`` (any object; held weakly where
    it can be, and its deallocation makes the entry invalid). Of a value: ``c_attr`` runs the C getter of a name, of
    objects whose type is a built-in or extension type; ``dict_item``, ``list_item`` and ``tuple_item`` work on
    subclasses by the base's own lookup; of iterators ``next_item`` (how many others come before it; of a dict's items
    the key), ``next_value`` (the value of such an item), ``next_number`` (an enumerate's or count's) and ``taken_from``
    (what an enumerate, zip, view, mapping proxy or iterator goes over). An accessor that finds nothing is a failure of
    the child's ``present`` check.

    Checks (kind, arg) are those of CHECK_KINDS. ``equals``: a constant of the same exact type and value, nested in
    tuples and frozensets; 0, 0.0, -0.0, False and nan are told apart. ``length``: by the base's own length.
    ``dict_keys``, ``set_items``, ``set_order``: constants by type and value, other objects by identity.
    ``key_hashes`` (a tuple): the hashes that a dict stores with its keys, whose number isn't checked. ``tensor`` (an
    example): dtype, device, dispatch keys, requires_grad, sizes, strides; not if it is a leaf. ``same_as``: another
    node's number; ``distinct``: a list of node numbers; ``storages_distinct``: likewise, or a pair of lists, of which
    none in the first shares memory with any. On node 0: ``global_state`` (a GlobalState), ``no_handled_exception``
    (None) and ``registrations`` (a list [token, abc.get_cache_token]: the function must return the token, which may be
    replaced in the list). ``unbound``: the accessor of this node found nothing."""

    def __init__(self, code: CodeType) -> None: ...
    def child(self, parent: int, kind: str, arg: Any = None) -> int:
        """A new node reached from ``parent``. ValueError for a kind that is not there."""
    def check(self, node: int, kind: str, arg: Any, reason: Any) -> None: ...
    def capture(self, node: int) -> int:
        """Put this node's value into the tuple of captured values that a hit leaves in the new code's local
        variable CAPTURED_NAME; returns its index. The same node gives the same index."""
    def checks(self) -> list[tuple[Any, str, Any]]:
        """(reason, kind, object) of each: checks of a node in the order in which nodes were added, then those of
        several. The object is what the check is made with: an object, a key, or a tuple of keys or items; None where
        the tree keeps none, or not any more."""
    def test(self, frame: FrameView | tuple[Any, ...]) -> Failure | None:
        """Of a tuple: of a frame that has these locals, which are all that its code has, and nothing else."""
    valid: bool
    def lookup(self, frame: FrameView | tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The captured values where all holds: what the hook does."""
    def seconds_of_checks(self, frame: FrameView | tuple[Any, ...]) -> list[float]:
        """What each of the checks costs, in their order, if nothing is taken from memory: without the way to its value.
        Empty where one doesn't hold."""
    def cost(self, frame: FrameView, repeats: int = 1000) -> float:
        """Seconds of one lookup."""

CAPTURED_NAME: Final[str]
"""'___captured': if an entry's code has a local variable of this name, it contains the captured values at the start."""

# -- what generated code calls ------------------------------------------------------------------------------------

class GraphCall:
    """Calls the backend's callable with compilation disabled on this thread. Supports vectorcall.

    captured: the first argument is a tuple of so many items, which are passed in front of the other arguments.
    keeps_state: if the callable raises, grad mode, inference mode and autocast are restored.
    wrong: called with a result that isn't a tuple or list of ``outputs`` items. It raises, or returns a replacement."""

    def __init__(
        self,
        fn: Callable[..., Any],
        captured: int = 0,
        keeps_state: bool = False,
        outputs: int = 0,
        wrong: Callable[[Any], Any] | None = None,
    ) -> None: ...
    fn: Callable[..., Any]
    captured: int
    keeps_state: bool
    wrong: Callable[[Any], Any] | None
    def __call__(self, *args: Any) -> Any: ...

class Launch:
    """Calls ``whole(*inputs)``. After the first call, ``find_inner()`` returns the code that later calls run instead,
    with grad mode off. It takes a list of the inputs, which it may empty. If it is None, later calls run ``whole``.
    They also do so while torch's profilers have callbacks or another frame hook is installed.

    written: positions of the inputs that the code mutates. Their version counters are bumped for autograd."""

    def __init__(
        self,
        whole: Callable[..., Any],
        find_inner: Callable[[], Callable[[list[Any]], Any] | None],
        written: tuple[int, ...] = (),
    ) -> None: ...
    whole: Callable[..., Any]
    inner: Callable[[list[Any]], Any] | None
    def __call__(self, *args: Any) -> Any: ...

class Sequence:
    """Calls functions in order. Values are numbered: first the ``inputs``, then the results of the steps. A step is
    ``(function, numbers of its arguments, number of its results)``. It returns its results as a tuple or list. A value
    is dropped after its last use. The result is a tuple of the values with the numbers ``results``.

    Raises:
        ValueError: a step, or ``results``, uses a value before it is produced.
        TypeError: a function isn't callable; in a call, the number of inputs or of a step's results is wrong.
    """

    def __init__(
        self, inputs: int, steps: list[tuple[Callable[..., Any], list[int], int]], results: list[int]
    ) -> None: ...
    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...

class Switch:
    """Calls ``current``, which may be assigned at any time. Running calls keep the old callable."""

    current: Callable[..., Any]

    def __init__(self, current: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Resume:
    """The rest of a frame, as code. Generated code calls it with (closure or None, *args) and gets a Continuation,
    which it must return at once. The hook then runs ``code`` as a function with the frame's globals, this closure (a
    tuple of cells) and these arguments, *in place of* the frame that returned. So a loop with ten thousand breaks
    doesn't nest, and a traceback shows one frame, as in eager."""

    def __init__(self, code: CodeType) -> None: ...
    code: CodeType
    def __call__(self, closure: tuple[Any, ...] | None, *args: Any) -> Any: ...

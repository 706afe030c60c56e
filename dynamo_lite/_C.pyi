"""The C++ half: the frame hook, guard trees and the entries kept on code objects.

The hot path lives here: no function of this module runs Python while it checks a guard.
"""

from _thread import RLock
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

import torch

TORCH_VERSION: Final[str]
"""The torch this extension was built against."""

def sizes_of_torch_objects() -> dict[str, int]:
    """The sizes of instances of torch's types whose fields guards read, as the headers had them."""

def tensor_layout(tensor: Any) -> dict[str, Any]:
    """What guards read of a tensor at the places that the headers named. Its address alone if that differs."""

def state_layout_fits() -> bool:
    """Whether torch's own functions return what guards read of its state at the places that the headers named."""

def has_node_creation_hooks() -> bool:
    """Whether hooks on the nodes that autograd creates are in force on this thread (torch 2.15 has them)."""

# -- marks: process-wide words on a code object ----------------------------------------------------------------

class Mark:
    NONE: Final[Mark]
    SKIP: Final[Mark]
    """This code's frames run as they are; frames they call are looked at."""
    SKIP_RECURSIVE: Final[Mark]
    """This code's frames run as they are, with the hook off for all that they call."""

def mark_code(code: CodeType, mark: Mark) -> None: ...
def get_mark(code: CodeType) -> Mark: ...

# -- owners ----------------------------------------------------------------------------------------------------

class Verdict:
    """What an owner's callback says of a frame, where it has no code for it: the constants below."""

PASS: Final[Verdict]
"""Run this call as it is; ask again at the next."""
PASS_RECURSIVE: Final[Verdict]
"""The same, with the hook off below it."""
RETRY: Final[Verdict]
"""Look for an entry that holds once more: the callback has renewed one. Only then it is asked again."""
SKIP: Final[Verdict]
"""Never ask again about this code object, for this owner; run the entries there are. Callees are still looked at."""
SKIP_WITHOUT_TENSORS: Final[Verdict]
"""The same for calls without tensors (and numpy arrays) among the arguments and the first items of those that are
lists, tuples or dicts, two levels deep. Other calls are looked at."""
FREEZE: Final[Verdict]
"""Keep the entries there are; on a miss run the frame as it is, with the hook off below it."""

class FrameView:
    """A frame that has not begun, shown to a callback. Valid only while the callback runs (RuntimeError after)."""

    code: CodeType
    func: FunctionType
    globals: dict[str, Any]
    builtins: dict[str, Any]
    closure: tuple[Any, ...]
    """The function's cells in the order of co_freevars; empty where it has none."""
    locals: dict[str, Any]
    """Bound arguments by name (raw values: an argument that will become a cell is not one yet)."""
    owner: Owner
    entries: int
    """How many valid entries this owner has on this code."""
    cost: float
    """What translating this code is expected to take, in seconds; 0.0 where nothing is known."""
    def set_cost(self, seconds: float) -> None: ...
    def end_wait(self) -> bool:
        """Whether frames of this code have waited, and not been translated since. From now on they have not."""
    def hold(self, lock: RLock, seconds: float) -> bool:
        """Acquire a lock until the hook has taken what the callback returns, an entry for instance. False: it couldn't
        in this time."""
    def misses(self) -> list[Failure]:
        """Why each of this owner's entries did not hold, first tried first."""
    def adopt(self) -> bool:
        """Whether another owner of the family has an entry on this code that holds: if so, this owner has it now too,
        with guards that remember by themselves. Answer RETRY then."""

_Answer = (
    tuple[GuardTree, CodeType, bool, Owner | None] | Verdict | float | BaseException | tuple[CodeType, BaseException]
)
"""What a callback of an `Owner` returns."""

class Owner:
    """Somebody who compiles: one a dl.compile or dl.enable. Entries belong to a code object and an owner."""

    def __init__(
        self,
        callback: Callable[[FrameView], _Answer] | None,
        name: str = "",
        family: object = None,
    ) -> None:
        """callback is asked about each frame with no entry that holds; None: cached code only (run only). An exception
        that it returns is what the frame raises, with the traceback it has; of a code object and an exception, the
        code is called in the frame's place with its arguments and the exception, uncompiled. After a float, frames of
        this code for which no entry holds run as they are, unasked, until that took so many seconds. A new
        entry is a tuple: its guards, its code, whether that calls nothing to be compiled, and an owner that is to have
        one like it.
        family: owners of the same one, an object other than None, compile alike."""
    callback: Callable[[FrameView], Any] | None
    name: str
    when_observed: bool
    """Whether its frames must be captured: also where a tracer watches, and in a trace function. Where no frame is,
    what calls them for this owner raises. False at first."""
    spent: float
    """Seconds that misses took, in the callback and in what the hook does around it. The callback may deduct some."""
    has_spent_allowance: bool
    """Whether that is as much as `set_allowance` lets them take."""
    wait_of_new: float
    """How many seconds frames of code on which there is nothing are to wait once the allowance is spent. The callback
    isn't asked then. 0.0, as at first: it is."""
    def entries(self, code: CodeType) -> list[Entry]: ...
    def codes(self) -> list[CodeType]:
        """The code objects on which this owner has entries or verdicts."""
    def reset(self) -> None:
        """Drop this owner's entries and verdicts everywhere. Frames that run keep what they run. It begins to
        spend anew."""

class Entry:
    hits: int
    valid: bool
    owner: Owner
    code: CodeType
    tree: GuardTree

def looks_up_quietly(dict: dict[Any, Any], name: str) -> bool:
    """Whether the dict's own lookup of a name runs no Python: a key of the same hash, of a class derived from str, may
    have an ``__eq__`` of its own."""

def next_number(iterator: Any) -> int | None:
    """What an ``enumerate``, or an ``itertools.count`` of ints by ones, gives next; None for others."""

def thread_dict(local: Any) -> dict[str, Any] | None:
    """What a threading.local has on this thread; None: nothing yet, its class would begin it."""

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
"""The owner of threads that are left alone."""

def enter_block(owner: Owner, process: bool) -> None:
    """Begin a block in which an owner compiles what this thread runs, or the process. Where torch.compile is at work on
    this thread, nobody does in a thread's block. The hook is installed while any thread or the process has an owner
    other than OFF."""

def leave_block(owner: Owner, process: bool) -> None:
    """End the last block that the owner has entered and not left, in whatever order: those entered after it go on. Does
    nothing where there is none, as for a thread's block on another thread."""

def current_owner() -> Owner | None:
    """The owner in force on this thread: its own, else the process's."""

def hook_installed() -> bool: ...
def begin_process() -> None:
    """Let nobody compile, on this thread or in the process: it is a child that never returns to what its parent had
    begun. (Otherwise a forked child goes on with what the forking thread had begun, and with the process's owner.)"""

def compile_when_observed(on: bool) -> None:
    """Whether the frames of every owner are compiled where a tracer watches, too."""

def force_eager(on: bool) -> None:
    """Whether frames of every owner run in eager. A frame that a graph break has split goes on as it began."""

def set_allowance(seconds: float) -> None:
    """How many seconds the misses of an owner may take before frames of new code wait (`Owner.wait_of_new`)."""

def ask_about_new_code(on: bool) -> None:
    """Whether callbacks are asked about new code even then."""

def ask_about_code_in(folders: tuple[str, ...]) -> None:
    """Let callbacks be asked about all code of files in these folders. Each ends with a separator."""

def waits() -> int:
    """How often frames were made to wait in this process."""

def tell_when_traced(tell: Callable[[], None]) -> None:
    """Call ``tell`` when next a tracer keeps a frame from being compiled, once. What it raises the frame raises."""

def hold_collector() -> None:
    """Turn the garbage collector off for the process, until `release_collector` or the end of the callback that runs on
    this thread. Nothing if the program has turned it off."""

def release_collector() -> None: ...
def is_busy_elsewhere() -> bool:
    """Whether a callback is at work on another greenlet of this thread."""

def is_free(lock: Any) -> bool:
    """Whether this thread could acquire a threading.RLock at once."""

def call_watched(fn: Callable[..., Any], *args: Any) -> Any:
    """Call a function of the program's in an owner's callback, which trace and profile functions don't see, so that
    they see that call."""

def outermost_calls() -> int:
    """How often this thread entered compiled code from outside of any: called what dl.compile returned, or set an
    owner for a with-block."""

class Wrapped:
    """A callable that calls ``fn`` with ``owner`` set for this thread: what dl.compile and dl.disable (OFF) return.

    Vectorcall; binds as a method; has fn's __name__, __qualname__, __doc__, __module__ and __wrapped__; a __dict__
    and weak references; takes part in garbage collection. Its __class__ is a function's, if it isn't OFF."""

    def __init__(self, fn: Callable[..., Any], owner: Owner) -> None: ...
    __wrapped__: Callable[..., Any]
    __qualname__: str
    __copy__: Callable[[Wrapped], Callable[..., Any]]
    """This and the next are set from Python."""
    __deepcopy__: Callable[[Wrapped, dict[int, Any]], Callable[..., Any]]
    owner: Owner
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class InstanceCall:
    """A descriptor for a class's ``__call__`` which calls, in C, what the instance keeps in slot or attribute
    ``name`` of its class (a member descriptor), with the call's own arguments (without self).

    Read from the class, it is ``function``, which does the same in Python."""

    def __init__(self, member: Any, function: Callable[..., Any]) -> None: ...

# -- guards ----------------------------------------------------------------------------------------------------

class GlobalState:
    """A snapshot of torch's state that is not on any tensor: grad mode, inference mode, autocast (each device
    type's enabled and dtype, cache), default dtype, deterministic algorithms (and warn only, fill), cuBLAS/float32
    matmul precision and tf32, number of threads, depth of the torch-function and torch-dispatch mode stacks,
    functorch's depth, torch function enabled."""

    def __init__(self) -> None: ...
    def difference(self, other: GlobalState) -> str:
        """What differs, in words; '' if nothing."""

class InferenceBlock:
    """A block of ``torch.inference_mode``, which its creation enters. Its deallocation doesn't exit it."""

    def __init__(self, enabled: bool) -> None: ...
    def exit(self) -> None:
        """Restore the modes from before the block."""

class Failure:
    """The first check of a tree that did not hold."""

    reason: Any
    """The object that was passed to check()."""
    kind: str
    expected: Any
    """The object which `GuardTree.checks` has; of kind ``present`` the kind of accessor."""
    found: str
    """What is there instead, in words."""

ACCESSOR_KINDS: Final[dict[str, str]]
"""Every kind of accessor, with the text of the place it leads to."""
CHECK_KINDS: Final[dict[str, str]]
"""Every kind of check, with its text as a sentence without its subject."""
EXPORTED_CHECKS: Final[dict[str, tuple[str, str]]]
"""The kinds that exported programs check, with the texts of what is wanted and of what is given instead."""

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
    ``dict_keys``, ``set_items``, ``set_order``: constants by type and value, other objects by identity. ``tensor`` (an
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
        several. The object is that which the check is made with; None where the tree keeps none, or not any more."""
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
""" '___captured' : where the code of an entry has a local variable of that name, it starts with the tuple in it."""

# -- what generated code calls ------------------------------------------------------------------------------------

class GraphCall:
    """Calls the backend's callable with the hook off for this thread. Vectorcall, nothing allocated but an argument
    vector. ``captured``: the first argument is a tuple whose items go in front of the rest. ``keeps_state``: where it
    raises, grad mode, inference mode and autocast are put back to what they were. ``wrong`` is called with a result
    that is no tuple or list of so many ``outputs``: it raises, or gives what to return."""

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
    """Calls ``whole(*inputs)``. After the first call ``find_inner()`` returns what later calls run instead: code that
    takes a list of the inputs, which it may empty, with grad mode off. If it returns None, they run ``whole``; so they
    do while torch's profilers have callbacks or another frame hook is installed. ``written``: positions of the inputs
    that the code mutates, which bumps their versions for autograd."""

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
    """Calls one function after the other. Values are numbered: the ``inputs``, then what each step makes. A step is
    ``(function, the numbers of the values that it takes, how many it makes)``; it returns these as a tuple or list. A
    value is dropped after the last step that takes it. The result is a tuple of the values numbered ``results``.

    Raises:
        ValueError: a step, or ``results``, takes a value that isn't made before.
        TypeError: a function can't be called; when called: another number of inputs or of a step's results.
    """

    def __init__(
        self, inputs: int, steps: list[tuple[Callable[..., Any], list[int], int]], results: list[int]
    ) -> None: ...
    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...

class Switch:
    """Calls ``current``, which may be assigned at any time: calls that are under way keep the one they began with."""

    current: Callable[..., Any]

    def __init__(self, current: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Resume:
    """The rest of a frame, as code. Called in generated code with (closure or None, *args) it returns a Continuation,
    which that code must return at once: the hook then runs ``code`` as a function with the frame's globals, that
    closure (a tuple of cells) and those arguments, *in place of* the frame that returned. So a loop that breaks ten
    thousand times does not nest, and a traceback shows one frame, as in eager."""

    def __init__(self, code: CodeType) -> None: ...
    code: CodeType
    def __call__(self, closure: tuple[Any, ...] | None, *args: Any) -> Any: ...

"""Is this frame ours? Checked before a frame is translated and, where only the trace can tell, after it."""

from __future__ import annotations

import types
from traceback import FrameSummary
from typing import Any

import torch

from dynamo_lite import _C, config
from dynamo_lite.controls.stance import stance_in_force
from dynamo_lite.exc import RecompileForbidden, SkipFrame
from dynamo_lite.insight.break_reasons import DisabledByCompiler
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.observer import GraphBreak, Observer
from dynamo_lite.records import code_origin
from dynamo_lite.resume.graph_break import unused_arguments
from dynamo_lite.runtime.precomputed_calls import PendingExceptions
from dynamo_lite.translator.core import RootTranslator
from dynamo_lite.variables.core.class_lookup import mro
from dynamo_lite.variables.core.wrapping import LazyVariable
from dynamo_lite.variables.torch.modules.nn_module import NNModuleVariable

from .code_ahead import holds_tensors, may_compute_with_tensors
from .frame_identity import FrameIdentity
from .observers import WhyNotHere, tell_once, why_not_here
from .recompilation import Versions, recompile_of, revalidate_abc_guards
from .recording import record_skip


def verdict(
    frame: FrameIdentity,
    precomputed_exceptions: PendingExceptions,
    observer: Observer | None,
    *,
    is_frozen: bool,
    fullgraph: bool,
) -> _C.Verdict | Exception | None:
    """The verdict on a frame that isn't to be translated, or not now; None: it may be. ``is_frozen``: nothing is
    compiled on this thread."""
    if precomputed_exceptions.waiting:
        raised = precomputed_exceptions.take(frame.code, frame.arguments)
        if raised is not None:
            return raised
    if code_origin.why_skipped(frame.code) is not None:
        counters.skips += 1
        return _C.FREEZE if code_origin.runs_uncompiled(frame.code) else _C.SKIP
    if _is_called_by_autograd(frame):
        counters.skips += 1
        return _C.FREEZE
    if revalidate_abc_guards(frame.view):
        return _C.RETRY
    if is_frozen:
        return _C.PASS
    why_not = why_not_here()
    if why_not is not None:
        if fullgraph:
            raise why_not.error(frame.code.co_qualname)
        return refuse_here(frame, why_not, observer)
    return None


def refuse_here(frame: FrameIdentity, why_not: WhyNotHere, observer: Observer | None) -> _C.Verdict:
    """Report why a frame isn't translated at this place of the program's run; the verdict on it."""
    if observer is not None:
        observer.not_compiled_here.append(why_not.error(frame.code.co_qualname).reason)
    record_skip(frame.place, why_not.because)
    tell_once(why_not)
    return _C.PASS


def _is_called_by_autograd(frame: FrameIdentity) -> bool:
    """Whether it is ``forward`` or ``setup_context`` of a ``torch.autograd.Function`` whose ``apply`` runs in eager.

    A graph would break at each use of ``ctx``. Up to torch 2.13, ``apply`` was a function in Python, all of whose
    callees run in eager; it is written in C since.
    """
    code = frame.code
    first = frame.arguments.get(code.co_varnames[0]) if code.co_argcount else None
    if not any(each is torch.autograd.function.FunctionCtx for each in mro(type(first))):
        return False
    called = (getattr(getattr(type(first), "_forward_cls", None), name, None) for name in ("forward", "setup_context"))
    return any(getattr(each, "__code__", None) is code for each in called)


def verdict_of_entries(frame: FrameIdentity, versions: Versions, *, fullgraph: bool) -> _C.Verdict | None:
    """The verdict on a frame by the entries that exist now; None: translate it."""
    if not fullgraph and _runs_over_packed_sequence(frame):
        return _C.PASS
    if frame.view.entries > len(frame.misses):  # another thread made one meanwhile
        return _C.RETRY
    if frame.view.adopt():
        counters.shared += 1
        return _C.RETRY
    stance = _verdict_of_stance(frame)
    if stance is not None:
        return stance
    end = versions.end(frame)
    if end is None:
        return None
    record_skip(frame.place, end.why)
    end.tell(frame, fullgraph)
    return end.verdict


def _verdict_of_stance(frame: FrameIdentity) -> _C.Verdict | None:
    """The verdict of the stance on a frame that would be translated; None: translate it.

    Raises:
        RecompileForbidden: the stance is "fail_on_recompile", and there may be something for a graph.
    """
    stance = stance_in_force()
    if stance in ("force_eager", "eager_on_recompile") or config.torchs("disable"):
        return _C.PASS
    fails = stance == "fail_on_recompile"
    if (fails or config.torchs("error_on_recompile")) and frame.failures:
        raise _forbidden(frame)
    if fails and _may_compute(frame):
        raise _forbidden(frame)
    return _C.PASS if fails else None


def _forbidden(frame: FrameIdentity) -> RecompileForbidden:
    if not frame.failures:
        return RecompileForbidden(str(frame.place), "", "")
    found = recompile_of(frame)
    return RecompileForbidden(str(frame.place), found.change, found.hint)


def _may_compute(frame: FrameIdentity) -> bool:
    """Whether a frame that was never compiled takes tensors or modules, or names torch."""
    if any(holds_tensors(each) for each in frame.arguments.values()):
        return True
    named = (frame.view.globals.get(name) for name in frame.original.co_names)
    return any(type(each) is types.ModuleType and each.__name__.partition(".")[0] == "torch" for each in named)


def _runs_over_packed_sequence(frame: FrameIdentity) -> bool:
    """Whether it is ``Module.__call__`` of a recurrent layer with a packed sequence. It has nothing for a graph, but
    the same code called for other modules has."""
    arguments: dict[str, Any] = frame.arguments
    if not frame.is_module_call or not isinstance(arguments.get("self"), torch.nn.RNNBase):
        return False
    given = (*arguments.get("args", ()), *arguments.get("kwargs", {}).values())
    return any(isinstance(each, torch.nn.utils.rnn.PackedSequence) for each in given)


# -- the frame, once it is traced --------------------------------------------------------------------------------------


def check_is_no_module_call(code: types.CodeType, graph_break: GraphBreak, over_operands: bool) -> None:
    """``Module.__call__`` is skipped where it would break outside of ``forward``. ``over_operands``: it breaks because
    of the operands, and might not for others."""
    stack = graph_break.user_stack
    if over_operands or not code_origin.is_module_call(code.co_filename) or _is_in_forward(stack):
        return
    why = "its hooks and its forward are compiled each by itself"
    raise SkipFrame(why, loses=len(stack) == 1, cause=graph_break) from None


def _is_in_forward(user_stack: tuple[FrameSummary, ...]) -> bool:
    """Of a place under ``Module.__call__``: whether the innermost runs ``forward`` there, and not a hook."""
    called = None
    for frame in reversed(user_stack):
        if code_origin.is_module_call(frame.filename):
            break
        called = frame.name
    return called is not None and called.rpartition(".")[2] == "forward"


def check_is_for_graph(root: RootTranslator, breaks: bool, takes_empty: bool) -> None:
    """Skip a frame without operators, unless one of its variables holds a tensor or module, or the rest of it after a
    break may compute with tensors. In a library only tensors among the arguments count if nothing follows:
    ``ModuleList.__getitem__`` and ``Module.__getattr__`` would have a version for each index or name.

    ``takes_empty``: whether it is compiled all the same."""
    attempt = root.attempt
    if attempt.graph.operators or takes_empty or attempt.graph.inputs:
        return
    is_library = code_origin.is_library(root.code)
    computes_nothing = is_library and not breaks and not code_origin.calls_module(root.code)
    uses_module = any(isinstance(each, NNModuleVariable) for _, each in attempt.values.memo.values())
    if uses_module and not computes_nothing:
        return
    unused = unused_arguments(root.code)
    arguments = [value for name, value in zip(root.argument_names, root.arguments) if name not in unused]
    variables = [value for name, value in root.locals.items() if name not in unused and not computes_nothing]
    found = (value for value in (*arguments, *variables, *root.stack) if isinstance(value, LazyVariable))
    if any(holds_tensors(each.value, modules=not computes_nothing) for each in found):
        return
    if is_library or not (breaks and may_compute_with_tensors(root)):
        stopped = attempt.restart_facts.graph_break
        loses = stopped is not None and isinstance(stopped.reason, DisabledByCompiler)
        raise SkipFrame("it contains no tensor operations", loses=loses, over_operands=True)

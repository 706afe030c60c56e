"""The reasons of graph breaks: one row each, by families of codes.

01 asked for by the program · 02 calls · 03 data of tensors · 04 operators · 05 Python's statements and values ·
06 limits · 07 memory and autograd · 08 values that survive a break, frames that run without a graph · 09 export
"""

from __future__ import annotations

from .break_reason import BreakReason

# -- 01: asked for by the program ------------------------------------------------------------------------------------


class UserGraphBreak(BreakReason, code="DL0101", numbers_matter=False):
    happened = "dl.graph_break({message}) was called"
    fix = "remove the call where one graph is wanted"
    message: str = ""
    """As the program writes it."""


class DisabledCall(BreakReason, code="DL0102", numbers_matter=False):
    happened = "{callee} is marked to be left out of graphs"
    fix = "remove dl.disable (or disallow_in_graph) from it where one graph is wanted"
    callee: str
    message: str = ""

    def what(self) -> str:
        return super().what() + (f": {self.message}" if self.message else "")


class DisabledByCompiler(BreakReason, code="DL0103", numbers_matter=True):
    happened = "{callee} can't be traced whole ({why}), and torch.compile has disabled it in this process"
    fix = "don't use torch.compile in the process, or call what can be traced without it"
    callee: str
    why: str


# -- 02: calls -------------------------------------------------------------------------------------------------------


class UnknownCall(BreakReason, code="DL0201", numbers_matter=False, may_follow=True):
    happened = "the call of {callee} can't be traced: {because}"
    fix = "dl.allow_in_graph puts a pure tensor function into the graph as it is; otherwise keep the call outside"
    callee: str
    because: str = "it is C code, or excluded, and nothing is known of its effects"


class OutputCall(BreakReason, code="DL0202", numbers_matter=False):
    happened = "{callee}() has a side effect that can't be captured"
    fix = "move it out of the compiled function, or put it under `if not dl.is_compiling():`"
    callee: str


class UncachedCall(BreakReason, code="DL0210", numbers_matter=False):
    happened = "the cache of {callee} has no result for these arguments, and it can't run while tracing: {because}"
    fix = "call it before the compiled function, or remove the functools.lru_cache from it"
    callee: str
    because: str


class CacheCreated(BreakReason, code="DL0211", numbers_matter=False):
    happened = "functools.lru_cache is applied inside the compiled function, where each call creates another cache"
    fix = "define the cached function outside of the compiled function"


class RandomCall(BreakReason, code="DL0212", numbers_matter=False):
    happened = "random.{method}() draws random numbers, or uses their state, which differ from call to call"
    fix = "draw outside of the compiled function, or in tensors with torch.rand, torch.randint or torch.randperm"
    method: str


class NumberFunctionOfTensor(BreakReason, code="DL0213", numbers_matter=False):
    happened = "{function}() takes a Python number, and is given a tensor, whose value is not known while tracing"
    fix = "call torch's function of that name, for example torch.sqrt(x) instead of math.sqrt(x)"
    function: str


class NumpyWrite(BreakReason, code="DL0215", numbers_matter=True):
    happened = "{write} writes into a numpy array, which numpy does: {why}"
    fix = "convert value and index first, write into a tensor, or make a new array, for example by numpy.where"
    write: str
    why: str


class LegacyConstructor(BreakReason, code="DL0216", numbers_matter=True):
    happened = "torch.{cls}() can't be traced: {because}"
    fix = "write torch.tensor(data, dtype=…, device=…), or torch.empty(sizes, dtype=…, device=…)"
    cls: str
    because: str


class TensorToNumpy(BreakReason, code="DL0217", numbers_matter=False):
    happened = "Tensor.numpy() of this tensor can't be traced: {because}"
    fix = "convert it first: tensor.detach().cpu().numpy(), or keep it a tensor"
    because: str


class CollectiveNotCaptured(BreakReason, code="DL0219", numbers_matter=False):
    happened = "{collective}() can't be in a graph: {why}"
    fix = (
        "write it with all_reduce, all_gather_into_tensor, reduce_scatter_tensor, all_to_all_single or broadcast of "
        "contiguous tensors that require no gradients; or keep it outside"
    )
    collective: str
    why: str


class DeviceNotCaptured(BreakReason, code="DL0220", numbers_matter=False):
    happened = "{operation} can't be in a graph: {why}"
    fix = "keep it outside of the compiled function; for time measurements, use torch.profiler"
    operation: str
    why: str


class RandomStateUsed(BreakReason, code="DL0221", numbers_matter=False):
    happened = "{operation} can't be in this graph: {why}"
    fix = "seed before the first random operator of a compiled function, or pass a torch.Generator"
    operation: str
    why: str


class NumpyCall(BreakReason, code="DL0222", numbers_matter=True):
    happened = "{function} can't be in a graph: {why}"
    fix = "call it outside of the compiled function, or convert the arrays and write it with torch's functions"
    function: str
    why: str


class NotCreated(BreakReason, code="DL0223", numbers_matter=True):
    happened = "an instance of {cls} can't be created while tracing: {why}"
    fix = "create the object outside of the compiled function, and pass it as an argument"
    cls: str
    why: str


class DefaultSet(BreakReason, code="DL0266", numbers_matter=False):
    happened = "torch.set_default_{name}() is called while tracing, which gives each new tensor in the graph its {name}"
    fix = "call it before the compiled function, or pass {name}= where tensors are created"
    name: str


# -- 03: data of tensors ---------------------------------------------------------------------------------------------


class DataDependentBranch(BreakReason, code="DL0301", numbers_matter=False):
    happened = "the program branches on a tensor's value, which is not known while tracing"
    fix = "use torch.where (or torch.cond) to choose by data, or branch on shapes and constants"


class DataDependentValue(BreakReason, code="DL0302", numbers_matter=False):
    happened = "{operation} needs a tensor's value, which is not known while tracing"
    fix = (
        "keep the value in a tensor; or set dl.config.capture_scalar_outputs, which fullgraph=True does, to capture "
        "the numbers of .item() and sizes like that of nonzero()"
    )
    operation: str


class PackedSequences(BreakReason, code="DL0305", numbers_matter=False, may_follow=True):
    happened = "{call} depends on the lengths of the sequences, which are data that is not known while tracing"
    fix = "run the layer on the padded batch and mask what it gives, or keep the packed part outside"
    call: str


class TensorAsIndex(BreakReason, code="DL0307", numbers_matter=False):
    happened = "{operator} by a tensor of no dimension takes it as a number, which is not known while tracing"
    fix = (
        "index by a tensor of one dimension, which stays one: `x[i[None]][0]`; or set dl.config.capture_scalar_outputs"
    )
    operator: str


# -- 04: operators ---------------------------------------------------------------------------------------------------


class OperatorFailed(BreakReason, code="DL0401", numbers_matter=True):
    happened = "{operator} could not be computed on fake tensors: {error}"
    fix = "if it fails in eager too, fix the call; otherwise keep it outside of the compiled function"
    operator: str
    error: str
    over_operands: bool = False
    """Operands of other shapes, types or devices might not fail."""


class FailureAndWrite(BreakReason, code="DL0402", numbers_matter=False):
    happened = "{operator} can't share a graph with what was before: one writes into an input, one may fail"
    fix = "move the write into the input out of the `try` or `with`, or make it a new tensor"
    operator: str


class OperatorWarns(BreakReason, code="DL0403", numbers_matter=True):
    happened = "{operator} warns: {warning}"
    fix = "do as the warning says, or ignore it by a filter before the function is compiled"
    operator: str
    warning: str


class TensorObjectMethod(BreakReason, code="DL0410", numbers_matter=False):
    happened = "Tensor.{method} runs in eager: it changes the tensor object, or needs its storage or another layout"
    fix = "return a new tensor instead (view, reshape, clone), or call it outside of the compiled function"
    method: str


class NumpyStorage(BreakReason, code="DL0411", numbers_matter=False):
    happened = "{operator} uses the storage of a tensor that shares memory with a numpy array"
    fix = "copy the array: torch.tensor(array), or torch.from_numpy(array).clone()"
    operator: str


class HigherOrderOperator(BreakReason, code="DL0412", numbers_matter=True):
    happened = "{operator} can't be in the graph: {why}"
    fix = (
        "let its functions take tensors and return new ones, of the same structure, shapes and dtypes in each case, "
        "and pass options that fit its arguments"
    )
    operator: str
    why: str


class CheckpointCall(BreakReason, code="DL0413", numbers_matter=True):
    happened = "torch.utils.checkpoint.checkpoint() can't be in the graph: {why}"
    fix = (
        "call it with use_reentrant=False, and as context_fn only create_selective_checkpoint_contexts of a pure policy"
    )
    why: str


class ContextByCall(BreakReason, code="DL0415", numbers_matter=False):
    happened = "{manager} is {action} by an explicit call of its method"
    fix = "use it in a `with` block"
    manager: str
    action: str


class WrapperSubclass(BreakReason, code="DL0416", numbers_matter=True):
    happened = "{subclass} can't be in the graph: {why}"
    fix = "compute with its inner tensors, or keep it outside of the compiled function"
    subclass: str
    why: str


class TorchFunctionOverride(BreakReason, code="DL0417", numbers_matter=True):
    happened = "{call} can't be traced with a class that overrides __torch_function__: {because}"
    fix = "let __torch_function__ be a classmethod that calls super().__torch_function__, or pass plain tensors"
    call: str
    because: str = "it has no model"


class FunctionModeEntered(BreakReason, code="DL0418", numbers_matter=True):
    happened = "the program enters or leaves {mode}, which changes what torch's functions do"
    fix = "enter it around the compiled call"
    mode: str


class OverlappingWrite(BreakReason, code="DL0419", numbers_matter=True):
    happened = "{operator} writes into memory that {sharer}"
    fix = "clone() the tensor before it is written into"
    operator: str
    sharer: str


class KernelLaunch(BreakReason, code="DL0420", numbers_matter=True):
    happened = "the launch of the Triton kernel {kernel} can't be in the graph: {why}"
    fix = "{instead}"
    kernel: str
    why: str
    instead: str = "launch it outside of the compiled function, or in an operator under torch.library.custom_op"


class CollectiveAndFailure(BreakReason, code="DL0421", numbers_matter=False):
    happened = "{operator} communicates, and can't share a graph with what may fail and be run again in eager: {other}"
    fix = "move the collective out of the `try`, or away from the condition on a tensor's data"
    operator: str
    other: str


class InferenceWrite(BreakReason, code="DL0422", numbers_matter=False):
    happened = "{operator} writes into an inference tensor from outside, in inference mode that the graph enters itself"
    fix = "enter torch.inference_mode() around the compiled call: AOTAutograd refuses such a write"
    operator: str


class HiddenWrite(BreakReason, code="DL0423", numbers_matter=False):
    happened = (
        "{operator} writes by .data or detach() into a view of a leaf, or into one of several views of an operator"
    )
    fix = "write into the tensor itself, under torch.no_grad()"
    operator: str


class ViewsOfWritten(BreakReason, code="DL0424", numbers_matter=False):
    happened = (
        "{operator} returns several views of an argument that requires gradients, which the graph has written into"
    )
    fix = "clone() the argument before it is written into, or take one view at a time: x[:n] in place of x.split(n)"
    operator: str


class OperatorNeedsSizes(BreakReason, code="DL0454", numbers_matter=True):
    happened = "{operator} has no implementation for symbolic sizes"
    fix = "mark the sizes static (dl.mark_static), or compile with dynamic=False"
    operator: str


class ResultNotDense(BreakReason, code="DL0466", numbers_matter=False):
    happened = "{operator} returns a tensor that isn't dense (but sparse, quantized or nested), or of another subclass"
    fix = "compute with dense tensors, or keep the operators on such a tensor outside of the compiled function"
    operator: str


# -- 05: Python's statements and values ------------------------------------------------------------------------------


class UnsupportedOpcode(BreakReason, code="DL0501", numbers_matter=True):
    happened = "the bytecode {opname} is not traced: {why}"
    fix = "move that statement out of the compiled function"
    opname: str
    why: str


class UnsupportedAttribute(BreakReason, code="DL0502", numbers_matter=True, may_follow=True):
    happened = "attribute {name!r} of {owner} can't be traced: {why}"
    fix = "read or write it outside of the compiled function"
    owner: str
    name: str
    why: str = "its meaning is not modelled"


class UnsupportedOperation(BreakReason, code="DL0503", numbers_matter=True, may_follow=True):
    happened = "{operation} of {operands} can't be traced"
    fix = "move that expression out of the compiled function, or write it with tensors and built-in containers"
    operation: str
    operands: str


class UnsupportedValue(BreakReason, code="DL0504", numbers_matter=True, may_follow=True):
    happened = "{value} can't be used in a graph: {why}"
    fix = (
        "keep it outside of the compiled function, or pass its parts: tensors, constants, a list of what an iterator "
        "yields"
    )
    value: str
    why: str


class UnsupportedContext(BreakReason, code="DL0505", numbers_matter=True, may_follow=True):
    happened = "the context manager {manager} is not traced"
    fix = "enter it outside of the compiled function"
    manager: str


class UncaughtException(BreakReason, code="DL0506", numbers_matter=True):
    happened = "the traced program raises {error}"
    fix = "nothing to do where that is meant: the exception is raised by the program itself, as in eager"
    error: str


class WarningsObserved(BreakReason, code="DL0507", numbers_matter=False):
    happened = "{call} lets the program observe warnings"
    fix = "keep it outside of the compiled function; a `catch_warnings()` that only ignores may stay inside"
    call: str


class ClassCreation(BreakReason, code="DL0508", numbers_matter=False):
    happened = "the class {name} is created in the traced function, and each call creates another one"
    fix = "define the class outside of the compiled function"
    name: str


class FirstImport(BreakReason, code="DL0509", numbers_matter=False):
    happened = "the module {module} isn't loaded yet, and its code can't run while tracing: {reason}"
    fix = "import it at the top of the file, or once before the first call"
    module: str
    reason: str


class UnsupportedMethod(BreakReason, code="DL0510", numbers_matter=True, may_follow=True):
    happened = "the method {name}() of {owner} can't be traced: it has no model"
    fix = "call it outside of the compiled function, or write what it does in Python"
    owner: str
    name: str


class UnsupportedArguments(BreakReason, code="DL0511", numbers_matter=True):
    happened = "{callee}() is called with arguments that its model doesn't take"
    fix = "check the call in eager, where CPython may raise a TypeError; otherwise leave out the rarer arguments"
    callee: str


class UnknownSetOrder(BreakReason, code="DL0513", numbers_matter=False):
    happened = "{operation} depends on the order of {value}, which may differ from call to call"
    fix = "iterate over `sorted(...)`, or keep the items in a list or in the keys of a dict"
    operation: str
    value: str


class ChangedDuringIteration(BreakReason, code="DL0514", numbers_matter=False):
    happened = "{value} is mutated while the program iterates over it"
    fix = "iterate over a copy (`for item in list(container)`), or fix the graph break inside the loop"
    value: str


class UnsupportedKey(BreakReason, code="DL0515", numbers_matter=True):
    happened = "{value} can't be used as a dict's key, a set's item or a cached function's argument: {why}"
    fix = "use a string, an integer, an enum member or a tuple of them as the key"
    value: str
    why: str = "its hash and equality are not known while tracing"


class UnknownValue(BreakReason, code="DL0516", numbers_matter=True):
    happened = "{value} is used where its value must be known while tracing, and it isn't"
    fix = "pass a constant (a number, a string, a tuple of them), or keep the call outside of the compiled function"
    value: str


class AttributeChange(BreakReason, code="DL0518", numbers_matter=True):
    happened = "attribute {name!r} of {owner} is {changed}, which can't be traced"
    fix = "do it outside of the compiled function, or keep the value in an object of a class of your own"
    owner: str
    name: str
    changed: str


class FailsInPython(BreakReason, code="DL0519", numbers_matter=True):
    happened = "{operation} fails ({why}), and CPython raises the error"
    fix = "fix it, since eager raises as well; where that is meant, there is nothing to do"
    operation: str
    why: str


class ComparisonNotTraced(BreakReason, code="DL0520", numbers_matter=True):
    happened = "`{symbol}` compares {left} and {right}, which can't be traced"
    fix = "compare by `is`, or compare what identifies them: a name, a number, a member of an enum"
    symbol: str
    left: str
    right: str


class ContextReset(BreakReason, code="DL0521", numbers_matter=False):
    happened = "the context variable {name} is reset by a token that was created before this graph, or out of order"
    fix = "set and reset it around the call of the compiled function, or remove the graph break between the two"
    name: str


class ClockRead(BreakReason, code="DL0531", numbers_matter=False):
    happened = "{callee} reads the clock, or waits"
    fix = "measure time around the call of the compiled function, or put it under `if not dl.is_compiling():`"
    callee: str


class FileAccess(BreakReason, code="DL0532", numbers_matter=False):
    happened = "{callee} reads or writes a file"
    fix = "read it before the compiled function is called, and pass its data as tensors and constants"
    callee: str


class AddressUsed(BreakReason, code="DL0533", numbers_matter=False):
    happened = "the program uses the address (id) of {value}, which is another object in each call"
    fix = "use the object itself as the key, or compare objects with `is`"
    value: str


class ReferentMayBeDead(BreakReason, code="DL0534", numbers_matter=False):
    happened = "a weak reference is called after the code before it may have dropped the last reference to its object"
    fix = "call the weak reference at the beginning of the compiled function, and keep the result in a variable"


class ProtocolCheck(BreakReason, code="DL0536", numbers_matter=False):
    happened = "isinstance() checks {value} against the protocol {protocol}, which has members other than methods"
    fix = "derive the class from the protocol, or use hasattr()"
    value: str
    protocol: str


class CopyOfValue(BreakReason, code="DL0540", numbers_matter=True):
    happened = "{function}() of {value} can't be traced"
    fix = "copy it outside of the compiled function, or copy its parts: `list(...)`, `dict(...)`, `tensor.clone()`"
    function: str
    value: str


class ExceptionState(BreakReason, code="DL0541", numbers_matter=False):
    happened = "{error} can't be traced: {why}"
    fix = "give the exception plain arguments and read `error.args`, or create it outside of the compiled function"
    error: str
    why: str


class ThrowIntoDelegate(BreakReason, code="DL0550", numbers_matter=False):
    happened = "throw() or close() of the generator {name}, which waits in a `yield from`"
    fix = "write the `yield from` as a loop: `for item in iterator: yield item`"
    name: str


class IdentityOfConstants(BreakReason, code="DL0551", numbers_matter=True):
    happened = "`is` compares two constants that are equal ({value}), which may be one object or two"
    fix = "compare them by `==`"
    value: str


class MissingNameInModule(BreakReason, code="DL0552", numbers_matter=False):
    happened = "`from {module} import {name}`: the module has no such name, so CPython raises an ImportError"
    fix = "try the import at the top of the file, and keep in a variable whether it succeeded"
    module: str
    name: str


class LegacyTensorType(BreakReason, code="DL0558", numbers_matter=False):
    happened = "isinstance() checks {value} against {kind}, which depends on the tensor's dtype and device"
    fix = "compare `x.dtype` and `x.device`, or check for torch.Tensor"
    value: str
    kind: str


class LazyImport(BreakReason, code="DL0560", numbers_matter=False):
    happened = "`{name}` is imported lazily, and this is its first use, which runs the import"
    fix = "import it without `lazy`, or use it once before the first call"
    name: str


class TextWithAddress(BreakReason, code="DL0559", numbers_matter=False):
    happened = "{function}() of {value} is made in C, and may contain the object's address"
    fix = "define __repr__ in its class, or make the text outside of the compiled function"
    function: str
    value: str


# -- 06: limits ------------------------------------------------------------------------------------------------------


class InlineLimit(BreakReason, code="DL0601", numbers_matter=False):
    happened = "the call of {callee} is nested more than {depth} deep"
    fix = "raise dl.config.inline_limit, or make the recursion a loop"
    callee: str
    depth: int


class NestedTooDeep(BreakReason, code="DL0602", numbers_matter=False):
    happened = "a value lies more than {steps} steps away from the function's arguments and globals"
    fix = "pass what it is in as an argument of a function of its own"
    steps: int


class TraceLimit(BreakReason, code="DL0603", numbers_matter=False):
    happened = "tracing reached the limit of {instructions} bytecode instructions"
    fix = "move a long Python loop into tensor operations or a function of its own, or raise dl.config.unroll_limit"
    instructions: int


class RaisedExistingException(BreakReason, code="DL0604", numbers_matter=False):
    happened = "{error} is raised, which exists since before the call: its traceback would get the traced frames"
    fix = "raise a new exception (and name the old one in `raise … from`)"
    error: str


class EffectInOperatorFunction(BreakReason, code="DL0605", numbers_matter=False):
    happened = "a function that an operator runs, perhaps several times or later, has a side effect: {effect}"
    fix = "return the value from the function, and write it where the operator is called"
    effect: str


# -- 07: memory and autograd -----------------------------------------------------------------------------------------


class SharedMemory(BreakReason, code="DL0701", numbers_matter=True):
    happened = "one graph would write into memory that another of its inputs has too"
    fix = "pass one of the tensors, and make the views of it inside"


class FreedTogether(BreakReason, code="DL0702", numbers_matter=True):
    happened = "the backward of the operators before this would free what these need too, were they one compiled graph"
    fix = "compute what does not depend on it after `backward()`"


class BackwardReads(BreakReason, code="DL0703", numbers_matter=False):
    happened = "the backward of a torch.autograd.Function reads {place}: that may change before it runs"
    fix = "keep the value on ctx in the Function's forward, or read it from a constant of the module"
    place: str


class UnknownInBackward(BreakReason, code="DL0718", numbers_matter=False):
    happened = "a backward, hook or checkpoint reads {value}, which is not known before it runs"
    fix = "call .contiguous() on the gradient before its strides are read; or use operators in place of the condition"
    value: str


class BackwardCall(BreakReason, code="DL0710", numbers_matter=False):
    happened = "Tensor.backward() runs in eager, between graphs"
    fix = "call it outside of the compiled function; its backward is compiled all the same"


class DataReplaced(BreakReason, code="DL0711", numbers_matter=True):
    happened = "`.data` of {tensor} is replaced"
    fix = "overwrite the data instead: tensor.data.copy_(value) or, under torch.no_grad(), tensor.copy_(value)"
    tensor: str


class RequiresGradChange(BreakReason, code="DL0712", numbers_matter=True):
    happened = (
        "`requires_grad` of {tensor} can't be changed in the graph: it is no leaf, others share its memory, or an "
        "operator gives it a history"
    )
    fix = "set it before the compiled function is called, or on a new tensor: tensor.detach().requires_grad_()"
    tensor: str


class GradFnRead(BreakReason, code="DL0770", numbers_matter=False):
    happened = "`grad_fn` of {tensor} is read: in a compiled graph it would be another autograd node than in eager"
    fix = "read `requires_grad` or `is_leaf`, or read `grad_fn` outside of the compiled function"
    tensor: str


class ParameterCreated(BreakReason, code="DL0771", numbers_matter=True):
    happened = "nn.Parameter() of {tensor} can't be created in the graph: {why}"
    fix = "create it in the module's __init__"
    tensor: str
    why: str


class LeafLeavesGraph(BreakReason, code="DL0772", numbers_matter=True):
    happened = "{tensor} was created as a leaf of autograd, and is alive after its graph, which can't return one"
    fix = "create it outside of the compiled function; or use it up inside, as for torch.autograd.grad"
    tensor: str


class AutogradFunction(BreakReason, code="DL0714", numbers_matter=False):
    happened = "the torch.autograd.Function {name} can't be in the graph: {why}"
    fix = "let forward return new tensors and backward one gradient for each argument; keep state on ctx"
    name: str
    why: str


class GradientBeyondGraph(BreakReason, code="DL0715", numbers_matter=False):
    happened = "torch.autograd.grad() can't be in the graph: {why}"
    fix = "compute the outputs and their gradients in the same compiled function, with no graph break between them"
    why: str


class HookNotTraced(BreakReason, code="DL0716", numbers_matter=False):
    happened = "{hook} can't be traced: {because}"
    fix = "register it outside of the compiled function, or let it use only its gradient, constants and operators"
    hook: str
    because: str


class SavedIsOverwritten(BreakReason, code="DL0717", numbers_matter=True):
    happened = "{operator} writes into a tensor that an operator before it saved for its backward, which would fail"
    fix = "compute a new tensor, or clone() before the write; without a backward, use torch.no_grad()"
    operator: str


class ModuleBackwardHooks(BreakReason, code="DL0766", numbers_matter=False):
    happened = "a module with full backward hooks is called"
    fix = "use Tensor.register_hook() with a function of the gradient alone"


class LazyModuleCalled(BreakReason, code="DL0767", numbers_matter=False):
    happened = "{module} is called for the first time, and creates its parameters"
    fix = "call the module once before the compiled function"
    module: str


# -- 08: what survives a break, and frames that run without a graph --------------------------------------------------


class UnreconstructableValue(BreakReason, code="DL0801", numbers_matter=True):
    happened = "{value} is alive at a graph break and can't be made outside of the trace"
    fix = "use it up before the break (for example: list(generator))"
    value: str


class DroppedGenerator(BreakReason, code="DL0802", numbers_matter=True):
    happened = "{value} is dropped while it waits in a block, which CPython leaves when it deallocates the generator"
    fix = "use it up, or close() it"
    value: str


class FrameLeftAlone(BreakReason, code="DL0803", numbers_matter=True, may_follow=True):
    happened = "{name} runs without a graph: {because}"
    fix = "call the part that computes with tensors as a function of its own"
    name: str
    because: str
    cause: BreakReason | None = None

    def what(self) -> str:
        return super().what() + ("" if self.cause is None else f" (it broke there: {self.cause.what()})")

    def hint(self) -> str:
        return super().hint() + ("" if self.cause is None else f", or fix the break: {self.cause.hint()}")


class NotCompiledHere(BreakReason, code="DL0805", numbers_matter=False):
    happened = "{name} can't be compiled where it is called: {because}"
    fix = "to have it captured, {instead}"
    name: str
    because: str
    instead: str = "call it elsewhere"


# -- 09: export ------------------------------------------------------------------------------------------------------


class EffectOfExport(BreakReason, code="DL0901", numbers_matter=True):
    happened = "the program writes into {written}, which outlives the call; a graph module can't do that"
    fix = "return the new value, and write it after the call"
    written: str


class NotExportable(BreakReason, code="DL0902", numbers_matter=True):
    happened = "{value} can't be in an exported graph: {why}"
    fix = "pass and return tensors, constants, and containers and objects of them"
    value: str
    why: str


class HandledFailureInExport(BreakReason, code="DL0974", numbers_matter=False):
    happened = "{operator} may fail on the data, and the program handles that failure, which an exported graph can't"
    fix = "check what the operator requires before the call, and move it out of the `try`"
    operator: str

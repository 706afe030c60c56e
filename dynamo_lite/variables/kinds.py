"""All kinds of values and models of callables: importing this registers them."""

from . import (
    autograd_function,
    builtins,
    c_callable,
    class_statement,
    constant,
    construct,
    context,
    deques,
    exception,
    found_iterator,
    function,
    identity,
    iterator,
    library,
    mapping,
    nn_module,
    number_arguments,
    sequence,
    sets,
    super_object,
    tensor,
    tensor_subclass,
    torch_api,
    transforms,
    user_object,
    weak_reference,
)

ALL = (
    *(autograd_function, builtins, c_callable, class_statement, constant, construct, context, deques, exception),
    *(found_iterator, function, identity, iterator, library, mapping, nn_module, number_arguments, sequence),
    *(sets, super_object, tensor, tensor_subclass, torch_api, transforms, user_object, weak_reference),
)

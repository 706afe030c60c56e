"""All kinds of values and models of callables: importing this registers them."""

from . import (
    builtins,
    c_callable,
    class_statement,
    constant,
    construct,
    context,
    exception,
    function,
    identity,
    iterator,
    library,
    mapping,
    nn_module,
    number_arguments,
    sequence,
    sets,
    tensor,
    torch_api,
    user_object,
    weak_reference,
)

ALL = (
    *(builtins, c_callable, class_statement, constant, construct, context, exception, function),
    *(identity, iterator, library, mapping, nn_module, sequence, sets, tensor),
    *(torch_api, user_object),
    *(number_arguments, weak_reference),
)

"""torch's functions: which are operators of the graph, state facts, are modelled or refused; ``__torch_function__``."""

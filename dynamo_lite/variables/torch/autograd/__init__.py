"""``torch.autograd``: Functions, gradients inside a graph, hooks on tensors, history, leaves created during tracing."""

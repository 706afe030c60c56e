"""Tensors: a node of the graph and a fake tensor, and what an operator needs to know before it is recorded."""

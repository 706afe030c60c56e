"""Operators that take functions: ``torch.cond``, loops, checkpoint, ``torch.func``, flex attention."""

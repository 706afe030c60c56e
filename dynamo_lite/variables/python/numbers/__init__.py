"""Symbolic ints and floats: numbers that may differ from call to call."""

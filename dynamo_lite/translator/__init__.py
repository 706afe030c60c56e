"""The symbolic interpreter of CPython bytecode."""

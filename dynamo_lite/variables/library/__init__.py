"""Models of functions of the standard library, one file a module; importing this registers them."""

from . import copy, functools, inspect, itertools, lru_cache, operator, output, pure, re, string, sys, types

ALL = (copy, functools, inspect, itertools, lru_cache, operator, output, pure, re, string, sys, types)

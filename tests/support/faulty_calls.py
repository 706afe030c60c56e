"""Lists what the extension calls of CPython and what can fail: ``python faulty_calls.py EXTENSION.so FOLDER``.

The folder is what CMake takes as DL_FAULTS: the list for ``faulty_calls.cpp`` and the linker's options."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# Who returns an object, or a pointer, and NULL where it fails; who returns a number, and -1.
NULL = re.compile(
    r"_?Py(Object_(Call\w*|Vectorcall|Get(Attr|Iter|Item)\w*|Generic(GetAttr|GetDict)|Repr|Str)"
    r"|(List|Tuple|Dict|FrozenSet|Function|Method|InstanceMethod|StaticMethod|CMethod|Capsule|StructSequence)_New\w*"
    r"|(Long|Float|Unicode|Bytes|Bool)_From\w+|Unicode_(Intern\w*String|DecodeUTF8|Substring|AsUTF8\w*|AsEncodedString)"
    r"|Import_\w+|Weakref_NewRef|Sequence_Tuple|List_AsTuple|Tuple_Pack|Number_(Long|Float|Add|And|Or|Xor|Invert)"
    r"|Member_GetOne|Run_StringFlags|OS_double_to_string|Dict_SetDefault|Vectorcall_Call|Object_New)|Py_BuildValue"
    r"|PyArg_ParseTuple"
)
MINUS_ONE = re.compile(
    r"_?Py(Object_(SetAttr\w*|SetItem|GetBuffer|RichCompareBool|Size|IsInstance|GenericSetDict)"
    r"|Dict_(SetItem\w*|DelItem\w*|Contains)|List_Append|Set_Contains|Function_SetClosure|Module_Add\w+|Code_SetExtra)"
)
QUIET = re.compile(r"Py(Mem|Object)_(Malloc|Calloc)")
# What returns what is there already: names are ASCII.
NEVER = {"PyBool_FromLong", "PyUnicode_AsUTF8AndSize"}


def main(extension: str, folder: str) -> None:
    found = subprocess.run(["nm", "-u", extension], check=True, capture_output=True, text=True).stdout
    names = sorted({line.split()[-1].split("@")[0] for line in found.splitlines()} - NEVER)
    rows = []
    for kind, pattern in (("DL_NULL", NULL), ("DL_MINUS_ONE", MINUS_ONE), ("DL_QUIET", QUIET)):
        rows += [(kind, name) for name in names if pattern.fullmatch(name)]
    Path(folder, "calls.inc").write_text("".join(f"{kind}({name})\n" for kind, name in rows))
    wrapped = [name for _, name in rows] + ["_Znwm", "_ZnwmRKSt9nothrow_t"]
    Path(folder, "options.txt").write_text("".join(f"-Wl,--wrap={name}\n" for name in wrapped))


if __name__ == "__main__":
    main(*sys.argv[1:])

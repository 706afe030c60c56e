"""A whole model as one graph module, and from there to a file that needs neither its source nor dynamo_lite.

python examples/export.py [vit | bert] [--file PATH]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import torch

import dynamo_lite as dl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))
from architectures import MODELS  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="vit", choices=("vit", "bert"))
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    model = MODELS[options.model]()
    module = model.module.eval()
    (given,) = model.inputs.values()

    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        gm, guards = dl.export(module, given)
        print(
            f"{model.name}: {len(gm.graph.nodes)} nodes, {len(gm.state_dict())} tensors of state, {len(guards)} guards"
        )
        try:
            gm(given[:1])
        except dl.exc.InvalidInput as error:
            print(f"given another shape: {error}")

        aten, _ = dl.export(module, given, aten_graph=True)
        targets = Counter(str(node.target) for node in aten.graph.nodes if node.op == "call_function")
        print("as ATen operators:", ", ".join(f"{count} {name}" for name, count in targets.most_common(5)), "...")

        path = options.file or Path(folder) / f"{options.model}.pt2"
        torch.export.save(torch.export.export(gm, (given,)), path)
        loaded = torch.export.load(path).module()
        difference = (loaded(given).logits - module(given).logits).abs().max().item()
        print(f"saved ({path.stat().st_size:,} bytes), loaded and run: differs from eager by {difference:.0e}")
    if difference > 1e-4:
        sys.exit("the loaded program differs from eager")


if __name__ == "__main__":
    main()

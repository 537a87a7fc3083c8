"""Draws the pictures of the README and of gallery.md: three runs on generated graphs.

Run: python docs/report_pictures.py FOLDER, where FOLDER gets the pages. It needs playwright and
Chromium, and writes docs/report-adapted.png, docs/report-kept.png and docs/report-cannot-tell.png.
"""

import io
import shutil
import sys
import warnings
from pathlib import Path

import torch
from PIL import Image
from playwright.sync_api import sync_playwright
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import matcha_gnn as mg

HERE = Path(__file__).parent
TRAIN_MASK = torch.arange(2000) % 2 == 0
CASES = {
    "adapted": ({"homophily": 0.8}, {"homophily": 0.2}),
    "kept": (
        {"homophily": 0.9, "degree": 10, "signal": 1},
        {"homophily": 0.9, "degree": 10, "signal": 1},
    ),
    "cannot-tell": (
        {"homophily": 0.6, "degree": 3, "signal": 0.2},
        {"homophily": 0.4, "degree": 3, "signal": 0.2},
    ),
}
"""Options of the source and of the target."""
COLOURS = 64
"""Of a picture: enough for a page, and a third of the bytes."""


def trained(source: Data) -> GCN:
    """A plain network, trained as in the README."""
    torch.manual_seed(0)
    net = GCN(32, 32, num_layers=2, out_channels=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        out = net(source.x, source.edge_index)[TRAIN_MASK]
        torch.nn.functional.cross_entropy(out, source.y[TRAIN_MASK]).backward()
        optimizer.step()
    return net


def write_page(name: str, path: Path) -> None:
    """Adapt in one of the cases, and write its report."""
    source, target = (
        mg.datasets.csbm(num_nodes=2000, num_features=32, seed=seed, **options)
        for seed, options in enumerate(CASES[name])
    )
    net = trained(source)
    summary = mg.summarise_source(net, source, trained=TRAIN_MASK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.NotAdaptedWarning)  # what one page is about
        result = mg.adapt(net, target, source=summary)
    print(f"{name}: {result.summary()}")
    result.report(path)


def main() -> None:
    """Write the pages and their pictures."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1000, "height": 1225})
        for name in CASES:
            path = folder / f"{name}.html"
            write_page(name, path)
            page.goto(path.absolute().as_uri())
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(COLOURS).save(HERE / f"report-{name}.png", optimize=True)


if __name__ == "__main__":
    main()

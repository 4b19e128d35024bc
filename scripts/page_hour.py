"""Take a picture of each step of the first hour on the page: `python -m scripts.page_hour FOLDER`, to look at."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from plugins.web.tests.first_hour import LOOKS, faults, hour
from plugins.web.tests.gated import gated_model
from plugins.web.tests.served import serving
from plugins.web.tests.tabs import Tab
from tests.browser import browser


def main(folder: Path) -> None:
    """Take them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        (files := root / "files").mkdir()
        gate = root / "gate"
        with (
            serving(root, models=lambda model_id: gated_model(gate), config="") as server,
            browser(root / "profile") as driver,
        ):
            tab = Tab(driver, server.page)
            for title in hour(server, tab, gate, files):
                for look, (dark, width) in LOOKS.items():
                    tab.emulate(dark=dark)
                    tab.width(width)
                    print(title, look, *faults(tab), sep="\n    ")
                    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
                    picture.save(folder / f"{title.replace(' ', '-')}-{look}.png")
                tab.width(None)
                tab.emulate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

#!/usr/bin/env python3
"""Makes docs/pictures/*.png, the report pages that README.md shows, and checks both pages.

    apt-get install chromium fonts-inter; pip install playwright pillow
    tools/pictures.py

Trains LeNet and runs `ab`, which takes a minute and wants a quiet machine. At three widths, light
and dark, a page must fit its window, log nothing to the console and request nothing.
"""
import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FONTS = """<fontconfig><include>/etc/fonts/fonts.conf</include>
<match><test name="family" qual="all" compare="not_eq"><string>monospace</string></test>
<edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
</fontconfig>"""


def make_pages(folder, trainer):
    def run(*args):
        subprocess.run([trainer, *args], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    run("--config", "configs/lenet.yaml", "--run-dir", folder / "lenet")
    run("report", folder / "lenet", "--out", folder / "run.html")
    run("ab", "--config", "configs/plain/lenet.yaml", "--toggle", "batch_lanes", "--value", "on",
        "--budget", "60s", "--report", folder / "ab.md")
    return {name: folder / f"{name}.html" for name in ("run", "ab")}


def check(browser, page, looks):
    url = page.as_uri()
    for scheme in ("light", "dark"):
        for width in (360, 768, 1400):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            wrong = []
            tab.on("console", lambda message: wrong.append(message.text))
            tab.on("pageerror", lambda error: wrong.append(str(error)))
            tab.on("request", lambda request: wrong.append(request.url)
                   if request.url not in (url, "data:,") else None)
            tab.goto(url)
            for plot in tab.locator("[data-v]").all():
                plot.hover()
            if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wrong.append("wider than its window")
            if wrong:
                raise SystemExit(f"{page}, {width} px, {scheme}: {wrong}")
            if looks:
                tab.mouse.move(0, 0)
                tab.screenshot(path=looks / f"{page.stem}-{width}-{scheme}.png", full_page=True)
            tab.close()


def take(browser, page, picture, height):
    tab = browser.new_page(viewport={"width": 1120, "height": height}, device_scale_factor=1.3)
    tab.goto(page.as_uri())
    tab.screenshot(path=picture)
    tab.close()
    from PIL import Image
    Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", default=ROOT / "build/trainer")
    parser.add_argument("--looks", type=Path, help="folder for both pages in all sizes")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        (folder / "fonts.conf").write_text(FONTS)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
            env={**os.environ, "FONTCONFIG_FILE": str(folder / "fonts.conf")})
        for name, page in make_pages(folder, args.trainer).items():
            check(browser, page, args.looks)
            picture = ROOT / f"docs/pictures/{name}.png"
            picture.parent.mkdir(exist_ok=True)
            take(browser, page, picture, {"run": 800, "ab": 940}[name])
            print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()

"""Builds the wheel of this folder, as pip asks for it (PEP 517), or as `python3 wheel_builder.py FOLDER`.

A wheel of pure Python is a zip of the files and of three about them. Made here, it needs no other program, and the same files give the
same bytes. The version is the one of pyproject.toml.
"""

import base64
import hashlib
import os
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder, and returns its name."""
    about = dict(re.findall(r'^([a-z-]+) = "(.*)"$', (HERE / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE))
    name, version = about["name"], about["version"]
    info = f"{name}-{version}.dist-info"
    files = {f"{name}/{path.name}": path.read_bytes() for path in sorted((HERE / name).iterdir()) if path.suffix in (".py", ".typed")}
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {about['description']}\nLicense: Apache-2.0\n"
        f"Requires-Python: {about['requires-python']}\nDescription-Content-Type: text/markdown\n\n{readme}").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: velocityd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    lines = [f"{path},sha256={_digest(text)},{len(text)}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            entry = zipfile.ZipInfo(path)  # of 1980, so that equal files make equal wheels
            entry.external_attr, entry.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    """Says that there is none: pip asks for it only to make a wheel elsewhere."""
    raise NotImplementedError("install the wheel")


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    print(build_wheel(sys.argv[1]))

"""Ask the package index whether any version in constraints.txt has a known vulnerability (`make audit`).

Exit code 1 for one that is known. Without pip-audit, or without an answer, nothing is known: that is said, and is no
failure.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLACE = ROOT / ".venv" / "audit"  # apart: pip-audit brings packages that mgpp has in other versions
SECONDS = 25  # for each of the two steps
# Vulnerabilities that do not touch what mgpp does: {id: why}.
IGNORED: dict[str, str] = {}


def main() -> int:
    try:
        found = _audit(_installed())
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print(f"audit skipped: {_why(error)}")
        return 0
    asked = [one for one in found if "skip_reason" not in one]
    if not asked:
        print(f"audit skipped: the index answers for none of {len(found)} packages")
        return 0
    known = [(one, vulnerability) for one in asked for vulnerability in one["vulns"]]
    bad = [(one, vulnerability) for one, vulnerability in known if vulnerability["id"] not in IGNORED]
    for one, vulnerability in bad:
        cure = ", ".join(vulnerability["fix_versions"]) or "no version yet"
        print(f"{one['name']} {one['version']}: {vulnerability['id']}, mended in {cure}")
    print(f"{len(asked)} of {len(found)} packages audited: {len(bad)} known vulnerabilities")
    return 1 if bad else 0


def _installed() -> Path:
    python = PLACE / "bin" / "python"
    if not (PLACE / "bin" / "pip-audit").is_file():
        venv.create(PLACE, with_pip=True, clear=True)
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip-audit>=2.9,<3")
    return python


def _audit(python: Path) -> list[dict]:
    words = ("--no-deps", "--disable-pip", "--timeout=5", "--progress-spinner=off", "--format=json")
    told = _run(python, "-m", "pip_audit", "-r", ROOT / "constraints.txt", *words, may_fail=True)
    return json.loads(told.stdout)["dependencies"]


def _run(*words: object, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
    """pip-audit's exit code is 1 for a vulnerability, and for much else: what it has printed says which."""
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=not may_fail)


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {SECONDS} s"
    said = (getattr(error, "stderr", None) or "").strip().splitlines()
    return said[-1] if said else "pip-audit gave no answer" if isinstance(error, ValueError) else str(error)


if __name__ == "__main__":
    sys.exit(main())

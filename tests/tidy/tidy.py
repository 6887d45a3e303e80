#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the tree that a script can check. Usage: tidy.py ROOT [RULE...]

Prints every violation as file:line: what, and exits with 1 if there is one. Rules:"""
import re
import subprocess
import sys
from pathlib import Path

SOURCE_LINES, TEST_LINES, FUNCTION_LINES = 500, 700, 60

# What a module may include. A module may also include itself and whatever its modules may.
USES = {
    "base": [],
    "layout": ["base"],
    "sched": ["base"],
    "trace": ["base", "sched"],
    "wire": ["base", "sched"],
    "capi": ["trace"],
    "net": ["wire"],
    "engine": ["sched", "layout"],
    "collective": ["layout"],
    "job": ["net", "layout"],
    "gate": ["job"],
    "client": ["gate"],
    "node": ["engine", "gate", "trace"],
    "sim": ["client", "node"],
    "lab": ["sim", "collective"],
}

# Words that do not say exactly what is meant, and what to write instead (docs/style.md).
WORDS = {
    r"some(body|one)": "the caller, the peer, another client",
    r"nobody|no one": "no client, no caller",
    r"who(so)?ever": "the caller that",
    r"strangers?": "a new application, an unauthenticated peer",
    r"so (much|many)(?! (as|that|of))": "N bytes, this limit",
    r"held back on purpose": "delayed by the policy",
    r"is to be had": "is available",
    r"of late|lately": "recently",
    r"take \w+ at (its|their) word|(its|their) word": "the announcement",
    r"by and by|ere|hitherto|whence|thereof": "a usual word",
}

# Production code that also runs in the simulator gets time, threads, sockets, files and random numbers from a world
# (src/base/world.h). Only files and folders whose name contains "live" may ask the operating system.
SIMULATED = ["client", "node", "gate", "job", "collective", "sim", "trace"]
SYSTEM = re.compile(
    r"std::j?thread|condition_variable|sleep_for|sleep_until|usleep|nanosleep|_clock::now|clock_gettime|gettimeofday"
    r"|timerfd|epoll_|eventfd|random_device|getenv|[io]?fstream|fopen|std::remove\("
    r"|(^|[^A-Za-z_>])::(socket|connect|bind|accept4?|open|openat|read|write|rename|unlink)\("
    r"|std::promise|std::future|real_clock\(\)|live_world\(\)|steady_now")

violations = []


def complain(file, line, what):
    violations.append(f"{file}:{line}: {what}")


def is_test(path):
    return bool(re.search(r"(_test|_fuzz|_testing|_bench)\.\w+$|^tests/|/(fake_node|test_client|test_gate)\.h$", path))


def tracked(root):
    """Files that git knows or would add; without a usable git all files outside of build folders."""
    try:
        command = ["git", "-C", root, "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        paths = (path.relative_to(root) for path in Path(root).rglob("*"))
        listed = [str(path) for path in paths if not {"build", ".git"} & set(path.parts)]
    return [name for name in listed if name and (Path(root) / name).is_file()]


def rule_format(root, files):
    """format: clang-format 14 would change nothing"""
    sources = [f for f in files if re.search(r"\.(cc|h|c)$", f)]
    result = subprocess.run(["clang-format-14", "--dry-run", *sources], cwd=root, capture_output=True, text=True)
    for match in re.finditer(r"^([^\s:]+):(\d+):\d+: (warning|error): (.*)$", result.stderr, re.M):
        complain(match[1], match[2], "is not formatted: run clang-format-14 -i")


def rule_length(root, files):
    """length: files and functions are short"""
    for name in files:
        if not re.search(r"\.(cc|h|c|js|css|py|sh)$", name):
            continue
        lines = (Path(root) / name).read_text().split("\n")
        most = TEST_LINES if is_test(name) else SOURCE_LINES
        if len(lines) > most + 1:
            complain(name, most, f"the file has {len(lines) - 1} lines, more than {most}")
        if re.search(r"\.(cc|h|c)$", name) and not is_test(name):
            check_functions(name, lines)


def check_functions(name, lines):
    """A function ends with a '}' two columns left of its first line, as clang-format leaves it."""
    for number, line in enumerate(lines[:-1]):
        if not re.search(r"\)( const| noexcept| override| ->.*)* \{$", line):
            continue
        if re.match(r" *(//|(\} )?(if|for|while|switch|else|do|catch)\b)", line):
            continue
        end = re.compile(lines[number + 1][: max(0, len(lines[number + 1]) - len(lines[number + 1].lstrip()) - 2)] + r"\}")
        last = next((n for n in range(number + 1, len(lines)) if end.match(lines[n])), number)
        if last - number - 1 > FUNCTION_LINES:
            complain(name, number + 1, f"the function has {last - number - 1} lines, more than {FUNCTION_LINES}")


def allowed(module):
    return {module}.union(*(allowed(used) for used in USES[module]))


def rule_modules(root, files):
    """modules: includes follow the order of modules"""
    for name in files:
        match = re.match(r"src/(\w+)/.*\.(cc|h)$", name)
        if not match or is_test(name):
            continue
        if match[1] not in USES:
            complain(name, 1, "a module that tests/tidy/tidy.py does not know")
            continue
        fine = allowed(match[1])
        for number, line in enumerate((Path(root) / name).read_text().split("\n"), 1):
            include = re.match(r'#include "(\w+)/', line)
            if include and include[1] not in fine | {"tutti"}:
                complain(name, number, f"{match[1]} may not use {include[1]}")


def rule_license(root, files):
    """license: every source file has its SPDX line"""
    for name in files:
        if re.search(r"\.(cc|h|c|js|css|py|sh|cmake|f90)$|CMakeLists\.txt$", name):
            if "SPDX-License-Identifier: Apache-2.0" not in (Path(root) / name).read_text()[:300]:
                complain(name, 1, "has no SPDX line")


def rule_words(root, files):
    """words: comments, messages and pages use plain words"""
    patterns = [(re.compile(rf"\b({word})\b", re.I), instead) for word, instead in WORDS.items()]
    for name in files:
        if name.startswith("tests/tidy/") or name == "docs/style.md":
            continue
        if not re.search(r"\.(cc|h|c|md|js|toml|sh|py|cmake|txt)$", name):
            continue
        for number, line in enumerate((Path(root) / name).read_text().split("\n"), 1):
            if not name.endswith(".md") and not re.search(r'//|"|#|^\s*/?\*', line):
                continue
            for pattern, instead in patterns:
                found = pattern.search(line)
                if found:
                    complain(name, number, f'"{found[0]}": write {instead}')


def rule_live(root, files):
    """live: only files named live ask the operating system"""
    for name in files:
        match = re.match(r"src/(\w+)/.*\.(cc|h)$", name)
        if not match or match[1] not in SIMULATED or is_test(name) or "live" in name:
            continue
        for number, line in enumerate((Path(root) / name).read_text().split("\n"), 1):
            if SYSTEM.search(line) and not re.match(r" *//", line) and "wait(std::condition_variable&" not in line:
                complain(name, number, "asks the operating system; only live files may (src/base/world.h)")


RULES = {name[5:]: rule for name, rule in list(globals().items()) if name.startswith("rule_")}
__doc__ += "".join(f"\n  {rule.__doc__}" for rule in RULES.values())


def main(arguments):
    if not arguments or any(rule not in RULES for rule in arguments[1:]):
        print(__doc__, file=sys.stderr)
        return 2
    files = tracked(arguments[0])
    for rule in arguments[1:] or RULES:
        RULES[rule](arguments[0], files)
    print("\n".join(violations) if violations else f"{len(files)} files keep the rules")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

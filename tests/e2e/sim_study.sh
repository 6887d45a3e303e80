#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `tutti sim` over settings and seeds: the rows of a sweep are the runs that --set and --policy give, means are means of
# single runs, and mistakes are named. Usage: sim_study.sh TUTTI SCENARIOS
set -euo pipefail
export tutti=$1 scenarios=$2
python3 - <<'END'
import csv, io, json, math, os, subprocess

def tutti(*words, status=0):
    done = subprocess.run([os.environ["tutti"], "sim", *words], capture_output=True, text=True, timeout=100)
    assert done.returncode == status, (words, done)
    return done.stdout if status == 0 else done.stderr

file = os.environ["scenarios"] + "/sweep.toml"
rows = list(csv.DictReader(io.StringIO(tutti("run", file, "--csv", "--seeds", "4"))))
assert len(rows) == 12 and all(None not in row and None not in row.values() for row in rows), rows
assert len({(r["policy"], r["servers.depth"], r["applications.0.size"]) for r in rows}) == 12
row = next(r for r in rows if (r["policy"], r["servers.depth"], r["applications.0.size"]) == ("window", "16", "256KiB"))
single = []
for seed in range(1, 5):
    words = ["--set", "servers.depth=16", "--set", "applications.0.size=256KiB", "--policy", "window"]
    run = json.loads(tutti("run", file, *words, "--seed", str(seed), "--json"))
    assert run["policy"] == "window" and run["seed"] == seed, run  # no sweep is left
    single.append(run["metrics"]["phase_seconds"]["mean"])
mean = sum(single) / 4
deviation = math.sqrt(sum((value - mean) ** 2 for value in single) / 3)
assert math.isclose(float(row["phase_seconds"]), mean, rel_tol=1e-6), (row, single)
assert math.isclose(float(row["phase_seconds_interval"]), 3.182 * deviation / 2, rel_tol=1e-4), (row, single)

both = json.loads(tutti("compare", file, "--policies", "fifo,concert", "--json"))
assert [r["policy"] for r in both["rows"]] == ["fifo", "concert"] * 4, both
assert both["rows"][0]["metrics"]["phase_seconds"]["interval"] is None, both
table = tutti("run", file, "--seeds", "3")
assert "±" in table and table.rindex("over 4 settings") > table.rindex("applications.0.size  "), table
assert "--json and --csv" in tutti("run", file, "--json", "--csv", status=2)
assert "no policy 'none'" in tutti("run", file, "--policy", "none", "--seeds", "3", status=1)
for name in ["coflows", "arrivals", "skew", "recorded"]:
    path = f'{os.environ["scenarios"]}/{name}.toml'
    line, = csv.DictReader(io.StringIO(tutti("run", path, "--csv")))
    assert float(line["phase_seconds"]) > 0 and line["failed_operations"] == "0", line
END

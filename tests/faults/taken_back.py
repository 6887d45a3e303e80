#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes repairs of the client, the node and the gate back, one at a time, and shows which seeds of the fault campaign
find it. It works on a copy of the tree: the first build of the copy takes minutes, each repair a minute or two.

  taken_back.py --check                        only check that every repair is still found in the sources (test taken_back)
  taken_back.py [--seeds N] [--here] [NAME..]  print the table of docs/reliability.md"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name, what is taken back, file, text, and what replaces it
REPAIRS = [
    ("lost-connection", "a lost connection does not end a turn at the gate", "src/gate/service.cc",
     "if (!closed_by_peer && !stopping_ && table_.holds(session->id)) {", "if (!closed_by_peer && false) {"),
    ("boot", "a sync is answered only by the boot that has the writes", "src/client/node_link.cc",
     "if (connection_ == nullptr || (call->only_boot && *call->only_boot != instance_.boot)) return false;",
     "if (connection_ == nullptr) return false;"),
    ("fence", "a change is sent to a stand-in only after deadline + fence time", "src/client/router.cc",
     "const auto when = call->retry == Retry::kAnytime ? at_once : call->deadline + call->fence_time;",
     "const auto when = now;"),
    ("renewed", "a renewed deadline counts when a node is lost", "src/client/node_link.cc",
     "slot.call->deadline = std::max(slot.call->deadline, renewed_);",
     "static_cast<void>(renewed_);"),
    ("pulled", "the deadline of a pulled write begins with its payload", "src/client/node_link.cc",
     "call->deadline = clock_.steady() + options_.request_timeout;\n    attempt.deadline",
     "attempt.deadline"),
    ("truncate", "the deadline of a truncate is checked by the worker", "src/node/data_path.cc",
     "truncate(*request.file, request.size, request.deadline())", "truncate(*request.file, request.size, TimePoint{})"),
    ("create", "the deadline of a create is checked by the worker", "src/node/namespace_service.cc",
     "create(on.change(request.deadline)", "create(on.change(TimePoint{})"),
    ("rename", "the deadline of a rename is checked by the worker", "src/node/namespace_service.cc",
     "rename(on.change(request.deadline)", "rename(on.change(TimePoint{})"),
    ("unlink", "the deadline of an unlink is checked by the worker", "src/node/namespace_service.cc",
     "unlink(on.change(request.deadline)", "unlink(on.change(TimePoint{})"),
    ("dispatch", "the deadline of a write is checked when it is dispatched, and by the engine", "src/node/data_path.cc",
     "else if (request.expired(clock_.steady()))\n    request.fail", "else if (false)\n    request.fail"),
    ("engine", "the deadline of a write goes with it to the engine", "src/node/data_path.cc",
     "return deadline == TimePoint{} ? TimePoint::max() : deadline;",
     "(void)deadline;\n  return TimePoint::max();"),
    ("split", "the deadline of the parts of a failed merged operation is checked", "src/node/data_path.cc",
     "if (extent.request->expired(clock_.steady())) {", "if (false) {"),
    ("generation", "files are compared by generation", "src/node/session.cc",
     "wanted.inode == file.inode && may_be_equal(wanted.generation, file.generation);", "wanted.inode == file.inode;"),
    ("concurrent-sync", "concurrent syncs each wait for all writes", "src/client/file_io.cc",
     "unsynced = state_->unsynced;", "unsynced.swap(state_->unsynced);"),
    ("failed-sync", "a failed sync forgets only what is lost", "src/client/file_io.cc",
     "std::erase_if(settled, [&](const auto& entry) { return !state->lost_with_machine(entry.first, entry.second); });",
     "{}"),
    ("whole-write", "a write counts as unsynced when all its parts are done", "src/client/file_io.cc",
     "for (const auto& call : calls) this->state->acknowledged(call.node, call.instance.boot);",
     "this->state->acknowledged(calls.front().node, calls.front().instance.boot);"),
    ("queued", "a request in a queue that moves is not lost", "src/client/node_link.cc",
     "return std::max(call.deadline, std::min(queue_deadline_, call.give_up));", "return call.deadline;"),
    ("names", "requests for names that get on are not lost", "src/client/node_link.cc",
     "return std::max(call.deadline, std::min(std::max(queue_deadline_, name_deadline_), call.give_up));",
     "return call.deadline;"),
    ("late-user", "a user with late payloads takes no places of the queue depth", "src/node/data_path_payloads.cc",
     "if ((asked_before || user_is_late) &&", "if (asked_before &&"),
    ("entitled", "a node is entitled to no more of a limit than it needs", "src/node/limit_distributor.cc",
     "const double useful = lapsed ? 0 : asker->second.waiting;",
     "const double useful = lapsed ? 0 : asker->second.entitled;"),
    ("slow-sync", "a sync that runs is not lost", "src/client/node_link.cc",
     "return std::min(std::max({call.deadline, queue_deadline_, sync_deadline_}), call.sync_limit);",
     "return call.deadline;"),
    ("read-share", "connections leave as much memory for reads as they hold", "src/node/data_path_memory.cc",
     "if (engine_batch.over_share) return false;", "engine_batch.over_share = false;"),
    ("parking", "a late payload does not delay other batches", "src/node/data_path_payloads.cc",
     "if (!waits && parked_count_ < kMostParked) {", "if (!waits && parked_count_ > kMostParked) {"),
    ("lease", "a share of a limit is given to another node only when its lease has ended", "src/node/limit_exchange.cc",
     "if (given_to_ != node && now < given_until_) return false;", "(void)now;"),
    ("late-share", "a share that arrives late counts from the time at which it was given", "src/node/limit_exchange.cc",
     "std::min(request.share_since, now) + kLease", "now + kLease"),
    ("absent", "shares of absent nodes count only at the node that has most of the others", "src/node/limit_exchange.cc",
     "(2 * given > nodes_.size() - absent ? absent : 0)", "absent"),
    ("quiet-start", "a node that has just started does not distribute its own share", "src/node/limit_exchange.cc",
     " && now >= usable_from_;", ";"),
    ("quiet-gift", "a node that has just started does not give its share", "src/node/limit_exchange.cc",
     " || now < usable_from_) return false;", ") return false;"),
]
CHUNK = 50  # seeds; the search ends with the first chunk that finds something
# Run if the campaign finds nothing: suite, and its tests.
OTHER_TESTS = [("client_test", "*"), ("node_test", "*-LiveLimits*"),
               ("sim_test", "SimulatedWorld*:SimulatedFaults*:PulledPayloads*")]


def check():
    wrong = 0
    for name, _, path, text, _ in REPAIRS:
        count = (ROOT / path).read_text().count(text)
        if count != 1:
            print(f"{path}: the text of repair '{name}' occurs {count} times; correct {__file__}")
            wrong += 1
    return 1 if wrong else 0


def run(command, **more):
    return subprocess.run(command, check=True, **more)


def build(tree, *targets):
    run(["cmake", "--build", "--preset", "release", "-j2", "--target", *targets], cwd=tree, stdout=subprocess.DEVNULL)


def failing_tests(tree):
    build(tree, *[suite for suite, _ in OTHER_TESTS])
    failed = []
    for suite, tests in OTHER_TESTS:
        try:
            output = subprocess.run([tree / "build/release/bin" / suite, f"--gtest_filter={tests}", "--gtest_brief=1"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=900).stdout
        except subprocess.TimeoutExpired:
            failed.append(f"{suite} (does not end)")
            continue
        failed += dict.fromkeys(re.findall(r"\[  FAILED  \] (\w+\.\w+)", output))
        if "[  PASSED  ]" not in output and "[  FAILED  ]" not in output:
            failed.append(f"{suite} (crashes)")
    return ", ".join(f"`{test}`" for test in failed) or "none"


def violations_of(tree, first, seeds):
    """Nothing: the program crashed."""
    found = subprocess.run([tree / "build/release/bin/tutti", "sim", "faults", "--first", str(first), "--seeds", str(seeds),
                            "--jobs", "2", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=3600)
    return json.loads(found.stdout)["violations"] if found.stdout else None


def search(tree, repair, seeds):
    name, what, path, text, instead = repair
    source = tree / path
    original = source.read_text()
    source.write_text(original.replace(text, instead))
    searched, violations = 0, []
    try:
        build(tree, "tutti")
        while searched < seeds and violations == []:
            violations = violations_of(tree, searched + 1, min(CHUNK, seeds - searched))
            searched += min(CHUNK, seeds - searched)
        others = failing_tests(tree) if violations == [] else ""
    except subprocess.CalledProcessError:
        print(f"| {what} (`{name}`) | not built | |", flush=True)
        return
    finally:
        source.write_text(original)
    if violations is None:
        violations = [{"seed": f"{searched - CHUNK + 1} to {searched}", "what": "it crashed"}]
    first = ", ".join(list(dict.fromkeys(str(v["seed"]) for v in violations))[:6]) or "none"
    reported = violations[0]["what"].split("\n")[0][:160] if violations else f"tests that fail: {others}"
    print(f"| {what} (`{name}`) | {first} of 1 to {searched} | {reported} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seeds", type=int, default=300, help="most seeds of each search, from 1 on")
    parser.add_argument("--copy", default="/tmp/tutti-taken-back", help="where the tree is copied to and built")
    parser.add_argument("--here", action="store_true", help="change and build this tree, which is a copy made for it")
    parser.add_argument("name", nargs="*", help="only these repairs")
    given = parser.parse_args()
    if check() or given.check:
        return check()
    tree = ROOT if given.here else pathlib.Path(given.copy)
    if not given.here:
        tree.mkdir(exist_ok=True)
        shutil.copytree(ROOT, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", ".git"))
        run(["cmake", "--preset", "release"], cwd=tree, stdout=subprocess.DEVNULL)
    build(tree, "tutti")
    if violations_of(tree, 1, CHUNK) != []:
        sys.exit("the campaign finds violations although nothing is taken back")
    print("| taken back | seeds | what is reported |\n|---|---|---|", flush=True)
    for repair in REPAIRS:
        if not given.name or repair[0] in given.name:
            search(tree, repair, given.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
